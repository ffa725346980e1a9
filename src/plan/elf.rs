//! What a program is made of: its loader, its libraries, or the interpreter its first line names.
//!
//! Reads only what it needs of ELF files, bounded; a file that is not understood needs nothing.

use super::host::Host;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the loader looks when a program says nothing else.
const LIBRARY_DIRS: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];
/// The most files one program is made of.
const MAX_FILES: usize = 512;

/// The files a program needs, links followed: those executed and those loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// The program, its loader, its interpreter.
    pub(super) executed: BTreeSet<PathBuf>,
    /// Libraries.
    pub(super) loaded: BTreeSet<PathBuf>,
}

impl Parts {
    /// Adds everything a program needs.
    pub(super) fn add_program(&mut self, program: &Path, host: &dyn Host) {
        let Some(program) = host.real(program) else { return };
        if !self.executed.insert(program.clone()) {
            return;
        }
        let Some(start) = host.read(&program, 0, 4096) else { return };
        if let Some(line) = start.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
            let interpreter = words.next().and_then(|word| std::str::from_utf8(word).ok()).map(PathBuf::from);
            interpreter.iter().for_each(|interpreter| self.add_program(interpreter, host));
            return;
        }
        let Some(object) = Object::read(&program, &start, host) else { return };
        if let Some(loader) = object.interpreter.as_deref().and_then(|loader| host.real(loader)) {
            self.executed.insert(loader.clone());
            self.loaded.insert(loader);
        }
        self.add_libraries(&program, object, host);
    }

    fn add_libraries(&mut self, program: &Path, object: Object, host: &dyn Host) {
        let mut pending = vec![(program.to_path_buf(), object)];
        while let Some((owner, object)) = pending.pop() {
            for name in &object.needed {
                let Some(found) = find(name, &owner, &object.search, host) else { continue };
                if self.loaded.len() >= MAX_FILES || !self.loaded.insert(found.clone()) {
                    continue;
                }
                if let Some(start) = host.read(&found, 0, 4096)
                    && let Some(object) = Object::read(&found, &start, host)
                {
                    pending.push((found, object));
                }
            }
        }
    }
}

fn find(name: &str, owner: &Path, search: &[String], host: &dyn Host) -> Option<PathBuf> {
    if name.contains('/') {
        return host.real(Path::new(name));
    }
    let origin = owner.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let own = search.iter().map(|dir| dir.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin));
    let usual = LIBRARY_DIRS.iter().map(|dir| (*dir).to_owned());
    own.chain(usual).find_map(|dir| host.real(&Path::new(&dir).join(name)))
}

/// The parts of an ELF file that say what else it needs.
#[derive(Debug, Default)]
struct Object {
    interpreter: Option<PathBuf>,
    needed: Vec<String>,
    search: Vec<String>,
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl Object {
    /// Reads a 64-bit little-endian ELF file.
    fn read(path: &Path, start: &[u8], host: &dyn Host) -> Option<Self> {
        if start.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let segments = segments(path, start, host)?;
        let bytes = |segment: &Segment, most: u64| {
            host.read(path, segment.offset, usize::try_from(segment.size.min(most)).ok()?)
        };
        let of_kind = |kind| segments.iter().find(|segment| segment.kind == kind);
        let interpreter =
            of_kind(PT_INTERP).and_then(|segment| bytes(segment, 4096)).and_then(|text| c_string(&text, 0));
        let mut object = Self { interpreter: interpreter.map(PathBuf::from), ..Self::default() };
        let Some(dynamic) = of_kind(PT_DYNAMIC).and_then(|segment| bytes(segment, 1 << 16)) else {
            return Some(object);
        };
        let entries: Vec<(u64, u64)> = dynamic
            .chunks_exact(16)
            .map(|entry| (number(entry, 0), number(entry, 8)))
            .take_while(|(tag, _)| *tag != 0)
            .collect();
        let table = entries.iter().find(|(tag, _)| *tag == DT_STRTAB).map(|(_, address)| *address)?;
        let home = segments
            .iter()
            .find(|s| s.kind == PT_LOAD && (s.address..s.address.saturating_add(s.size)).contains(&table))?;
        let strings = host.read(path, home.offset + (table - home.address), 1 << 20)?;
        for (tag, offset) in entries {
            let text = usize::try_from(offset).ok().and_then(|offset| c_string(&strings, offset));
            match (tag, text) {
                (DT_NEEDED, Some(name)) => object.needed.push(name),
                (DT_RPATH | DT_RUNPATH, Some(dirs)) => {
                    object.search.extend(dirs.split(':').map(str::to_owned))
                }
                _ => {}
            }
        }
        Some(object)
    }
}

fn segments(path: &Path, start: &[u8], host: &dyn Host) -> Option<Vec<Segment>> {
    let header = start.get(..64)?;
    let offset = number(header, 32);
    let size = usize::from(u16::from_le_bytes([header[54], header[55]]));
    let count = usize::from(u16::from_le_bytes([header[56], header[57]])).min(128);
    if size < 56 {
        return None;
    }
    let table = host.read(path, offset, size * count)?;
    let segment = |entry: &[u8]| Segment {
        kind: u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]),
        offset: number(entry, 8),
        address: number(entry, 16),
        size: number(entry, 32),
    };
    Some(table.chunks_exact(size).map(segment).collect())
}

/// Eight bytes as a number; nothing there is zero.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn c_string(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok().map(str::to_owned)
}
