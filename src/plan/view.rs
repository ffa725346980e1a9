//! The file tree a fenced process sees.

use super::host::{Host, Kind};
use super::lower::LowerError;
use super::places::{Opened, Places};
use super::programs::{Parts, Programs};
use crate::profile::{System, SystemKind, system_view, view_of};
use sbx_platform::path::within;
use sbx_platform::plan::{Access, Code, HOSTNAME, MountOp, Place, Rights};
use std::path::{Path, PathBuf};

/// Mounts and rights, growing together.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) mounts: Vec<MountOp>,
    pub(super) rights: Vec<Place>,
}

const READ: Rights = Rights::READ;

/// Where private scratch is, as seen inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scratch {
    /// The home directory.
    pub(super) home: PathBuf,
    /// Temporary files.
    pub(super) tmp: PathBuf,
}

impl View {
    pub(super) fn right(&mut self, path: impl Into<PathBuf>, rights: Rights) {
        self.rights.push(Place { path: path.into(), rights });
    }

    pub(super) fn bind(&mut self, path: &Path, access: Access, code: Code) {
        self.mounts.push(MountOp::Bind {
            source: path.to_path_buf(),
            dest: path.to_path_buf(),
            access,
            code,
        });
    }

    /// The system, read-only; executable only where any program may run.
    pub(super) fn add_system(&mut self, programs: &Programs, host: &dyn Host) {
        for (path, kind) in view_of(System::Linux) {
            let path = Path::new(path);
            let runs = *programs == Programs::Any && kind == SystemKind::Code;
            match host.kind(path) {
                None => {}
                Some(Kind::Link(target)) => {
                    self.mounts.push(MountOp::Symlink { target, dest: path.to_path_buf() })
                }
                Some(Kind::Directory | Kind::File) => {
                    self.bind(path, Access::ReadOnly, if runs { Code::Allowed } else { Code::Refused });
                    // `/etc` gets its right once, for all that is shown of it.
                    if !within(path, Path::new("/etc")) {
                        let execute = if runs { Rights::EXECUTE } else { Rights::NONE };
                        self.right(path, READ | Rights::LIST | execute);
                    }
                }
            }
        }
        self.right("/etc", READ | Rights::LIST);
    }

    /// The listed programs and their libraries, laid over a system that runs nothing.
    pub(super) fn add_listed(&mut self, parts: &Parts) {
        let covered = |path: &PathBuf| self_covers(&parts.loaded, path);
        for file in parts.executed.union(&parts.loaded).filter(|file| !covered(file)) {
            self.mounts.push(MountOp::Bind {
                source: file.clone(),
                dest: file.clone(),
                access: Access::ReadOnly,
                code: Code::Allowed,
            });
            let execute = if parts.executed.contains(file) { Rights::EXECUTE } else { Rights::NONE };
            self.rights.push(Place { path: file.clone(), rights: READ | execute });
        }
    }

    /// What the command itself is made of, where it is not seen already: read-only, and code.
    pub(super) fn add_entry(
        &mut self,
        parts: &[PathBuf],
        opened: &Opened,
        programs: &Programs,
        host: &dyn Host,
    ) -> Result<(), LowerError> {
        let runs = *programs == Programs::Any;
        let system = |part: &Path| system_view().any(|(path, _)| within(part, Path::new(path)));
        for part in parts {
            // Where only listed programs run, what is seen already is seen without its code.
            if runs && (system(part) || opened.holds(part)) {
                continue;
            }
            if let Some(bared) = opened.bared_by(part) {
                return Err(LowerError::PartTooWide { part: part.clone(), bared: bared.to_path_buf() });
            }
            self.bind(part, Access::ReadOnly, Code::Allowed);
            let execute = if runs { Rights::EXECUTE } else { Rights::NONE };
            let list = if host.kind(part) == Some(Kind::Directory) { Rights::LIST } else { Rights::NONE };
            self.right(part, READ | list | execute);
        }
        Ok(())
    }

    /// `/proc`, `/dev`, private scratch and a small `/etc`.
    pub(super) fn add_scratch(&mut self, home: &Path, code: Code, identity: &Account) {
        let tmpfs = |dest: &Path, mode| MountOp::Tmpfs { dest: dest.to_path_buf(), size: None, mode, code };
        self.mounts.extend([
            MountOp::Proc { dest: "/proc".into() },
            MountOp::Dev { dest: "/dev".into() },
            tmpfs(Path::new("/tmp"), 0o1777),
            MountOp::Dir { dest: "/run".into() },
            MountOp::Dir { dest: "/var".into() },
            tmpfs(home, 0o700),
        ]);
        for (name, data) in identity.files(home) {
            self.mounts.push(MountOp::File { dest: Path::new("/etc").join(name), data: data.into_bytes() });
        }
        let all = READ | Rights::LIST | Rights::WRITE | Rights::REMOVE;
        let execute = if code == Code::Allowed { Rights::EXECUTE } else { Rights::NONE };
        self.right("/proc", READ | Rights::LIST | Rights::MODIFY);
        self.right("/dev", READ | Rights::LIST | Rights::MODIFY | Rights::CONTROL);
        self.right("/dev/shm", all);
        self.right("/tmp", all | execute);
        self.right(home, all | execute);
    }

    /// The granted places, each shown read-only or, as `written` says, to be changed, as its rights ask. Those that
    /// stand `apart` are shown by themselves wherever they lie.
    pub(super) fn add_places(
        &mut self,
        places: &Places,
        code: Code,
        apart: &[PathBuf],
        written: impl Fn(&Path) -> Access,
    ) {
        let mut bound: Vec<(PathBuf, bool)> = Vec::new();
        for (path, _) in places.iter() {
            let writable = places.is_writable(path);
            let shown = bound.iter().rev().find(|(place, _)| within(path, place));
            let alone = apart.iter().any(|apart| apart == path);
            if alone || shown.is_none_or(|(_, shown_writable)| writable && !shown_writable) {
                let access = if writable { written(path) } else { Access::ReadOnly };
                self.bind(path, access, code);
                bound.push((path.to_path_buf(), writable));
            }
            let rights = places.rights_at(path);
            let runs = code == Code::Allowed && rights.contains(READ);
            self.right(path, if runs { rights | Rights::EXECUTE } else { rights });
        }
    }

    /// Lays something empty over a directory that lies in a granted place and is nobody's to see.
    pub(super) fn hide(&mut self, path: &Path, places: &Places, host: &dyn Host) {
        const EMPTY: u64 = 4096;
        let shown = places.iter().any(|(place, _)| within(path, place));
        if shown && host.kind(path) == Some(Kind::Directory) {
            let dest = path.to_path_buf();
            self.mounts.push(MountOp::Tmpfs { dest, size: Some(EMPTY), mode: 0o555, code: Code::Refused });
        }
    }

    /// Closes a file or directory that lies in a granted place: it is there, and nothing of it can be read.
    pub(super) fn close(&mut self, path: &Path, places: &Places, host: &dyn Host) {
        const EMPTY: u64 = 4096;
        if !places.iter().any(|(place, _)| within(path, place)) {
            return;
        }
        let dest = path.to_path_buf();
        match host.kind(path) {
            Some(Kind::Directory) => {
                self.mounts.push(MountOp::Tmpfs { dest, size: Some(EMPTY), mode: 0, code: Code::Refused });
            }
            // A device on a file system without devices cannot be opened.
            Some(Kind::File) => self.mounts.push(MountOp::Bind {
                source: PathBuf::from("/dev/null"),
                dest,
                access: Access::ReadOnly,
                code: Code::Refused,
            }),
            Some(Kind::Link(_)) | None => {}
        }
    }

    /// Links in the private home to granted places of the user's own, so that `~/.cargo` and the like are found.
    pub(super) fn add_home_links(&mut self, places: &Places, own: &Path, private: &Path) {
        let below = places.iter().filter_map(|(path, _)| Some((path, path.strip_prefix(own).ok()?)));
        let mut linked: Vec<&Path> = Vec::new();
        for (path, rest) in below.filter(|(_, rest)| !rest.as_os_str().is_empty()) {
            if !linked.iter().any(|above| within(rest, above)) {
                self.mounts.push(MountOp::Symlink { target: path.to_path_buf(), dest: private.join(rest) });
                linked.push(rest);
            }
        }
    }

    /// `/var/tmp` leads to private scratch, unless something that is shown lies there.
    pub(super) fn add_var_tmp<'s>(&mut self, mut shown: impl Iterator<Item = &'s Path>) {
        let dest = Path::new("/var/tmp");
        if shown.all(|path| !within(path, dest)) {
            self.mounts.push(MountOp::Symlink { target: "/tmp".into(), dest: dest.to_path_buf() });
        }
    }

    /// Certificates to trust, over those that the system has.
    pub(super) fn add_trust(&mut self, bundles: Vec<MountOp>) {
        for bundle in bundles {
            self.right(bundle.dest().to_path_buf(), READ);
            self.mounts.push(bundle);
        }
    }

    /// Where all that is shown may be read, one right at the top says so, in place of one for each.
    ///
    /// A place that may only be written rules that out, because rights add up along a path. What `root` has stays, too:
    /// whenever a file is opened the kernel goes up from it until it has found all rights, and most work is done there.
    pub(super) fn add_top(&mut self, places: &Places, programs: &Programs, root: &Path) {
        if places.iter().any(|(path, _)| !places.rights_at(path).contains(READ | Rights::LIST)) {
            return;
        }
        let execute = if *programs == Programs::Any { Rights::EXECUTE } else { Rights::NONE };
        let top = READ | Rights::LIST | execute;
        // Below private scratch, a place with rights of its own is one that somebody has to keep apart from it.
        let kept = |path: &Path| path == root && !within(path, Path::new("/tmp"));
        self.rights.retain(|place| kept(&place.path) || !top.contains(place.rights));
        self.right("/", top);
    }
}

/// Whether a path lies below a directory of libraries that is laid over as a whole.
fn self_covers(loaded: &std::collections::BTreeSet<PathBuf>, path: &Path) -> bool {
    path.ancestors().skip(1).any(|above| loaded.contains(above))
}

/// Who the process is inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// User number.
    pub(super) uid: u32,
    /// Group number.
    pub(super) gid: u32,
}

impl Account {
    /// Small files of `/etc` that name this user and this machine, and nobody else.
    fn files(self, home: &Path) -> [(&'static str, String); 5] {
        let Self { uid, gid } = self;
        let home = home.display();
        [
            (
                "passwd",
                format!("sbx:x:{uid}:{gid}:sbx:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
            ),
            ("group", format!("sbx:x:{gid}:\nnogroup:x:65534:\n")),
            ("hosts", format!("127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n")),
            ("hostname", format!("{HOSTNAME}\n")),
            ("resolv.conf", "nameserver 127.0.0.1\n".to_owned()),
        ]
    }
}
