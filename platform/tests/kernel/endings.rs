//! How launches end, and that nothing is left.

use std::io::{Read, Write};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use sbx_platform::plan::{Access, Code, Limits, MountOp, Stdio};
use sbx_platform::report::{Limit, SetupFailure, Step};
use sbx_platform::{Backend, End, Guarantee as G, Pipe, text};

use crate::support::Verdict::{self, Failed, Passed, Withheld};
use crate::support::{World, is_root, same};

type Case = fn(&World) -> Verdict;

/// Every case with the sentence it checks.
pub(crate) const ALL: &[(&str, Case)] = &[
    ("an exit code and a signal are told apart", codes),
    ("a program that does not exist is a failure to set up", no_program),
    ("a directory that cannot be entered is named", no_directory),
    ("the time limit ends everything", wall),
    ("processor time is that of all processes", cpu),
    ("a limit that was reached is named, whoever met it", reached),
    ("output is cut at its limit", output),
    ("a file stays below its limit", file_size),
    ("processes are bounded", pids),
    ("what is left behind ends with the command", daemon),
    ("nothing survives the launcher being killed at any moment", killed),
    ("a spawned command is talked to through pipes", pipes),
    ("a spawned command ends when it is let go", let_go),
    ("a private terminal is a terminal", terminal),
];

/// Processes anywhere whose command line has `marker`.
fn marked(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let own = entry.file_name().to_str() == Some(&std::process::id().to_string());
        if !own && line.split(|byte| *byte == 0).any(|word| word == marker.as_bytes()) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

/// Whether nothing with `marker` is left within two seconds.
pub(crate) fn gone(marker: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        if marked(marker).is_empty() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn codes(world: &World) -> Verdict {
    same!("code", world.launch(&world.plan(&["exit", "37"])).unwrap().end, End::Exited(37));
    let mut plan = world.plan(&[]);
    plan.program = "/usr/bin/sh".into();
    plan.argv = ["sh", "-c", "kill -TERM $$"].map(Into::into).to_vec();
    same!("signal", world.launch(&plan).unwrap().end, End::Signaled(15));
    Passed
}

fn no_program(world: &World) -> Verdict {
    let mut plan = world.plan(&[]);
    plan.program = "/usr/bin/no-such-program".into();
    let end = world.launch(&plan).unwrap().end;
    let End::Setup(failure) = &end else { return Failed(format!("{end:?}")) };
    same!("step and cause", (failure.step, failure.errno), (Step::Exec, 2));
    Passed
}

fn no_directory(world: &World) -> Verdict {
    let mut plan = world.plan(&["nothing"]);
    plan.cwd = world.work("missing");
    let missing = SetupFailure { step: Step::Directory, object: plan.cwd.display().to_string(), errno: 2 };
    same!("missing", world.launch(&plan).unwrap().end, End::Setup(missing));
    // Root enters any directory.
    if is_root() {
        return Passed;
    }
    plan.cwd = "/root".into();
    plan.mounts.push(MountOp::Bind {
        source: plan.cwd.clone(),
        dest: plan.cwd.clone(),
        access: Access::ReadOnly,
        code: Code::Refused,
    });
    let refused = SetupFailure { step: Step::Directory, object: String::from("/root"), errno: 13 };
    same!("closed", world.launch(&plan).unwrap().end, End::Setup(refused.clone()));
    let by_itself = sbx_platform::launch(&plan, None, None).unwrap();
    same!("closed, and no other backend is tried", by_itself.end, End::Setup(refused));
    same!("the first", by_itself.enforcement.backend, Backend::Native);
    Passed
}

fn cpu(world: &World) -> Verdict {
    let mut plan = world.plan(&[]);
    plan.program = "/usr/bin/sh".into();
    let script = "for i in 1 2 3; do (while :; do :; done) & done; wait; sleep 9";
    plan.argv = ["sh", "-c", script].map(Into::into).to_vec();
    plan.limits.cpu = Some(Duration::from_secs(1));
    let outcome = world.launch(&plan).unwrap();
    same!("end", outcome.end, End::Limit(Limit::Cpu));
    same!("told", outcome.reached, vec![Limit::Cpu]);
    // One process after the other, none of them for long; far more of them than any machine gets through in that time.
    let script =
        "i=0; while [ $i -lt 9999 ]; do (j=0; while [ $j -lt 4000 ]; do j=$((j+1)); done); i=$((i+1)); done";
    plan.argv[2] = script.into();
    same!("by turns", world.launch(&plan).unwrap().end, End::Limit(Limit::Cpu));
    Passed
}

fn reached(world: &World) -> Verdict {
    let mut plan = world.plan(&[]);
    plan.program = "/usr/bin/sh".into();
    let script = "(i=0; while [ $i -lt 40 ]; do sleep 1 & i=$((i+1)); done) 2>/dev/null; exit 7";
    plan.argv = ["sh", "-c", script].map(Into::into).to_vec();
    plan.limits.pids = Some(12);
    let outcome = world.launch(&plan).unwrap();
    if !outcome.enforcement.has(G::PidsLimit) {
        return Withheld(G::PidsLimit);
    }
    same!("the command's own end", outcome.end, End::Exited(7));
    // Without a control group nobody counts.
    let counted = is_root();
    same!("told", outcome.reached, if counted { vec![Limit::Pids] } else { Vec::new() });
    if !counted {
        return Withheld(G::MemoryLimit);
    }
    plan.limits = Limits { memory: Some(96 << 20), ..Limits::default() };
    let hoard = "head -c 60000000 /dev/zero | tail -c 60000000 | wc -c";
    plan.argv[2] = format!("({hoard} & {hoard} & {hoard} & wait) >/dev/null 2>&1; exit 7").into();
    let outcome = world.launch(&plan).unwrap();
    same!("the command's own end", outcome.end, End::Exited(7));
    same!("told", outcome.reached, vec![Limit::Memory]);
    Passed
}

fn wall(world: &World) -> Verdict {
    let marker = format!("wall-{}", std::process::id());
    let mut plan = world.plan(&[]);
    plan.program = "/usr/bin/sh".into();
    let script = "trap '' TERM INT HUP; while :; do :; done";
    plan.argv = ["sh", "-c", script, &marker].map(Into::into).to_vec();
    plan.limits.wall = Some(Duration::from_millis(300));
    let outcome = world.launch(&plan).unwrap();
    same!("end", outcome.end, End::Limit(Limit::Wall));
    same!("in time", outcome.duration < Duration::from_secs(3), true);
    same!("left", gone(&marker), true);
    Passed
}

fn output(world: &World) -> Verdict {
    let mut plan = world.plan(&["flood"]);
    plan.limits.output = Some(100_000);
    let outcome = world.launch(&plan).unwrap();
    same!("end", outcome.end, End::Limit(Limit::Output));
    same!("bytes", outcome.stdout.len(), 100_000);
    Passed
}

fn file_size(world: &World) -> Verdict {
    let mut plan = world.plan(&["grow", "big"]);
    plan.limits.file_size = Some(1 << 20);
    let outcome = world.launch(&plan).unwrap();
    same!("end", outcome.end, End::Limit(Limit::FileSize));
    same!("bytes", std::fs::metadata(world.work("big")).unwrap().len(), 1 << 20);
    Passed
}

fn pids(world: &World) -> Verdict {
    let mut plan = world.plan(&["crowd", "60"]);
    plan.limits.pids = Some(24);
    let outcome = world.launch(&plan).unwrap();
    if !outcome.enforcement.has(G::PidsLimit) {
        return Withheld(G::PidsLimit);
    }
    same!("children", String::from_utf8_lossy(&outcome.stdout).trim_end(), "bounded");
    Passed
}

fn daemon(world: &World) -> Verdict {
    let marker = format!("daemon-{}-{}", std::process::id(), world.backend);
    same!("started", world.says(&["daemon", &marker]), "ok");
    same!("left", marked(&marker), Vec::<String>::new());
    Passed
}

/// Launches the plan in a file and waits; the process that gets killed.
pub(crate) fn launch_and_wait(words: &[String]) -> ExitCode {
    let plan = text::parse(&std::fs::read_to_string(&words[1]).unwrap()).unwrap();
    let _ = sbx_platform::launch(&plan, Backend::from_name(&words[0]), None);
    ExitCode::SUCCESS
}

fn killed(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::TeardownKilled]) {
        return Withheld(lacking);
    }
    let marker = format!("killed-{}-{}", std::process::id(), world.backend);
    let file = world.secret("plan");
    let mut plan = world.plan(&["sleep", &marker]);
    plan.protect = vec![world.work(".envrc")];
    std::fs::write(&file, text::write(&plan)).unwrap();
    let rounds = std::env::var("SBX_KERNEL_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let mounted = mounts();
    for round in 0..rounds {
        let mut child = Command::new("/proc/self/exe")
            .args(["launch-and-wait", world.backend.name(), file.to_str().unwrap()])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(u64::from(round * 7919 % 12_000_u32)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    same!("processes left", gone(&marker), true);
    same!("launchers left", gone("launch-and-wait"), true);
    same!("files left", std::fs::read_dir(world.work("")).unwrap().count(), 0);
    same!("mounts left", mounts(), mounted);
    Passed
}

fn pipes(world: &World) -> Verdict {
    let mut plan = world.plan(&["copy-input"]);
    plan.stdio = Stdio::Inherit;
    let mut child = sbx_platform::spawn(&plan, Some(world.backend), [Pipe::New; 3], None).unwrap();
    child.stdin.take().unwrap().write_all(b"through the fence").unwrap();
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    let outcome = child.wait().unwrap();
    same!("answer", answer, "through the fenceok\n");
    same!("end", outcome.end, End::Exited(0));
    same!("backend", outcome.enforcement.backend, world.backend);
    Passed
}

fn let_go(world: &World) -> Verdict {
    let marker = format!("let-go-{}-{}", std::process::id(), world.backend);
    let mut plan = world.plan(&["sleep", &marker]);
    plan.stdio = Stdio::Inherit;
    let mut child = sbx_platform::spawn(&plan, Some(world.backend), [Pipe::New; 3], None).unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while marked(&marker).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill();
    same!("end", child.wait().unwrap().end, End::Signaled(9));
    same!("left", gone(&marker), true);
    Passed
}

fn terminal(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::Terminals]) {
        return Withheld(lacking);
    }
    let mut plan = world.plan(&[]);
    plan.stdio = Stdio::Pty;
    plan.program = "/usr/bin/sh".into();
    let script = "test -t 0 && test -t 1 && test -t 2 && tty && echo x > /dev/tty";
    plan.argv = ["sh", "-c", script].map(Into::into).to_vec();
    let mut child = sbx_platform::spawn(&plan, Some(world.backend), [Pipe::New; 3], None).unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let outcome = child.wait().unwrap();
    same!("end", outcome.end, End::Exited(0));
    same!("said", said, "/dev/pts/0\r\nx\r\n");
    Passed
}
