//! Private terminals, driven from a shell with job control.

use crate::attacks::BACKENDS;
use crate::bench::Bench;

#[test]
fn a_command_on_a_terminal_is_sized_interrupted_stopped_and_continued() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("pty");
        bench.open_record("");
        bench.write("outer.py", include_str!("outer.py"));
        bench.write("drive.py", include_str!("drive.py"));
        let run = bench.shell_line(&format!("python3 drive.py SBX --backend {backend} {accepted}"));
        assert_eq!(run.stdout.trim(), "fine", "{backend}: {}", run.stderr);
    }
}

#[test]
fn a_launch_in_the_background_leaves_the_terminal_to_those_in_front() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("behind");
        bench.open_record("");
        bench.write("outer.py", include_str!("outer.py"));
        bench.write("behind.py", include_str!("behind.py"));
        let launch = format!("SBX exec --agent agent.yml --backend {backend} {accepted} -- sed -u s/a/b/");
        let run = bench.shell_line(&format!("python3 behind.py '{launch}'"));
        assert_eq!(run.stdout.trim(), "fine", "{backend}: {}", run.stderr);
    }
}
