//! Places on other mounts, and places that contain mounts.

use crate::attacks::BACKENDS;
use crate::bench::{Bench, Run};

/// A script with mounts of its own, as whoever runs the tests: root has them without a user namespace.
fn with_mounts(bench: &Bench, script: &str) -> Run {
    bench.write("mounts.sh", script);
    let namespace = if bench.is_root() { "unshare -m" } else { "unshare -Urm" };
    let run = bench.shell_line(&format!("sed -i s,S''BX,SBX,g mounts.sh; exec {namespace} sh -e mounts.sh"));
    assert_ne!(run.status, 99, "mounts cannot be made here: {}", run.stderr);
    run
}

/// Backends that work where the caller is root of a user namespace: there, nothing belongs to the real root, so that
/// no bubblewrap is trusted.
fn backends(bench: &Bench) -> Vec<(&'static str, &'static str)> {
    BACKENDS.into_iter().filter(|(name, _)| *name != "bwrap" || bench.is_root()).collect()
}

const TREE: &str = "mkdir -p m ro other/place\n\
    { mount -t tmpfs none m && mount -t tmpfs none ro; } || exit 99\n\
    mkdir -p m/.git/hooks m/deep/er; echo kept > m/.git/config; echo x > m/f; echo r > ro/f\n\
    mount -t tmpfs none m/deep/er; echo y > m/deep/er/g; mount --rbind m/deep other/place\n";

const ACTS: &str = "cat m/f ro/f m/deep/er/g other/place/er/g\n\
    for f in m/new m/deep/new m/deep/er/new ro/new new other/place/new other/place/er/new m/.git/hooks/pre-commit \
    m/.git/config m/deep/.envrc; do (echo made > $f) 2>/dev/null && echo $f; done\n\
    for f in m/f m/deep/er/g ro/f other/place/er/g; do rm -f $f 2>/dev/null && echo gone $f; done; true\n";

#[test]
fn what_is_mounted_in_a_place_is_held_to_the_same_rights() {
    let bench = Bench::new("mounted");
    // The place that may be written is a mount itself and contains one; another way leads there, to be read only.
    bench.record(
        "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT/m}\n  - fs.write: {in: ROOT/m}\n",
    );
    bench.write("acts", ACTS);
    for (backend, accepted) in backends(&bench) {
        let run = with_mounts(
            &bench,
            &format!(
                "{TREE}SBX exec --agent agent.yml --backend {backend} {accepted} -- sh acts; cat m/.git/config; \
                 find . -name .envrc -o -name pre-commit; umount -R other/place m ro"
            ),
        );
        assert_eq!(
            run.stdout, "x\nr\ny\ny\nm/new\nm/deep/new\nm/deep/er/new\nkept\n",
            "{backend}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_place_that_is_read_stays_so_in_all_that_is_mounted_there() {
    let bench = Bench::new("attributes");
    bench.record("capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n");
    // Modes are no matter of Landlock's: the mounts themselves must be read-only, and heed no set-user-ID bit.
    let acts = "chmod 600 m/f ro/f m/deep/er/g 2>/dev/null && echo changed; touch -d @0 m/f 2>/dev/null && echo aged; \
                grep -c work/ /proc/self/mountinfo >/dev/null; \
                awk '$5 ~ /work/ && $6 !~ /^ro,nosuid,nodev/ { print $5, $6 }' /proc/self/mountinfo; true";
    bench.write("acts", acts);
    for (backend, accepted) in backends(&bench).into_iter().filter(|(name, _)| *name != "landlock") {
        let run = with_mounts(
            &bench,
            &format!(
                "{TREE}SBX exec --agent agent.yml --backend {backend} {accepted} -- sh acts; stat -c %a m/f; umount -R other/place m ro"
            ),
        );
        assert_eq!(run.stdout, "644\n", "{backend}: {}", run.stderr);
    }
}

#[test]
fn whose_a_program_is_does_not_matter_on_a_mount_below_either() {
    let bench = Bench::new("suid");
    if !bench.is_root() {
        // A user can hand no file to another; the bit on a file of one's own says nothing.
        assert_ne!(bench.shell_line("touch f; chown 64999 f 2>/dev/null").status, 0);
        return;
    }
    bench.open_record("");
    for (backend, accepted) in BACKENDS {
        let run = with_mounts(
            &bench,
            &format!(
                "mkdir -p m; mount -t tmpfs none m || exit 99; cp /usr/bin/id m/id; chown 64999 m/id; chmod 4755 m/id\n\
                 [ $(m/id -u) = 64999 ] || exit 98\n\
                 SBX exec --agent agent.yml --backend {backend} {accepted} -- sh -c '[ $(m/id -u) = $(id -u) ] && echo same'\numount m"
            ),
        );
        assert_eq!(run.stdout, "same\n", "{backend}: {} {}", run.status, run.stderr);
    }
}

#[test]
fn what_is_mounted_later_does_not_come_into_the_view() {
    let bench = Bench::new("late");
    bench.record("capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.write: {in: ROOT/out}\n");
    bench.subdir("out");
    bench.subdir("late");
    let wait =
        |file: &str| format!("n=0; while ! [ -e {file} ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n+1)); done");
    bench.write("acts", &format!("touch out/ready; {}; ls late; chmod 600 late/f; true", wait("out/go")));
    for (backend, accepted) in backends(&bench).into_iter().filter(|(name, _)| *name != "landlock") {
        let run = with_mounts(
            &bench,
            &format!(
                "mount --make-rshared / || exit 99; rm -f out/*\n\
                 SBX exec --agent agent.yml --backend {backend} {accepted} -- sh acts &\n\
                 {}\nmount -t tmpfs none late; touch late/f; touch out/go; wait; stat -c %a late/f; umount late",
                wait("out/ready")
            ),
        );
        assert_eq!(run.stdout, "644\n", "{backend}: {}", run.stderr);
    }
}

#[test]
fn a_place_that_lies_on_another_file_system_works_as_any() {
    let bench = Bench::new("elsewhere");
    bench.open_record("");
    for (backend, accepted) in backends(&bench) {
        let run = with_mounts(
            &bench,
            &format!(
                "cp agent.yml ../kept.yml; cd ..; mount -t tmpfs none work || exit 99; cd work\n\
                 SBX exec --agent ../kept.yml --backend {backend} {accepted} -- sh -c \
                 'echo x > f; mv f g; ln g h; mkdir d; mv g d; rm h; cat d/g; mkdir .vscode 2>/dev/null; ls -A; touch ../made 2>/dev/null; true'\n\
                 ls -A ..; cd ..; umount work"
            ),
        );
        let around = "home\nkept.yml\nwork\n";
        assert_eq!(run.stdout, format!("x\nd\n{around}"), "{backend}: {}", run.stderr);
    }
}
