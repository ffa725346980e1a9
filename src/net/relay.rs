//! Bytes from one side to the other, both ways, until both have ended.
//!
//! Answers for copying, counting and giving up on silence. It leaves what the bytes mean to others.
//! Invariant: what one side sends while the other is slow waits in one buffer of bounded size.

use super::bounds;
use super::report::Passed;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What passes on one connection.
#[derive(Debug)]
pub(crate) struct Meter {
    sent: AtomicU64,
    received: AtomicU64,
    half_closed: AtomicBool,
    since: Instant,
    large: Arc<Semaphore>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From inside to outside.
    Out,
    /// From outside to inside.
    In,
}

impl Meter {
    /// A meter at zero; `large` bounds the buffers for much at once.
    pub(crate) fn new(large: Arc<Semaphore>) -> Self {
        Self {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            half_closed: AtomicBool::new(false),
            since: Instant::now(),
            large,
        }
    }

    pub(crate) fn count(&self, way: Way, bytes: usize) {
        let counter = match way {
            Way::Out => &self.sent,
            Way::In => &self.received,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What passed so far.
    pub(crate) fn passed(&self) -> Passed {
        Passed {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            took: self.since.elapsed(),
        }
    }

    /// Ends when nothing passed for too long.
    async fn silence(&self) {
        let mut last = (0, 0);
        let mut quiet = Duration::ZERO;
        let step = Duration::from_secs(15);
        loop {
            tokio::time::sleep(step).await;
            let passed = self.passed();
            let now = (passed.sent, passed.received);
            quiet = if now == last { quiet + step } else { Duration::ZERO };
            last = now;
            let half = self.half_closed.load(Ordering::Relaxed);
            if quiet >= if half { bounds::HALF_CLOSED } else { bounds::IDLE } {
                return;
            }
        }
    }

    /// Runs something that lasts as long as bytes pass.
    pub(crate) async fn while_alive<T>(&self, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let (mut work, mut silence) = (pin!(work), pin!(self.silence()));
        tokio::select! {
            biased;
            done = &mut work => done,
            () = &mut silence => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// A buffer that grows when it is filled again and again.
#[derive(Debug)]
pub(crate) struct Buffer {
    room: Vec<u8>,
    filled: u8,
    permit: Option<OwnedSemaphorePermit>,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        Self { room: vec![0; bounds::SMALL_BUFFER], filled: 0, permit: None }
    }

    /// Room to read into, at most `most` bytes.
    pub(crate) fn room(&mut self, most: u64) -> &mut [u8] {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.room.len());
        &mut self.room[..most]
    }

    /// Takes note of how much was read.
    pub(crate) fn took(&mut self, bytes: usize, meter: &Meter) {
        if bytes < self.room.len() || self.permit.is_some() {
            self.filled = 0;
            return;
        }
        self.filled += 1;
        if self.filled == 4 {
            self.filled = 0;
            self.permit = meter.large.clone().try_acquire_owned().ok();
            if self.permit.is_some() {
                self.room = vec![0; bounds::LARGE_BUFFER];
            }
        }
    }
}

/// Copies one way until the source ends, and passes the end on.
pub(crate) async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    way: Way,
    meter: &Meter,
) -> io::Result<()> {
    let mut buffer = Buffer::new();
    loop {
        let bytes = from.read(buffer.room(u64::MAX)).await?;
        if bytes == 0 {
            meter.half_closed.store(true, Ordering::Relaxed);
            return to.shutdown().await;
        }
        meter.count(way, bytes);
        let filled = &buffer.room[..bytes];
        to.write_all(filled).await?;
        to.flush().await?;
        buffer.took(bytes, meter);
    }
}

/// Copies both ways until both have ended or one failed.
pub(crate) async fn both<I, O>(inside: I, outside: O, meter: &Meter) -> io::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin,
    O: AsyncRead + AsyncWrite + Unpin,
{
    let (mut inside_read, mut inside_write) = tokio::io::split(inside);
    let (mut outside_read, mut outside_write) = tokio::io::split(outside);
    let out = copy(&mut inside_read, &mut outside_write, Way::Out, meter);
    let back = copy(&mut outside_read, &mut inside_write, Way::In, meter);
    meter.while_alive(async { tokio::try_join!(out, back).map(|_| ()) }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(large: usize) -> Meter {
        Meter::new(Arc::new(Semaphore::new(large)))
    }

    #[test]
    fn a_buffer_grows_only_while_there_is_room_for_large_ones() {
        let (poor, rich) = (meter(0), meter(1));
        let (mut small, mut large) = (Buffer::new(), Buffer::new());
        for _ in 0..8 {
            small.took(bounds::SMALL_BUFFER, &poor);
            large.took(bounds::SMALL_BUFFER, &rich);
        }
        assert_eq!(small.room(u64::MAX).len(), bounds::SMALL_BUFFER);
        assert_eq!(large.room(u64::MAX).len(), bounds::LARGE_BUFFER);
        assert_eq!(large.room(10).len(), 10);
        assert_eq!(rich.large.available_permits(), 0);
        drop(large);
        assert_eq!(rich.large.available_permits(), 1);
    }
}
