//! The host's side of a view: what is shown, opened before anything is built.
//!
//! Answers for opening each source without following a link, and for the binds that shield protected paths. It
//! leaves building to [`super::mounts`].
//! Invariant: what was opened is what is shown, whatever happens to the path afterwards.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::linux::mounts::{DEVICE, bind_bits, failure};
use crate::linux::sys::fd::{self, NO_SYMLINKS};
use crate::linux::sys::{c_path, errno, mount};
use crate::path::within;
use crate::plan::{Access, MountOp, Plan, Stdio};
use crate::report::{SetupFailure, Step};

/// Host devices that are safe to show; the last, one's own terminal, only to those who have one.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The devices this plan shows.
pub(super) fn devices(plan: &Plan) -> &'static [&'static str] {
    if plan.stdio == Stdio::Pty { &DEVICES } else { &DEVICES[..5] }
}
/// Makes the devices of this view ones that are written to, and of which nothing else can be changed.
pub(crate) fn settle_devices() -> io::Result<()> {
    for name in DEVICES {
        let path = c_path(&Path::new("/dev").join(name))?;
        match fd::open(fd::cwd(), &path, libc::O_PATH | libc::O_NOFOLLOW, 0) {
            Ok(device) => mount::set_attributes(device.as_fd(), mount::RDONLY, false)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The host objects a view shows, opened before anything is built so that their identity is fixed.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(super) binds: Vec<Option<OwnedFd>>,
    pub(super) devices: Vec<OwnedFd>,
    pub(super) protected: Vec<(Shield, OwnedFd)>,
    /// Whether each is a tree of its own already, with its attributes, ready to be put somewhere.
    pub(super) detached: bool,
}

/// Where sources are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    /// The inner process: by path, with the rights of the user.
    Inner,
    /// The launcher, being privileged: as detached trees, so that directories only it may enter can be shown.
    Outer,
}

impl Sources {
    /// Opens every host path the plan shows, and every protected path that exists in a writable place.
    pub(crate) fn open(plan: &Plan, opener: Opener) -> Result<Self, SetupFailure> {
        let pin = |path: &Path| pin(path).map_err(|error| failure(Step::Mount, path, &error));
        let mut binds = Vec::with_capacity(plan.mounts.len());
        let mut devices = Vec::new();
        for op in &plan.mounts {
            binds.push(match op {
                MountOp::Bind { source, .. } => Some(pin(source)?),
                MountOp::Dev { .. } => {
                    for name in self::devices(plan) {
                        devices.push(pin(&Path::new("/dev").join(name))?);
                    }
                    None
                }
                MountOp::Tmpfs { .. }
                | MountOp::Dir { .. }
                | MountOp::Symlink { .. }
                | MountOp::File { .. }
                | MountOp::Proc { .. } => None,
            });
        }
        let mut protected = Vec::new();
        for shield in shields(plan)? {
            let source = pin(&shield.source)?;
            protected.push((shield, source));
        }
        let opened = Self { binds, devices, protected, detached: false };
        match opener {
            Opener::Inner => Ok(opened),
            Opener::Outer => opened.detach(plan),
        }
    }

    /// The same as trees of their own, with their attributes.
    fn detach(self, plan: &Plan) -> Result<Self, SetupFailure> {
        let clone = |place: &OwnedFd, path: &Path, bits: u64| {
            mount::clone_tree(place.as_fd(), c"", bits).map_err(|error| failure(Step::Mount, path, &error))
        };
        let bind = |op: &MountOp, place: &OwnedFd| match op {
            MountOp::Bind { dest, access, code, .. } => clone(place, dest, bind_bits(*access, *code)),
            other => Err(failure(Step::Mount, other.dest(), &errno(libc::EINVAL))),
        };
        let ops = plan.mounts.iter().zip(&self.binds);
        let binds = ops.map(|(op, place)| place.as_ref().map(|place| bind(op, place)).transpose());
        let devices = self.devices.iter().map(|place| clone(place, Path::new("/dev"), DEVICE));
        let shields = self.protected.iter().map(|(shield, place)| match plan.mounts.get(shield.place) {
            Some(MountOp::Bind { code, .. }) => clone(place, &shield.dest, bind_bits(shield.access, *code)),
            _ => Err(failure(Step::Protect, &shield.dest, &errno(libc::EINVAL))),
        });
        let (binds, devices) = (binds.collect::<Result<_, _>>()?, devices.collect::<Result<_, _>>()?);
        let shields = shields.collect::<Result<Vec<_>, _>>()?;
        let (whats, places): (Vec<Shield>, Vec<OwnedFd>) = self.protected.into_iter().unzip();
        // Opened one after the other, and so closed at once.
        fd::close_all(self.binds.into_iter().flatten().chain(self.devices).chain(places));
        let protected = whats.into_iter().zip(shields).collect();
        Ok(Self { binds, devices, protected, detached: true })
    }

    /// Lets go of all of them, which is cheaper than one by one.
    pub(crate) fn close(self) {
        let shields = self.protected.into_iter().map(|(_, source)| source);
        fd::close_all(self.binds.into_iter().flatten().chain(self.devices).chain(shields));
    }
}

/// Opens `path` as a place, refusing symbolic links anywhere in it.
fn pin(path: &Path) -> io::Result<OwnedFd> {
    fd::open2(fd::cwd(), &c_path(path)?, libc::O_PATH, 0, NO_SYMLINKS)
}

/// Something laid over a part of a writable place.
#[derive(Debug)]
pub(crate) struct Shield {
    /// Which of the plan's mounts shows the place: what is mounted in it later stays on top.
    pub(crate) place: usize,
    /// Where it appears.
    pub(crate) dest: PathBuf,
    /// What it shows.
    pub(crate) source: PathBuf,
    /// And how.
    pub(crate) access: Access,
}

/// Self-binds for the ancestors of existing protected paths, then read-only binds for the paths themselves.
pub(crate) fn shields(plan: &Plan) -> Result<Vec<Shield>, SetupFailure> {
    let mut ancestors = BTreeSet::new();
    let mut holes = BTreeSet::new();
    for path in &plan.protect {
        let Some((place, source, dest)) = writable_place(plan, path) else { continue };
        let Ok(below) = path.strip_prefix(dest) else { continue };
        let on_host = source.join(below);
        match std::fs::symlink_metadata(&on_host) {
            // Nothing can be laid over a link; the broker keeps its name.
            Ok(meta) if meta.file_type().is_symlink() => continue,
            Ok(_) if below.as_os_str().is_empty() => continue,
            Ok(_) => {}
            Err(_) => continue,
        }
        holes.insert((place, path.clone(), on_host));
        let mut inner = PathBuf::new();
        let parts: Vec<_> = below.components().collect();
        for part in &parts[..parts.len() - 1] {
            inner.push(part);
            ancestors.insert((place, dest.join(&inner), source.join(&inner)));
        }
    }
    let shield = |access| move |(place, dest, source)| Shield { place, dest, source, access };
    let open = ancestors.into_iter().map(shield(Access::ReadWrite));
    Ok(open.chain(holes.into_iter().map(shield(Access::ReadOnly))).collect())
}

/// The last bind that shows `path`, if it is writable and nothing hides it: its number, host and inner path.
pub(crate) fn writable_place<'p>(plan: &'p Plan, path: &Path) -> Option<(usize, &'p Path, &'p Path)> {
    let shows = |(_, op): &(usize, &MountOp)| is_filesystem(op) && within(path, op.dest());
    match plan.mounts.iter().enumerate().rev().find(shows)? {
        (number, MountOp::Bind { source, dest, access: Access::ReadWrite, .. }) => {
            Some((number, source, dest))
        }
        _ => None,
    }
}

/// The last bind that covers `path`, whether or not something of the launch's own hides it, if it is writable.
pub(crate) fn writable_bind<'p>(plan: &'p Plan, path: &Path) -> Option<(&'p Path, &'p Path)> {
    plan.mounts.iter().rev().find_map(|op| match op {
        MountOp::Bind { source, dest, access, .. } if within(path, dest) => {
            Some((*access == Access::ReadWrite).then_some((source.as_path(), dest.as_path())))
        }
        _ => None,
    })?
}

fn is_filesystem(op: &MountOp) -> bool {
    match op {
        MountOp::Bind { .. } | MountOp::Tmpfs { .. } | MountOp::Proc { .. } | MountOp::Dev { .. } => true,
        MountOp::Dir { .. } | MountOp::Symlink { .. } | MountOp::File { .. } => false,
    }
}
