//! Where a backend is tried: things for attacks to reach for, and launches among them.
//!
//! Answers for putting them there, for launching acts behind a real fence as for any agent, and for taking all away.

use super::network::{self, Serving};
use crate::capability::Spec;
use crate::decide::{Request, decide};
use crate::manifest::Facts;
use crate::plan::{Invocation, Outlet, lower};
use crate::policy::Policy;
use crate::run::{Act, Live, SURELY_GONE, Tried, acting, told};
use sbx_platform::attempt::SharedMemory;
use sbx_platform::door::Porter;
use sbx_platform::plan::{Pipe, Plan, Stdio};
use sbx_platform::{Backend, End, Guarantee, Outcome};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Processes and threads of the trial.
const PIDS: u64 = 256;
/// Memory of the trial; that of the one attack on it, and more than that.
const MEMORY: u64 = 1 << 30;
const LITTLE_MEMORY: u64 = 64 << 20;
const HOARD: &str = "268435456";
/// The signal that warns nobody.
const KILL: i32 = 9;
/// How long an attack may take to begin, and how often that is looked for.
const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(5);

/// What the attacks reach for; gone when dropped.
pub(super) struct Ground {
    dir: PathBuf,
    temporary: PathBuf,
    port: TcpListener,
    _socket: UnixListener,
    memory: Option<(i32, SharedMemory)>,
}

impl Ground {
    pub(super) fn new() -> io::Result<Self> {
        let temp = fs::canonicalize(std::env::temp_dir())?;
        let number = std::process::id();
        let dir = (0..100)
            .map(|attempt| temp.join(format!("sbx-doctor-{number}-{attempt}")))
            .find(|dir| fs::create_dir(dir).is_ok());
        let dir = dir.ok_or_else(|| io::Error::other(format!("{} takes no directory", temp.display())))?;
        let port = TcpListener::bind("127.0.0.1:0")?;
        for below in ["outside", "work/open/.git/hooks", "home"] {
            fs::create_dir_all(dir.join(below))?;
        }
        for file in ["outside/secret", "work/shown", "work/open/kept"] {
            fs::write(dir.join(file), "put here by sbx doctor\n")?;
        }
        let socket = UnixListener::bind(dir.join("outside/socket"))?;
        let temporary = Path::new("/tmp").join(format!("sbx-doctor-{number}.tmp"));
        fs::write(&temporary, "put here by sbx doctor\n")?;
        let memory = i32::try_from(number).ok().map(|number| number | 0x5b00_0000);
        let memory = memory.and_then(|number| Some((number, SharedMemory::make(number).ok()?)));
        Ok(Self { dir, temporary, port, _socket: socket, memory })
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the table of attacks asks for an object that may be missing"
    )]
    pub(super) fn file(&self, name: &str) -> Option<OsString> {
        Some(self.dir.join(name).into())
    }

    pub(super) fn address(&self) -> Option<OsString> {
        self.port.local_addr().ok().map(|address| address.to_string().into())
    }

    pub(super) fn memory(&self) -> Option<OsString> {
        self.memory.as_ref().map(|(number, _)| number.to_string().into())
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the table of attacks asks for an object that may be missing"
    )]
    pub(super) fn temporary(&self) -> Option<OsString> {
        Some(self.temporary.clone().into())
    }

    /// A network with doors, where there is one.
    pub(super) fn try_network(&self, backend: Backend) -> Result<Option<network::Found>, String> {
        if cfg!(not(target_os = "linux")) {
            return Ok(None);
        }
        let mut serving = Serving::new().map_err(|error| error.to_string())?;
        let (outcome, told) = self.launch(&serving.acts(), backend, Some(&mut serving))?;
        Ok(serving.found(&told, &outcome.enforcement))
    }

    /// Through a record, as for any agent: a directory that is shown, one that may be written, one program, and what
    /// is served. What was done, and how each act went.
    pub(super) fn launch(
        &self,
        acts: &[Act],
        backend: Backend,
        serving: Option<&mut Serving>,
    ) -> Result<(Outcome, Vec<Tried>), String> {
        let outcome = self.launch_within(MEMORY, acts, backend, serving)?;
        let told = told(&outcome.stdout);
        match &outcome.end {
            End::Exited(0) if told.len() == acts.len() => Ok((outcome, told)),
            End::Setup(failure) => Err(failure.to_string()),
            End::Exited(_) | End::Signaled(_) | End::Limit(_) => {
                let done = told.len();
                Err(format!("the attacks ended after {done} of {}: {:?}", acts.len(), outcome.end))
            }
        }
    }

    /// Whether more memory can be used than the limit says.
    pub(super) fn hoards(&self, backend: Backend) -> bool {
        let acts = [Act::new("hoard", HOARD)];
        let outcome = self.launch_within(LITTLE_MEMORY, &acts, backend, None);
        outcome.is_ok_and(|outcome| told(&outcome.stdout).iter().any(|tried| tried.error.is_none()))
    }

    fn launch_within(
        &self,
        memory: u64,
        acts: &[Act],
        backend: Backend,
        mut serving: Option<&mut Serving>,
    ) -> Result<Outcome, String> {
        let plan = self.plan(memory, acts, serving.as_deref_mut())?;
        let porter = serving.map(|serving| serving as &mut dyn Porter);
        sbx_platform::launch(&plan, Some(backend), porter).map_err(|error| error.to_string())
    }

    fn plan(&self, memory: u64, acts: &[Act], mut serving: Option<&mut Serving>) -> Result<Plan, String> {
        let program =
            std::env::current_exe().and_then(fs::canonicalize).map_err(|error| error.to_string())?;
        let (work, open) = (self.dir.join("work"), self.dir.join("work/open"));
        let specs = [
            format!("proc.exec{{in=\"{}\",cmds=[\"{}\"]}}", work.display(), program.display()),
            format!("fs.read{{in=\"{}\"}}", work.display()),
            format!("fs.write{{in=\"{}\"}}", open.display()),
        ];
        let reached = serving.as_ref().map(|serving| serving.specs()).transpose();
        let reached = reached.map_err(|error| error.to_string())?.unwrap_or_default();
        let specs: Result<Vec<Spec>, _> =
            specs.iter().chain(&reached).map(|spec| Spec::parse(spec)).collect();
        let specs = specs.map_err(|error| format!("{error:?}"))?;
        let facts = Facts::new(self.dir.join("home")).at(&work);
        let policy =
            Policy::from_specs("doctor", &specs, &facts).map_err(|problems| format!("{problems:?}"))?;
        let outlet = serving.as_ref().map(|_| Outlet::default());
        if let Some(serving) = &mut serving {
            serving.prepare(&policy).map_err(|error| error.to_string())?;
        }
        let request = Request::exec(acting(&program, acts)).in_dir(&work);
        let decision = decide(&policy, &request);
        let permit = decision
            .permit()
            .ok_or_else(|| decision.denial().map(ToString::to_string).unwrap_or_default())?;
        let all = Guarantee::ALL.iter().map(|guarantee| guarantee.name().to_owned()).collect();
        let invocation =
            Invocation::new(sbx_platform::ids()).stdio(Stdio::Capture).accepting(all).outlet(outlet);
        let mut lowered = lower(&permit, &invocation, &Live).map_err(|error| error.to_string())?;
        // A limit that is not asked for is not missed, so both are asked for.
        (lowered.plan.limits.memory, lowered.plan.limits.pids) = (Some(memory), Some(PIDS));
        Ok(lowered.plan)
    }

    /// Whether something of a launch lives on when its launcher is killed without warning.
    pub(super) fn survives(&self, backend: Backend) -> Result<bool, String> {
        let [begun, go, lived] = ["begun", "go", "lived"].map(|name| self.dir.join("work/open").join(name));
        let told = |error: io::Error| error.to_string();
        let plan = self.plan(MEMORY, &[Act::new("remain", self.dir.join("work/open"))], None)?;
        let child = sbx_platform::spawn(&plan, Some(backend), [Pipe::New; 3], None)
            .map_err(|error| error.to_string())?;
        let until = Instant::now() + PATIENCE;
        while !begun.exists() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
        let killed = child.signal(KILL);
        let _ = child.wait();
        killed.map_err(told)?;
        if !begun.exists() {
            return Err("the attack did not begin".to_owned());
        }
        fs::write(go, "").map_err(told)?;
        std::thread::sleep(SURELY_GONE);
        Ok(lived.exists())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
        let _ = fs::remove_dir_all(&self.dir);
    }
}
