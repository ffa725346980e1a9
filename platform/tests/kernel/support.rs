//! A small world for one case: directories, a plan over them, and the tally.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sbx_platform::plan::{Access, Code, MountOp, Place, Plan, Rights, Stdio};
use sbx_platform::{Backend, End, Guarantee, Outcome, PlatformError};

/// What came of a case.
#[derive(Debug)]
pub(crate) enum Verdict {
    Passed,
    /// The backend does not give this and says so.
    Withheld(Guarantee),
    Failed(String),
}

/// Counts verdicts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) withheld: usize,
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) fn count(&mut self, name: &str, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Withheld(guarantee) => {
                self.withheld += 1;
                println!("not given ({guarantee}): {name}");
            }
            Verdict::Failed(reason) => {
                self.failed += 1;
                println!("FAILED: {name}: {reason}");
            }
        }
    }
}

/// Fails the case unless the two are equal.
macro_rules! same {
    ($what:expr, $found:expr, $wanted:expr) => {
        match (&$found, &$wanted) {
            (found, wanted) if found == wanted => {}
            (found, wanted) => {
                return $crate::support::Verdict::Failed(format!("{}: {found:?}, not {wanted:?}", $what));
            }
        }
    };
}
pub(crate) use same;

/// Whether this process is user 0.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// A fresh directory everyone may enter.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("sbx-kernel-{}-{number}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::canonicalize(dir).unwrap()
}

/// Directories and a backend.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) backend: Backend,
    dir: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl World {
    pub(crate) fn new(backend: Backend) -> Self {
        let dir = scratch("world");
        for name in ["work", "read", "secret"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        std::fs::write(dir.join("read/note"), "note").unwrap();
        std::fs::write(dir.join("secret/key"), "key").unwrap();
        Self { backend, dir }
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.dir.join("work").join(name)
    }

    pub(crate) fn read(&self, name: &str) -> PathBuf {
        self.dir.join("read").join(name)
    }

    pub(crate) fn secret(&self, name: &str) -> PathBuf {
        self.dir.join("secret").join(name)
    }

    /// A plan with this program as probe, one writable and one readable place.
    pub(crate) fn plan(&self, act: &[&str]) -> Plan {
        let own = std::fs::canonicalize("/proc/self/exe").unwrap();
        let mut argv: Vec<OsString> = vec!["probe".into(), "act".into()];
        argv.extend(act.iter().map(OsString::from));
        let mut plan = Plan::new(&own, argv);
        plan.stdio = Stdio::Capture;
        plan.cwd = self.dir.join("work");
        plan.limits.wall = Some(Duration::from_secs(60));
        for name in ["/usr", "/lib", "/lib64", "/bin"].map(PathBuf::from) {
            match std::fs::read_link(&name) {
                Ok(target) => plan.mounts.push(MountOp::Symlink { target, dest: name }),
                Err(_) if name.is_dir() => show(&mut plan, &name, Access::ReadOnly, code_rights()),
                Err(_) => {}
            }
        }
        plan.mounts.push(MountOp::Proc { dest: "/proc".into() });
        plan.mounts.push(MountOp::Dev { dest: "/dev".into() });
        let tmp = MountOp::Tmpfs {
            dest: "/scratch".into(),
            size: Some(1 << 20),
            mode: 0o1777,
            code: Code::Refused,
        };
        plan.mounts.push(tmp);
        plan.rights.push(Place { path: "/scratch".into(), rights: all_rights() });
        show(&mut plan, &own, Access::ReadOnly, Rights::READ | Rights::EXECUTE);
        show(&mut plan, &self.dir.join("work"), Access::ReadWrite, all_rights());
        show(&mut plan, &self.dir.join("read"), Access::ReadOnly, Rights::READ | Rights::LIST);
        plan
    }

    /// Replaces the rights on the writable place.
    pub(crate) fn with_rights(&self, mut plan: Plan, rights: Rights) -> Plan {
        let work = self.dir.join("work");
        for place in &mut plan.rights {
            if place.path == work {
                place.rights = rights;
            }
        }
        plan
    }

    pub(crate) fn launch(&self, plan: &Plan) -> Result<Outcome, PlatformError> {
        sbx_platform::launch(plan, Some(self.backend), None)
    }

    /// What the probe said about `act`.
    pub(crate) fn says(&self, act: &[&str]) -> String {
        self.says_under(&self.plan(act))
    }

    /// As [`Self::says`], under another plan.
    pub(crate) fn says_under(&self, plan: &Plan) -> String {
        match self.launch(plan) {
            Ok(outcome) if matches!(outcome.end, End::Exited(0)) => {
                String::from_utf8_lossy(&outcome.stdout).trim_end().to_owned()
            }
            Ok(outcome) => {
                format!("{:?} {}", outcome.end, String::from_utf8_lossy(&outcome.stderr).trim_end())
            }
            Err(error) => error.to_string(),
        }
    }

    /// The first of `guarantees` that this backend does not give.
    pub(crate) fn lacks(&self, guarantees: &[Guarantee]) -> Option<Guarantee> {
        let outcome = self.launch(&self.plan(&["nothing"])).unwrap();
        guarantees.iter().copied().find(|guarantee| !outcome.enforcement.has(*guarantee))
    }
}

fn show(plan: &mut Plan, path: &Path, access: Access, rights: Rights) {
    let bind = MountOp::Bind { source: path.into(), dest: path.into(), access, code: Code::Allowed };
    plan.mounts.push(bind);
    plan.rights.push(Place { path: path.into(), rights });
}

fn code_rights() -> Rights {
    Rights::READ | Rights::LIST | Rights::EXECUTE
}

/// Everything one may do to files.
pub(crate) fn all_rights() -> Rights {
    Rights::READ | Rights::LIST | Rights::WRITE | Rights::REMOVE | Rights::EXECUTE
}
