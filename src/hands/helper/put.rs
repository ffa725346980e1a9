//! Putting content where a file stands or is to stand.
//!
//! A new file appears with all its content. One that stands is replaced as a whole where names may be taken away and
//! nothing would be lost by it; else it is written over.
//! Invariant: a name that was not there before and is not the file's own is gone when this returns.

use super::look::{Spot, said};
use super::wire::{Existing, Seen};
use super::{Outcome, Stop};
use crate::hands::fault::{Fault, FaultCode};
use sbx_platform::walk::{Dir, Kind, Looked, Purpose, look};
use serde_json::json;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The most directories that are made above a file.
const MOST_PARENTS: usize = 32;

/// Writes a file.
pub(super) fn write(
    path: &Path,
    seen: Seen,
    existing: Existing,
    parents: bool,
    replace: bool,
    content: &[u8],
) -> Outcome {
    if parents && let Some(parent) = path.parent() {
        make_parents(parent)?;
    }
    let spot = Spot::reach("write", path, seen)?;
    match (existing, spot.there) {
        (Existing::New, Some(_)) => {
            return Err(said("write", path, &io::Error::from(io::ErrorKind::AlreadyExists)).into());
        }
        (Existing::Old, None) => {
            return Err(said("write", path, &io::Error::from(io::ErrorKind::NotFound)).into());
        }
        _ => {}
    }
    let created = spot.there.is_none();
    let atomic = put(&spot, replace, content)?;
    Ok((json!({ "created": created, "bytes": content.len(), "atomic": atomic }), Vec::new()))
}

/// Makes the directories that are missing at the end of a path.
fn make_parents(path: &Path) -> Result<(), Stop> {
    let mut missing = Vec::new();
    let mut at = path;
    let mut dir = loop {
        match Dir::at(at) {
            Ok(dir) => break dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing.len() < MOST_PARENTS => {
                let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
                    return Err(said("make", path, &error).into());
                };
                missing.push(name);
                at = parent;
            }
            Err(_) => super::look::directory("make", at).map(drop)?,
        }
    };
    for name in missing.into_iter().rev() {
        match dir.make(name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(said("make the directory", path, &error).into());
            }
            _ => dir = dir.child(name).map_err(|error| said("make", path, &error))?,
        }
    }
    Ok(())
}

/// Puts content at a spot; answers whether whoever looks sees either the old or the new, and nothing between.
pub(super) fn put(spot: &Spot<'_>, replace: bool, content: &[u8]) -> Result<bool, Stop> {
    let Some(there) = spot.there else { return create(spot, content) };
    let (mut file, _) = spot.open("write", Purpose::Write)?;
    if replace {
        if replaced(spot, there, content)? {
            return Ok(true);
        }
        // Opened anew: nothing could be replaced either once whoever watches over names is gone, which is how a launch
        // that is killed ends, and then the file is not to be written over in its last moment.
        (file, _) = spot.open("write", Purpose::Write)?;
    }
    overwrite(file, content).map_err(|error| said("write", spot.path, &error))?;
    Ok(false)
}

/// A file that appears with its content.
fn create(spot: &Spot<'_>, content: &[u8]) -> Result<bool, Stop> {
    let failed = |error: io::Error| Stop::from(said("write", spot.path, &error));
    if let Ok(mut file) = spot.dir.unnamed() {
        file.write_all(content).map_err(failed)?;
        match spot.dir.name(&file, spot.name) {
            Ok(()) => return Ok(true),
            // Somebody else was first; what stands there was not decided on.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(Stop::Other),
            Err(_) => {}
        }
    }
    let mut file = match spot.dir.open(spot.name, Purpose::Make) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(Stop::Other),
        other => other.map_err(failed)?,
    };
    if let Err(error) = file.write_all(content) {
        // Half a file is worse than none, where it may be taken away again.
        let _ = spot.dir.remove(spot.name, Kind::File);
        return Err(failed(error));
    }
    Ok(false)
}

/// Puts another file with the same mode in the place of one that stands; `false` where that cannot be done.
fn replaced(spot: &Spot<'_>, there: Looked, content: &[u8]) -> Result<bool, Stop> {
    let failed = |error: io::Error| Stop::from(said("write", spot.path, &error));
    let Ok(mut file) = spot.dir.unnamed() else { return Ok(false) };
    // Another file would have neither the other names nor the owner of this one.
    let like = |own: Looked| there.links == 1 && there.owner == own.owner;
    if !look(&file).is_ok_and(like) {
        return Ok(false);
    }
    file.write_all(content).map_err(failed)?;
    if file.set_permissions(Permissions::from_mode(there.mode & 0o777)).is_err() {
        return Ok(false);
    }
    if !may_take(spot) {
        return Ok(false);
    }
    let aside = aside(spot);
    if spot.dir.name(&file, &aside).is_err() {
        return Ok(false);
    }
    // Only what was decided on is replaced, as far as a look can tell.
    let same = spot.dir.look(spot.name).is_ok_and(|now| now.identity == there.identity);
    let moved = same && spot.dir.rename(&aside, spot.name).is_ok();
    if !moved {
        spot.dir.remove(&aside, Kind::File).map_err(failed)?;
    }
    if same { Ok(moved) } else { Err(Stop::Other) }
}

/// Whether names may be taken away here, found out before there is one that would have to be: asked to take a file away
/// as a directory, the kernel checks the right first and then says that it is none.
fn may_take(spot: &Spot<'_>) -> bool {
    let asked = spot.dir.remove(spot.name, Kind::Directory);
    asked.is_err_and(|error| error.kind() == io::ErrorKind::NotADirectory)
}

/// A name for the moment between making a file and moving it into place.
fn aside(spot: &Spot<'_>) -> OsString {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mark = u64::from(time.subsec_nanos()) ^ (u64::from(std::process::id()) << 32) ^ time.as_secs();
    let mut name = OsString::from(format!(".sbx-{mark:x}-"));
    let shown: String = spot.name.to_string_lossy().chars().take(40).collect();
    name.push(shown);
    name
}

fn overwrite(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.set_len(content.len() as u64)
}

/// The content of a file that is to be changed, with what it is.
pub(super) fn content_of(spot: &Spot<'_>, most: u64) -> Result<Vec<u8>, Stop> {
    use std::io::Read;
    let (file, looked) = spot.open("edit", Purpose::Read)?;
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content).map_err(|error| said("edit", spot.path, &error))?;
    if content.len() as u64 > most {
        let message = format!(
            "cannot edit {}: {} bytes, and {} MiB is the most",
            spot.path.display(),
            looked.size,
            most >> 20
        );
        return Err(Fault::new(FaultCode::TooLarge, message).into());
    }
    Ok(content)
}
