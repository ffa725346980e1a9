//! A stream that is read further than it is asked for.
//!
//! Answers for few calls of the system: whoever takes TLS apart asks for some kilobytes at a time. It also gives back
//! what others have read of the stream to see what it is.
//! Invariant: bytes are given in the order in which they came, each once.

use super::relay::{Buffer, Meter};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Gives the bytes that were read first, then what the stream gives.
#[derive(Debug)]
pub(crate) struct Ahead<S> {
    first: Vec<u8>,
    buffer: Buffer,
    /// How much of the first bytes, or of what is in the buffer, was given.
    given: usize,
    /// How much is in the buffer.
    held: usize,
    stream: S,
}

impl<S> Ahead<S> {
    /// A stream of which `first` was read already.
    pub(crate) fn new(first: Vec<u8>, stream: S, meter: &Meter) -> Self {
        Self { first, buffer: Buffer::new(meter), given: 0, held: 0, stream }
    }
}

/// Gives of `bytes` what fits; how much that is.
fn give(bytes: &[u8], room: &mut ReadBuf<'_>) -> usize {
    let length = bytes.len().min(room.remaining());
    room.put_slice(&bytes[..length]);
    length
}

impl<S: AsyncRead + Unpin> AsyncRead for Ahead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.first.is_empty() {
            this.given += give(&this.first[this.given..], room);
            if this.given == this.first.len() {
                (this.first, this.given) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        if this.given == this.held {
            (this.given, this.held) = (0, 0);
            this.held = ready!(this.buffer.poll_fill(context, Pin::new(&mut this.stream), u64::MAX))?;
        }
        this.given += give(&this.buffer.bytes()[this.given..this.held], room);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Ahead<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;

    #[test]
    fn what_was_read_first_comes_first_and_the_rest_in_order() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut far, near) = tokio::io::duplex(100);
            let meter = Meter::new(Arc::new(Semaphore::new(1)));
            let mut ahead = Ahead::new(b"01234".to_vec(), near, &meter);
            let sent: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
            let writing = async {
                far.write_all(&sent).await.unwrap();
                far.shutdown().await.unwrap();
            };
            let reading = async {
                let mut read = Vec::new();
                let mut room = [0; 7];
                while let Ok(length @ 1..) = ahead.read(&mut room).await {
                    read.extend_from_slice(&room[..length]);
                }
                read
            };
            let ((), read) = tokio::join!(writing, reading);
            assert_eq!(read[..5], *b"01234");
            assert!(read[5..] == sent[..]);
        });
    }
}
