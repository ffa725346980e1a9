//! Protected paths in other letters, where letters count and on a file system that does not tell them apart.
//!
//! The kernels this is tested on have no such file system of their own, so one is served through FUSE: to the kernel
//! every spelling is another name there, which is the harder case.

use crate::attacks::BACKENDS;
use crate::bench::{Bench, Run};

const ACTS: &str = "echo own > f; mv f g; cat g\n\
    try() { sh -c \"$1\" 2>/dev/null && echo \"$1\"; }\n\
    try 'echo evil > .GIT/hooks/x'; try 'echo evil >> .Git/CONFIG'; try 'mkdir .VSCODE'; try 'echo > .ENVRC'\n\
    try 'ln -s g .EnvRC'; try 'ln g .Envrc'; try 'mv .GIT away'; try 'mv .git away'; try 'rm -r .Git/Hooks'\n\
    try 'echo evil >> AGENT.YML'; echo o > o; try 'mv o Agent.YML'; try 'ln -f o Agent.yml'; try 'rm aGENT.yml'\n\
    try 'rm Agent.Yml agent.yml'; try 'truncate -s 0 AGENT.yml'; try 'chmod 777 agenT.yml'; true\n";

/// Has the acts tried in a repository with the record in it, behind one backend, and shows what is left.
fn script(backend: &str, accepted: &str) -> String {
    format!(
        "set -e; cp ../made.yml agent.yml; git init -q .; cp .git/config ../config; chmod 600 agent.yml\n\
         SBX exec --agent agent.yml --backend {backend} {accepted} -- sh -c \"$(cat ../acts)\"\n\
         cmp agent.yml ../made.yml; cmp .git/config ../config; stat -c %a agent.yml; ls -A; ls .git/hooks | grep -vc sample || true\n"
    )
}

fn attacked(bench: &Bench, backend: (&str, &str), around: &str) -> Run {
    bench.write("../acts", ACTS);
    bench.write("../fold.py", include_str!("fold.py"));
    bench.write("../script", &script(backend.0, backend.1));
    bench.open_record("");
    let line = "mv agent.yml ../made.yml; sed -i s,S''BX,SBX,g ../script; exec AROUND sh -c 'cd $PWD/../work && sh ../script'";
    bench.shell_line(&line.replace("AROUND", around))
}

fn assert_kept(run: &Run, backend: &str) {
    // Only what is the agent's to do was done.
    assert_eq!(run.stdout, "own\n600\n.git\nagent.yml\ng\no\n0\n", "{backend}: {}", run.stderr);
}

#[test]
fn protected_paths_are_kept_in_any_letters() {
    for backend in BACKENDS {
        let bench = Bench::new("letters");
        let run = attacked(&bench, backend, "");
        assert_kept(&run, backend.0);
    }
}

#[test]
fn and_on_a_file_system_that_does_not_tell_letters_apart() {
    let root = Bench::new("who").is_root();
    // Most machines let everybody have it; where it is root's, `scripts/test` says that it leaves this to root's run.
    let open = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    assert!(open.is_ok(), "without /dev/fuse nothing can be said of folding file systems: {open:?}");
    for backend in BACKENDS.into_iter().filter(|(name, _)| root || *name != "bwrap") {
        let bench = Bench::new("folding");
        let namespace = if root { "unshare -m" } else { "unshare -Urm" };
        let run = attacked(&bench, backend, &format!("{namespace} python3 ../fold.py $PWD"));
        assert_ne!(run.status, 98, "the file system cannot be mounted: {}", run.stderr);
        assert_kept(&run, backend.0);
    }
}
