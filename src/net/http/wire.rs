//! A stream that is read a head at a time.

use crate::net::bounds;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A reader with what it has read and nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Wire<R> {
    pub(crate) stream: R,
    pending: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Wire<R> {
    /// A reader some of whose bytes were read already.
    pub(crate) fn new(stream: R, pending: Vec<u8>) -> Self {
        Self { stream, pending }
    }

    /// What was read and not taken.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Takes bytes from the front.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.pending.split_off(length.min(self.pending.len()));
        std::mem::replace(&mut self.pending, rest)
    }

    /// Gives back what was taken too much.
    pub(crate) fn give_back(&mut self, bytes: &[u8]) {
        self.pending.splice(0..0, bytes.iter().copied());
    }

    /// Reads more; how many bytes came, none at the end.
    pub(crate) async fn more(&mut self) -> io::Result<usize> {
        let length = self.pending.len();
        self.pending.resize(length + bounds::SMALL_BUFFER, 0);
        // Should this future be dropped while it waits, the room is cut off again by the next call.
        let room = Room { pending: &mut self.pending, length };
        let read = self.stream.read(&mut room.pending[length..]).await;
        let added = read.as_ref().copied().unwrap_or_default();
        let mut room = room;
        room.length = length + added;
        drop(room);
        read
    }

    /// The stream and what is pending.
    pub(crate) fn into_parts(self) -> (R, Vec<u8>) {
        (self.stream, self.pending)
    }
}

/// Cuts unused room off, whatever happens.
struct Room<'a> {
    pending: &'a mut Vec<u8>,
    length: usize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.pending.truncate(self.length);
    }
}
