//! What the machine is: kernel, restrictions, surroundings, as far as files tell.
//!
//! Answers for reading facts from files, below any root, and for what follows from them. What really works is for
//! [`super::trial`] to find out. Invariant: reading facts changes nothing and never fails; what is not there is unknown.

use super::finding::{Finding, Level};
use crate::profile::install;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Facts about a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostFacts {
    /// The kernel's name for itself, such as `6.8.0-45-generic`.
    pub release: String,
    /// Its first two numbers.
    pub version: Option<(u32, u32)>,
    /// The security modules that are on, where that can be read.
    pub modules: Option<String>,
    /// Whether the kernel can hand watched calls to another process.
    pub notification: Option<bool>,
    /// How many user namespaces there may be.
    pub max_user_namespaces: Option<u64>,
    /// Whether Debian's switch closes user namespaces to ordinary users.
    pub userns_clone_off: bool,
    /// Whether AppArmor closes user namespaces to programs without a profile.
    pub apparmor_restricts: bool,
    /// Whether the kernel has overlay file systems.
    pub overlay: bool,
    /// Whether control groups of version 2 are mounted.
    pub cgroup2: bool,
    /// The container this runs in, as far as it tells.
    pub container: Option<String>,
    /// 1 or 2 on Windows Subsystem for Linux.
    pub wsl: Option<u8>,
    /// Whether this process is already restricted by a system call filter.
    pub filtered: bool,
    /// What the distribution calls itself and those it is like.
    pub distributions: Vec<String>,
    /// Programs called bwrap where they are looked for.
    pub bwraps: Vec<BwrapFacts>,
    /// `sandbox-exec`, on macOS.
    pub sandbox_exec: bool,
}

/// A program called bwrap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BwrapFacts {
    /// Where.
    pub path: PathBuf,
    /// Whether it runs with its owner's rights.
    pub setuid: bool,
    /// Whether only root can change it.
    pub roots_alone: bool,
    /// Whether its owner has no number here, as root has none in most user namespaces.
    pub owner_unknown: bool,
}

impl HostFacts {
    /// Reads the facts below a root, `/` for this machine.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let number = |path: &str| text(path).and_then(|text| text.trim().parse::<u64>().ok());
        let release = text("proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let status = text("proc/self/status").unwrap_or_default();
        Self {
            version: version(&release),
            modules: text("sys/kernel/security/lsm").map(|text| text.trim().to_owned()),
            notification: text("proc/sys/kernel/seccomp/actions_avail")
                .map(|text| text.split_whitespace().any(|action| action == "user_notif")),
            max_user_namespaces: number("proc/sys/user/max_user_namespaces"),
            userns_clone_off: number("proc/sys/kernel/unprivileged_userns_clone") == Some(0),
            apparmor_restricts: number("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            overlay: text("proc/filesystems")
                .is_some_and(|text| text.lines().any(|line| line.ends_with("\toverlay"))),
            cgroup2: root.join("sys/fs/cgroup/cgroup.controllers").exists(),
            container: container(root),
            wsl: wsl(&release),
            filtered: status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"])),
            distributions: distributions(&text("etc/os-release").unwrap_or_default()),
            bwraps: ["usr/bin/bwrap", "usr/local/bin/bwrap"]
                .iter()
                .filter_map(|path| bwrap(&root.join(path)))
                .collect(),
            sandbox_exec: root.join("usr/bin/sandbox-exec").exists(),
            release,
        }
    }

    /// What the first bubblewrap that may be used says its version is.
    #[must_use]
    pub fn bwrap_version(&self) -> Option<Finding> {
        let usable = self.bwraps.iter().find(|bwrap| bwrap.roots_alone && !bwrap.setuid)?;
        let output =
            Command::new(&usable.path).arg("--version").env_clear().stdin(Stdio::null()).output().ok()?;
        let told = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Some(finding("bwrap", Level::Fine, format!("{told} at {}", usable.path.display())))
    }

    /// What follows for people, given the Landlock level and whether the native backend works.
    #[must_use]
    pub fn findings(&self, landlock: u32, native_works: bool, program: &Path) -> Vec<Finding> {
        let mut findings = vec![self.kernel(landlock), self.seccomp()];
        findings.extend(self.namespaces(native_works, program));
        findings.extend(self.surroundings());
        findings.extend(self.bubblewrap(native_works));
        findings.push(if self.overlay {
            finding("overlay", Level::Fine, "overlay file systems are there")
        } else {
            finding("overlay", Level::Note, "no overlay file systems: `sbx learn` copies instead")
                .fix("sudo modprobe overlay")
        });
        findings
    }

    fn kernel(&self, landlock: u32) -> Finding {
        let named = format!("Linux {}, Landlock level {landlock}", self.release);
        let lacking: Vec<&str> =
            LANDLOCK.iter().filter(|(level, _, _)| landlock < *level).map(|(_, what, _)| *what).collect();
        let next = LANDLOCK.iter().find(|(level, _, _)| landlock < *level);
        match (landlock, next) {
            (0, _) => {
                let off = self
                    .modules
                    .as_ref()
                    .is_some_and(|modules| !modules.split(',').any(|module| module == "landlock"));
                let new = self.version.is_some_and(|version| version >= (5, 13));
                let found =
                    finding("landlock", Level::Error, format!("Linux {} without Landlock", self.release));
                if self.filtered && new && !off {
                    let message = "Landlock is refused by the filter of system calls around sbx, as inside another fence of sbx: nothing can be fenced there once more";
                    finding("landlock", Level::Error, message)
                        .fix("start it outside; what runs here is held by the fence around it")
                } else if off && new {
                    let modules = self.modules.as_deref().unwrap_or_default();
                    found.fix(format!("boot with lsm=landlock,{modules} on the kernel's command line"))
                } else {
                    found.fix("Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK=y; 6.12 gives all that sbx can use")
                }
            }
            (_, None) => finding("landlock", Level::Fine, named),
            (_, Some((_, _, since))) => {
                let level = if landlock < 3 { Level::Warning } else { Level::Note };
                finding("landlock", level, format!("{named}: it cannot hold {}", lacking.join(", ")))
                    .fix(format!("Linux {since} has the next level"))
            }
        }
    }

    fn seccomp(&self) -> Finding {
        match self.notification {
            Some(true) => finding("seccomp", Level::Fine, "system calls can be filtered and watched"),
            Some(false) => finding(
                "seccomp",
                Level::Warning,
                "system calls cannot be watched: protected paths and connections on behalf are not to be had",
            )
            .fix("Linux 5.0 or newer"),
            None => finding("seccomp", Level::Note, "which filters the kernel knows cannot be read here"),
        }
    }

    /// Why ordinary users might not make user namespaces, with the exact way out of each.
    fn namespaces(&self, native_works: bool, program: &Path) -> Vec<Finding> {
        let level = if native_works { Level::Note } else { Level::Warning };
        let mut found = Vec::new();
        if self.max_user_namespaces == Some(0) {
            found.push(
                finding(
                    "max-user-namespaces",
                    level,
                    "user namespaces are switched off: user.max_user_namespaces is 0",
                )
                .fix("sudo sysctl -w user.max_user_namespaces=15000")
                .fix("echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-sbx.conf"),
            );
        }
        if self.userns_clone_off {
            found.push(
                finding(
                    "userns-clone",
                    level,
                    "user namespaces are closed to ordinary users: kernel.unprivileged_userns_clone is 0",
                )
                .fix("sudo sysctl -w kernel.unprivileged_userns_clone=1")
                .fix("echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-sbx.conf"),
            );
        }
        if self.apparmor_restricts {
            let program = program.display();
            found.push(finding("apparmor-userns", level, "AppArmor closes user namespaces to programs without a profile of their own")
                .fix(format!("printf 'abi <abi/4.0>,\\nprofile sbx {program} flags=(unconfined) {{\\n  userns,\\n}}\\n' | sudo tee /etc/apparmor.d/sbx"))
                .fix("sudo apparmor_parser -r /etc/apparmor.d/sbx"));
        }
        if found.is_empty() {
            let message = match self.max_user_namespaces {
                Some(most) => format!("user namespaces are open (at most {most})"),
                None => "nothing says that user namespaces are closed".to_owned(),
            };
            found.push(finding("userns", Level::Fine, message));
        }
        found
    }

    fn surroundings(&self) -> Vec<Finding> {
        let wsl = self.wsl.map(|version| match version {
            1 => finding("wsl", Level::Error, "this is WSL 1, which has no Linux kernel: nothing can be fenced")
                .fix("wsl --set-version DISTRIBUTION 2"),
            _ => finding("wsl", Level::Note, "this is WSL 2: files below /mnt belong to Windows, and what is protected there is protected only from Linux"),
        });
        let container = self.container.as_ref().map(|name| {
            finding("container", Level::Note, format!("this is a container ({name}): it may close namespaces and mask /proc, which leaves the landlock backend"))
                .fix("docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …, or accept what landlock lacks by name")
        });
        let nested = self.filtered.then(|| {
            finding("nested", Level::Note, "sbx itself runs behind a filter of system calls: another sandbox, or a container's; it can only narrow further")
        });
        wsl.into_iter().chain(container).chain(nested).collect()
    }

    fn bubblewrap(&self, native_works: bool) -> Vec<Finding> {
        let mut found = Vec::new();
        for bwrap in &self.bwraps {
            let path = bwrap.path.display();
            if bwrap.setuid {
                found.push(
                    finding(
                        "bwrap-setuid",
                        Level::Warning,
                        format!("{path} runs with its owner's rights (setuid) and is not used"),
                    )
                    .fix(format!("sudo chmod u-s {path}")),
                );
            } else if bwrap.owner_unknown {
                found.push(finding(
                    "bwrap-owner",
                    Level::Note,
                    format!("{path} belongs to somebody this user namespace does not know and is not used"),
                ));
            } else if !bwrap.roots_alone {
                found.push(
                    finding(
                        "bwrap-owner",
                        Level::Warning,
                        format!("{path} can be changed by others than root and is not used"),
                    )
                    .fix(format!("sudo chown root:root {path} && sudo chmod go-w {path}")),
                );
            }
        }
        if self.bwraps.is_empty() {
            let level = if native_works { Level::Note } else { Level::Warning };
            let message = "there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had";
            let line = self.distributions.iter().find_map(|name| install(name));
            let fix = line.unwrap_or("install the package bubblewrap");
            found.push(finding("bwrap-missing", level, message).fix(fix));
        }
        found
    }
}

/// What each level of Landlock can hold, and since which kernel.
const LANDLOCK: &[(u32, &str, &str)] = &[
    (1, "files", "5.13"),
    (2, "links and moves between directories", "5.19"),
    (3, "truncation", "6.2"),
    (4, "TCP ports", "6.7"),
    (5, "device control", "6.10"),
    (6, "signals and abstract sockets", "6.12"),
];

/// Whom the kernel names as the owner where the real one has no number.
const NOBODY: u32 = 65_534;

fn finding(code: &'static str, level: Level, message: impl Into<String>) -> Finding {
    Finding::new("host", code, level, message)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn wsl(release: &str) -> Option<u8> {
    let lower = release.to_lowercase();
    let second = lower.contains("wsl2") || lower.contains("microsoft-standard");
    lower.contains("microsoft").then_some(if second { 2 } else { 1 })
}

fn container(root: &Path) -> Option<String> {
    let marker = |path: &str, name: &str| root.join(path).exists().then(|| name.to_owned());
    let told = fs::read(root.join("proc/1/environ")).ok().and_then(|environ| {
        let variables = environ.split(|byte| *byte == 0);
        let name = variables.filter_map(|variable| variable.strip_prefix(b"container=")).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    });
    let groups = fs::read_to_string(root.join("proc/1/cgroup")).unwrap_or_default();
    let grouped =
        ["docker", "kubepods", "containerd", "lxc", "libpod"].iter().find(|name| groups.contains(**name));
    marker(".dockerenv", "docker")
        .or_else(|| marker("run/.containerenv", "podman"))
        .or(told)
        .or_else(|| grouped.map(|name| (*name).to_owned()))
}

fn distributions(release: &str) -> Vec<String> {
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
    };
    let names = format!("{} {}", value("ID"), value("ID_LIKE"));
    names.split_whitespace().map(str::to_owned).collect()
}

fn bwrap(path: &Path) -> Option<BwrapFacts> {
    let real = fs::canonicalize(path).ok()?;
    let meta = fs::metadata(&real).ok()?;
    let roots_alone = meta.uid() == 0 && meta.mode() & 0o022 == 0;
    let owner_unknown = meta.uid() == NOBODY;
    Some(BwrapFacts {
        path: path.to_path_buf(),
        setuid: meta.mode() & 0o6000 != 0,
        roots_alone,
        owner_unknown,
    })
}
