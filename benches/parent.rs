//! What a launch through the library costs a large program.
//!
//! The same launch by turns while this process holds next to nothing and while it holds 200 MB, with this process
//! building the fence and with a launcher of its own doing so.
//!
//! `cargo bench --bench parent`; docs/benchmarks.md says what the numbers mean. They are printed, never asserted.
#![expect(clippy::print_stdout, reason = "a bench's output is its answer")]

use sbx::audit::{Nowhere, Sink};
use sbx::capability::Spec;
use sbx::plan::Invocation;
use sbx::run::{Live, run, start};
use sbx::{Facts, Permit, Policy, Request, decide};
use sbx_platform::{Backend, Pipe};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 100;
const BALLAST: usize = 200 << 20;
const PAGE: usize = 4096;

/// How something permitted is launched.
type Way = fn(&Permit<'_>) -> Result<(), Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    sbx_platform::take_over(std::env::args_os());
    let here = std::env::current_dir()?;
    let spec = Spec::parse(&format!("proc.exec{{in={}}}", here.display()))?;
    let facts = Facts::new("/home/u");
    let policy = Policy::from_specs("bench", &[spec], &facts).map_err(|problems| format!("{problems:?}"))?;
    let request = Request::exec(["/bin/true"]).in_dir(&here);
    let permit = decide(&policy, &request).permit().ok_or("the launch is not granted")?;
    let ways: [(&str, Way); 2] = [("the program itself", in_process), ("a launcher", through_launcher)];
    for (name, way) in ways {
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            small.push(timed(|| way(&permit))?);
            let held = ballast();
            large.push(timed(|| way(&permit))?);
            drop(black_box(held));
        }
        let (small, large) = (median(small), median(large));
        let ratio = large.as_secs_f64() / small.as_secs_f64();
        println!("{name}: {small:?} from a small parent, {large:?} holding 200 MB: x {ratio:.2}");
    }
    Ok(())
}

/// Memory that is really there.
fn ballast() -> Vec<u8> {
    let mut held = vec![0; BALLAST];
    held.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    held
}

fn in_process(permit: &Permit<'_>) -> Result<(), Box<dyn Error>> {
    let ran = run(permit, &Invocation::new(sbx_platform::ids()), Some(Backend::Native), &nowhere())?;
    if ran.outcome.end == sbx_platform::End::Exited(0) { Ok(()) } else { Err("the command failed".into()) }
}

fn through_launcher(permit: &Permit<'_>) -> Result<(), Box<dyn Error>> {
    let invocation = Invocation::new(sbx_platform::ids());
    let native = Some(Backend::Native);
    let started = start(permit, &invocation, native, &Live, [Pipe::Inherit; 3], &nowhere())?;
    let ended = started.child.wait()?;
    if ended.end == sbx_platform::End::Exited(0) { Ok(()) } else { Err("the command failed".into()) }
}

fn nowhere() -> Arc<dyn Sink> {
    Arc::new(Nowhere)
}

fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
