//! Private terminals, driven from a shell with job control.

use crate::attacks::BACKENDS;
use crate::bench::Bench;

#[test]
fn a_command_on_a_terminal_is_sized_interrupted_stopped_and_continued() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("pty");
        bench.open_record("");
        bench.write("drive.py", include_str!("drive.py"));
        let run = bench.shell_line(&format!("python3 drive.py SBX --backend {backend} {accepted}"));
        assert_eq!(run.stdout.trim(), "fine", "{backend}: {}", run.stderr);
    }
}
