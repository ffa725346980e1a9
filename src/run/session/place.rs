//! Where sessions keep their state: a directory for each below the user's run-time directory, nobody else's.
//!
//! A supervisor holds the lock of its directory for as long as it lives, so that whoever can take the lock knows
//! that what is there is stale.
//! Invariant: nothing is read, removed or connected to through a link, or in a directory others can enter.

use sbx_platform::own::{PrivateDir, is_own};
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const SOCKET: &str = "socket";
const DIRECTORY: &str = "directory";
/// How a session's private directory is called, before its random part.
const PREFIX: &str = "sbx-session-";
/// How often a directory that is being removed is tried again.
const ATTEMPTS: usize = 20;

/// Why a session cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// It is not a name.
    #[error(
        "`{0}` is not a session's name: 1 to 64 letters, digits, `_`, `-` and `.`, not starting with a dot"
    )]
    Name(String),
    /// The place for state is not the user's own.
    #[error("{} is not a directory of yours that nobody else can write to", .0.display())]
    Runtime(PathBuf),
    /// State cannot be kept or read.
    #[error("cannot use {}", path.display())]
    State {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The supervisor cannot be started or does not answer.
    #[error("the session's supervisor {what}")]
    Supervisor {
        /// What it does not do.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// There is no such session.
    #[error("there is no session `{0}`")]
    None(String),
}

/// Whether a text can name a session.
#[must_use]
pub fn is_session_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=64).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(plain)
}

/// Where sbx keeps run-time state.
fn runtime() -> Result<PrivateDir, SessionError> {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = |path: PathBuf| move |source| SessionError::State { path, source };
    let dir = match given {
        Some(base) => {
            // A shared directory would let others plant a session before its owner comes.
            if !is_own(&base).unwrap_or(false) {
                return Err(SessionError::Runtime(base));
            }
            base.join("sbx")
        }
        None => std::env::temp_dir().join(format!("sbx-{}", sbx_platform::ids().0)),
    };
    PrivateDir::make(&dir).map_err(state(dir.clone()))
}

fn all() -> Result<PrivateDir, SessionError> {
    let runtime = runtime()?;
    let path = runtime.path().join("sessions");
    runtime.child("sessions").map_err(|source| SessionError::State { path, source })
}

/// The directory of one session's state.
#[derive(Debug)]
pub struct SessionPlace {
    id: String,
    all: PrivateDir,
    dir: PrivateDir,
}

impl SessionPlace {
    /// The place of a session, made where there is none.
    ///
    /// # Errors
    /// When the name is none, or the place is not the user's own.
    pub fn open(id: &str) -> Result<Self, SessionError> {
        if !is_session_id(id) {
            return Err(SessionError::Name(id.to_owned()));
        }
        let all = all()?;
        let path = all.path().join(id);
        let dir = all.child(id).map_err(|source| SessionError::State { path, source })?;
        Ok(Self { id: id.to_owned(), all, dir })
    }

    /// The session's name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where its supervisor listens; good while this value lives.
    #[must_use]
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.at(SOCKET)
    }

    fn failure(&self, source: io::Error) -> SessionError {
        SessionError::State { path: self.dir.path().to_path_buf(), source }
    }

    /// Takes the session over; none when a supervisor has it.
    pub(super) fn take(self) -> Result<Option<Taken>, SessionError> {
        let lock = match self.lock() {
            Ok(Some(lock)) => lock,
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.failure(error)),
        };
        let taken = Taken { place: self, _lock: lock };
        taken.clear();
        Ok(Some(taken))
    }

    /// The lock, if it is free and still the one by that name.
    fn lock(&self) -> io::Result<Option<File>> {
        for _ in 0..ATTEMPTS {
            let path = self.dir.at(LOCK);
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let held = file.metadata()?;
            // Whoever removed the session meanwhile has removed this lock with it.
            if std::fs::symlink_metadata(&path)
                .is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()))
            {
                return Ok(Some(file));
            }
        }
        Err(io::Error::other("it is being removed again and again"))
    }
}

/// A session's place, held by whoever supervises it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) place: SessionPlace,
    _lock: File,
}

impl Taken {
    /// Removes what a supervisor that died has left.
    fn clear(&self) {
        let dir = &self.place.dir;
        if let Ok(file) = File::open(dir.at(DIRECTORY)) {
            let mut text = String::new();
            if file.take(4096).read_to_string(&mut text).is_ok() {
                remove_session_dir(Path::new(text.trim_end()));
            }
        }
        for name in [SOCKET, DIRECTORY] {
            let _ = std::fs::remove_file(dir.at(name));
        }
    }

    /// Remembers the session's private directory, so that it is removed even when its supervisor is killed.
    pub(super) fn remember(&self, session_dir: &Path) -> io::Result<()> {
        std::fs::write(self.place.dir.at(DIRECTORY), session_dir.as_os_str().as_encoded_bytes())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.clear();
        // The lock goes last: until then nobody else can have begun here.
        let _ = std::fs::remove_file(self.place.dir.at(LOCK));
        let _ = std::fs::remove_dir(self.place.all.at(&self.place.id));
    }
}

/// Every session that lives and can be reached, by name; what dead ones left is removed.
///
/// # Errors
/// When the place for state is not the user's own.
pub fn sessions() -> Result<Vec<String>, SessionError> {
    let all = all()?;
    let path = all.path().to_path_buf();
    let entries = std::fs::read_dir(all.at(".")).map_err(|source| SessionError::State { path, source })?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut alive = Vec::new();
    for name in names.filter(|name| is_session_id(name)) {
        let Ok(place) = SessionPlace::open(&name) else { continue };
        let listens = std::fs::symlink_metadata(place.socket()).is_ok();
        // Dropping what was taken removes it.
        if let Ok(None) = place.take()
            && listens
        {
            alive.push(name);
        }
    }
    alive.sort();
    Ok(alive)
}

/// Removes what dead sessions left; nothing is said when there is no place for state.
pub fn sweep() {
    let _ = sessions();
}

/// A private directory with a name nobody can guess, removed when it is let go of.
#[derive(Debug)]
pub struct SessionDir {
    path: PathBuf,
}

impl SessionDir {
    /// Makes one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make() -> io::Result<Self> {
        let base = sbx_platform::path::resolve(&std::env::temp_dir())?;
        for _ in 0..ATTEMPTS {
            let path = base.join(format!("{PREFIX}{}", random()?));
            match PrivateDir::make_new(&path) {
                Ok(_) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("no free name was found"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SessionDir {
    fn drop(&mut self) {
        remove_session_dir(&self.path);
    }
}

/// Removes a directory that [`SessionDir::make`] made, and nothing else.
fn remove_session_dir(path: &Path) {
    let named = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
    if path.is_absolute() && named && PrivateDir::open(path).is_ok() {
        sbx_platform::walk::remove_tree(path);
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
