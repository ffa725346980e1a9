//! The arguments of a call, read strictly: what a tool does not take is refused, by name.

use crate::decide::{Denial, DenialCode};
use sbx_platform::path::{normalize, resolve};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest time a caller can ask for.
pub(super) const MOST_TIME: Duration = Duration::from_secs(3600);

/// Arguments by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arguments<'a> {
    agent: &'a str,
    tool: &'a str,
    values: &'a Map<String, Value>,
}

/// The most of a wrong argument that is told back.
const SHOWN: usize = 200;

type Fault = Box<Denial>;

impl<'a> Arguments<'a> {
    /// The arguments of a call; none but the known ones may be there.
    pub(super) fn read(
        agent: &'a str,
        tool: &'a str,
        values: &'a Map<String, Value>,
        known: &[&str],
    ) -> Result<Self, Fault> {
        let arguments = Self { agent, tool, values };
        match values.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(arguments),
            Some(name) => {
                let takes = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
                let shown: String = name.chars().take(SHOWN).collect();
                Err(arguments.wrong(name, &format!("there is no argument '{shown}'; {tool} takes {takes}")))
            }
        }
    }

    /// The denial of a call for one of its arguments.
    pub(super) fn wrong(&self, name: &str, message: &str) -> Fault {
        let message = format!("{}: {message}", self.tool);
        let mut denial = Denial::of_tool(DenialCode::InvalidParams, self.agent, self.tool, message);
        let given =
            self.values.get(name).map(|value| value.to_string().chars().take(SHOWN).collect::<String>());
        denial.request = json!({ "tool": self.tool, "param": name, "given": given });
        Box::new(denial)
    }

    fn given(&self, name: &str) -> Option<&'a Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// A text, if it is given.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.contains('\0') => {
                Err(self.wrong(name, &format!("'{name}' holds a NUL")))
            }
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, &format!("'{name}' is not a string"))),
        }
    }

    /// A text that must be there and not blank.
    pub(super) fn needed(&self, name: &str) -> Result<&'a str, Fault> {
        match self.text(name)? {
            None => Err(self.wrong(name, &format!("missing required argument '{name}'"))),
            Some(text) if text.trim().is_empty() => Err(self.wrong(name, &format!("'{name}' is empty"))),
            Some(text) => Ok(text),
        }
    }

    /// A list of texts that must be there and not empty.
    pub(super) fn words(&self, name: &str) -> Result<Vec<String>, Fault> {
        let Some(value) = self.given(name) else {
            return Err(self.wrong(name, &format!("missing required argument '{name}'")));
        };
        let word = |word: &Value| word.as_str().filter(|word| !word.contains('\0')).map(str::to_owned);
        let words: Option<Vec<String>> = value.as_array().and_then(|words| words.iter().map(word).collect());
        match words {
            Some(words) if words.first().is_some_and(|program| !program.is_empty()) => Ok(words),
            _ => {
                Err(self
                    .wrong(name, &format!("'{name}' is not a list of strings that begins with a program")))
            }
        }
    }

    /// An object, empty when it is not given.
    pub(super) fn map(&self, name: &str) -> Result<Map<String, Value>, Fault> {
        match self.given(name) {
            None => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map.clone()),
            Some(_) => Err(self.wrong(name, &format!("'{name}' is not an object"))),
        }
    }

    /// A directory as it is named, and with links followed; where relative ones start when none is given.
    pub(super) fn directory(&self, name: &str, from: &Path) -> Result<(PathBuf, PathBuf), Fault> {
        let dir = self.text(name)?.map_or_else(|| from.to_path_buf(), |dir| from.join(dir));
        let dir = normalize(&dir);
        let target = resolve(&dir).unwrap_or_else(|_| dir.clone());
        Ok((dir, target))
    }

    /// A time in seconds.
    pub(super) fn seconds(&self, name: &str, usual: Duration) -> Result<Duration, Fault> {
        let Some(value) = self.given(name) else { return Ok(usual) };
        let time = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        time.filter(|time| !time.is_zero() && *time <= MOST_TIME).ok_or_else(|| {
            self.wrong(name, &format!("'{name}' is not a number of seconds up to {}", MOST_TIME.as_secs()))
        })
    }
}
