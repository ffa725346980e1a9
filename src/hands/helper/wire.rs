//! What sbx and its helper say to each other: a head in JSON and a body of bytes, each with its length before it.
//!
//! Invariant: neither side believes the other's lengths; what is too long or malformed ends the conversation.

use crate::hands::fault::{Fault, FaultCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The most bytes of a head: edits and listings are in it.
pub(crate) const HEAD: usize = 8 << 20;
/// The most bytes of a body: the content of a file.
pub(crate) const BODY: usize = 16 << 20;

/// A path that need not be text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) PathBuf);

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.0.as_os_str().as_bytes()))
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
        Ok(Self(PathBuf::from(OsString::from_vec(bytes))))
    }
}

/// Device and number of a file or directory.
pub(crate) type Identity = (u64, u64);

/// What stood at the path when it was decided on, so that a view that is out of date is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seen {
    /// The thing itself; none where nothing stood.
    pub(crate) there: Option<Identity>,
    /// The directory it stands in.
    pub(crate) within: Option<Identity>,
}

/// Which part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// Bytes: where from, how many.
    Bytes(u64, u64),
    /// Lines: the first, counted from 1, and how many.
    Lines(u64, u64),
}

/// Whether something may, must or must not stand where a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Existing {
    /// Either way.
    Any,
    /// Nothing may.
    New,
    /// A file must.
    Old,
}

/// One exact replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replacement {
    pub(crate) old: String,
    pub(crate) new: String,
    /// Whether every occurrence is meant; else there must be exactly one.
    pub(crate) all: bool,
}

/// What to look for below a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    /// Paths below the directory that match this glob.
    pub(crate) glob: Option<String>,
    /// Lines that match this regular expression.
    pub(crate) pattern: Option<String>,
    pub(crate) ignore_case: bool,
    /// The most matches.
    pub(crate) most: usize,
    /// The longest it may take.
    pub(crate) millis: u64,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Task {
    Read { path: Place, seen: Seen, part: Part },
    Write { path: Place, seen: Seen, existing: Existing, parents: bool, replace: bool },
    Edit { path: Place, seen: Seen, edits: Vec<Replacement>, replace: bool },
    Delete { path: Place, seen: Seen, directory: bool },
    List { path: Place, seen: Seen, most: usize },
    Search { path: Place, seen: Seen, query: Query },
}

impl Task {
    /// The path it is about.
    pub(crate) fn path(&self) -> &std::path::Path {
        match self {
            Self::Read { path, .. }
            | Self::Write { path, .. }
            | Self::Edit { path, .. }
            | Self::Delete { path, .. }
            | Self::List { path, .. }
            | Self::Search { path, .. } => &path.0,
        }
    }

    /// What was seen before it was decided.
    pub(crate) fn seen(&self) -> Seen {
        match self {
            Self::Read { seen, .. }
            | Self::Write { seen, .. }
            | Self::Edit { seen, .. }
            | Self::Delete { seen, .. }
            | Self::List { seen, .. }
            | Self::Search { seen, .. } => *seen,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Answer {
    /// It was done; content is in the body.
    Done(Value),
    /// It was not.
    Failed { code: String, message: String },
    /// What stands there is not what was decided on, or nothing does; nothing was done.
    Other { there: bool },
}

impl From<Fault> for Answer {
    fn from(fault: Fault) -> Self {
        Self::Failed { code: fault.code.name().to_owned(), message: fault.message }
    }
}

impl Answer {
    /// The fault an answer tells of.
    pub(crate) fn fault(code: &str, message: String) -> Fault {
        let known = FaultCode::ALL.iter().copied().find(|known| known.name() == code);
        Fault::new(known.unwrap_or(FaultCode::Failed), message)
    }
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Writes one message.
pub(crate) fn write<T: Serialize>(to: &mut impl Write, head: &T, body: &[u8]) -> io::Result<()> {
    let head = serde_json::to_vec(head).map_err(io::Error::other)?;
    if head.len() > HEAD || body.len() > BODY {
        return Err(malformed("the message is too long"));
    }
    let length = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes();
    to.write_all(&length(&head))?;
    to.write_all(&length(body))?;
    to.write_all(&head)?;
    to.write_all(body)?;
    to.flush()
}

/// Reads one message; none at the end.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut lengths = [0; 8];
    match from.read(&mut lengths[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut lengths[1..])?,
    }
    let [a, b, c, d, e, f, g, h] = lengths;
    let head = part(from, u32::from_le_bytes([a, b, c, d]), HEAD)?;
    let body = part(from, u32::from_le_bytes([e, f, g, h]), BODY)?;
    let head = serde_json::from_slice(&head).map_err(|_| malformed("the head is not what it should be"))?;
    Ok(Some((head, body)))
}

/// Reads so many bytes; room is made as they come, not because a length was claimed.
fn part(from: &mut impl Read, length: u32, most: usize) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > most {
        return Err(malformed("a part is too long"));
    }
    let mut bytes = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut bytes)?;
    if read == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was() {
        let path = Place(PathBuf::from(OsString::from_vec(b"/w/\xff\n".to_vec())));
        let task = Task::Read { path, seen: Seen::default(), part: Part::Lines(3, 4) };
        let mut bytes = Vec::new();
        write(&mut bytes, &task, b"\0body").unwrap();
        let (again, body): (Task, _) = read(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!((again, body.as_slice()), (task, &b"\0body"[..]));
        assert!(read::<Task>(&mut &b""[..]).unwrap().is_none());
    }

    #[test]
    fn lengths_are_not_believed() {
        for bytes in
            [&b"\xff\xff\xff\xff\0\0\0\0"[..], b"\x02\0\0\0\0\0\0\0", b"\x02\0\0\0\0\0\0\0{}", b"\x01"]
        {
            assert!(read::<Task>(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }
}
