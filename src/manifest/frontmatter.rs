//! Finds the YAML in a record: front matter between `---` lines, or the whole text.

use crate::text::{Code, Problem, Source, Span};

/// The YAML part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontMatter {
    /// Where the YAML stands.
    pub yaml: Span,
    /// Where the Markdown body starts; none when the whole text is YAML.
    pub body: Option<usize>,
}

/// Splits a record. A byte order mark and either kind of line end are fine.
///
/// # Errors
/// When a Markdown file has no front matter, or it is not closed.
pub fn split(source: &Source) -> Result<FrontMatter, Box<Problem>> {
    let text = source.text();
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let name = source.name().to_ascii_lowercase();
    let is_yaml = name.ends_with(".yml") || name.ends_with(".yaml");
    let whole = FrontMatter { yaml: Span::new(start, text.len()), body: None };
    let first = text[start..].split_inclusive('\n').next().unwrap_or_default();
    if is_yaml {
        return Ok(whole);
    }
    if first.trim_end() != "---" {
        let markdown = name.ends_with(".md") || name.ends_with(".markdown");
        return if markdown { Err(Box::new(no_front_matter(start))) } else { Ok(whole) };
    }
    let yaml_start = start + first.len();
    let mut at = yaml_start;
    for line in text[yaml_start..].split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return Ok(FrontMatter { yaml: Span::new(yaml_start, at), body: Some(at + line.len()) });
        }
        at += line.len();
    }
    Err(Box::new(not_closed(Span::new(start, start + 3))))
}

fn no_front_matter(start: usize) -> Problem {
    Problem::error(Code::Yaml, "the record has no front matter")
        .at(Span::new(start, start))
        .help("start the file with a line `---`, the record's YAML, and another line `---`")
}

fn not_closed(span: Span) -> Problem {
    Problem::error(Code::Yaml, "the front matter is not closed").at(span).help("end it with a line `---`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(name: &str, text: &str) -> Option<String> {
        let source = Source::new(name, text);
        split(&source).ok().map(|parts| source.slice(parts.yaml).to_owned())
    }

    #[test]
    fn front_matter_is_between_the_fences() {
        assert_eq!(yaml("a.md", "---\nid: a\n---\n# Body\n---\n").unwrap(), "id: a\n");
        assert_eq!(yaml("a.md", "\u{feff}---\r\nid: a\r\n---\r\nbody").unwrap(), "id: a\r\n");
    }

    #[test]
    fn a_text_without_fences_is_yaml() {
        assert_eq!(yaml("record", "id: a\n").unwrap(), "id: a\n");
        assert_eq!(yaml("a.yml", "---\nid: a\n").unwrap(), "---\nid: a\n");
    }

    #[test]
    fn markdown_needs_closed_front_matter() {
        assert_eq!(yaml("a.md", "# no front matter"), None);
        assert_eq!(yaml("a.md", "---\nid: a\n"), None);
    }
}
