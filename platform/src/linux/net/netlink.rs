//! Messages to the kernel's network, by hand.
//!
//! Answers for laying out headers and attributes and for telling whether the kernel agreed. It leaves which
//! messages to its neighbours.
//! Invariant: every attribute is padded to four bytes and every length is patched in when it is known.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{c_int, c_long};

use crate::linux::sys::{check_int, errno, fd, inet};

/// `NLM_F_REQUEST`.
pub(super) const REQUEST: u16 = 1;
/// `NLM_F_ACK`: the kernel answers even when it agrees.
pub(super) const ACK: u16 = 4;
/// `NLM_F_EXCL | NLM_F_CREATE`.
pub(super) const CREATE: u16 = 0x200 | 0x400;
/// `NLM_F_APPEND | NLM_F_CREATE`.
pub(super) const APPEND: u16 = 0x800 | 0x400;
/// An attribute that holds attributes.
const NESTED: u16 = 1 << 15;
const HEADER: usize = 16;
const ERROR: u16 = 2;

/// Messages under construction, sent as one.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    message: usize,
    count: u32,
    /// How many answers are asked for.
    wanted: usize,
}

impl Batch {
    /// Begins a message with `body` as its fixed part.
    pub(super) fn message(&mut self, kind: u16, flags: u16, body: &[u8]) -> &mut Self {
        self.count += 1;
        self.wanted += usize::from(flags & ACK != 0);
        self.message = self.bytes.len();
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend(body);
        self.close(self.message);
        self
    }

    /// Adds an attribute.
    pub(super) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.close(self.message);
        self
    }

    /// Adds an attribute with text, its end included.
    pub(super) fn text(&mut self, kind: u16, text: &str) -> &mut Self {
        self.put(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds a number as the packet filter wants it: big end first.
    pub(super) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_be_bytes())
    }

    /// Adds an attribute that holds what `fill` adds.
    pub(super) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend(0_u16.to_ne_bytes());
        self.bytes.extend((kind | NESTED).to_ne_bytes());
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.close(self.message);
        self
    }

    /// Pads, and writes the message's length where it belongs.
    fn close(&mut self, message: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let length = u32::try_from(self.bytes.len() - message).unwrap_or(u32::MAX);
        self.bytes[message..message + 4].copy_from_slice(&length.to_ne_bytes());
    }
}

/// A line to one part of the kernel's network.
#[derive(Debug)]
pub(super) struct Line(OwnedFd);

impl Line {
    /// To `protocol`, such as `NETLINK_ROUTE`.
    pub(super) fn open(protocol: c_int) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: plain integers.
        let raw = check_int(unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) })?;
        let line = Self(fd::own(c_long::from(raw))?);
        inet::set_patience(line.0.as_raw_fd(), 2)?;
        Ok(line)
    }

    /// Sends `batch`; the first error the kernel answers with, if any.
    pub(super) fn ask(&self, batch: &Batch) -> io::Result<()> {
        fd::write(self.0.as_raw_fd(), &batch.bytes)?;
        let mut left = batch.wanted;
        let mut buffer = [0_u8; 8192];
        while left > 0 {
            let length = fd::read(self.0.as_raw_fd(), &mut buffer)?;
            left = left.saturating_sub(answers(&buffer[..length])?);
        }
        Ok(())
    }
}

/// How many messages were agreed to in `bytes`, or the first refusal.
fn answers(mut bytes: &[u8]) -> io::Result<usize> {
    let mut count = 0;
    while bytes.len() >= HEADER + 4 {
        let word = |at: usize| bytes[at..at + 4].try_into().map(u32::from_ne_bytes).unwrap_or(0);
        let length = usize::try_from(word(0)).unwrap_or(usize::MAX).max(HEADER);
        if u16::from_ne_bytes([bytes[4], bytes[5]]) == ERROR {
            match word(HEADER).cast_signed() {
                0 => count += 1,
                refused => return Err(errno(refused.saturating_neg())),
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_padding_are_right() {
        let mut batch = Batch::default();
        batch.message(20, ACK, &[1, 2, 3, 4]).text(1, "lo").nest(2, |inner| {
            inner.put(3, &[9]);
        });
        assert_eq!(batch.bytes.len(), 16 + 4 + 8 + 4 + 8);
        assert_eq!(batch.bytes[..4], 40_u32.to_ne_bytes());
        assert_eq!(batch.bytes[20..24], [7, 0, 1, 0]);
        assert_eq!(batch.bytes[28..32], [12, 0, 2, 0x80]);
        assert_eq!(batch.bytes[32..40], [5, 0, 3, 0, 9, 0, 0, 0]);
    }

    #[test]
    fn a_refusal_is_an_error() {
        let answer = |code: i32| {
            let mut bytes = 36_u32.to_ne_bytes().to_vec();
            bytes.extend(ERROR.to_ne_bytes());
            bytes.resize(16, 0);
            bytes.extend(code.to_ne_bytes());
            bytes.resize(36, 0);
            bytes
        };
        assert_eq!(answers(&answer(0)).unwrap(), 1);
        assert_eq!(answers(&[answer(0), answer(-1)].concat()).unwrap_err().raw_os_error(), Some(1));
        assert_eq!(answers(b"short").unwrap(), 0);
    }
}
