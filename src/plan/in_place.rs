//! The view where everything is seen where it stands: macOS has no mounts of a process's own.

use super::host::{Host, Kind};
use super::programs::Programs;
use super::view::{Scratch, View};
use crate::profile::{System, SystemKind, view_of};
use sbx_platform::plan::{Access, Code, MountOp, Rights};
use std::path::{Path, PathBuf};

/// Names for private scratch, which nothing bears: the launcher makes directories and puts them in their place.
const HOME: &str = "/private/sbx/home";
const TMP: &str = "/private/sbx/tmp";

impl View {
    /// The system, read-only. Libraries can be loaded in any case: what can be started is a right of its own.
    pub(super) fn add_system_in_place(&mut self, programs: &Programs, host: &dyn Host) {
        for (path, kind) in view_of(System::MacOs) {
            let path = Path::new(path);
            let runs = *programs == Programs::Any && kind == SystemKind::Code;
            match host.kind(path) {
                None => {}
                Some(Kind::Link(target)) => {
                    self.mounts.push(MountOp::Symlink { target, dest: path.to_path_buf() });
                }
                Some(Kind::Directory | Kind::File) => {
                    let code = if kind == SystemKind::Code { Code::Allowed } else { Code::Refused };
                    self.bind(path, Access::ReadOnly, code);
                    let execute = if runs { Rights::EXECUTE } else { Rights::NONE };
                    self.right(path, Rights::READ | Rights::LIST | execute);
                }
            }
        }
    }

    /// A home and a directory for temporary files, private to the launch.
    pub(super) fn add_scratch_in_place(&mut self, code: Code) -> Scratch {
        let execute = if code == Code::Allowed { Rights::EXECUTE } else { Rights::NONE };
        let all = Rights::READ | Rights::LIST | Rights::WRITE | Rights::REMOVE | execute;
        for dest in [TMP, HOME] {
            self.mounts.push(MountOp::Tmpfs { dest: dest.into(), size: None, mode: 0o700, code });
            self.right(dest, all);
        }
        Scratch { home: PathBuf::from(HOME), tmp: PathBuf::from(TMP) }
    }
}
