//! What goes wrong around a launch: a clear error, nothing half-fenced, and nothing left.

use crate::attacks::BACKENDS;
use crate::bench::Bench;

/// Gives `shut` to somebody who can be kept out of it, and says how to be that one: root enters everything.
fn shut_out(bench: &Bench) -> &'static str {
    if !bench.is_root() {
        return "";
    }
    bench.shell_line("chmod -R a+rwX .. && chown 64999 shut");
    "setpriv --reuid=64999 --clear-groups "
}

#[test]
fn a_root_that_cannot_be_entered_is_said_so_and_nothing_runs() {
    let bench = Bench::new("shut");
    let shut = bench.subdir("shut");
    bench.record_at(&format!("capabilities:\n  - proc.exec: {{in: {shut}}}\n  - fs.read: {{in: {shut}}}\n"));
    let user = shut_out(&bench);
    for (backend, accepted) in BACKENDS {
        let run = bench.shell_line(&format!(
            "chmod 0 shut; {user} SBX exec --agent agent.yml --in {shut} --backend {backend} {accepted} -- echo ran"
        ));
        assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{backend}: {}", run.stderr);
        let said = format!("cannot enter the directory {shut}: Permission denied");
        assert!(run.stderr.contains(&said), "{backend}: {}", run.stderr);
    }
    bench.shell_line("chmod 755 shut");
}

#[test]
fn a_place_that_cannot_be_read_opens_nothing_and_the_rest_works() {
    let bench = Bench::new("unread");
    let root = bench.subdir("");
    let root = root.trim_end_matches('/');
    bench.subdir("shut");
    bench.write("shut/secret", "secret\n");
    bench.record_at(&format!(
        "capabilities:\n  - proc.exec: {{in: {root}}}\n  - fs.read: {{in: {root}/shut}}\n  - fs.write: {{in: {root}, paths: [\"shut/*\", out]}}\n"
    ));
    bench.write("out", "");
    let user = shut_out(&bench);
    for (backend, accepted) in BACKENDS {
        let run = bench.shell_line(&format!(
            "chmod 0 shut; {user} SBX exec --agent agent.yml --backend {backend} {accepted} -- \
             sh -c 'cat shut/secret; ls shut; echo {backend} > out; echo fine'; chmod 755 shut; cat out"
        ));
        assert_eq!(run.stdout, format!("fine\n{backend}\n"), "{backend}: {}", run.stderr);
    }
}

/// Groups of these launches that are still there.
fn groups(bench: &Bench) -> String {
    bench.shell_line("find /sys/fs/cgroup -maxdepth 6 -type d -name \"sbx-$(cat pid)\" 2>/dev/null").stdout
}

#[test]
fn where_no_control_group_can_be_made_a_limit_is_refused_by_name() {
    let bench = Bench::new("groupless");
    let launch =
        "sh -c 'echo $$ > pid; exec SBX exec --agent agent.yml --status-fd 3 REST -- echo ran 3>status'";
    // Every hierarchy read-only, or one of them: making the group fails as the kernel says.
    let closing = |kind: &str| {
        format!(
            "for at in $(awk '$3 ~ /^cgroup/ && $2 ~ /{kind}/ {{ print $2 }}' /proc/mounts); do mount -o remount,bind,ro $at || exit 99; done"
        )
    };
    let run_where = |kind: &str, rest: &str| {
        let launch = launch.replace("REST", rest);
        let run = match bench.is_root() {
            true => {
                bench.write("closed.sh", &format!("{}\n{launch}\n", closing(kind)));
                bench.shell_line("sed -i s,S''BX,SBX,g closed.sh; exec unshare -m sh closed.sh")
            }
            // Nothing is delegated to this user, or the limit would hold.
            false => bench.shell_line(&launch),
        };
        assert_ne!(run.status, 99, "the hierarchy cannot be closed: {}", run.stderr);
        assert_eq!(groups(&bench), "", "a group is left");
        run
    };
    bench.open_record("limits: {memory: 96M, pids: 50}\n");
    let run = run_where(".", "");
    assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("does not give memory-limit"), "{}", run.stderr);
    assert_eq!(run.stderr.contains("pids-limit"), bench.is_root(), "{}", run.stderr);
    let run = run_where("memory|unified", "");
    assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("does not give memory-limit\n"), "{}", run.stderr);
    let run = run_where(".", "--allow-degraded=memory-limit,pids-limit");
    assert_eq!((run.status, run.stdout.as_str()), (0, "ran\n"), "{}", run.stderr);
    let told: serde_json::Value = serde_json::from_str(&bench.read("status")).expect("JSON");
    let missing = told["missing"].as_array().is_some_and(|all| all.iter().any(|one| one == "memory-limit"));
    assert!(missing, "{told}");
}

#[test]
fn killed_launches_leave_nothing_in_the_run_time_directory_or_what_stands_for_it() {
    // bubblewrap makes nothing there, and one that is killed in its first moments can leave a process of its own that
    // waits for ever: that is why it does not give `teardown-killed`.
    for (backend, accepted) in BACKENDS.into_iter().filter(|(name, _)| *name != "bwrap") {
        let bench = Bench::new("runtime");
        let network = "  - net.get: {hosts: [\"127.0.0.1:9\"]}\naccept_degraded: [net-names, net-listen]\n";
        bench.open_record(network);
        for variable in ["XDG_RUNTIME_DIR", "TMPDIR"] {
            let place = bench.subdir("../place");
            bench.shell_line("chmod 700 ../place");
            let launch = format!(
                "env {variable}={place} SBX exec --agent agent.yml --backend {backend} {accepted} --"
            );
            // From the first moments to the middle of the command.
            let run = bench.shell_line(&format!(
                "n=0; while [ $n -lt 24 ]; do {launch} sleep 0.1 >/dev/null 2>&1 & p=$!; sleep 0.$(printf %03d $((n * 12))); \
                 kill -9 $p; wait $p 2>/dev/null; n=$((n+1)); done; find {place} -mindepth 1 | wc -l"
            ));
            let left: usize = run.stdout.trim().parse().expect("a number");
            // Where there are mounts all is in memory that goes with them; the rest goes with the next launch, as soon
            // as nobody holds it.
            let tidy = format!(
                "n=0; while {launch} true && [ \"$(find {place} -mindepth 1)\" ] && [ $n -lt 50 ]; do sleep 0.2; n=$((n+1)); done; \
                 find {place} -mindepth 1"
            );
            let run = bench.shell_line(&tidy);
            assert_eq!(run.stdout, "", "{backend} {variable}, after {left}: {}", run.stderr);
        }
        assert_eq!(bench.files(), ["agent.yml"], "{backend}");
    }
}

#[test]
fn where_no_process_can_be_born_in_a_control_group_it_walks_in() {
    let bench = Bench::new("unborn");
    if !bench.is_root() {
        println!("left to root, who has a control group to divide");
        return;
    }
    bench.open_record("limits: {memory: 96M, pids: 50}\n");
    bench.write("unborn.py", include_str!("unborn.py"));
    // Version 2, said to have both controllers: whether it counts is another matter than who is in it.
    let surroundings = "v2=$(awk '$3 == \"cgroup2\" { print $2 }' /proc/mounts | head -n1); [ \"$v2\" ] || exit 98\n\
         echo memory pids > control; mount --bind $v2 /sys/fs/cgroup || exit 99\n\
         mount --bind control /sys/fs/cgroup/cgroup.subtree_control || exit 99\n";
    for (backend, accepted) in BACKENDS.into_iter().filter(|(name, _)| *name != "native") {
        let accepted = format!("{accepted},memory-limit,pids-limit");
        bench.write(
            "unborn.sh",
            &format!(
                "{surroundings}python3 unborn.py SBX exec --agent agent.yml --backend {backend} {accepted} -- \
                 sh -c 'echo up; while [ ! -e done ]; do sleep 0.05; done' > out & n=0\n\
                 while ! grep -q up out && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done\n\
                 for pid in $(cat /sys/fs/cgroup/sbx-$!/cgroup.procs); do cat /proc/$pid/comm; done | grep -c '^sh$'\n\
                 touch done; wait; rm done out; ls -d /sys/fs/cgroup/sbx-$!\n"
            ),
        );
        let run = bench.shell_line("sed -i s,S''BX,SBX,g unborn.sh; exec unshare -m sh unborn.sh");
        if run.status == 98 {
            println!("left out: there is no version 2 of control groups here");
            return;
        }
        assert_ne!(run.status, 99, "the surroundings cannot be made: {}", run.stderr);
        assert_eq!(run.stdout, "1\n", "{backend}: {}", run.stderr);
    }
}

/// What was left of a launch in the places where it makes something.
fn left(bench: &Bench) -> String {
    let scratch = "find ${TMPDIR:-/tmp} -maxdepth 1 -name \"sbx-scratch-$(cat pid)-*\"";
    let groups = "find /sys/fs/cgroup -maxdepth 6 -type d -name sbx-$(cat pid) 2>/dev/null";
    bench.shell_line(&format!("{scratch}; {groups}")).stdout
}

#[test]
fn with_too_few_descriptors_there_is_an_error_or_a_whole_fence() {
    let bench = Bench::new("few");
    bench.open_record("");
    bench.shell_line("echo secret > ../outside");
    let (mut refused, mut ran) = (0, 0);
    for (backend, accepted) in BACKENDS {
        // Below, the program itself cannot be loaded; above, there is room for all there is to open.
        for most in (4..=48).chain([64, 96]) {
            let run = bench.shell_line(&format!(
                "echo $$ > pid; ulimit -n {most}; exec SBX exec --agent agent.yml --backend {backend} {accepted} -- \
                 sh -c 'cat ../outside 2>/dev/null; unshare -U true 2>/dev/null && echo ESCAPED; echo ran'"
            ));
            match run.status {
                0 => assert_eq!(run.stdout, "ran\n", "{backend} {most}: {}", run.stderr),
                _ => {
                    assert_eq!(
                        (run.status, run.stdout.as_str()),
                        (125, ""),
                        "{backend} {most}: {}",
                        run.stderr
                    );
                    assert!(run.stderr.contains("Too many open files"), "{backend} {most}: {}", run.stderr);
                }
            }
            *if run.status == 0 { &mut ran } else { &mut refused } += 1;
            assert_eq!(left(&bench), "", "{backend} {most}");
        }
    }
    assert!(refused > 60 && ran > 3, "{refused} were refused and {ran} ran");
    assert_eq!(bench.files(), ["agent.yml", "pid"]);
}

#[test]
fn where_the_fence_itself_has_too_little_memory_nothing_runs_half_fenced() {
    let bench = Bench::new("little");
    bench.shell_line("echo secret > ../outside");
    if !bench.is_root() {
        println!("left to root, whose limits are counted from the first process on");
        return;
    }
    for (backend, accepted) in BACKENDS {
        for size in ["4K", "64K", "128K", "256K", "384K", "512K", "768K", "1M", "2M", "3M", "64M"] {
            bench.open_record(&format!("limits: {{memory: {size}}}\n"));
            let marker = bench.marker();
            let run = bench.shell_line(&format!(
                "echo $$ > pid; exec SBX exec --agent agent.yml --backend {backend} {accepted} -- \
                 sh -c 'cat ../outside 2>/dev/null; unshare -U true 2>/dev/null && echo ESCAPED; echo ran; : {marker}'"
            ));
            let told = run.stderr.contains("the memory limit was reached")
                || run.stderr.contains("could not be built");
            assert!(matches!(run.stdout.as_str(), "" | "ran\n"), "{backend} {size}: {}", run.stdout);
            assert!(
                run.status == 0 && run.stdout == "ran\n" || matches!(run.status, 125 | 137) && told,
                "{backend} {size}: {} {}",
                run.status,
                run.stderr
            );
            assert_eq!(left(&bench), "", "{backend} {size}");
            bench.assert_gone(&marker);
        }
    }
}

#[test]
fn a_full_disk_under_private_directories_is_said_and_nothing_runs() {
    let bench = Bench::new("full-scratch");
    bench.open_record("");
    let place = bench.subdir("../place");
    let (backend, accepted) = BACKENDS[2];
    // No room for one more name.
    bench.write(
        "full.sh",
        &format!(
            "mount -t tmpfs -o size=64k,nr_inodes=1 none {place} || exit 99\n\
             TMPDIR={place} SBX exec --agent agent.yml --backend {backend} {accepted} -- echo ran; echo $?; ls -A {place}\n"
        ),
    );
    let around = if bench.is_root() { "unshare -m" } else { "unshare -Urm" };
    let run = bench.shell_line(&format!("sed -i s,S''BX,SBX,g full.sh; exec {around} sh full.sh"));
    assert_ne!(run.status, 99, "nothing can be mounted: {}", run.stderr);
    assert_eq!(run.stdout, "125\n", "{}", run.stderr);
    assert!(
        run.stderr.contains("cannot make a private directory: No space left on device"),
        "{}",
        run.stderr
    );
}
