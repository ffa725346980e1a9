//! Paths as the kernel will see them.
//!
//! [`normalize`] is lexical and pure; [`resolve`] asks the file system and follows symbolic links,
//! stopping at the deepest part that exists, so that a path about to be created resolves too.
//! Invariant: both return absolute paths without `.` and `..`.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// How many symbolic links one resolution follows, as in the kernel.
const MAX_LINKS: usize = 40;

/// Removes `.`, `..` and doubled separators without looking at the file system.
///
/// A relative path is taken below `/`. A `..` at the root stays at the root, as in the kernel.
#[must_use]
pub fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// Whether a path goes up only before it goes down. A `..` behind a name leads elsewhere once that name is a link.
#[must_use]
pub fn climbs_first(path: &Path) -> bool {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    path.components().skip_while(|part| !is_name(part)).all(|part| is_name(&part))
}

/// Whether `path` is `root` or lies below it, component by component.
#[must_use]
pub fn within(path: &Path, root: &Path) -> bool {
    // Asked all the time, and nearly always of paths written one way only, where bytes tell.
    let (path_bytes, root_bytes) = (path.as_os_str().as_encoded_bytes(), root.as_os_str().as_encoded_bytes());
    if !is_plain(path_bytes) || !is_plain(root_bytes) {
        return path.starts_with(root);
    }
    match path_bytes.strip_prefix(root_bytes) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || root_bytes == b"/",
        None => false,
    }
}

/// Whether a path is absolute and written without anything that could be left out.
fn is_plain(path: &[u8]) -> bool {
    let doubtful = |pair: &[u8]| matches!(pair, b"//" | b"/.");
    path == b"/" || (path.first() == Some(&b'/') && !path.ends_with(b"/") && !path.windows(2).any(doubtful))
}

/// The most bytes that a path can have.
const LONGEST: usize = 4096;

/// Follows every symbolic link in `path`; what does not exist yet is taken as written.
///
/// # Errors
/// Fails with `ELOOP` semantics when more than 40 links are met, and with the file system's own
/// error when a part exists but cannot be examined.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    // No system takes a longer one, and every part of it would be asked about.
    if path.as_os_str().len() > LONGEST {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    follow(path).map(|(_, end)| end)
}

/// Where a path leads, every link followed; it must exist.
///
/// # Errors
/// The file system's own.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    if is_straight(path) { Ok(normalize(path)) } else { std::fs::canonicalize(path) }
}

/// Whether a path is known to exist and to have no link in it. One question to the kernel, in place of one for each
/// part; where it is not answered, the parts are looked at.
fn is_straight(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    return path.is_absolute() && crate::linux::is_straight(path);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        false
    }
}

/// The same, with every symbolic link on the way, each where it really lies.
///
/// # Errors
/// As [`resolve`].
pub fn follow(path: &Path) -> io::Result<(Vec<PathBuf>, PathBuf)> {
    if is_straight(path) {
        return Ok((Vec::new(), normalize(path)));
    }
    let mut pending: Vec<OsString> = parts_reversed(path);
    let mut done = PathBuf::from("/");
    let mut links = Vec::new();
    while let Some(name) = pending.pop() {
        if name == ".." {
            done.pop();
            continue;
        }
        done.push(&name);
        match std::fs::symlink_metadata(&done) {
            Ok(meta) if meta.file_type().is_symlink() => {
                if links.len() == MAX_LINKS {
                    return Err(io::Error::from_raw_os_error(ELOOP));
                }
                links.push(done.clone());
                let target = std::fs::read_link(&done)?;
                if target.is_absolute() {
                    done = PathBuf::from("/");
                } else {
                    done.pop();
                }
                pending.extend(parts_reversed(&target));
            }
            Ok(_) => {}
            Err(error) if is_absent(&error) => {
                done.extend(pending.drain(..).rev());
                return Ok((links, normalize(&done)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((links, done))
}

#[cfg(target_os = "linux")]
const ELOOP: i32 = 40;
#[cfg(not(target_os = "linux"))]
const ELOOP: i32 = 62;

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn parts_reversed(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<OsString> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lying_within_is_told_by_component_however_it_is_written() {
        let pieces =
            ["", "/", "/a", "/a/", "/a/b", "/ab", "//a", "/a//b", "/./a", "/a/.", "/a/.b", "/.b", "a", "a/b"];
        for path in pieces {
            for root in pieces {
                let (path, root) = (Path::new(path), Path::new(root));
                assert_eq!(within(path, root), path.starts_with(root), "{path:?} within {root:?}");
            }
        }
    }
    use std::os::unix::fs::symlink;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("sbx-path-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::canonicalize(dir).unwrap()
    }

    #[test]
    fn dots_and_doubled_separators_go_away() {
        assert_eq!(normalize(Path::new("/a//b/./../c/")), Path::new("/a/c"));
        assert_eq!(normalize(Path::new("/../../etc")), Path::new("/etc"));
    }

    #[test]
    fn a_sibling_with_the_same_prefix_is_not_within() {
        assert!(within(Path::new("/w/s/x"), Path::new("/w/s")));
        assert!(within(Path::new("/w/s"), Path::new("/w/s")));
        assert!(!within(Path::new("/w/s-evil"), Path::new("/w/s")));
    }

    #[test]
    fn links_are_followed_before_dot_dot() {
        let dir = scratch("dotdot");
        std::fs::create_dir_all(dir.join("far/away")).unwrap();
        symlink(dir.join("far/away"), dir.join("link")).unwrap();
        assert_eq!(resolve(&dir.join("link/../x")).unwrap(), dir.join("far/x"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_path_that_does_not_exist_resolves_from_its_deepest_ancestor() {
        let dir = scratch("absent");
        symlink("/etc", dir.join("link")).unwrap();
        let etc = std::fs::canonicalize("/etc").unwrap();
        assert_eq!(resolve(&dir.join("link/new/file")).unwrap(), etc.join("new/file"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_dangling_link_leads_to_its_target() {
        let dir = scratch("dangling");
        symlink("/nowhere/at/all", dir.join("link")).unwrap();
        assert_eq!(resolve(&dir.join("link")).unwrap(), Path::new("/nowhere/at/all"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_loop_of_links_is_an_error() {
        let dir = scratch("loop");
        symlink("b", dir.join("a")).unwrap();
        symlink("a", dir.join("b")).unwrap();
        assert!(resolve(&dir.join("a")).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
