//! The last bytes of a stream.

use std::collections::VecDeque;

/// Bytes that are kept of each stream.
pub const RING: usize = 64 << 10;

/// A buffer that forgets its oldest bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    /// Bytes that went through.
    pub(super) total: u64,
}

impl Ring {
    /// Takes bytes in; memory stays within [`RING`].
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(RING)..];
        let surplus = (self.bytes.len() + bytes.len()).saturating_sub(RING);
        self.bytes.drain(..surplus.min(self.bytes.len()));
        if self.bytes.capacity() < RING {
            self.bytes.reserve_exact(RING.min(self.bytes.len() + bytes.len()) - self.bytes.len());
        }
        self.bytes.extend(bytes);
    }

    /// What is kept, as text of at most as many bytes, beginning with a whole character.
    pub(super) fn text(&self) -> String {
        let (first, second) = self.bytes.as_slices();
        let mut bytes: &[u8] = &[first, second].concat();
        while self.total > RING as u64 && bytes.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
            bytes = &bytes[1..];
        }
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        // A byte that is no text becomes three; the bound holds all the same.
        while text.len() > RING {
            let over = text.len() - RING;
            let cut = (over..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            text.drain(..cut);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_no_more_memory() {
        let mut ring = Ring::default();
        for at in 0..1000u32 {
            ring.push(&vec![b'a' + u8::try_from(at % 26).unwrap(); 777]);
        }
        let text = ring.text();
        assert_eq!((text.len(), ring.total), (RING, 777_000));
        assert!(text.ends_with(&"l".repeat(777)) && ring.bytes.capacity() <= 2 * RING);
        ring.push(&[0xff; RING * 3]);
        assert!(ring.text().len() <= RING && ring.bytes.capacity() <= 2 * RING);
    }
}
