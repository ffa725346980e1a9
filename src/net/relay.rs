//! Bytes from one side to the other, both ways, until both have ended.
//!
//! Answers for copying, counting and giving up on silence. It leaves what the bytes mean to others.
//! Invariant: what one side sends while the other is slow waits in one buffer of bounded size.

use super::bounds;
use super::report::Passed;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
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

    /// Says that one direction has ended.
    pub(crate) fn half_close(&self) {
        self.half_closed.store(true, Ordering::Relaxed);
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
    large: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    /// What went wrong after bytes had come, which were given first.
    failed: Option<io::Error>,
}

impl Buffer {
    /// A buffer that takes no room before it is used.
    pub(crate) fn new(meter: &Meter) -> Self {
        Self { room: Vec::new(), filled: 0, large: meter.large.clone(), permit: None, failed: None }
    }

    /// Reads what is there, at most `most` bytes, and waits for the first only; nothing at the end.
    pub(crate) async fn read(&mut self, from: &mut (impl AsyncRead + Unpin), most: u64) -> io::Result<&[u8]> {
        let read = poll_fn(|context| self.poll_fill(context, Pin::new(&mut *from), most)).await?;
        Ok(&self.room[..read])
    }

    /// The same without waiting: how many bytes are at the front now. A record of TLS comes at a time, and more of them
    /// may have come already.
    pub(crate) fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        mut from: Pin<&mut (impl AsyncRead + ?Sized)>,
        most: u64,
    ) -> Poll<io::Result<usize>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        self.grow();
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.room.len());
        let mut room = ReadBuf::new(&mut self.room[..most]);
        loop {
            let before = room.filled().len();
            match from.as_mut().poll_read(context, &mut room) {
                Poll::Ready(Ok(())) if room.filled().len() > before && room.remaining() > 0 => {}
                Poll::Ready(Ok(())) => break,
                Poll::Ready(Err(error)) if before == 0 => return Poll::Ready(Err(error)),
                Poll::Ready(Err(error)) => {
                    self.failed = Some(error);
                    break;
                }
                Poll::Pending if before == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        let read = room.filled().len();
        self.filled = if read < self.room.len() { 0 } else { self.filled.saturating_add(1) };
        Poll::Ready(Ok(read))
    }

    /// What was read last stands at the front of these.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room
    }

    fn grow(&mut self) {
        if self.room.is_empty() {
            self.room = vec![0; bounds::SMALL_BUFFER];
        }
        if self.filled >= 4 && self.permit.is_none() {
            self.filled = 0;
            self.permit = self.large.clone().try_acquire_owned().ok();
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
    let mut buffer = Buffer::new(meter);
    loop {
        let bytes = buffer.read(from, u64::MAX).await?;
        if bytes.is_empty() {
            meter.half_close();
            return to.shutdown().await;
        }
        meter.count(way, bytes.len());
        to.write_all(bytes).await?;
        to.flush().await?;
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

    /// Reads as much as there is from something that never ends.
    fn read(buffer: &mut Buffer, most: u64) -> usize {
        let mut from = tokio::io::repeat(7);
        let context = &mut Context::from_waker(std::task::Waker::noop());
        match buffer.poll_fill(context, Pin::new(&mut from), most) {
            Poll::Ready(Ok(read)) => read,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_buffer_grows_only_while_there_is_room_for_large_ones() {
        let (poor, rich) = (meter(0), meter(1));
        let (mut small, mut large) = (Buffer::new(&poor), Buffer::new(&rich));
        for _ in 0..4 {
            assert_eq!(read(&mut small, u64::MAX), bounds::SMALL_BUFFER);
            assert_eq!(read(&mut large, u64::MAX), bounds::SMALL_BUFFER);
        }
        assert_eq!(read(&mut small, u64::MAX), bounds::SMALL_BUFFER);
        assert_eq!(read(&mut large, u64::MAX), bounds::LARGE_BUFFER);
        assert_eq!(read(&mut large, 10), 10);
        assert_eq!(rich.large.available_permits(), 0);
        drop(large);
        assert_eq!(rich.large.available_permits(), 1);
    }

    #[test]
    fn an_error_after_bytes_is_told_after_them() {
        struct Breaking(u8);
        impl AsyncRead for Breaking {
            fn poll_read(
                mut self: Pin<&mut Self>,
                _: &mut Context<'_>,
                room: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.0 += 1;
                match self.0 {
                    1 => room.put_slice(b"some"),
                    2 => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                    _ => {}
                }
                Poll::Ready(Ok(()))
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut buffer, mut from) = (Buffer::new(&meter(0)), Breaking(0));
            assert_eq!(buffer.read(&mut from, u64::MAX).await.unwrap(), b"some");
            let error = buffer.read(&mut from, u64::MAX).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        });
    }
}
