//! Reaching what a task is about, and knowing that it is what was decided on.

use super::Stop;
use super::wire::Seen;
use crate::hands::fault::{Fault, FaultCode};
use sbx_platform::walk::{Dir, Kind, Looked, Purpose, look, met_a_link};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

/// A name in a directory that is held.
#[derive(Debug)]
pub(super) struct Spot<'p> {
    pub(super) dir: Dir,
    pub(super) name: &'p OsStr,
    pub(super) path: &'p Path,
    /// What stands there.
    pub(super) there: Option<Looked>,
}

/// What the system said, about a path.
pub(super) fn said(operation: &str, path: &Path, error: &io::Error) -> Fault {
    use io::ErrorKind as K;
    let code = match error.kind() {
        K::NotFound => FaultCode::NotFound,
        K::PermissionDenied | K::ReadOnlyFilesystem => FaultCode::Refused,
        K::AlreadyExists => FaultCode::Exists,
        K::NotADirectory | K::IsADirectory | K::DirectoryNotEmpty => FaultCode::WrongKind,
        _ => FaultCode::Failed,
    };
    Fault::new(code, format!("cannot {operation} {}: {}", path.display(), plainly(error)))
}

/// An error without the system's number for it.
fn plainly(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => return "there is nothing there".to_owned(),
        io::ErrorKind::AlreadyExists => return "there is something already".to_owned(),
        _ => {}
    }
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let mut plain = text[..end].to_owned();
    if let Some(first) = plain.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    plain
}

/// The directory at a path; a link in its way means that it is not what was decided on.
pub(super) fn directory(operation: &str, path: &Path) -> Result<Dir, Stop> {
    Dir::at(path).map_err(|error| match met_a_link(&error) {
        // Links were followed before the path was decided on, so one that stands there now is new.
        true => Stop::Other,
        false => said(operation, path, &error).into(),
    })
}

impl<'p> Spot<'p> {
    /// Holds the directory of a path, and checks that what stands there is what was seen.
    pub(super) fn reach(operation: &str, path: &'p Path, seen: Seen) -> Result<Self, Stop> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Fault::new(FaultCode::WrongKind, format!("{} is not a file", path.display())).into());
        };
        let dir = directory(operation, parent)?;
        Self::in_dir(operation, dir, name, path, seen)
    }

    /// The same in a directory that is held already.
    pub(super) fn in_dir(
        operation: &str,
        dir: Dir,
        name: &'p OsStr,
        path: &'p Path,
        seen: Seen,
    ) -> Result<Self, Stop> {
        let there = match dir.look(name) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(said(operation, path, &error).into()),
        };
        if there.map(|there| there.identity) != seen.there {
            return Err(if there.is_some() { Stop::Other } else { Stop::Nothing });
        }
        // Where nothing stands, it is the directory that tells whether this view is out of date.
        if there.is_none() && seen.within.is_some() {
            let itself = dir.itself().map_err(|error| said(operation, path, &error))?;
            if Some(itself.identity) != seen.within {
                return Err(Stop::Nothing);
            }
        }
        Ok(Self { dir, name, path, there })
    }

    /// Opens a regular file that stands there; anything else is refused before it is opened.
    pub(super) fn open(&self, operation: &str, purpose: Purpose) -> Result<(File, Looked), Stop> {
        let missing = || {
            let error = io::Error::from(io::ErrorKind::NotFound);
            said(operation, self.path, &error)
        };
        let there = self.there.ok_or_else(missing)?;
        if there.kind != Kind::File {
            let what = match there.kind {
                Kind::Directory => "a directory",
                Kind::Link => return Err(Stop::Other),
                Kind::File | Kind::Other => "a pipe, a socket or a device",
            };
            let message = format!("cannot {operation} {}: it is {what}", self.path.display());
            return Err(Fault::new(FaultCode::WrongKind, message).into());
        }
        let file = self.dir.open(self.name, purpose).map_err(|error| said(operation, self.path, &error))?;
        let opened = look(&file).map_err(|error| said(operation, self.path, &error))?;
        // It may have been exchanged since it was looked at.
        if opened.identity != there.identity || opened.kind != Kind::File {
            return Err(Stop::Other);
        }
        Ok((file, opened))
    }
}
