//! The launcher of macOS, run on Linux: everything but the fence.
//!
//! Answers for what can be known without a Mac: how commands start, are asked to end, are ended, and what is left of
//! them. A script stands for `sandbox-exec` and `/proc` for what macOS tells of processes.

pub(super) mod processes;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::exec::{Child, launch, spawn};
use crate::plan::{Code, MountOp, Pipe, Plan, Stdio};
use crate::report::{End, Limit, Outcome};

/// Signals come to the whole process, so that one test at a time may wait for some.
static SIGNALLED: Mutex<()> = Mutex::new(());

fn shell(script: &str) -> Plan {
    let mut plan = Plan::new("/bin/sh", ["sh", "-c", script].map(OsString::from).to_vec());
    plan.env.push(("PATH".into(), "/usr/bin:/bin".into()));
    plan.stdio = Stdio::Capture;
    plan.limits.wall = Some(Duration::from_secs(60));
    plan
}

fn run(plan: &Plan) -> Outcome {
    spawn(plan, None, [Pipe::Inherit; 3], None).and_then(Child::wait).expect("a launch")
}

fn told(outcome: &Outcome) -> String {
    assert_eq!(outcome.end, End::Exited(0), "{}", String::from_utf8_lossy(&outcome.stderr));
    String::from_utf8_lossy(&outcome.stdout).trim().to_owned()
}

/// A file that the command makes when it is ready, and what was sent to us then.
fn signalled(script: &str, numbers: &'static [libc::c_int]) -> (Outcome, Duration) {
    let _alone = SIGNALLED.lock().expect("no test failed while it waited");
    let ready = std::env::temp_dir().join(format!("sbx-standin-{}-{}", std::process::id(), numbers.len()));
    let mut plan = shell(script);
    plan.env.push(("READY".into(), ready.clone().into()));
    let sender = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(30);
        while !ready.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(std::fs::remove_file(&ready).is_ok(), "the command never began");
        for number in numbers {
            // SAFETY: takes two integers; the launch under test catches this signal.
            unsafe { libc::kill(std::process::id().cast_signed(), *number) };
        }
    });
    let begun = Instant::now();
    let outcome = launch(&plan, None, None).expect("a launch");
    sender.join().expect("a sender");
    (outcome, begun.elapsed())
}

#[test]
fn a_command_runs_and_its_words_come_back() {
    let outcome = run(&shell("echo out; echo err >&2; exit 7"));
    assert_eq!(outcome.end, End::Exited(7));
    assert_eq!((outcome.stdout.as_slice(), outcome.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
}

#[test]
fn no_descriptor_is_left_open_whatever_the_limit() {
    let file = File::open("/dev/null").expect("a file");
    // SAFETY: takes integers and answers with a new descriptor, which commands inherit.
    let high = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 200) };
    assert!(high >= 200);
    // SAFETY: the descriptor is new and nobody else's.
    let _high = unsafe { OwnedFd::from_raw_fd(high) };
    let mut plan = shell("ulimit -n; ls /proc/self/fd");
    plan.limits.open_files = Some(64);
    let told = told(&run(&plan));
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some("64"));
    assert!(lines.all(|number| number.parse::<u32>().is_ok_and(|number| number < 64)), "{told}");
}

#[test]
fn a_signal_is_passed_on_whatever_comes_with_it() {
    let script = "trap 'exit 7' TERM; : > $READY; while :; do sleep 0.02; done";
    let (outcome, _) = signalled(script, &[libc::SIGTERM, libc::SIGWINCH]);
    assert_eq!(outcome.end, End::Exited(7));
}

#[test]
fn a_command_that_does_not_end_when_asked_is_killed_after_a_while() {
    let script = "trap '' TERM; : > $READY; while :; do sleep 0.02; done";
    let (outcome, time) = signalled(script, &[libc::SIGTERM]);
    assert_eq!(outcome.end, End::Signaled(libc::SIGKILL));
    assert!(time >= crate::signals::GRACE && time < Duration::from_secs(30), "{time:?}");
}

#[test]
fn what_a_command_leaves_behind_is_ended() {
    let outcome = run(&shell("setsid sleep 300 & echo $!; sleep 300 & echo $!; sleep 2"));
    let left = told(&outcome);
    assert_eq!(left.lines().count(), 2);
    for pid in left.lines() {
        assert_eq!(processes::birth(pid.parse().expect("a number")), None, "{pid} is still there");
    }
}

#[test]
fn limits_that_are_watched_end_everything() {
    let mut long = shell("sleep 300");
    long.limits.wall = Some(Duration::from_millis(200));
    assert_eq!(run(&long).end, End::Limit(Limit::Wall));
    let mut loud = shell("while :; do echo aaaaaaaaaaaaaaaa; done");
    loud.limits.output = Some(1000);
    let outcome = run(&loud);
    assert_eq!((outcome.end, outcome.stdout.len()), (End::Limit(Limit::Output), 1000));
    let mut many = shell("for i in 1 2 3 4 5 6; do sleep 300 & done; wait");
    many.limits.pids = Some(3);
    assert_eq!(run(&many).end, End::Limit(Limit::Pids));
}

#[test]
fn letting_go_of_a_launch_ends_it() {
    let mut child = spawn(&shell("sleep 300"), None, [Pipe::Inherit; 3], None).expect("a launch");
    child.kill();
    assert_eq!(child.wait().expect("an outcome").end, End::Signaled(libc::SIGKILL));
}

#[test]
fn private_directories_stand_where_they_are_told_and_go_with_the_launch() {
    let mut plan = shell("echo $TMPDIR; echo x > $TMPDIR/file && cat $TMPDIR/file");
    let dest = PathBuf::from("/private/sbx/tmp");
    plan.env.push(("TMPDIR".into(), dest.clone().into()));
    plan.mounts.push(MountOp::Tmpfs { dest, size: None, mode: 0o700, code: Code::Refused });
    let told = told(&run(&plan));
    let (own, read) = told.split_once('\n').expect("two lines");
    assert!(own.contains("sbx-scratch-") && read == "x", "{told}");
    assert!(!Path::new(own).exists());
}
