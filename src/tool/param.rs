//! Parameters and what their values may be.
//!
//! Answers for one value at a time. It leaves where the value goes to `template` and `shell`, and the file
//! system to whoever hands in [`Surroundings`].
//! Invariant: what [`Param::check`] returns fits in one argument and holds no NUL.

use super::problem::{CallFault, ToolCode};
use crate::manifest::Facts;
use regex::Regex;
use sbx_platform::path::{normalize, within};
use std::path::{Component, Path, PathBuf};

/// The longest value; the kernel takes no longer argument.
pub const MAX_VALUE: usize = 128 * 1024 - 1;
/// How much memory a compiled pattern may take.
const PATTERN_SIZE: usize = 1 << 20;

/// A parameter of a tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Param {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub kind: Kind,
    /// Whether it may be left out.
    pub optional: bool,
    /// What it is when left out.
    pub default: Option<String>,
    /// What it says of itself.
    pub description: Option<String>,
    /// Whether nothing declares it but the placeholder that names it.
    pub implied: bool,
}

/// What a parameter takes.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A path, within a prefix if one is named.
    Path {
        /// Absolute, or below `~`, `$PROJECT` or `$SESSION_DIR`.
        prefix: Option<String>,
    },
    /// Seconds, or hours:minutes:seconds.
    Duration,
    /// A whole number.
    Int {
        /// The least.
        min: Option<i64>,
        /// The most.
        max: Option<i64>,
    },
    /// A finite number.
    Float {
        /// The least.
        min: Option<f64>,
        /// The most.
        max: Option<f64>,
    },
    /// true, false, yes, no, 1 or 0.
    Bool,
    /// One of these.
    Enum(Vec<String>),
    /// Text, matching as a whole.
    Text(Option<Pattern>),
    /// 1 to 64 letters, digits, `_` and `-`.
    Identifier,
}

/// A pattern for whole texts, matched in linear time.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As written.
    pub text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Why it is none.
    pub fn new(text: &str) -> Result<Self, String> {
        let compile = |text: &str| {
            regex::RegexBuilder::new(text).size_limit(PATTERN_SIZE).build().map_err(|error| error.to_string())
        };
        // By itself first, so that it cannot leave the group it is then put in.
        compile(text)?;
        Ok(Self { text: text.to_owned(), regex: compile(&format!(r"\A(?:{text})\z"))? })
    }
}

/// What a value is checked against beside its definition.
pub struct Surroundings<'a> {
    /// Home, project and the like.
    pub facts: &'a Facts,
    /// The session's private directory.
    pub session_dir: Option<&'a Path>,
    /// Where the tool will run; relative paths without a prefix start here.
    pub cwd: &'a Path,
    /// Follows links as far as the path exists.
    pub resolve: &'a dyn Fn(&Path) -> PathBuf,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("session_dir", &self.session_dir).finish_non_exhaustive()
    }
}

impl Kind {
    /// The name in definitions.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Path { .. } => "path",
            Self::Duration => "duration",
            Self::Int { .. } => "int",
            Self::Float { .. } => "float",
            Self::Bool => "bool",
            Self::Enum(_) => "enum",
            Self::Text(_) => "text",
            Self::Identifier => "identifier",
        }
    }

    /// What is wanted, in words.
    #[must_use]
    pub fn wanted(&self) -> String {
        fn bounds<T: ToString>(what: &str, min: Option<T>, max: Option<T>) -> String {
            match (min.map(|least| least.to_string()), max.map(|most| most.to_string())) {
                (None, None) => what.to_owned(),
                (Some(least), None) => format!("{what} from {least}"),
                (None, Some(most)) => format!("{what} up to {most}"),
                (Some(least), Some(most)) => format!("{what} from {least} to {most}"),
            }
        }
        match self {
            Self::Path { prefix: None } => "a path without `..`".to_owned(),
            Self::Path { prefix: Some(prefix) } => format!("a path below {prefix}, without `..`"),
            Self::Duration => "seconds, or hours:minutes:seconds".to_owned(),
            Self::Int { min, max } => bounds("a whole number", *min, *max),
            Self::Float { min, max } => bounds("a number", *min, *max),
            Self::Bool => "true, false, yes, no, 1 or 0".to_owned(),
            Self::Enum(values) => format!("one of {}", values.join(", ")),
            Self::Text(None) => "text".to_owned(),
            Self::Text(Some(pattern)) => format!("text that is as a whole {}", pattern.text),
            Self::Identifier => "1 to 64 letters, digits, `_` and `-`".to_owned(),
        }
    }

    /// Whether a value of this kind may begin with `-` without being an option: numbers, and words that the
    /// definition itself lists.
    pub(super) const fn may_lead_with_dash(&self) -> bool {
        match self {
            Self::Int { .. } | Self::Float { .. } | Self::Duration | Self::Bool | Self::Enum(_) => true,
            Self::Path { .. } | Self::Text(_) | Self::Identifier => false,
        }
    }

    fn judge(&self, value: &str) -> Result<(), ToolCode> {
        match self {
            Self::Path { .. } => climbs(value).then_some(ToolCode::Traversal).map_or(Ok(()), Err),
            Self::Duration => is_duration(value).then_some(()).ok_or(ToolCode::Duration),
            Self::Int { min, max } => {
                let number = value.parse::<i64>().map_err(|_| ToolCode::NotInt)?;
                within_bounds(number, *min, *max)
            }
            Self::Float { min, max } => {
                let number = value.parse::<f64>().map_err(|_| ToolCode::NotFloat)?;
                if !number.is_finite() {
                    return Err(ToolCode::NotFinite);
                }
                within_bounds(number, *min, *max)
            }
            Self::Bool => {
                let words = ["true", "false", "yes", "no", "1", "0"];
                let known = words.iter().any(|word| value.eq_ignore_ascii_case(word));
                known.then_some(()).ok_or(ToolCode::NotBool)
            }
            Self::Enum(values) => {
                values.iter().any(|known| known == value).then_some(()).ok_or(ToolCode::NotInEnum)
            }
            Self::Text(None) => Ok(()),
            Self::Text(Some(pattern)) => pattern.regex.is_match(value).then_some(()).ok_or(ToolCode::Pattern),
            Self::Identifier => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
                let fits = (1..=64).contains(&value.len()) && value.bytes().all(plain);
                fits.then_some(()).ok_or(ToolCode::Identifier)
            }
        }
    }
}

fn within_bounds<T: PartialOrd>(number: T, min: Option<T>, max: Option<T>) -> Result<(), ToolCode> {
    if max.is_some_and(|max| number > max) {
        Err(ToolCode::AboveMax)
    } else if min.is_some_and(|min| number < min) {
        Err(ToolCode::BelowMin)
    } else {
        Ok(())
    }
}

fn climbs(value: &str) -> bool {
    Path::new(value).components().any(|part| part == Component::ParentDir)
}

/// Digits with at most one point, or H:M:S with minutes and seconds below 60.
fn is_duration(value: &str) -> bool {
    let whole = |text: &str| !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
    let decimal = |text: &str| match text.split_once('.') {
        Some((whole_part, rest)) => whole(whole_part) && whole(rest),
        None => whole(text),
    };
    let sixty = |text: &str| text.parse::<f64>().is_ok_and(|number| number < 60.0);
    match value.split(':').collect::<Vec<_>>().as_slice() {
        [seconds] => decimal(seconds),
        [hours, minutes, seconds] => {
            whole(hours) && whole(minutes) && decimal(seconds) && sixty(minutes) && sixty(seconds)
        }
        _ => false,
    }
}

impl Param {
    /// A text parameter that must be given, for placeholders that nothing else is said of.
    #[must_use]
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Text(None),
            optional: false,
            default: None,
            description: None,
            implied: false,
        }
    }

    fn fault(&self, code: ToolCode, value: &str) -> CallFault {
        CallFault::new(code, self.kind.wanted()).param(&self.name).given(value)
    }

    /// What can be said of a value without looking at the world.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn judge(&self, value: &str) -> Result<(), CallFault> {
        if value.contains('\0') || value.len() > MAX_VALUE {
            let wanted = format!("at most {MAX_VALUE} bytes, none of them NUL");
            return Err(CallFault::new(ToolCode::Unpassable, wanted).param(&self.name));
        }
        if value.is_empty() && matches!(self.kind, Kind::Path { .. }) {
            return Err(self.fault(ToolCode::OutsidePrefix, value));
        }
        self.kind.judge(value).map_err(|code| self.fault(code, value))
    }

    /// Checks a value and returns what is passed on for it: itself, or for a path where it leads.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, value: &str, around: &Surroundings<'_>) -> Result<String, CallFault> {
        self.judge(value)?;
        let Kind::Path { prefix } = &self.kind else { return Ok(value.to_owned()) };
        let outside = || self.fault(ToolCode::OutsidePrefix, value);
        let base = match prefix {
            Some(prefix) => Some(expand_place(prefix, around).map_err(|fault| fault.param(&self.name))?),
            None => None,
        };
        let path = normalize(&base.as_deref().unwrap_or(around.cwd).join(value));
        let target = (around.resolve)(&path);
        let inside = |base: &PathBuf| within(&target, &(around.resolve)(base));
        if !base.as_ref().is_none_or(inside) {
            return Err(outside());
        }
        // Where it leads is what is passed on: no link is left in it that was not looked at.
        target.into_os_string().into_string().map_err(|_| outside())
    }
}

/// A place in a definition: absolute, or below `~`, `$PROJECT` or `$SESSION_DIR`.
pub(super) fn expand_place(text: &str, around: &Surroundings<'_>) -> Result<PathBuf, CallFault> {
    let below = |root: &Path, rest: &str| normalize(&root.join(rest.trim_start_matches('/')));
    let missing = |what: &str| CallFault::new(ToolCode::NoSession, what).given(text);
    match split_place(text) {
        Some((Base::Session, rest)) => {
            let dir = around.session_dir.ok_or_else(|| missing("a session, which has a directory"))?;
            Ok(below(dir, rest))
        }
        Some((Base::Project, rest)) => {
            let dir = around.facts.project.as_deref();
            Ok(below(dir.ok_or_else(|| missing("a project to work in"))?, rest))
        }
        Some((Base::Home, rest)) => Ok(below(&around.facts.home, rest)),
        Some((Base::Root, rest)) => Ok(below(Path::new("/"), rest)),
        Some((Base::Cwd, rest)) => Ok(normalize(&around.cwd.join(rest))),
        None => Err(missing("a place without `..`")),
    }
}

/// What a place in a definition starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Root,
    Home,
    Project,
    Session,
    Cwd,
}

/// A place's base and the rest; none when it climbs or is empty.
pub(super) fn split_place(text: &str) -> Option<(Base, &str)> {
    if text.is_empty() || climbs(text) || text.contains('\0') {
        return None;
    }
    for (word, base) in [("$SESSION_DIR", Base::Session), ("$PROJECT", Base::Project), ("~", Base::Home)] {
        if let Some(rest) = text.strip_prefix(word) {
            return (rest.is_empty() || rest.starts_with('/')).then_some((base, rest));
        }
    }
    Some(if text.starts_with('/') { (Base::Root, text) } else { (Base::Cwd, text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_texts_only() {
        let kind = Kind::Text(Some(Pattern::new("a|ab").unwrap()));
        assert!(kind.judge("ab").is_ok() && kind.judge("a").is_ok());
        assert!(kind.judge("ab\n").is_err() && kind.judge("xa").is_err());
        for trick in ["a)(?:b", "(?x)a # ", "("] {
            assert!(Pattern::new(trick).is_err(), "{trick}");
        }
    }

    #[test]
    fn durations_are_plain() {
        for good in ["0", "1.5", "90", "1:02:03", "00:00:59.9"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in
            ["", "-1", "inf", "NaN", "1e3", "1:2", "00:61:00", "0:0:60", "1:2:3:4", ".5", "5.", "1 ", "::"]
        {
            assert!(!is_duration(bad), "{bad}");
        }
    }
}
