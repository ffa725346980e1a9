//! Reads the text of a record or of the configuration from disk.

use crate::text::{Code, Problem, Source};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// No record or configuration is larger than this.
pub const MAX_BYTES: usize = 256 * 1024;

/// Why a file could not be read as text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file system said no.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// It is not a file that holds a record.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// Which one.
        path: PathBuf,
    },
    /// It is larger than any record.
    #[error("{} is larger than {} kB", path.display(), most / 1024)]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// How many bytes it may have.
        most: usize,
    },
    /// It is not text.
    #[error("{} is not UTF-8 text (byte {at})", path.display())]
    NotText {
        /// Which file.
        path: PathBuf,
        /// Where the first bad byte stands.
        at: usize,
    },
}

/// Reads a file, bounded, as text named by its path.
///
/// # Errors
/// When it cannot be read, is no regular file, is too large, or is not UTF-8.
pub fn read_source(path: &Path) -> Result<Source, LoadError> {
    read_bounded(path, MAX_BYTES)
}

/// The same for files that are not sbx's own and may be larger.
pub(crate) fn read_bounded(path: &Path, most: usize) -> Result<Source, LoadError> {
    let read = |source| LoadError::Read { path: path.to_path_buf(), source };
    // A FIFO would block on open; look first, and look again at what was opened.
    let not_a_file = || LoadError::NotAFile { path: path.to_path_buf() };
    if !std::fs::metadata(path).map_err(read)?.is_file() {
        return Err(not_a_file());
    }
    let file = File::open(path).map_err(read)?;
    let opened = file.metadata().map_err(read)?;
    if !opened.is_file() {
        return Err(not_a_file());
    }
    // Room for all of it at once, and for finding that this is all.
    let mut bytes = Vec::with_capacity(usize::try_from(opened.len()).unwrap_or(most).min(most) + 1);
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() > most {
        return Err(LoadError::TooLarge { path: path.to_path_buf(), most });
    }
    let text = String::from_utf8(bytes).map_err(|error| LoadError::NotText {
        path: path.to_path_buf(),
        at: error.utf8_error().valid_up_to(),
    })?;
    Ok(Source::new(path.display().to_string(), text))
}

pub(super) fn too_large(bytes: u64) -> Problem {
    Problem::error(Code::Yaml, format!("the record has {bytes} bytes; the most is {MAX_BYTES}"))
}
