//! Output that sbx passes on itself: a slow reader gets all of it in the order it was written, and nobody who asks sbx to
//! end is kept waiting.

use crate::attacks::BACKENDS;
use crate::bench::Bench;

/// More than every pipe in between holds.
const MUCH: usize = 3_000_000;
/// More than one pipe holds, and less than all of them.
const SOME: usize = 150_000;

#[test]
fn a_reader_that_takes_its_time_gets_everything() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("slow");
        bench.open_record("limits: {output: 10M}\n");
        // With the command still writing, and when it has long ended.
        for bytes in [MUCH, SOME] {
            let run = bench.shell_line(&format!(
                "SBX exec --agent agent.yml --backend {backend} {accepted} --status-fd 3 -- head -c {bytes} /dev/zero 3>status \
                 | (sleep 3; wc -c)"
            ));
            assert_eq!(run.stdout, format!("{bytes}\n"), "{backend}: {}", run.stderr);
            let told: serde_json::Value = serde_json::from_str(&bench.read("status")).expect("JSON");
            assert_eq!(told["exit"].as_i64(), Some(0), "{backend}: {told}");
        }
    }
}

#[test]
fn a_limit_on_output_is_kept_to_the_byte_and_all_below_it_comes() {
    let bench = Bench::new("counted");
    bench.open_record("limits: {output: 1000000}\n");
    let run =
        bench.shell_line("(SBX exec --agent agent.yml -- cat /dev/zero; echo $? > code) | (sleep 1; wc -c)");
    assert_eq!((run.stdout.as_str(), bench.read("code").as_str()), ("1000000\n", "137\n"), "{}", run.stderr);
    assert!(run.stderr.contains("the output limit was reached"), "{}", run.stderr);
}

#[test]
fn a_reader_that_is_gone_or_a_wish_to_end_ends_the_waiting() {
    let bench = Bench::new("impatient");
    bench.open_record("limits: {output: 10M}\n");
    let launch = format!("SBX exec --agent agent.yml -- head -c {MUCH} /dev/zero");
    // Nobody reads, and after a moment nobody could.
    let run = bench.shell_line(&format!("{launch} | sleep 1; echo over"));
    assert_eq!(run.stdout, "over\n", "{}", run.stderr);
    // Asked while the command still writes, and when it has ended and only the rest waits for a reader.
    bench.shell_line("mkfifo pipe");
    for bytes in [MUCH, SOME] {
        let run = bench.shell_line(&format!(
            "sleep 30 < pipe & reader=$!; SBX exec --agent agent.yml -- head -c {bytes} /dev/zero > pipe & sbx=$!; sleep 1; \
             kill -0 $sbx && echo waits; kill -TERM $sbx; begun=$(date +%s); wait $sbx; \
             [ $(($(date +%s) - begun)) -lt 4 ] && echo soon; kill $reader"
        ));
        assert_eq!(run.stdout, "waits\nsoon\n", "{bytes}: {}", run.stderr);
    }
    // The time of the record goes on.
    bench.open_record("limits: {output: 10M, wall: 2s}\n");
    let run =
        bench.shell_line(&format!("sleep 30 < pipe & reader=$!; {launch} > pipe; echo $?; kill $reader"));
    assert_eq!(run.stdout, "124\n", "{}", run.stderr);
}

#[test]
fn a_terminal_that_is_held_gets_everything_when_it_goes_on() {
    let bench = Bench::new("held");
    bench.write("held.py", include_str!("held.py"));
    bench.open_record("");
    for way in ["", "--tty"] {
        let run =
            bench.shell_line(&format!("python3 held.py 4 SBX exec --agent agent.yml {way} -- seq 40000"));
        assert_eq!(run.stdout, "0 40000\n", "{way}: {}", run.stderr);
    }
    bench.open_record("limits: {wall: 2s}\n");
    // What sbx has to say itself goes elsewhere, or it would wait for the terminal as any program does.
    let launch = "SBX exec --agent agent.yml -- seq 40000 2>errors";
    let run = bench.shell_line(&format!("python3 held.py never sh -c 'exec {launch}'"));
    assert!(run.stdout.starts_with("124 "), "{} {}", run.stdout, run.stderr);
}

#[test]
fn output_that_cannot_be_written_is_told_and_no_success() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("lost");
        bench.open_record("");
        let exec = format!("SBX exec --agent agent.yml --backend {backend} {accepted}");
        let run = bench.shell_line(&format!("{exec} --status-fd 3 -- echo hi 3>status >/dev/full; echo $?"));
        assert_eq!(run.stdout, "125\n", "{backend}");
        let said = "cannot write standard output: No space left on device (os error 28)";
        assert_eq!(run.stderr, format!("sbx: {said}\n"), "{backend}");
        let told: serde_json::Value = serde_json::from_str(&bench.read("status")).expect("JSON");
        assert_eq!(
            (told["exit"].as_i64(), told["status"].as_i64()),
            (Some(0), Some(125)),
            "{backend}: {told}"
        );
        assert_eq!(told["lost"], serde_json::json!([said]), "{backend}");
        // A command that failed keeps its own status; of what is lost of errors the status tells.
        let run = bench.shell_line(&format!("{exec} -- sh -c 'echo hi; exit 3' >/dev/full; echo $?"));
        assert_eq!(
            (run.stdout.as_str(), run.stderr.contains(said)),
            ("3\n", true),
            "{backend}: {}",
            run.stderr
        );
        let run = bench.shell_line(&format!("{exec} -- sh -c 'echo hi >&2; echo out' 2>/dev/full; echo $?"));
        assert_eq!(run.stdout, "out\n125\n", "{backend}");
        // Errors that go where the output goes count as output.
        let line = format!("({exec} --status-fd 3 -- sh -c 'echo hi >&2' 3>both >/dev/full 2>&1); echo $?");
        let run = bench.shell_line(&line);
        let told: serde_json::Value = serde_json::from_str(&bench.read("both")).expect("JSON");
        assert_eq!((run.stdout.as_str(), &told["lost"]), ("125\n", &serde_json::json!([said])), "{backend}");
        let run = bench.shell_line(&format!("{exec} -- true >/dev/full; echo $?"));
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("0\n", ""), "{backend}: nothing was lost");
    }
}

#[test]
fn output_and_errors_that_lead_to_one_place_keep_their_order() {
    // So many that they are not in order by chance.
    const LINES: &str = "sh -c 'for i in $(seq 100); do echo $i; echo $i >&2; done'";
    let each = |times: usize| -> String { (1..=100).map(|i| i.to_string().repeat(times)).collect() };
    let ordered = each(2);
    let bare = |text: &str| text.replace(['\r', '\n'], "");
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("order");
        bench.open_record("");
        let exec = format!("SBX exec --agent agent.yml --backend {backend} {accepted} --");
        let run = |line: &str| {
            let run = bench.shell_line(line);
            assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{backend} {line}");
            run.stdout
        };
        run(&format!("echo 0 >appended; cp appended twice; {exec} {LINES} >file 2>&1"));
        run(&format!("{exec} {LINES} >>appended 2>&1; {exec} {LINES} >>twice 2>>twice"));
        assert_eq!(bare(&bench.read("file")), ordered, "{backend}");
        for name in ["appended", "twice"] {
            assert_eq!(bare(&bench.read(name)), format!("0{ordered}"), "{backend} {name}");
        }
        let terminal = "python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])'";
        assert_eq!(bare(&run(&format!("{terminal} {exec} {LINES}"))), ordered, "{backend}");
        // What leads to two places goes to both, also where they are two in one file.
        run(&format!("{exec} {LINES} >output 2>errors"));
        assert_eq!(bare(&bench.read("output")), each(1), "{backend}");
        assert_eq!(bench.read("output"), bench.read("errors"), "{backend}");
        run(&format!("(echo first; {exec} sh -c 'echo output; echo error >&2') 1<>apart 2<>apart"));
        assert_eq!(bench.read("apart"), "error\noutput\n", "{backend}");
        // A pipe, once it is relayed to be counted.
        bench.open_record("limits: {output: 10k}\n");
        assert_eq!(bare(&run(&format!("{exec} {LINES} 2>&1 | cat"))), ordered, "{backend}");
    }
}

#[test]
fn of_a_file_as_input_what_the_command_did_not_take_is_left() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("left");
        bench.open_record("");
        bench.shell_line("printf '1\\n2\\n3\\n' > few; seq 100000 > many");
        let exec = format!("SBX exec --agent agent.yml --backend {backend} {accepted} --");
        let run = bench.shell_line(&format!("while read x; do {exec} true; echo $x; done < few"));
        assert_eq!(run.stdout, "1\n2\n3\n", "{backend}: {}", run.stderr);
        // What is far on, and more than all that lies between can hold.
        for file in ["few", "many"] {
            let line = format!("(read x; {exec} dd bs=1 count=2 2>/dev/null; read x; echo $x) < {file}");
            let run = bench.shell_line(&line);
            assert_eq!(run.stdout, "2\n3\n", "{backend} {file}: {}", run.stderr);
        }
        let line = format!("({exec} wc -l; wc -c; {exec} wc -c) < many");
        let run = bench.shell_line(&line);
        assert_eq!(run.stdout, "100000\n0\n0\n", "{backend}: {}", run.stderr);
        // Nor is anything lost of a file that was read and is not passed on when the command ends.
        let line = format!("({exec} sh -c 'sleep 0.3; exit 3'; wc -l) < many");
        assert_eq!(bench.shell_line(&line).stdout, "100000\n", "{backend}");
    }
}
