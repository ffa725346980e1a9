//! Transcripts in the documentation are run, so that they stay true.
//!
//! In a `console` block a line starting with `$ ` is run by sh in a small project of its own, with its own
//! home and the built `sbx` on the search path. The lines after it are what it prints, stdout and stderr
//! together. `…` on a line stands for anything, a line of `…` alone for any number of lines, and
//! `[exit N]` for a status other than 0. The blocks of one file share their world, from top to bottom.
//! `UPDATE_EXPECT=1 cargo test --test docs` writes what is printed now into the pages, for review.

#![expect(unreachable_pub, dead_code, reason = "the support module is shared by several test programs")]

mod support;

use std::path::{Path, PathBuf};
use support::{TestEnv, source_dir};

/// One command with what it is to print.
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// Every file that may hold a transcript.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = Vec::new();
    for dir in ["", "docs", "docs/guide", "docs/design"] {
        let entries = std::fs::read_dir(source_dir().join(dir)).into_iter().flatten().flatten();
        pages.extend(
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ext| ext == "md")),
        );
    }
    pages.sort();
    pages
}

fn steps(text: &str) -> Vec<Step> {
    let (mut steps, mut inside): (Vec<Step>, bool) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { line: index + 1, command: command.to_owned(), expected: Vec::new() });
                }
                (None, Some(step)) if step.expected.is_empty() && step.command.ends_with('\\') => {
                    step.command.push('\n');
                    step.command.push_str(line.strip_prefix("> ").unwrap_or(line));
                }
                (None, Some(step)) => step.expected.push(line.to_owned()),
                (None, None) => unreachable!("line {}: a transcript starts with `$ `", index + 1),
            },
            (false, _) => {}
        }
    }
    steps
}

/// Runs a command; `~` stands for the home and `[exit N]` for a status other than 0.
fn run(env: &TestEnv, command: &str) -> Vec<String> {
    let script = format!("exec 2>&1\n{command}");
    let project = env.home().join("project");
    let output = env.command("sh").args(["-c", &script]).current_dir(project).output().expect("sh starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let text = text.replace(&env.home().display().to_string(), "~");
    let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    match output.status.code() {
        Some(0) => {}
        Some(code) => lines.push(format!("[exit {code}]")),
        None => lines.push(output.status.to_string()),
    }
    lines
}

/// Whether a line fits one in which `…` stands for anything.
fn fits(expected: &str, got: &str) -> bool {
    let Some((head, tail)) = expected.split_once('…') else { return expected == got };
    got.strip_prefix(head)
        .is_some_and(|rest| (0..=rest.len()).any(|at| rest.is_char_boundary(at) && fits(tail, &rest[at..])))
}

fn all_fit(expected: &[String], got: &[String]) -> bool {
    match expected {
        [] => got.is_empty(),
        [any, rest @ ..] if any == "…" => (0..=got.len()).any(|at| all_fit(rest, &got[at..])),
        [first, rest @ ..] => {
            got.split_first().is_some_and(|(line, others)| fits(first, line) && all_fit(rest, others))
        }
    }
}

/// Puts what a command printed in the place of what the page says.
fn update(page: &Path, step: &Step, got: &[String], grown: &mut isize) {
    let text = std::fs::read_to_string(page).expect("a page");
    let mut lines: Vec<&str> = text.lines().collect();
    let first = step.line.checked_add_signed(*grown).expect("a line") + step.command.matches('\n').count();
    let shown = step.expected.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines.splice(first..first + shown, got.iter().map(String::as_str));
    *grown += got.len() as isize - shown as isize;
    std::fs::write(page, lines.join("\n") + "\n").expect("a page");
}

/// The project in which transcripts run.
fn world() -> TestEnv {
    let env = TestEnv::new();
    env.write("home/project/.git/HEAD", "ref: refs/heads/main\n");
    env.write("home/project/.git/config", "");
    env.write("home/project/.git/hooks/README.sample", "");
    env.write("home/project/src/main.rs", "fn main() {\n    // TODO: say hello\n}\n");
    env.write("home/project/README.md", "# A small project\n");
    env
}

#[test]
fn every_transcript_in_the_documentation_is_true() {
    let (mut ran, mut wrong) = (0, String::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        let (env, mut grown) = (world(), 0);
        for step in steps(&text) {
            let got = run(&env, &step.command);
            let expected: Vec<String> = step.expected.iter().map(|line| line.trim_end().to_owned()).collect();
            let shown = expected.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
            ran += 1;
            let right = all_fit(&expected[..shown], &got);
            if !right && std::env::var_os("UPDATE_EXPECT").is_some() {
                update(&page, &step, &got, &mut grown);
            } else if !right {
                wrong += &format!(
                    "\n{}:{}: $ {}\n{}\n",
                    page.strip_prefix(source_dir()).unwrap_or(&page).display(),
                    step.line,
                    step.command,
                    got.join("\n")
                );
            }
        }
    }
    assert!(wrong.is_empty(), "these transcripts print something else now:\n{wrong}");
    assert!(ran > 30, "only {ran} commands were found in the documentation");
}

/// Links between pages lead to files that exist.
#[test]
fn every_link_to_a_file_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let target = page.parent().expect("a directory").join(file);
            if !target.exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn page(name: &str) -> String {
    std::fs::read_to_string(source_dir().join(name)).expect("a page")
}

#[test]
fn every_guarantee_capability_and_command_is_documented() {
    let (security, records, commands) =
        (page("SECURITY.md"), page("docs/guide/records.md"), page("docs/guide/commands.md"));
    for guarantee in sbx_platform::Guarantee::ALL {
        assert!(security.contains(&format!("| `{guarantee}` ")), "SECURITY.md does not tell of {guarantee}");
    }
    for entry in sbx::capability::CATALOG {
        let row = format!("| `{}` | {} |", entry.name, entry.risk.name());
        assert!(records.contains(&row), "docs/guide/records.md has no row {row}");
        assert!(
            records.contains(entry.summary),
            "docs/guide/records.md says something else of {}",
            entry.name
        );
    }
    for command in sbx::cli::definition().get_subcommands() {
        let name = format!("sbx {}", command.get_name());
        assert!(commands.contains(&name), "docs/guide/commands.md does not tell of {name}");
    }
}

#[test]
fn a_transcript_that_lies_would_be_found() {
    assert!(fits("a … c", "a b c") && !fits("a … c", "a b d") && !fits("a", "ab"));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(all_fit(&lines("a\n…\nd"), &lines("a\nb\nc\nd")));
    assert!(!all_fit(&lines("a\n…"), &lines("b")));
    assert!(!all_fit(&lines("a"), &lines("a\nb")));
    let found = steps("```console\n$ one\nout\n$ two\n```\n```sh\n$ three\n```\n");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].expected, ["out"]);
}
