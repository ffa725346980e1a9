//! The head: where the log ended when it was last written.
//!
//! Answers for noticing lines cut off at the end, which the chain alone cannot. The file is also what writers
//! lock. It leaves what to do about a difference to [`super::recover`].
//! Invariant: it always has the same length, so that writing it in place never needs more room.

use super::chain::{Hex, Link, unhex};
use serde_json::Value;
use std::io::Write as _;

/// Its length: a line of JSON, padded.
const LENGTH: usize = 192;

/// Where the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The number of the file that is written to, counted from 1.
    pub file: u64,
    /// How long it was.
    pub size: u64,
    /// The last line.
    pub link: Link,
}

impl Head {
    /// Before anything was written.
    pub const START: Self = Self { file: 1, size: 0, link: Link::START };

    /// Reads a head; none when the bytes are not one.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let fields: Value = serde_json::from_slice(bytes).ok()?;
        let number = |name: &str| fields.get(name)?.as_u64();
        let hash = unhex(fields.get("hash")?.as_str()?)?;
        Some(Self { file: number("file")?, size: number("size")?, link: Link { seq: number("seq")?, hash } })
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let Self { file, size, link: Link { seq, hash } } = self;
        let mut bytes = Vec::with_capacity(LENGTH);
        let _ = write!(bytes, "{{\"file\":{file},\"size\":{size},\"seq\":{seq},\"hash\":\"");
        Hex(&hash).add_to(&mut bytes);
        bytes.extend_from_slice(b"\"}");
        bytes.resize(LENGTH - 1, b' ');
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_back_and_keeps_its_length() {
        let most = Head { file: u64::MAX, size: u64::MAX, link: Link { seq: u64::MAX, hash: [255; 32] } };
        for head in [Head::START, most] {
            assert_eq!(head.to_bytes().len(), LENGTH);
            assert_eq!(Head::read(&head.to_bytes()), Some(head));
        }
        assert_eq!(Head::read(&most.to_bytes()[..100]), None);
    }
}
