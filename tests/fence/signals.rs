//! Signals to sbx without a terminal: what is passed on, how long a command may take to end, stopping and continuing.

use crate::attacks::{BACKENDS, attack};
use crate::bench::Bench;

/// A shell line that starts a command in the background, waits until it says `up`, and does the rest with `$sbx` as its
/// number. A shell without job control has what it starts ignore interrupts, and whoever runs the tests may ignore a
/// hang-up; `env` takes that back.
fn with(backend: (&str, &str), script: &str, rest: &str) -> String {
    let (backend, accepted) = backend;
    format!(
        "rm -f out; env --default-signal=INT,QUIT,HUP SBX exec --agent agent.yml --backend {backend} {accepted} -- \
         sh -c '{script}' > out 2>err & sbx=$!; n=0; while ! grep -qs up out && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done; {rest}"
    )
}

/// Says how the launch ended, and after how many seconds.
const END: &str = "begun=$(date +%s); wait $sbx; echo $? $(($(date +%s) - begun))";

#[test]
fn an_interrupt_and_a_wish_to_end_reach_the_command() {
    for backend in BACKENDS {
        let bench = Bench::new("passed");
        bench.open_record("");
        for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
            let plain = with(
                backend,
                "echo up; while :; do sleep 0.05; done",
                &format!("kill -{signal} $sbx; {END}"),
            );
            let run = bench.shell_line(&plain);
            let (status, seconds) = run.stdout.trim().split_once(' ').expect("two numbers");
            assert_eq!(status, (128 + number).to_string(), "{backend:?} {signal}: {}", run.stderr);
            assert!(
                seconds.parse::<u32>().is_ok_and(|seconds| seconds < 4),
                "{backend:?} {signal}: {seconds}"
            );
            // A command that knows what to do about it is let do it.
            let own = with(
                backend,
                &format!("trap \"echo cleaned; exit 7\" {signal}; echo up; while :; do sleep 0.05; done"),
                &format!("kill -{signal} $sbx; wait $sbx; echo $?; cat out"),
            );
            let run = bench.shell_line(&own);
            assert_eq!(run.stdout, "7\nup\ncleaned\n", "{backend:?} {signal}: {}", run.stderr);
        }
    }
}

#[test]
fn a_command_that_ignores_the_wish_to_end_is_killed_after_a_while_with_all_it_started() {
    let bench = Bench::new("stubborn");
    bench.open_record("");
    for backend in BACKENDS {
        let marker = bench.marker();
        let deaf = format!(
            "trap : TERM INT HUP; (trap \"\" TERM INT HUP; exec sleep {marker}) & echo up; while :; do sleep 0.05; done"
        );
        let run = bench.shell_line(&with(backend, &deaf, &format!("kill -TERM $sbx; {END}")));
        let (status, seconds) = run.stdout.trim().split_once(' ').expect("two numbers");
        assert_eq!(status, "137", "{backend:?}: {}", run.stderr);
        assert!(
            seconds.parse::<u32>().is_ok_and(|seconds| (4..9).contains(&seconds)),
            "{backend:?}: {seconds}"
        );
        bench.assert_gone(&marker);
    }
}

#[test]
fn a_stopped_launch_stands_still_and_goes_on() {
    for backend in BACKENDS {
        let bench = Bench::new("stopped");
        bench.open_record("");
        let count = "echo up; while [ ! -e done ]; do echo x >> count; sleep 0.02; done; exit 9";
        let state = "cut -d\" \" -f3 /proc/$sbx/stat";
        let rest = format!(
            "kill -TSTP $sbx; sleep 0.5; {state}; one=$(wc -c < count); sleep 0.5; [ $one = $(wc -c < count) ] && echo still; \
             kill -CONT $sbx; sleep 0.5; [ $one != $(wc -c < count) ] && echo on; touch done; wait $sbx; echo $?"
        );
        let run = bench.shell_line(&with(backend, count, &rest));
        assert_eq!(run.stdout, "T\nstill\non\n9\n", "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn other_signals_are_passed_on_and_end_nothing() {
    let bench = Bench::new("others");
    bench.open_record("");
    let listens =
        "trap \"echo one\" USR1; trap \"echo two; exit 3\" USR2; echo up; while :; do sleep 0.05; done";
    let rest = "kill -USR1 $sbx; sleep 0.5; kill -USR2 $sbx; wait $sbx; echo $?; cat out";
    let run = bench.shell_line(&with(BACKENDS[0], listens, rest));
    assert_eq!(run.stdout, "3\nup\none\ntwo\n", "{}", run.stderr);
}

#[test]
fn signals_that_sbx_was_started_to_ignore_are_ignored_inside_too() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("deaf");
        bench.open_record("");
        let exec = format!("SBX exec --agent agent.yml --backend {backend} {accepted} --");
        let own = "grep SigIgn /proc/self/status";
        for ignored in ["HUP", "INT QUIT", "HUP INT QUIT TERM USR1"] {
            // Nothing else may be ignored, which a shell cannot take back.
            let before = format!("env --default-signal sh -c 'trap \"\" {ignored}; exec");
            let run = bench.shell_line(&format!("{before} {own}'; {before} {exec} {own}'"));
            // The first sixteen: those of the C library are its own.
            let first: Vec<_> =
                run.stdout.lines().map(|line| &line[line.len().saturating_sub(4)..]).collect();
            assert!(
                first.len() == 2 && first[0] == first[1],
                "{backend} {ignored}: {first:?} {}",
                run.stderr
            );
        }
    }
}

#[test]
fn what_was_started_to_outlive_its_terminal_does() {
    let outlive = |(backend, accepted): (&str, &str)| {
        let bench = Bench::new("outlives");
        bench.open_record("");
        // Longer than a command that was asked to end has.
        let line = format!(
            "nohup SBX exec --agent agent.yml --backend {backend} {accepted} -- sh -c 'echo up; sleep 6; echo done'"
        );
        let run = bench.shell_line(&format!(
            "{line} > out 2>err & sbx=$!; n=0; while ! grep -qs up out && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done; \
             kill -HUP $sbx; kill -INT $sbx; kill -QUIT $sbx; wait $sbx; echo $?; cat out"
        ));
        assert_eq!(run.stdout, "0\nup\ndone\n", "{backend}: {} {}", run.stderr, bench.read("err"));
    };
    std::thread::scope(|scope| {
        for backend in BACKENDS {
            scope.spawn(move || outlive(backend));
        }
    });
}

/// Calls that somebody answers would fail in the moment between the end of the one and that of the others.
#[test]
fn what_still_runs_at_the_end_sees_no_call_fail() {
    for backend in BACKENDS {
        let bench = Bench::new("unfinished");
        bench.open_record("");
        let script =
            "for j in 1 2 3 4 5 6; do (while :; do echo x > /dev/null; done) & done; sleep 0.1; exit 2";
        for _ in 0..5 {
            let run = attack(&bench, backend, script);
            assert_eq!((run.status, run.stderr.as_str()), (2, ""), "{backend:?}");
        }
    }
}

#[test]
fn a_mask_that_takes_everything_away_is_the_commands_alone() {
    let bench = Bench::new("masked");
    bench.open_record("");
    // The log is there before: with such a mask nobody but root could open a new one a second time.
    let run = bench.shell_line(
        "SBX exec --agent agent.yml -- true; umask 0777; SBX exec --agent agent.yml -- sh -c 'umask; : > made'; stat -c %a made",
    );
    assert_eq!((run.status, run.stdout.as_str()), (0, "0777\n0\n"), "{}", run.stderr);
}
