//! What follows from the facts of a machine: trees of files that look like one.

use expect_test::{Expect, expect};
use sbx::doctor::{HostFacts, Level};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A machine made of a few files.
struct Machine(PathBuf);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sbx-machine-{}-{number}", std::process::id()));
        let usual = [
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/kernel/seccomp/actions_avail", "kill_process trap errno user_notif log allow\n"),
            ("proc/sys/user/max_user_namespaces", "15000\n"),
            ("proc/filesystems", "nodev\tproc\n\text4\nnodev\toverlay\n"),
        ];
        for (name, text) in usual.iter().chain(files) {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            std::fs::write(path, text).expect("a file");
        }
        Self(dir)
    }

    fn with_bwrap(self, mode: u32) -> Self {
        let path = self.0.join("usr/bin/bwrap");
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, "").expect("a file");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        self
    }

    fn check(&self, landlock: u32, native_works: bool, expected: Expect) {
        let facts = HostFacts::read(&self.0);
        let mut text = String::new();
        for finding in facts.findings(landlock, native_works, Path::new("/usr/bin/sbx")) {
            if finding.level > Level::Fine {
                let _ = writeln!(text, "{} [{}] {}", finding.level.name(), finding.code, finding.message);
                for line in &finding.fix {
                    let _ = writeln!(text, "  {line}");
                }
            }
        }
        expected.assert_eq(&text.replace(&self.0.display().to_string(), ""));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const UBUNTU: (&str, &str) = ("etc/os-release", "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n");

#[test]
fn a_machine_with_everything_says_nothing_but_that_bubblewrap_could_be_had() {
    Machine::new(&[UBUNTU]).check(7, true, expect![[r#"
        note [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          sudo apt install bubblewrap
    "#]]);
}

#[test]
fn apparmor_that_closes_user_namespaces_is_told_with_the_exact_fix() {
    let closed = ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    Machine::new(&[UBUNTU, closed]).check(5, false, expect![[r#"
        note [landlock] Linux 6.12.1, Landlock level 5: it cannot hold signals and abstract sockets
          Linux 6.12 has the next level
        warning [apparmor-userns] AppArmor closes user namespaces to programs without a profile of their own
          printf 'abi <abi/4.0>,\nprofile sbx /usr/bin/sbx flags=(unconfined) {\n  userns,\n}\n' | sudo tee /etc/apparmor.d/sbx
          sudo apparmor_parser -r /etc/apparmor.d/sbx
        warning [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          sudo apt install bubblewrap
    "#]]);
}

#[test]
fn switches_that_close_user_namespaces_are_told_with_the_exact_fix() {
    let debian = ("etc/os-release", "ID=debian\n");
    let switch = ("proc/sys/kernel/unprivileged_userns_clone", "0\n");
    let most = ("proc/sys/user/max_user_namespaces", "0\n");
    Machine::new(&[debian, switch, most]).check(4, false, expect![[r#"
        note [landlock] Linux 6.12.1, Landlock level 4: it cannot hold device control, signals and abstract sockets
          Linux 6.10 has the next level
        warning [max-user-namespaces] user namespaces are switched off: user.max_user_namespaces is 0
          sudo sysctl -w user.max_user_namespaces=15000
          echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-sbx.conf
        warning [userns-clone] user namespaces are closed to ordinary users: kernel.unprivileged_userns_clone is 0
          sudo sysctl -w kernel.unprivileged_userns_clone=1
          echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-sbx.conf
        warning [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          sudo apt install bubblewrap
    "#]]);
}

#[test]
fn old_kernels_and_kernels_without_landlock_are_told_apart() {
    Machine::new(&[("proc/sys/kernel/osrelease", "5.4.0-200-generic\n")]).check(0, true, expect![[r#"
        error [landlock] Linux 5.4.0-200-generic without Landlock
          Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK=y; 6.12 gives all that sbx can use
        note [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          install the package bubblewrap
    "#]]);
    let off = ("sys/kernel/security/lsm", "lockdown,capability,yama,apparmor\n");
    Machine::new(&[("proc/sys/kernel/osrelease", "6.8.0\n"), off]).check(0, true, expect![[r#"
        error [landlock] Linux 6.8.0 without Landlock
          boot with lsm=landlock,lockdown,capability,yama,apparmor on the kernel's command line
        note [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          install the package bubblewrap
    "#]]);
    let no_notification = ("proc/sys/kernel/seccomp/actions_avail", "kill trap errno trace allow\n");
    Machine::new(&[("proc/sys/kernel/osrelease", "4.19.0\n"), no_notification]).check(0, true, expect![[r#"
        error [landlock] Linux 4.19.0 without Landlock
          Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK=y; 6.12 gives all that sbx can use
        warning [seccomp] system calls cannot be watched: protected paths and connections on behalf are not to be had
          Linux 5.0 or newer
        note [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          install the package bubblewrap
    "#]]);
}

#[test]
fn each_landlock_level_says_what_it_cannot_hold() {
    for level in 1..=6 {
        let lacking = Machine::new(&[]);
        let expected = match level {
            1 => expect![
                "warning: Linux 6.12.1, Landlock level 1: it cannot hold links and moves between directories, truncation, TCP ports, device control, signals and abstract sockets (Linux 5.19 has the next level)"
            ],
            2 => expect![
                "warning: Linux 6.12.1, Landlock level 2: it cannot hold truncation, TCP ports, device control, signals and abstract sockets (Linux 6.2 has the next level)"
            ],
            3 => expect![
                "note: Linux 6.12.1, Landlock level 3: it cannot hold TCP ports, device control, signals and abstract sockets (Linux 6.7 has the next level)"
            ],
            4 => expect![
                "note: Linux 6.12.1, Landlock level 4: it cannot hold device control, signals and abstract sockets (Linux 6.10 has the next level)"
            ],
            5 => expect![
                "note: Linux 6.12.1, Landlock level 5: it cannot hold signals and abstract sockets (Linux 6.12 has the next level)"
            ],
            _ => expect!["fine: Linux 6.12.1, Landlock level 6 ()"],
        };
        lacking.with_bwrap(0o755).check_landlock(level, expected);
    }
}

impl Machine {
    fn check_landlock(&self, level: u32, expected: Expect) {
        let findings = HostFacts::read(&self.0).findings(level, true, Path::new("/usr/bin/sbx"));
        let found = findings.iter().find(|finding| finding.code == "landlock").expect("a finding");
        expected.assert_eq(&format!("{}: {} ({})", found.level.name(), found.message, found.fix.join("; ")));
    }
}

#[test]
fn surroundings_are_recognised() {
    let first = ("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n");
    Machine::new(&[first]).check(0, false, expect![[r#"
        error [landlock] Linux 4.4.0-19041-Microsoft without Landlock
          Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK=y; 6.12 gives all that sbx can use
        error [wsl] this is WSL 1, which has no Linux kernel: nothing can be fenced
          wsl --set-version DISTRIBUTION 2
        warning [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          install the package bubblewrap
    "#]]);
    let second = ("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n");
    Machine::new(&[second, ("proc/self/status", "Name:\tsbx\nSeccomp:\t0\n")]).check(1, true, expect![[r#"
        warning [landlock] Linux 5.15.167.4-microsoft-standard-WSL2, Landlock level 1: it cannot hold links and moves between directories, truncation, TCP ports, device control, signals and abstract sockets
          Linux 5.19 has the next level
        note [wsl] this is WSL 2: files below /mnt belong to Windows, and what is protected there is protected only from Linux
        note [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          install the package bubblewrap
    "#]]);
    let docker = (".dockerenv", "");
    let filtered = ("proc/self/status", "Name:\tsbx\nNoNewPrivs:\t1\nSeccomp:\t2\n");
    Machine::new(&[docker, filtered]).check(6, false, expect![[r#"
        note [container] this is a container (docker): it may close namespaces and mask /proc, which leaves the landlock backend
          docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …, or accept what landlock lacks by name
        note [nested] sbx itself runs behind a filter of system calls: another sandbox, or a container's; it can only narrow further
        warning [bwrap-missing] there is no bubblewrap: the bwrap backend, for hosts where only it may make namespaces, is not to be had
          install the package bubblewrap
    "#]]);
    for (file, text, name) in [
        ("run/.containerenv", "", "podman"),
        ("proc/1/environ", "PATH=/bin\0container=lxc\0", "lxc"),
        ("proc/1/cgroup", "12:pids:/kubepods/pod1\n", "kubepods"),
    ] {
        assert_eq!(HostFacts::read(&Machine::new(&[(file, text)]).0).container.as_deref(), Some(name));
    }
}

#[test]
fn a_bubblewrap_that_is_not_to_be_trusted_is_told() {
    Machine::new(&[]).with_bwrap(0o4755).check(
        6,
        true,
        expect![[r#"
        warning [bwrap-setuid] /usr/bin/bwrap runs with its owner's rights (setuid) and is not used
          sudo chmod u-s /usr/bin/bwrap
    "#]],
    );
    Machine::new(&[]).with_bwrap(0o777).check(
        6,
        true,
        expect![[r#"
        warning [bwrap-owner] /usr/bin/bwrap can be changed by others than root and is not used
          sudo chown root:root /usr/bin/bwrap && sudo chmod go-w /usr/bin/bwrap
    "#]],
    );
}

#[test]
fn every_distribution_has_its_own_line() {
    for (release, command) in [
        ("ID=fedora\n", "sudo dnf install bubblewrap"),
        ("ID=arch\n", "sudo pacman -S bubblewrap"),
        ("ID=alpine\n", "sudo apk add bubblewrap"),
        ("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "sudo zypper install bubblewrap"),
        ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "sudo apt install bubblewrap"),
        ("ID=nixos\n", "nix-env -iA nixos.bubblewrap"),
        ("ID=unheard-of\n", "install the package bubblewrap"),
    ] {
        let machine = Machine::new(&[("etc/os-release", release)]);
        let findings = HostFacts::read(&machine.0).findings(6, false, Path::new("/usr/bin/sbx"));
        let missing = findings.iter().find(|finding| finding.code == "bwrap-missing").expect("a finding");
        assert_eq!(missing.fix, [command], "{release}");
    }
}
