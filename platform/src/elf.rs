//! What a program needs beside itself: its loader and libraries, or its interpreter.
//!
//! Answers for reading ELF files and `#!` lines and for finding libraries where the loader would, so that a
//! caller can show a program and nothing else. Libraries a program opens by itself while it runs are not found.
//! It leaves what to show to the caller.
//! Invariant: nothing is executed to find out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Interpreters and libraries followed for one program.
const MOST: usize = 512;
/// The longest name of a file or list of directories.
const LONGEST: usize = 4096;
/// Largest program header table and string table looked at.
const LARGEST: u64 = 16 << 20;

/// Why a file is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It is executed: the program, its loader, a script's interpreter.
    Executed,
    /// It is mapped: a library.
    Mapped,
}

/// One file a program needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// Where it is looked for, directories resolved.
    pub path: PathBuf,
    /// The file itself, all links resolved.
    pub file: PathBuf,
    /// Why it is needed.
    pub role: Role,
}

/// Everything `program` needs, itself included.
///
/// # Errors
/// When the program, or something it names, cannot be read or found.
pub fn closure(program: &Path) -> io::Result<Vec<Needed>> {
    let mut found = BTreeSet::new();
    let mut pending = vec![(program.to_owned(), Role::Executed)];
    let shared = library_dirs();
    while let Some((path, role)) = pending.pop() {
        let needed = locate(&path, role)?;
        if found.contains(&needed) {
            continue;
        }
        let bytes = Image::open(&needed.file)?;
        for (word, role) in bytes.names()? {
            let own = needed.file.parent().unwrap_or(Path::new("/"));
            let path = match role {
                Role::Executed => word.into(),
                Role::Mapped => library(&word, &bytes.run_path(own)?, &shared)?,
            };
            pending.push((path, role));
        }
        found.insert(needed);
        if found.len() > MOST {
            return Err(io::Error::other(format!("{} needs too many files", program.display())));
        }
    }
    Ok(found.into_iter().collect())
}

fn locate(path: &Path, role: Role) -> io::Result<Needed> {
    let file = fs::canonicalize(path)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = fs::canonicalize(path.parent().unwrap_or(Path::new("/")))?;
    Ok(Needed { path: dir.join(name), file, role })
}

fn library(name: &str, own: &[PathBuf], shared: &[PathBuf]) -> io::Result<PathBuf> {
    if name.contains('/') {
        return Ok(name.into());
    }
    let mut candidates = own.iter().chain(shared).map(|dir| dir.join(name));
    candidates
        .find(|path| path.exists())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("library {name} is not found")))
}

/// Where the loader looks when a program says nothing: configured directories, then the fixed ones.
fn library_dirs() -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    if let Ok(entries) = fs::read_dir("/etc/ld.so.conf.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files[1..].sort();
    for file in files {
        let text = fs::read_to_string(file).unwrap_or_default();
        dirs.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    dirs.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    dirs
}

/// A file of which little is read: its beginning, and its tables if it is an ELF file.
struct Image {
    bytes: Vec<u8>,
    file: Option<fs::File>,
}

/// What is read at once: nearly always all that is needed.
const BEGINNING: u64 = 64 << 10;

impl Image {
    fn open(path: &Path) -> io::Result<Self> {
        let file = fs::File::open(path)?;
        if file.metadata()?.len() > LARGEST * 64 {
            return Err(io::Error::other(format!("{} is too large", path.display())));
        }
        let mut bytes = Vec::new();
        (&file).take(BEGINNING).read_to_end(&mut bytes)?;
        Ok(Self { bytes, file: Some(file) })
    }

    /// Up to `size` bytes from `offset` on; fewer at the end.
    fn part(&self, offset: u64, size: usize) -> io::Result<Cow<'_, [u8]>> {
        let start = usize::try_from(offset).map_err(|_| broken())?;
        let end = start.checked_add(size).ok_or_else(broken)?;
        match (&self.file, self.bytes.get(start..end)) {
            (_, Some(bytes)) => Ok(Cow::Borrowed(bytes)),
            (None, None) => Ok(Cow::Borrowed(self.bytes.get(start..).unwrap_or_default())),
            (Some(file), None) => {
                let mut bytes = vec![0; size];
                let mut read = 0;
                while read < size {
                    match file.read_at(&mut bytes[read..], offset + read as u64)? {
                        0 => break,
                        more => read += more,
                    }
                }
                bytes.truncate(read);
                Ok(Cow::Owned(bytes))
            }
        }
    }

    fn is_elf(&self) -> bool {
        self.bytes.starts_with(b"\x7fELF\x02\x01")
    }

    /// What this file names: an interpreter, or a loader and libraries.
    fn names(&self) -> io::Result<Vec<(String, Role)>> {
        if let Some(line) = self.bytes.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let text = String::from_utf8_lossy(&line[..line.len().min(256)]).into_owned();
            let word = text.split_whitespace().next().map(str::to_owned);
            return Ok(word.map(|word| (word, Role::Executed)).into_iter().collect());
        }
        if !self.is_elf() {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        if let Some((offset, size)) = self.segment(3)? {
            names.push((self.text(offset, size)?, Role::Executed));
        }
        for name in self.dynamic(1)? {
            names.push((name, Role::Mapped));
        }
        Ok(names)
    }

    /// Directories this file itself wants searched.
    fn run_path(&self, own: &Path) -> io::Result<Vec<PathBuf>> {
        let mut dirs = Vec::new();
        for list in self.dynamic(29)?.into_iter().chain(self.dynamic(15)?) {
            let own = own.to_string_lossy();
            dirs.extend(
                list.split(':')
                    .map(|dir| PathBuf::from(dir.replace("${ORIGIN}", &own).replace("$ORIGIN", &own))),
            );
        }
        Ok(dirs)
    }

    fn number(&self, offset: u64, size: usize) -> io::Result<u64> {
        let bytes = self.part(offset, size)?;
        let mut wide = [0; 8];
        wide.get_mut(..size).filter(|_| bytes.len() == size).ok_or_else(broken)?.copy_from_slice(&bytes);
        Ok(u64::from_le_bytes(wide))
    }

    /// Offset and size of the first segment of `kind`.
    fn segment(&self, kind: u64) -> io::Result<Option<(u64, u64)>> {
        Ok(self.segments()?.into_iter().find(|segment| segment.0 == kind).map(|(_, at, _, size)| (at, size)))
    }

    /// Kind, offset, address and size of every segment.
    fn segments(&self) -> io::Result<Vec<(u64, u64, u64, u64)>> {
        let (table, size, count) = (self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?);
        (0..count)
            .map(|index| {
                let at = table.saturating_add(index * size);
                let part = |offset: u64| self.number(at.saturating_add(offset), 8);
                Ok((self.number(at, 4)?, part(8)?, part(16)?, part(32)?))
            })
            .collect()
    }

    /// The strings of every dynamic entry with `tag`.
    fn dynamic(&self, tag: u64) -> io::Result<Vec<String>> {
        if !self.is_elf() {
            return Ok(Vec::new());
        }
        let Some((offset, size)) = self.segment(2)? else { return Ok(Vec::new()) };
        let entries: Vec<(u64, u64)> = (0..(size / 16).min(4096))
            .map(|index| {
                Ok((
                    self.number(offset.saturating_add(index * 16), 8)?,
                    self.number(offset.saturating_add(index * 16 + 8), 8)?,
                ))
            })
            .collect::<io::Result<_>>()?;
        let Some((_, address)) = entries.iter().find(|(kind, _)| *kind == 5) else { return Ok(Vec::new()) };
        let holds = |(kind, _, start, size): &&(u64, u64, u64, u64)| {
            *kind == 1 && (*start..start.saturating_add(*size)).contains(address)
        };
        let segments = self.segments()?;
        let (_, at, start, _) = segments.iter().find(holds).ok_or_else(broken)?;
        let strings = at.saturating_add(address - start);
        let wanted = entries.iter().take_while(|(kind, _)| *kind != 0).filter(|(kind, _)| *kind == tag);
        wanted.map(|(_, name)| self.text(strings.saturating_add(*name), 4096)).collect()
    }

    /// The string at `offset`, at most `size` bytes long.
    fn text(&self, offset: u64, size: u64) -> io::Result<String> {
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(LONGEST);
        let bytes = self.part(offset, size)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        OsStr::from_bytes(text).to_str().map(str::to_owned).ok_or_else(broken)
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file is not a well-formed ELF file")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_needs_a_loader_and_the_c_library() {
        let needed = closure(Path::new("/usr/bin/true")).unwrap();
        let names: Vec<_> = needed.iter().map(|each| each.path.display().to_string()).collect();
        assert!(names.iter().any(|name| name.contains("ld-linux") || name.contains("ld-musl")), "{names:?}");
        assert!(needed.iter().any(|each| each.role == Role::Mapped), "{names:?}");
    }

    #[test]
    fn a_script_needs_its_interpreter() {
        let dir = std::env::temp_dir().join(format!("sbx-elf-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("script"), "#!/bin/sh -e\n").unwrap();
        let needed = closure(&dir.join("script")).unwrap();
        assert!(needed.iter().any(|each| each.file == fs::canonicalize("/bin/sh").unwrap()));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn garbage_is_an_error_or_needs_nothing() {
        for bytes in [&b"\x7fELF\x02\x01"[..], b"", b"#!", b"\x7fELF\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
            let image = Image { bytes: bytes.to_vec(), file: None };
            let _ = image.names();
            let _ = image.run_path(Path::new("/"));
        }
    }
}
