//! Reading, deleting and listing.

use super::look::{Spot, directory, said};
use super::wire::{Part, Place, Seen};
use super::{Outcome, Stop};
use crate::hands::fault::{Fault, FaultCode};
use sbx_platform::walk::{Kind, Looked, Purpose};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// The most bytes one answer carries of a file.
pub(crate) const MOST_READ: u64 = 4 << 20;
/// The most bytes that are gone through to find a line.
const MOST_SCANNED: u64 = 1 << 30;

/// The content of a file, or of a part of it.
pub(super) fn read(path: &Path, seen: Seen, part: Part) -> Outcome {
    let spot = Spot::reach("read", path, seen)?;
    let (mut file, looked) = spot.open("read", Purpose::Read)?;
    let failed = |error: io::Error| Stop::from(said("read", path, &error));
    let (content, whole) = match part {
        Part::Whole if looked.size > MOST_READ => return Err(too_large(path, looked.size).into()),
        Part::Whole => (bytes(&mut file, 0, MOST_READ + 1).map_err(failed)?, true),
        Part::Bytes(from, count) => {
            let content = bytes(&mut file, from, count.min(MOST_READ + 1)).map_err(failed)?;
            let whole = from == 0 && content.len() as u64 >= looked.size;
            (content, whole)
        }
        Part::Lines(first, count) => lines(file, first, count).map_err(failed)?,
    };
    // The file may have grown since its size was asked.
    if content.len() as u64 > MOST_READ {
        return Err(too_large(path, looked.size).into());
    }
    Ok((json!({ "size": looked.size, "whole": whole, "mode": looked.mode & 0o777 }), content))
}

fn too_large(path: &Path, size: u64) -> Fault {
    let most = MOST_READ >> 20;
    let message =
        format!("cannot read {} at once: {size} bytes, and one answer holds {most} MiB", path.display());
    Fault::new(FaultCode::TooLarge, message)
}

fn bytes(file: &mut File, from: u64, count: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut content = Vec::new();
    file.take(count).read_to_end(&mut content)?;
    Ok(content)
}

/// Some lines, their ends included, and whether that is all there is.
fn lines(file: File, first: u64, count: u64) -> io::Result<(Vec<u8>, bool)> {
    let mut reader = BufReader::with_capacity(64 << 10, file.take(MOST_SCANNED));
    let mut skipped = 1;
    while skipped < first && reader.skip_until(b'\n')? > 0 {
        skipped += 1;
    }
    let mut content = Vec::new();
    for _ in 0..count {
        let room = (MOST_READ + 1).saturating_sub(content.len() as u64);
        if room == 0 || reader.by_ref().take(room).read_until(b'\n', &mut content)? == 0 {
            break;
        }
    }
    let at_end = reader.fill_buf()?.is_empty();
    Ok((content, first <= 1 && at_end))
}

/// Takes a file, a link or an empty directory away.
pub(super) fn delete(path: &Path, seen: Seen, as_directory: bool) -> Outcome {
    let spot = Spot::reach("delete", path, seen)?;
    let Some(there) = spot.there else {
        return Err(said("delete", path, &io::Error::from(io::ErrorKind::NotFound)).into());
    };
    if (there.kind == Kind::Directory) != as_directory {
        let is = if as_directory { "not a directory" } else { "a directory" };
        let message = format!("cannot delete {}: it is {is}", path.display());
        return Err(Fault::new(FaultCode::WrongKind, message).into());
    }
    spot.dir.remove(spot.name, there.kind).map_err(|error| said("delete", path, &error))?;
    Ok((json!({ "kind": kind(there.kind) }), Vec::new()))
}

/// The names in a directory, with what they are.
pub(super) fn list(path: &Path, seen: Seen, most: usize) -> Outcome {
    let dir = directory("list", path)?;
    let itself = dir.itself().map_err(|error| said("list", path, &error))?;
    if seen.there != Some(itself.identity) {
        return Err(Stop::Other);
    }
    let mut names: Vec<OsString> = Vec::new();
    let mut more = false;
    dir.names(|name| {
        more = names.len() >= most;
        if !more {
            names.push(name);
        }
        !more
    })
    .map_err(|error| said("list", path, &error))?;
    names.sort();
    let entry = |name: OsString| {
        let looked = dir.look(&name).ok();
        json!({
            "name": Place(name.into()),
            "kind": looked.map(|looked| kind(looked.kind)),
            "size": looked.filter(is_file).map(|looked| looked.size),
            "modified": looked.map(|looked| looked.changed),
        })
    };
    let entries: Vec<_> = names.into_iter().map(entry).collect();
    Ok((json!({ "entries": entries, "truncated": more }), Vec::new()))
}

fn is_file(looked: &Looked) -> bool {
    looked.kind == Kind::File
}

pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Other => "other",
    }
}
