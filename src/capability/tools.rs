//! Names of tools and their actions, as an allowlist writes them.
//!
//! Invariant: a pattern is `*`, `tool.*` or a name; anything that looks like more is refused, so that nobody
//! believes in a rule that is not there.

use std::fmt;

/// Whether names that differ by case are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameCase {
    /// They are.
    #[default]
    Any,
    /// They are not.
    Exact,
}

impl NameCase {
    /// Whether two names are the same.
    #[must_use]
    pub fn same(self, one: &str, other: &str) -> bool {
        match self {
            Self::Any => one.eq_ignore_ascii_case(other),
            Self::Exact => one == other,
        }
    }
}

/// One entry of an allowlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolPattern {
    /// `*`: every call.
    Everything,
    /// `tool.*`: every call of that tool.
    Tool(String),
    /// `tool.action`, or `tool` for calls without an action.
    Exact(String),
}

/// Why an entry is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolPatternError {
    /// Nothing is written.
    #[error("the entry is empty")]
    Empty,
    /// An exclamation mark.
    #[error("an allowlist has no exceptions; leave out what is not to be allowed")]
    Exception,
    /// A star elsewhere than alone or after the last dot.
    #[error("a `*` stands alone or after a tool's name, as in `tool.*`")]
    Wildcard,
    /// A character that no name has.
    #[error("`{0}` is not part of a name; entries are `*`, `tool.*`, `tool.action` or `tool`")]
    Character(char),
    /// A dot with nothing before or after it.
    #[error("there is nothing before or after a dot")]
    Dot,
}

impl ToolPattern {
    /// Reads an entry.
    ///
    /// # Errors
    /// When it is not of one of the three forms.
    pub fn parse(text: &str) -> Result<Self, ToolPatternError> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        let (name, whole_tool) = match text.strip_suffix(".*") {
            Some(tool) => (tool, true),
            None => (text, false),
        };
        let odd = |c: char| !(c.is_alphanumeric() || "_-./:@+".contains(c));
        match name.chars().find(|c| odd(*c)) {
            _ if text.is_empty() => Err(ToolPatternError::Empty),
            Some('!') => Err(ToolPatternError::Exception),
            Some('*') => Err(ToolPatternError::Wildcard),
            Some(c) => Err(ToolPatternError::Character(c)),
            None if name.split('.').any(str::is_empty) => Err(ToolPatternError::Dot),
            None if whole_tool => Ok(Self::Tool(name.to_owned())),
            None => Ok(Self::Exact(name.to_owned())),
        }
    }

    /// Whether it allows a call.
    #[must_use]
    pub fn allows(&self, tool: &str, action: Option<&str>, case: NameCase) -> bool {
        match (self, action) {
            (Self::Everything, _) => true,
            (Self::Tool(name), _) => case.same(name, tool),
            (Self::Exact(name), None) => case.same(name, tool),
            // By parts, so that nothing is put together that the server would take apart elsewhere.
            (Self::Exact(name), Some(action)) => {
                name.len() == tool.len() + 1 + action.len()
                    && name.is_char_boundary(tool.len())
                    && name[tool.len()..].starts_with('.')
                    && case.same(&name[..tool.len()], tool)
                    && case.same(&name[tool.len() + 1..], action)
            }
        }
    }

    /// Whether it allows some call of a tool; `acts` says whether the tool's calls have actions.
    #[must_use]
    pub fn allows_some(&self, tool: &str, acts: bool, case: NameCase) -> bool {
        match self {
            Self::Everything => true,
            Self::Tool(name) => case.same(name, tool),
            Self::Exact(name) => {
                let before = name.char_indices().filter(|(_, c)| *c == '.').map(|(at, _)| &name[..at]);
                case.same(name, tool) || (acts && before.into_iter().any(|before| case.same(before, tool)))
            }
        }
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("*"),
            Self::Tool(name) => write!(f, "{name}.*"),
            Self::Exact(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, tool: &str, action: Option<&str>) -> bool {
        ToolPattern::parse(pattern).unwrap().allows(tool, action, NameCase::Any)
    }

    #[test]
    fn a_pattern_is_one_of_three_forms() {
        for good in ["*", "observe.*", "interact.navigate", "read_file", "admin.tools.list", "a/b:c"] {
            assert_eq!(ToolPattern::parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            ".",
            "*.logs",
            "obs*",
            "observe.**",
            "!x",
            "a..b",
            ".a",
            "a.",
            ".*",
            "a b",
            "a|b",
            "[a]",
            "a?",
        ] {
            assert!(ToolPattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_call_without_an_action_is_named_after_its_tool() {
        assert!(allows("observe", "observe", None) && allows("observe.*", "observe", None));
        assert!(!allows("observe.logs", "observe", None));
        assert!(!allows("observe", "observe", Some("logs")));
        assert!(!allows("observe.*", "observer", Some("logs")));
        assert!(allows("OBSERVE.Logs", "observe", Some("logs")));
        assert!(!ToolPattern::parse("Observe").unwrap().allows("observe", None, NameCase::Exact));
    }

    #[test]
    fn lengths_and_parts_are_compared() {
        assert!(!allows("a.b", "a", Some("")));
        assert!(!allows("aéb", "a", Some("b")));
        assert!(allows("a.b.c", "a.b", Some("c")));
        assert!(!allows("a.b", "a.b", Some("c")));
    }
}
