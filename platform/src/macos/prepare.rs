//! What is made before a command starts: private directories, links, a terminal, the proxy's door, the profile.
//!
//! Answers for all of it being there, and gone again afterwards. It leaves starting the command to [`super::exec`].
//! Invariant: the profile lies where the command can neither read nor change it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::door::{Destinations, Doors, Porter, Way};
use crate::error::PlatformError;
use crate::macos::seatbelt::{self, Surroundings};
use crate::macos::stdio::Terminal;
use crate::plan::{MountOp, Network, Plan, Stdio};
use crate::scratch::Scratch;

/// The only program that is trusted to put a profile in force.
#[cfg(target_os = "macos")]
pub(super) const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";
/// Stands for it in tests elsewhere: runs the command without a fence.
#[cfg(not(target_os = "macos"))]
pub(super) const SANDBOX_EXEC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/macos/standin/sandbox-exec");

/// Everything that is made before the command starts.
#[derive(Debug)]
pub(super) struct Prepared {
    _scratch: Scratch,
    base: PathBuf,
    /// What stands for the plan's own parts.
    pub(super) surroundings: Surroundings,
    /// The command's terminal, where it gets one.
    pub(super) terminal: Option<Terminal>,
    profile: seatbelt::Profile,
    /// The whole environment.
    pub(super) env: Vec<(OsString, OsString)>,
}

impl Prepared {
    pub(super) fn make(plan: &Plan, porter: Option<&mut dyn Porter>) -> Result<Self, PlatformError> {
        let wrap = |error| PlatformError::on("make", "a private directory", error);
        let mut scratch = Scratch::default();
        let base = scratch.add().map_err(wrap)?;
        let mut surroundings = Surroundings { tag: tag(&base), ..Surroundings::default() };
        for (number, dest) in seatbelt::wanted_scratch(plan).into_iter().enumerate() {
            let own = base.join(number.to_string());
            fs::DirBuilder::new().mode(0o700).create(&own).map_err(wrap)?;
            surroundings.scratch.push((dest, own));
        }
        link(plan, &surroundings).map_err(wrap)?;
        let terminal = (plan.stdio == Stdio::Pty).then(Terminal::open).transpose();
        let terminal = terminal.map_err(|error| PlatformError::on("open", "a private terminal", error))?;
        surroundings.terminal = terminal.as_ref().map(|terminal| terminal.path.clone());
        surroundings.proxy = open_proxy(plan, porter)?;
        let profile = seatbelt::profile(plan, &surroundings)?;
        fs::write(base.join("profile.sb"), &profile.text).map_err(wrap)?;
        let env = told(plan, seatbelt::environment(plan, &surroundings), surroundings.proxy);
        Ok(Self { _scratch: scratch, base, surroundings, terminal, profile, env })
    }

    /// `sandbox-exec` with the profile, to run `program`.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(SANDBOX_EXEC);
        command.arg("-f").arg(self.base.join("profile.sb"));
        for (name, value) in &self.profile.parameters {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        command.arg(program).env_clear();
        command
    }
}

/// What marks this launch's denials in the log: different for every launch, as the directory's name is.
fn tag(base: &Path) -> String {
    base.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Links of the plan that lie in private directories.
fn link(plan: &Plan, surroundings: &Surroundings) -> io::Result<()> {
    for op in &plan.mounts {
        let MountOp::Symlink { target, dest } = op else { continue };
        let own = surroundings
            .scratch
            .iter()
            .find_map(|(inside, own)| Some(own.join(dest.strip_prefix(inside).ok()?)));
        if let Some(own) = own {
            own.parent().map_or(Ok(()), fs::create_dir_all)?;
            std::os::unix::fs::symlink(target, own)?;
        }
    }
    Ok(())
}

/// Connections to the proxy come from this machine; which program made one is not known.
#[derive(Debug)]
struct Loopback;

impl Destinations for Loopback {
    fn of(&self, stream: BorrowedFd<'_>) -> Option<SocketAddr> {
        let stream = TcpStream::from(stream.try_clone_to_owned().ok()?);
        let local = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
        stream.local_addr().ok().filter(|_| local)
    }
}

/// Opens the one door there is and hands it over; its port.
fn open_proxy(plan: &Plan, porter: Option<&mut dyn Porter>) -> Result<Option<u16>, PlatformError> {
    let Network::Gateway(gateway) = &plan.network else { return Ok(None) };
    let bad = |reason: &str| PlatformError::BadPlan { reason: reason.to_owned() };
    if !gateway.published.is_empty() {
        return Err(bad("nothing can listen behind seatbelt, so no port can be published"));
    }
    let porter = porter.ok_or_else(|| bad("a network with doors needs someone who serves them"))?;
    let wanted = gateway.proxy.ok_or_else(|| bad("seatbelt has no other door than a proxy"))?;
    let wrap = |error| PlatformError::on("listen for", "the proxy", error);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted))
        .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .map_err(wrap)?;
    let port = listener.local_addr().map_err(wrap)?.port();
    let doors = Doors {
        way: Way::OnBehalf,
        streams: Vec::new(),
        names: Vec::new(),
        name_streams: Vec::new(),
        proxy: Some(listener),
        destinations: Box::new(Loopback),
        inward: None,
    };
    let program = plan.program.display().to_string();
    porter.open(doors).map_err(|error| PlatformError::on("serve the network of", program, error))?;
    Ok(Some(port))
}

/// The variables, naming the port that the proxy really has.
fn told(plan: &Plan, env: Vec<(OsString, OsString)>, port: Option<u16>) -> Vec<(OsString, OsString)> {
    let (Network::Gateway(gateway), Some(port)) = (&plan.network, port) else { return env };
    let Some(planned) = gateway.proxy.filter(|planned| *planned != port) else { return env };
    let (from, to) = (format!("127.0.0.1:{planned}"), format!("127.0.0.1:{port}"));
    let rename = |value: OsString| match value.to_str() {
        Some(text) if text.contains(&from) => OsString::from(text.replace(&from, &to)),
        _ => value,
    };
    env.into_iter().map(|(name, value)| (name, rename(value))).collect()
}
