//! Arguments of a call, read strictly: a key that is unknown or of the wrong kind is a fault.

use super::fault::{Fault, FaultCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The arguments of one call.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    object: Option<&'a Map<String, Value>>,
}

pub(super) fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(FaultCode::InvalidArguments, message)
}

impl<'a> Arguments<'a> {
    /// The arguments, if they are an object with no keys but these.
    pub(super) fn of(value: &'a Value, keys: &[&str]) -> Result<Self, Fault> {
        let object = match value {
            Value::Null => None,
            Value::Object(object) => Some(object),
            _ => return Err(invalid("the arguments are not an object")),
        };
        let unknown = object.into_iter().flat_map(Map::keys).find(|key| !keys.contains(&key.as_str()));
        match unknown {
            Some(key) => Err(invalid(format!("there is no argument `{key}`"))
                .hint(format!("known are {}", keys.join(", ")))),
            None => Ok(Self { object }),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.object?.get(key).filter(|value| !value.is_null())
    }

    /// Whether it is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A value of any kind.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.get(key)
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Fault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| invalid(format!("`{key}` is not a string")))
    }

    /// A text that must be there.
    pub(super) fn needed(&self, key: &str) -> Result<&'a str, Fault> {
        self.text(key)?.ok_or_else(|| invalid(format!("`{key}` is missing")))
    }

    /// Yes or no; no unless it is there.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Fault> {
        let Some(value) = self.get(key) else { return Ok(false) };
        value.as_bool().ok_or_else(|| invalid(format!("`{key}` is neither true nor false")))
    }

    /// A number, within bounds.
    pub(super) fn number(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, Fault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (least..=most).contains(number));
        number
            .map(Some)
            .ok_or_else(|| invalid(format!("`{key}` is not a whole number from {least} to {most}")))
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>, Fault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let items = value.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
        items.map(Some).ok_or_else(|| invalid(format!("`{key}` is not a list of strings")))
    }

    /// A path: text, or base64 for a name that is not text.
    pub(super) fn path(&self) -> Result<Option<PathBuf>, Fault> {
        let path = match (self.text("path")?, self.text("path_base64")?) {
            (Some(_), Some(_)) => return Err(invalid("`path` and `path_base64` exclude each other")),
            (Some(path), None) => PathBuf::from(path),
            (None, Some(encoded)) => {
                let bytes = STANDARD.decode(encoded).map_err(|_| invalid("`path_base64` is not base64"))?;
                PathBuf::from(OsString::from_vec(bytes))
            }
            (None, None) => return Ok(None),
        };
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.is_empty() || bytes.contains(&0) || bytes.len() > 4096 {
            return Err(invalid("the path is empty, too long or holds a zero byte"));
        }
        Ok(Some(path))
    }

    /// Content: text, or base64 with `encoding: base64`.
    pub(super) fn content(&self, key: &str) -> Result<Vec<u8>, Fault> {
        let text = self.needed(key)?;
        match self.text("encoding")?.unwrap_or("utf-8") {
            "utf-8" => Ok(text.as_bytes().to_vec()),
            "base64" => STANDARD.decode(text).map_err(|_| invalid(format!("`{key}` is not base64"))),
            _ => Err(invalid("`encoding` is neither utf-8 nor base64")),
        }
    }
}

/// Content as JSON carries it: text as it is, anything else in base64.
pub(super) fn encoded(content: Vec<u8>, wanted: Option<&str>) -> Result<(&'static str, String), Fault> {
    match (wanted, String::from_utf8(content)) {
        (Some("base64"), Ok(text)) => Ok(("base64", STANDARD.encode(text))),
        (Some("utf-8"), Err(_)) => Err(Fault::new(FaultCode::NotText, "the content is not UTF-8 text")
            .hint("ask for `encoding: base64`, or leave it out")),
        (_, Ok(text)) => Ok(("utf-8", text)),
        (_, Err(error)) => Ok(("base64", STANDARD.encode(error.into_bytes()))),
    }
}
