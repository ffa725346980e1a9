//! One writer's turn: the head, locked.
//!
//! Answers for one writer at a time, and for the lock being that of the head which stands there. It leaves what is
//! written to [`super::log`].
//! Invariant: nobody is waited for without end.

use super::head::Head;
use super::rotate::Files;
use sbx_platform::queue::{Waiting, is_awaited};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

/// How long a writer waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest pause between two looks at the lock.
const PAUSE: Duration = Duration::from_millis(4);

/// One writer's turn: the head, locked until dropped or released.
#[derive(Debug)]
pub(super) struct Turn {
    file: File,
    /// The device and number of the file.
    id: (u64, u64),
}

impl Turn {
    /// Gives others their turn; the file stays open for the next.
    pub(super) fn release(&self) -> io::Result<()> {
        self.file.unlock()
    }

    /// Waits for the next turn with the same file; false when another stands in its place.
    pub(super) fn again(&self, files: &Files) -> io::Result<bool> {
        wait(Instant::now(), &self.file, File::try_lock)?;
        Ok(std::fs::metadata(files.head()).is_ok_and(|there| id(&there) == self.id))
    }

    /// Whether somebody else waits for its turn.
    pub(super) fn is_awaited(&self) -> bool {
        is_awaited(&self.file)
    }

    /// The head as it is now; none when it cannot be read.
    pub(super) fn read(&self) -> io::Result<Option<Head>> {
        read_head(&self.file)
    }

    /// Waits for the turn, but not for ever.
    pub(super) fn take(files: &Files) -> io::Result<Self> {
        let path = files.head();
        let open =
            || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let begun = Instant::now();
        loop {
            let head = match open() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    DirBuilder::new().recursive(true).mode(0o700).create(files.dir())?;
                    open()?
                }
                other => other?,
            };
            wait(begun, &head, File::try_lock)?;
            // Whoever removed the file meanwhile left us with a lock that holds nobody up.
            let own = id(&head.metadata()?);
            if std::fs::metadata(&path).is_ok_and(|there| id(&there) == own) {
                return Ok(Self { file: head, id: own });
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::new(ErrorKind::TimedOut, "its head is replaced again and again"));
            }
        }
    }

    /// The head as it was left; none when there should be one and it cannot be read.
    pub(super) fn head(&self, files: &Files) -> io::Result<Option<Head>> {
        let head = self.read()?;
        if head.is_none() && self.file.metadata()?.len() == 0 && files.is_new()? {
            // Written first, so that a crash after the first line is not taken for a lost head.
            self.write_head(Head::START)?;
            return Ok(Some(Head::START));
        }
        Ok(head)
    }

    pub(super) fn write_head(&self, head: Head) -> io::Result<()> {
        self.file.write_all_at(&head.to_bytes(), 0)
    }
}

/// The head in an open file; none when it is not one.
pub(super) fn read_head(file: &File) -> io::Result<Option<Head>> {
    let mut bytes = [0; 512];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(Head::read(&bytes[..read]))
}

/// Tries for a lock of a file until it is had or patience ends; whoever holds it can see that.
pub(super) fn wait(
    begun: Instant,
    file: &File,
    lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> io::Result<()> {
    let mut pause = Duration::from_micros(50);
    let mut waiting = None;
    loop {
        match lock(file) {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => {
                let message = format!("another writer has held it for {} seconds", PATIENCE.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, message));
            }
            Err(TryLockError::WouldBlock) => {
                waiting.get_or_insert_with(|| Waiting::at(file));
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE);
            }
        }
    }
}

/// What tells one file from another.
pub(super) fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}
