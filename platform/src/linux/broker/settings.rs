//! Files of settings in which only harmless keys may occur.
//!
//! Answers for reading such a file the way its program does, and for replacing it by a copy that nobody else
//! can still write to. It leaves which keys are harmless to the plan.
//! Invariant: what is not understood is not harmless.

use std::borrow::Cow;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use super::resolve::Spot;
use crate::fold::within_folded;
use crate::linux::sys::{check_int, errno, fd, process};
use crate::path::{climbs_first, normalize};

/// The largest file that is read.
const MAX: u64 = 64 << 10;

/// The name under which a checked copy is written: callers of every launch are kept away from it, as the plan
/// protects it, so that nobody else can hold a descriptor of what is put in place.
const STAGED: &CStr = c".sbx-staged";
/// The key that says where the files of a repository lie.
const WORKTREE: &str = "worktree";

/// What was put in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Whether they say where the files of the repository lie.
    pub(super) lead_elsewhere: bool,
}

/// Checks the file at `from` and puts a copy of what was checked at `to`: descriptors that others hold on the old
/// one lead nowhere from then on.
pub(super) fn replace(from: &Spot, to: &Spot, keys: &[Cow<'_, str>]) -> io::Result<Settings> {
    let (mode, bytes) = read(from)?;
    let text = String::from_utf8(bytes).map_err(|_| errno(libc::EACCES))?;
    let place = to.path.parent().unwrap_or(&to.path);
    if !is_harmless(&text, keys, place) {
        return Err(errno(libc::EACCES));
    }
    let _ = unlink(to, STAGED);
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // Set again before every act.
    process::set_mask(0);
    let made = fd::open(to.parent.as_fd(), STAGED, flags, mode & 0o777)?;
    File::from(made).write_all(text.as_bytes()).inspect_err(|_| drop(unlink(to, STAGED)))?;
    let parent = to.parent.as_raw_fd();
    // SAFETY: a descriptor we hold and NUL-terminated names.
    check_int(unsafe { libc::renameat(parent, STAGED.as_ptr(), parent, to.name.as_ptr()) })?;
    leave(from)?;
    Ok(Settings { lead_elsewhere: text.to_ascii_lowercase().contains(WORKTREE) })
}

/// Whether the two are plain files that say the same, so that putting one in the place of the other changes nothing.
pub(super) fn is_same(from: &Spot, to: &Spot) -> bool {
    matches!((read(from), read(to)), (Ok((_, from)), Ok((_, to))) if from == to)
}

/// Takes away a file whose place has been taken.
pub(super) fn leave(from: &Spot) -> io::Result<()> {
    unlink(from, &from.name)
}

/// The mode and the content of a small plain file.
fn read(spot: &Spot) -> io::Result<(libc::mode_t, Vec<u8>)> {
    let refused = || errno(libc::EACCES);
    let found = fd::stat_at(spot.parent.as_raw_fd(), &spot.name)?;
    if found.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(refused());
    }
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let opened = fd::open(spot.parent.as_fd(), &spot.name, flags, 0)?;
    let mut bytes = Vec::new();
    File::from(opened).take(MAX + 1).read_to_end(&mut bytes).map_err(|_| refused())?;
    if bytes.len() as u64 > MAX { Err(refused()) } else { Ok((found.st_mode, bytes)) }
}

fn unlink(spot: &Spot, name: &CStr) -> io::Result<()> {
    // SAFETY: a descriptor we hold, a NUL-terminated name and an integer.
    check_int(unsafe { libc::unlinkat(spot.parent.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// Whether every line is a section, a harmless key, a comment or empty; the file stands in the directory `place`.
fn is_harmless(text: &str, keys: &[Cow<'_, str>], place: &Path) -> bool {
    let mut section = String::new();
    let is_odd = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    // A line may go on after a backslash, where a comment would hide what follows: none may end in one.
    !text.replace("\r\n", "\n").contains(is_odd)
        && text.lines().map(trim).all(|line| match line.chars().next() {
            None | Some('#' | ';') => !line.ends_with('\\'),
            Some('[') => match section_name(line) {
                Some(name) => {
                    section = name;
                    true
                }
                None => false,
            },
            Some(_) => {
                let key =
                    line.split(['=', ' ', '\t', '#', ';']).next().unwrap_or_default().to_ascii_lowercase();
                !line.ends_with('\\')
                    && keys.iter().any(|allowed| fits(allowed, &section, &key))
                    && (key != WORKTREE || section != "core" || stays_around(line, place))
            }
        })
}

/// Without the blanks around it that are some to git.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Whether the value leads from a repository below `.git` into the tree around that `.git`, and not out of it: what is
/// checked out later is written there.
fn stays_around(line: &str, repository: &Path) -> bool {
    let Some((_, value)) = line.split_once('=') else { return false };
    let value = trim(value);
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let Some(git) = repository.ancestors().find(|above| above.ends_with(".git")) else { return false };
    let Some(tree) = git.parent() else { return false };
    let target = normalize(&repository.join(value));
    !value.contains(['"', '\\', '#', ';'])
        && Path::new(value).is_relative()
        && climbs_first(Path::new(value))
        && target != tree
        && target.starts_with(tree)
        && !within_folded(&target, git)
}

/// `core` of `[core]`, `branch.*` of `[branch "x"]`; anything after the bracket is not understood.
fn section_name(line: &str) -> Option<String> {
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    let plain = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    match inner.split_once(' ') {
        None => plain(inner).then(|| inner.to_ascii_lowercase()),
        Some((name, sub)) => {
            let sub = trim(sub).strip_prefix('"')?.strip_suffix('"')?;
            (plain(name) && !sub.contains(['"', '\\', ']']))
                .then(|| format!("{}.*", name.to_ascii_lowercase()))
        }
    }
}

fn fits(allowed: &str, section: &str, key: &str) -> bool {
    match allowed.rsplit_once('.') {
        Some((wanted, "*")) => wanted == section,
        Some((wanted, name)) => wanted == section && name == key,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harmless(text: &str) -> bool {
        let keys =
            ["core.bare", "core.repositoryformatversion", "branch.*.remote", "color.*"].map(Cow::Borrowed);
        is_harmless(text, &keys, Path::new("/w/.git"))
    }

    #[test]
    fn the_files_of_a_submodule_lie_in_the_tree_around_it() {
        let harmless = |place: &str, value: &str| {
            let keys = [Cow::Borrowed("core.worktree")];
            is_harmless(&format!("[core]\n\tworktree = {value}\n"), &keys, Path::new(place))
        };
        let module = "/w/.git/modules/a/b";
        for value in ["../../../../a/b", "\"../../../../with blank\"", "../../../../.././w/x"] {
            assert!(harmless(module, value), "{value}");
        }
        for value in [
            "../../../..",
            "../../../../..",
            "../../../../../home",
            "/w/x",
            "/home",
            "../../../hooks",
            "../../../../x/../.git/hooks",
            "../../../../l/../x",
            "../../../../.GIT/hooks",
            "../../../../.GIT",
            "x",
            "\"../../../../x\\",
            "../../../../x # y",
        ] {
            assert!(!harmless(module, value), "{value}");
        }
        assert!(!harmless("/w/modules/a", "../../x"), "no repository is around");
    }

    #[test]
    fn what_git_init_writes_is_harmless() {
        assert!(harmless("[core]\n\trepositoryformatversion = 0\n\tbare = false\n"));
        assert!(harmless("# note\n[branch \"main\"]\n\tremote = origin\n[color]\n\tui = auto\n"));
    }

    #[test]
    fn what_runs_code_or_is_not_understood_is_not() {
        for text in [
            "[core]\n\tfsmonitor = ./x\n",
            "[core]\n\tbare = false \\\n\tfsmonitor = x\n",
            "[core] fsmonitor = x\n",
            "[core]bare=1\n",
            "[Core]\nhooksPath=x\n",
            "[include]\npath=x\n",
            "# c \\\n[core]\n",
            "[branch \"a\\\"]\nremote=x\n",
            "bare = x\n",
            "[core \"sub\"]\nbare=1\n",
            "[core]\nbare\0=1\n",
            "[core]\nbare=1\rfsmonitor=x\n",
            "[core]\n\u{b}bare=1\n",
            "[core]\n\u{a0}bare=1\n",
        ] {
            assert!(!harmless(text), "{text:?}");
        }
    }
}
