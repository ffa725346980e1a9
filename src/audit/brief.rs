//! An event of few plain fields, for what is recorded often: it is written as it stands, and made only if it must be.
//!
//! Invariant: its line is the one that the event it stands for would have, to the byte.

use super::{Event, redact};
use serde_json::{Map, Value};

/// An event that is not made yet.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// What sort of thing.
    pub kind: &'static str,
    /// Whose authority it was done under.
    pub agent: &'a str,
    /// What belongs to this sort, each under a name of its own.
    pub fields: &'a [(&'static str, Field<'a>)],
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// A text.
    Text(&'a str),
    /// Yes or no.
    Flag(bool),
    /// Nothing.
    Nothing,
}

impl<'a> From<Option<&'a str>> for Field<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::Nothing, Self::Text)
    }
}

impl Field<'_> {
    fn value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Flag(flag) => flag.into(),
            Self::Nothing => Value::Null,
        }
    }
}

impl Brief<'_> {
    /// The event it stands for.
    #[must_use]
    pub fn event(&self) -> Event {
        Event { kind: self.kind, agent: self.agent.to_owned(), body: self.body() }
    }

    pub(super) fn body(&self) -> Map<String, Value> {
        self.fields.iter().map(|(name, field)| ((*name).to_owned(), field.value())).collect()
    }

    /// Whether the event would be the same without its secrets: it has none.
    pub(super) fn is_plain(&self) -> bool {
        self.fields.iter().all(|(name, field)| match field {
            Field::Text(text) => redact::is_plain(name, text),
            Field::Flag(_) | Field::Nothing => true,
        })
    }
}
