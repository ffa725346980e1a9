//! Weaker surroundings for real: no user namespaces, bubblewrap or sbx itself around, no bubblewrap.
//!
//! What `auto` takes, what a named backend says, and that `doctor` says the same.

use crate::bench::{Bench, Run};

/// What landlock alone does not give to a launch without a list of programs and without a network.
const LANDLOCK_LACKS: &str =
    "fs-hidden, fs-metadata, loopback, terminals, pid-hidden, private-tmp, teardown-killed";

/// A line run as the root of a user namespace that holds no further ones.
fn closed(bench: &Bench, line: &str) -> Run {
    bench.write("closed.sh", &format!("echo 0 > /proc/sys/user/max_user_namespaces || exit 99\n{line}\n"));
    let run = bench.shell_line("sed -i s,S''BX,SBX,g closed.sh; exec unshare -Ur sh closed.sh");
    assert_ne!(run.status, 99, "the namespace cannot be closed: {}", run.stderr);
    run
}

/// In the words of the test, the program itself: it is put in when the line is run.
fn launch(rest: &str) -> String {
    format!("SBX exec --agent agent.yml {rest}")
}

fn works(bench: &Bench, around: &str, backend: &str) -> (bool, String) {
    let run = bench.shell_line(&format!("{around} SBX --json doctor"));
    let told: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON from doctor");
    let all = told["backends"].as_array().expect("backends");
    let one = all.iter().find(|one| one["backend"] == backend);
    let one = one.unwrap_or_else(|| unreachable!("{backend} in {told}"));
    (one["works"] == true, one.to_string())
}

#[test]
fn where_user_namespaces_are_closed_landlock_is_left_and_lacks_by_name() {
    let bench = Bench::new("closed");
    bench.open_record("");
    let run = closed(&bench, &launch("-- echo ran"));
    assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    let said = format!("backend landlock does not give {LANDLOCK_LACKS}\n");
    assert!(run.stderr.contains(&said), "{}", run.stderr);
    let run = closed(&bench, &launch("--backend native -- echo ran"));
    assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("cannot make namespaces"), "{}", run.stderr);
    let run = closed(&bench, &launch("--backend bwrap --allow-degraded=teardown-killed -- echo ran"));
    assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("bwrap"), "{}", run.stderr);
    // Accepted by name it runs, behind that backend, and the fence holds.
    let accepted = LANDLOCK_LACKS.replace(", ", ",");
    bench.shell_line("echo secret > ../outside");
    let script = "cat ../outside; echo x > ../made; echo fine";
    let line = format!("--allow-degraded={accepted} --status-fd 3 -- sh -c '{script}' 3>status");
    let run = closed(&bench, &launch(&line));
    assert_eq!((run.status, run.stdout.as_str()), (0, "fine\n"), "{}", run.stderr);
    let told: serde_json::Value = serde_json::from_str(&bench.read("status")).expect("JSON");
    assert_eq!(told["backend"], "landlock", "{told}");
    assert_eq!(bench.shell_line("ls ..").stdout, "home\noutside\nwork\n");
}

#[test]
fn doctor_says_the_same_of_closed_namespaces() {
    let bench = Bench::new("told");
    bench.open_record("");
    let run = closed(&bench, "SBX doctor");
    for line in [
        "user namespaces are switched off: user.max_user_namespaces is 0",
        "native     does not work: cannot make namespaces",
        "bwrap      does not work: ",
        "`auto` uses landlock",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn inside_bubblewrap_the_strongest_that_works_is_taken() {
    let bench = Bench::new("wrapped");
    bench.open_record("");
    let above = format!("/var/tmp/{}", bench.above());
    let plain = "bwrap --dev-bind / / --unshare-user --unshare-pid";
    let hard = format!(
        "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind {above} {above} --unshare-all --unshare-user --disable-userns"
    );
    for around in [plain, hard.as_str()] {
        let (native, told) = works(&bench, around, "native");
        let run = bench.shell_line(&format!("{around} {}", launch("-- sh -c 'echo x > made; cat made'")));
        if native {
            assert_eq!((run.status, run.stdout.as_str()), (0, "x\n"), "{around}: {}", run.stderr);
        } else {
            assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{around}: {}", run.stderr);
            let said = format!("backend landlock does not give {LANDLOCK_LACKS}");
            assert!(run.stderr.contains(&said), "{around}: {} {told}", run.stderr);
        }
        assert_eq!(native, around == plain, "{around}: {told}");
    }
}

#[test]
fn inside_itself_every_backend_is_refused_and_says_what_is_missing() {
    let bench = Bench::new("itself");
    bench.open_record("");
    bench.shell_line("cp SBX inner");
    let inner = |rest: &str| bench.sh(&format!("HOME=$PWD ./inner {rest}"));
    let launch = |backend: &str, accepted: &str| {
        inner(&format!("exec --agent agent.yml --backend {backend} {accepted} -- echo ESCAPED"))
    };
    // The broker outside acts with the rights of its own launch, so that a narrower one inside would be a pretence:
    // Landlock is refused there, and namespaces are.
    let accepted = format!("--allow-degraded=fs-read,fs-delete,{}", LANDLOCK_LACKS.replace(", ", ","));
    for (backend, lacking, said) in [
        ("native", "does not give fs-read, fs-delete\n", "cannot make namespaces"),
        ("bwrap", "does not give fs-read, fs-delete, teardown-killed\n", "no bwrap that is owned by root"),
        ("landlock", "no Landlock", "no Landlock"),
        ("auto", "does not give fs-read, fs-delete\n", "no Landlock"),
    ] {
        for (accepted, said) in [("", lacking), (accepted.as_str(), said)] {
            let run = launch(backend, accepted);
            assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{backend}: {}", run.stderr);
            assert!(run.stderr.contains(said), "{backend} {accepted}: {}", run.stderr);
        }
    }
    let run = inner("doctor");
    for line in ["Landlock is refused by the filter of system calls around sbx", "no backend works"] {
        assert!(run.stdout.contains(line), "{line}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn without_bubblewrap_that_backend_is_refused_and_auto_does_without() {
    let bench = Bench::new("unwrapped");
    bench.open_record("");
    // A view in which there is none: an empty file that nobody can run lies over it.
    let hidden = "bwrap --dev-bind / / --ro-bind /dev/null /usr/bin/bwrap";
    let run = bench.shell_line(&format!("{hidden} {}", launch("--backend bwrap -- echo ran")));
    assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    let run = bench.shell_line(&format!("{hidden} {}", launch("-- echo ran")));
    assert_eq!((run.status, run.stdout.as_str()), (0, "ran\n"), "{}", run.stderr);
    let (works, told) = works(&bench, hidden, "bwrap");
    assert!(!works, "{told}");
}
