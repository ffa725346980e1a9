//! A call as a client tells of it.

use crate::mcp::protocol::Json;
use std::borrow::Cow;
use std::path::PathBuf;

/// A call that is about to be made.
#[derive(Clone, Debug)]
pub(super) struct Call<'j> {
    /// The tool, as the client calls it.
    pub(super) tool: Cow<'j, str>,
    /// What a server's tool could be called without the server's name, the longest first; empty for the client's own.
    pub(super) served: Vec<Cow<'j, str>>,
    /// The tool's arguments.
    pub(super) input: Json<'j>,
    /// Where the client works.
    pub(super) dir: Option<PathBuf>,
    /// Whether the client takes other arguments for this call.
    pub(super) changeable: bool,
}

/// The string of a key.
pub(super) fn text<'j>(asked: &'j Json<'j>, key: &str) -> Result<&'j str, String> {
    asked.get(key).and_then(Json::text).ok_or_else(|| format!("the client does not say `{key}`"))
}

/// Refuses events that this hook does not answer.
pub(super) fn event<'j>(asked: &'j Json<'j>, key: &str, known: &[&str]) -> Result<&'j str, String> {
    let event = text(asked, key)?;
    if known.contains(&event) {
        return Ok(event);
    }
    Err(format!("this hook answers {}, not {event:?}", known.join(", ")))
}

/// The arguments: an object, or the text of one.
pub(super) fn input<'j>(asked: &'j Json<'j>) -> Result<Json<'j>, String> {
    match asked.get("tool_input") {
        Some(Json::Text(text)) => match Json::read_document(text) {
            Ok(input @ Json::Map(_)) => Ok(input),
            Ok(_) => Err("`tool_input` is not an object".to_owned()),
            Err(fault) => Err(format!("`tool_input`: {fault}")),
        },
        Some(input @ Json::Map(_)) => Ok(input.clone()),
        Some(_) => Err("`tool_input` is not an object".to_owned()),
        None => Err("the client does not say `tool_input`".to_owned()),
    }
}

/// An absolute directory that the client names.
pub(super) fn directory(asked: &Json<'_>, key: &str) -> Result<Option<PathBuf>, String> {
    match asked.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(text)) if text.is_empty() => Ok(None),
        Some(Json::Text(text)) => absolute(text).map(Some),
        Some(_) => Err(format!("`{key}` is not a path")),
    }
}

/// A path that does not depend on where anybody is.
pub(super) fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() && !text.contains('\0') {
        Ok(path)
    } else {
        Err(format!("{text:?} is not an absolute path"))
    }
}

impl<'j> Call<'j> {
    /// The same arguments, one of them another.
    pub(super) fn with(&self, argument: &str, value: String) -> Json<'j> {
        let Json::Map(members) = &self.input else { return self.input.clone() };
        let mut members = members.clone();
        if let Some((_, slot)) = members.iter_mut().find(|(key, _)| key == argument) {
            *slot = Json::Text(value.into());
        }
        Json::Map(members)
    }
}
