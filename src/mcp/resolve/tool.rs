//! Running the user's own tools, outside the fence.
//!
//! Invariant: a tool takes no longer than it may, whatever it has started itself, and nothing of it is left then.

use super::World;
use sbx_platform::group;
use sbx_platform::ready::{Wanted, never_wait, ready};
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a package may take to be fetched.
const FETCH: Duration = Duration::from_secs(120);
/// How long it is listened on when the tool itself has ended.
const LATE: Duration = Duration::from_millis(250);
/// How often it is looked whether it has.
const GLANCE: Duration = Duration::from_millis(10);
/// As much of what is said is kept.
const KEPT: usize = 1 << 20;

/// Runs one of the user's own tools and hands out what it said.
pub(super) fn run_tool(program: &Path, args: &[&OsStr], world: &World) -> io::Result<(bool, String, String)> {
    let mut command = Command::new(program);
    command.args(args).current_dir(&world.home).env("PATH", world.own.path());
    run_within(&mut command, FETCH)
}

fn run_within(command: &mut Command, time: Duration) -> io::Result<(bool, String, String)> {
    let streams = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.process_group(0).spawn()?;
    let (mut out, mut err) = (Said::new(child.stdout.take())?, Said::new(child.stderr.take())?);
    let status = listen(&mut child, &mut out, &mut err, Instant::now() + time);
    if !matches!(status, Ok(Some(_))) {
        // Not waited for yet, so that the number is still its own; what it has started is in its group.
        let _ = group::kill(child.id());
        child.wait()?;
    }
    Ok((status?.is_some_and(|status| status.success()), out.text(), err.text()))
}

/// Listens until the tool has ended and all is said; none when that takes too long.
fn listen<A: Read + AsFd, B: Read + AsFd>(
    child: &mut Child,
    out: &mut Said<A>,
    err: &mut Said<B>,
    until: Instant,
) -> io::Result<Option<ExitStatus>> {
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        let now = Instant::now();
        match ended {
            // Something that it left behind may keep the streams open.
            Some((status, late)) if now >= late || (out.is_over() && err.is_over()) => {
                return Ok(Some(status));
            }
            None if now >= until => return Ok(None),
            Some(_) => {}
            None => ended = child.try_wait()?.map(|status| (status, now + LATE)),
        }
        let [more_out, more_err] = ready([out.wanted(), err.wanted()], GLANCE)?;
        if more_out {
            out.hear();
        }
        if more_err {
            err.hear();
        }
        if out.is_over() && err.is_over() && ended.is_none() {
            std::thread::sleep(GLANCE);
        }
    }
}

/// What was said on a stream.
struct Said<R> {
    /// None when there is no more.
    from: Option<R>,
    text: Vec<u8>,
}

impl<R: Read + AsFd> Said<R> {
    fn new(from: Option<R>) -> io::Result<Self> {
        from.as_ref().map_or(Ok(()), |from| never_wait(from.as_fd()))?;
        Ok(Self { from, text: Vec::new() })
    }

    const fn is_over(&self) -> bool {
        self.from.is_none()
    }

    fn wanted(&self) -> Wanted<'_> {
        self.from.as_ref().map_or(Wanted::Nothing, |from| Wanted::Read(from.as_fd()))
    }

    /// Takes what is there; what is too much is not kept.
    fn hear(&mut self) {
        let mut piece = [0; 8 << 10];
        let Some(from) = &mut self.from else { return };
        match from.read(&mut piece) {
            Ok(length @ 1..) => {
                let room = KEPT.saturating_sub(self.text.len()).min(length);
                self.text.extend_from_slice(&piece[..room]);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(_) | Err(_) => self.from = None,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str, time: Duration) -> ((bool, String, String), Duration) {
        let begun = Instant::now();
        let told = run_within(Command::new("sh").args(["-c", line]), time).unwrap();
        (told, begun.elapsed())
    }

    #[test]
    fn a_tool_is_heard_out_and_what_it_left_behind_is_not_waited_for() {
        let (told, _) = run("echo out; echo err >&2; head -c 3000000 /dev/zero", Duration::from_secs(60));
        assert!(told.0 && told.1.starts_with("out\n") && told.2 == "err\n", "{}", told.2);
        let (told, time) = run("sleep 30 & echo done", Duration::from_secs(60));
        assert!(told.0 && told.1 == "done\n" && time < Duration::from_secs(20), "{time:?}");
    }

    #[test]
    fn a_tool_that_takes_too_long_is_ended_with_all_it_started() {
        let mark = format!("61.{}", std::process::id());
        let (told, time) =
            run(&format!("sleep {mark} & echo begun; sleep {mark}"), Duration::from_millis(300));
        assert!(!told.0 && told.1 == "begun\n" && time < Duration::from_secs(20), "{told:?} after {time:?}");
        let left = || {
            let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            let mut lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            lines.any(|line| line.ends_with(format!("sleep\0{mark}\0").as_bytes()))
        };
        let until = Instant::now() + Duration::from_secs(20);
        while left() {
            assert!(Instant::now() < until, "something of it is left");
            std::thread::sleep(GLANCE);
        }
    }
}
