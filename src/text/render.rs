//! Prints problems the way a compiler does.

use super::{Problem, Source, Span};
use std::fmt::Write;

/// How much of a long line is shown around the place.
const MAX_LINE: usize = 160;

/// One problem: `file:line:col`, the line, a caret, the fix.
#[must_use]
pub fn render(problem: &Problem, source: &Source) -> String {
    let mut out = format!("{}[{}]: {}\n", problem.severity.name(), problem.code, visible(&problem.message));
    if let Some(span) = problem.span {
        render_place(&mut out, source, span);
    } else {
        let _ = writeln!(out, " --> {}", source.name());
    }
    if let Some(word) = &problem.suggest {
        let _ = writeln!(out, "  = did you mean `{}`?", visible(word));
    }
    if let Some(help) = &problem.help {
        let _ = writeln!(out, "  = help: {}", visible(help));
    }
    out
}

/// Every problem, most severe first, in the order of the text, with a blank line between.
#[must_use]
pub fn render_all(problems: &[Problem], source: &Source) -> String {
    let mut ordered: Vec<&Problem> = problems.iter().collect();
    ordered.sort_by_key(|problem| (std::cmp::Reverse(problem.severity), problem.span));
    ordered.iter().map(|problem| render(problem, source)).collect::<Vec<_>>().join("\n")
}

fn render_place(out: &mut String, source: &Source, span: Span) {
    let place = source.place(span.start);
    let (line, line_start) = source.line_at(span.start);
    let (shown, lead) = excerpt(line, span.start.saturating_sub(line_start));
    let gutter = place.line.to_string().len();
    let width = caret_width(source, span, line, line_start).clamp(1, MAX_LINE);
    let _ = writeln!(out, "{:gutter$}--> {place}", "");
    let _ = writeln!(out, "{:gutter$} |", "");
    let _ = writeln!(out, "{} | {}", place.line, visible(&shown));
    let _ = writeln!(out, "{:gutter$} | {:lead$}{}", "", "", "^".repeat(width));
}

/// A window of a long line, and how many characters of it stand before the place.
///
/// Only the window is looked at: a line can be the whole of a large file, and each problem shows one.
fn excerpt(line: &str, offset: usize) -> (String, usize) {
    let boundary =
        |at: usize| (0..=at.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    let place = boundary(offset);
    let start = if line.len() <= MAX_LINE { 0 } else { boundary(place.saturating_sub(MAX_LINE / 4)) };
    let shown: String = line[start..].chars().take(MAX_LINE).collect();
    (shown, line[start..place].chars().count())
}

/// How many characters of the span lie on its first line.
fn caret_width(source: &Source, span: Span, line: &str, line_start: usize) -> usize {
    let end = span.end.min(line_start + line.len());
    source.slice(Span::new(span.start, end.max(span.start))).chars().count()
}

/// Control characters would move the caret or speak to the terminal: each becomes one blank mark.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Code;

    #[test]
    fn a_problem_prints_like_a_compilers() {
        let source = Source::new("scout.md", "capabilities:\n  - fs.raed\n");
        let problem = Problem::warning(Code::UnknownCapability, "there is no capability `fs.raed`")
            .at(Span::new(18, 25))
            .suggest(Some("fs.read"));
        assert_eq!(
            render(&problem, &source),
            "warning[unknown_capability]: there is no capability `fs.raed`\n \
             --> scout.md:2:5\n  |\n2 |   - fs.raed\n  |     ^^^^^^^\n  = did you mean `fs.read`?\n"
        );
    }

    #[test]
    fn escape_sequences_in_a_record_never_reach_the_terminal() {
        let source = Source::new("x", "a: \u{1b}[31m\n");
        let text = render(&Problem::warning(Code::Yaml, "bad").at(Span::new(3, 4)), &source);
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_giant_line_is_cut_around_the_place() {
        let source = Source::new("x", format!("{}!{}", "a".repeat(50_000), "b".repeat(50_000)));
        let text = render(&Problem::warning(Code::Yaml, "bad").at(Span::new(50_000, 50_001)), &source);
        assert!(text.len() < 1000 && text.contains('!'));
    }
}
