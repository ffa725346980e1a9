//! Which records of a project the user has looked at and trusts.
//!
//! A cloned repository must not grant itself anything: its records are refused until their hash is
//! stored here, and again after every change.

use super::load::{LoadError, read_source};
use super::write::{WriteError, create, rewrite};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The stored hashes, one line a record: hash, blank, path.
#[derive(Clone, Debug)]
pub struct TrustStore {
    file: PathBuf,
}

/// The hash by which a text is trusted.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    let mut hex = String::from("sha256:");
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

impl TrustStore {
    /// The store below a configuration directory.
    #[must_use]
    pub fn in_dir(config_dir: &Path) -> Self {
        Self { file: config_dir.join("trusted") }
    }

    /// Whether a record is trusted as it is now.
    ///
    /// # Errors
    /// When the store exists but cannot be read.
    pub fn trusts(&self, path: &Path, text: &str) -> Result<bool, LoadError> {
        if !self.file.exists() {
            return Ok(false);
        }
        let line = line(path, text);
        Ok(read_source(&self.file)?.text().lines().any(|stored| stored == line))
    }

    /// Trusts a record as it is now, in place of what it was before.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn trust(&self, path: &Path, text: &str) -> Result<(), WriteError<std::convert::Infallible>> {
        if !self.file.exists() {
            create(&self.file, "")
                .or_else(|error| if self.file.exists() { Ok(()) } else { Err(error) })
                .map_err(|source| WriteError::Io { op: "create", path: self.file.clone(), source })?;
        }
        rewrite(&self.file, |source| {
            let suffix = format!("  {}", escaped(path));
            let kept = source.text().lines().filter(|stored| !stored.ends_with(&suffix));
            let mut lines: Vec<String> = kept.map(str::to_owned).collect();
            lines.push(line(path, text));
            Ok(Some(lines.join("\n") + "\n"))
        })
        .map(drop)
    }
}

fn line(path: &Path, text: &str) -> String {
    format!("{}  {}", fingerprint(text), escaped(path))
}

/// A path as one word of printable ASCII, whatever its name holds: a line is a record, and only one.
fn escaped(path: &Path) -> String {
    let mut word = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'%' | 0..=b' ' | 0x7f.. => {
                let _ = write!(word, "%{byte:02X}");
            }
            byte => word.push(char::from(*byte)),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_add_a_line() {
        let evil = Path::new("/p/n\nsha256:0  /evil.md/.sbx/agents/a.md");
        assert_eq!(line(evil, "x").lines().count(), 1);
        assert!(!line(evil, "x").contains("  /evil"));
    }
}
