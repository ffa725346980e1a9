//! Weaker machines: closed namespaces, no bubblewrap, lower Landlock levels.

use std::process::ExitCode;

use crate::support::Verdict;

type Case = fn() -> Verdict;

/// Prints what the probe finds, for a process with other surroundings.
pub(crate) fn print_probe() -> ExitCode {
    match sbx_platform::probe() {
        Ok(found) => {
            for tried in found.backends {
                let state = tried.failure.unwrap_or_else(|| String::from("works"));
                let given: Vec<&str> = tried.given.iter().map(|guarantee| guarantee.name()).collect();
                println!("{} {}: {}", tried.backend, state, given.join(" "));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "test-hooks"))]
pub(crate) const ALL: &[(&str, Case)] = &[];

#[cfg(feature = "test-hooks")]
pub(crate) const ALL: &[(&str, Case)] = &[
    ("every backend is found to work here", simulated::everything),
    ("closed namespaces leave bwrap and landlock", simulated::no_namespaces),
    ("each Landlock level gives what it knows", simulated::levels),
    ("what a lower level of Landlock is said to give is really held", simulated::held),
    ("where somebody watches already, protected paths are not promised", simulated::no_notify),
    ("a level of Landlock without its scopes is used without them", simulated::no_scopes),
    ("without rules of the packet filter there is a listener for each port", simulated::no_rules),
];

#[cfg(feature = "test-hooks")]
mod simulated {
    use std::process::Command;

    use crate::support::Verdict::{self, Failed, Passed};

    fn probe(switches: &[(&str, &str)]) -> String {
        let mut command = Command::new("/proc/self/exe");
        command.arg("probe").envs(switches.iter().copied());
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    }

    fn line<'t>(text: &'t str, backend: &str) -> &'t str {
        text.lines().find(|line| line.starts_with(backend)).unwrap_or("")
    }

    pub(super) fn everything() -> Verdict {
        let text = probe(&[]);
        for backend in ["native", "bwrap", "landlock"] {
            if !line(&text, backend).contains(" works: ") {
                return Failed(text);
            }
        }
        Passed
    }

    pub(super) fn no_namespaces() -> Verdict {
        let text = probe(&[("SBX_TEST_NO_NAMESPACES", "1"), ("SBX_TEST_NO_BWRAP", "1")]);
        let shut = !line(&text, "native").contains(" works: ") && !line(&text, "bwrap").contains(" works: ");
        if shut && line(&text, "landlock").contains(" works: ") { Passed } else { Failed(text) }
    }

    pub(super) fn no_notify() -> Verdict {
        let text = probe(&[("SBX_TEST_NO_NOTIFY", "1")]);
        for backend in ["native", "bwrap", "landlock"] {
            let found = line(&text, backend);
            if !found.contains(" works: ") || found.contains("protected-paths") {
                return Failed(text);
            }
        }
        Passed
    }

    pub(super) fn no_scopes() -> Verdict {
        let text = probe(&[("SBX_TEST_NO_SCOPES", "1")]);
        for backend in ["native", "bwrap", "landlock"] {
            let found = line(&text, backend);
            let outside = found.contains(" signals ") != (backend == "landlock");
            if !found.contains(" works: ") || !outside {
                return Failed(text);
            }
        }
        Passed
    }

    /// All cases about the network again, on a machine without such rules.
    pub(super) fn no_rules() -> Verdict {
        let text = probe(&[("SBX_TEST_NO_RULES", "1")]);
        let found = line(&text, "native");
        if found.contains("net-ports") || !found.contains("net-hosts") {
            return Failed(text);
        }
        let mut command = Command::new("/proc/self/exe");
        command.env("SBX_TEST_NO_RULES", "1").env("SBX_KERNEL_CHILD", "1").env("SBX_KERNEL_ONLY", "doors: ");
        let output = command.output().unwrap();
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        if output.status.success() && said.contains("net-ports") { Passed } else { Failed(said) }
    }

    /// The acts that guarantees are about, tried again at levels that know less.
    pub(super) fn held() -> Verdict {
        let kept = "held: |without the right to remove|lends no right|is not writable|metadata outside|only listed|that exist stay|are not made";
        for level in 0..=5 {
            // Without any, there is no backend of that name.
            let only = if level == 0 { "native held: |bwrap held: " } else { kept };
            let mut command = Command::new("/proc/self/exe");
            command.env("SBX_TEST_LANDLOCK", level.to_string()).env("SBX_KERNEL_CHILD", "1");
            let output = command.env("SBX_KERNEL_ONLY", only).output().unwrap();
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            let said = said.concat();
            // What the kernel cannot hold is said so, and what the broker holds instead is not.
            let withheld = |name: &str| said.contains(&format!("not given ({name}): "));
            let native = |name: &str| {
                said.lines()
                    .any(|line| line.contains(" native held: ") && line.contains(&format!("({name})")))
            };
            let as_said = withheld("fs-read") == (level == 0)
                && native("fs-write") == (level == 0)
                && !native("fs-truncate")
                && !native("fs-metadata");
            if !output.status.success() || !as_said {
                return Failed(format!("level {level}: {said}"));
            }
        }
        Passed
    }

    pub(super) fn levels() -> Verdict {
        for level in 0..=7 {
            let text = probe(&[("SBX_TEST_LANDLOCK", &level.to_string())]);
            let (native, bare) = (line(&text, "native"), line(&text, "landlock"));
            let checks = [
                native.contains(" works: "),
                native.contains("fs-delete") == (level >= 1),
                native.contains("fs-write")
                    && native.contains("fs-truncate")
                    && native.contains("fs-metadata"),
                native.contains("exec-only") == (level >= 1),
                native.contains("fs-hidden"),
                bare.contains(" works: ") == (level >= 1),
                bare.contains("fs-truncate") == (level >= 3),
                bare.contains("signals") == (level >= 6),
                native.contains("net-hosts") && native.contains("net-ports"),
                bare.contains("net-none") == (level >= 1),
                bare.contains("net-hosts") == (level >= 4),
                !bare.contains("net-names") && !bare.contains("net-listen"),
                !bare.contains("fs-hidden"),
            ];
            if checks.contains(&false) {
                return Failed(format!("level {level}: {checks:?}\n{text}"));
            }
        }
        Passed
    }
}
