//! Agents at the same time, over places that overlap: each is held to its own record.

use crate::attacks::BACKENDS;
use crate::bench::Bench;

/// Two launches that wait for each other inside, through files that one may write and the other read.
#[test]
fn each_is_held_to_its_own_record_while_the_other_runs() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("together");
        bench.subdir("sub/deep");
        bench.subdir("sub/.git/hooks");
        bench.write("top", "top\n");
        bench.write("sub/below", "below\n");
        let root = bench.subdir("");
        let root = root.trim_end_matches('/');
        // One reads all of it, the other writes a part.
        bench.write(
            "reads.yml",
            &format!(
                "id: reads\ncapabilities:\n  - proc.exec: {{in: {root}}}\n  - fs.read: {{in: {root}}}\n"
            ),
        );
        bench.write(
            "writes.yml",
            &format!(
                "id: writes\ncapabilities:\n  - proc.exec: {{in: {root}/sub}}\n  - fs.read: {{in: {root}/sub}}\n  \
                 - fs.write: {{in: {root}/sub}}\n  - fs.delete: {{in: {root}/sub/deep}}\n"
            ),
        );
        let until = |test: &str| {
            format!("n=0; until {test}; do sleep 0.05; n=$((n+1)); [ $n -lt 1200 ] || exit 9; done")
        };
        bench.write(
            "writer",
            &format!(
                "echo here > deep/ready\n{}\ncat below; cat ../top 2>/dev/null; (echo x > ../made) 2>/dev/null; \
                 rm -f below 2>/dev/null; rm deep/victim; (echo x > .git/hooks/h) 2>/dev/null; echo done > deep/end\n",
                until("[ -e deep/victim ]")
            ),
        );
        bench.write(
            "reader",
            &format!(
                "{}\ncat top sub/below; for f in made sub/made sub/deep/made sub/.envrc; do (echo x > $f) 2>/dev/null && echo $f; done; \
                 rm -f sub/below sub/deep/ready 2>/dev/null; echo seen\n{}\nls sub/deep\n",
                until("[ -e sub/deep/ready ]"),
                until("[ -e sub/deep/end ]")
            ),
        );
        bench.shell_line("cp writer sub/.writer");
        let launch = |who: &str, place: &str, script: &str| {
            format!("SBX exec --agent {who}.yml --in {place} --backend {backend} {accepted} -- sh {script}")
        };
        let run = bench.shell_line(&format!(
            "{} > read.out 2> read.err & {} > written.out 2> written.err & {}; touch sub/deep/victim; wait; cat read.out; echo ==; cat written.out",
            launch("reads", ".", "reader"),
            launch("writes", "sub", ".writer"),
            // Both run now: what the reader has seen is of no moment before the writer may go on.
            until("grep -q seen read.out")
        ));
        let errors = || format!("{}{}{}", run.stderr, bench.read("read.err"), bench.read("written.err"));
        assert_eq!(run.stdout, "top\nbelow\nseen\nend\nready\n==\nbelow\n", "{backend}: {}", errors());
        assert!(
            bench.exists("sub/below") && !bench.exists("made") && !bench.exists("sub/.git/hooks/h"),
            "{backend}"
        );
    }
}

#[test]
fn many_at_once_with_other_rights_on_the_same_files_never_borrow_from_each_other() {
    let bench = Bench::new("many");
    bench.subdir("shared");
    bench.write("shared/kept", "kept\n");
    let root = bench.subdir("shared");
    for (name, verbs) in [("a", "fs.read"), ("b", "fs.write"), ("c", "fs.delete")] {
        bench.write(
            &format!("{name}.yml"),
            &format!("id: {name}\ncapabilities:\n  - proc.exec: {{in: {root}, cmds: [sh, rm]}}\n  - {verbs}: {{in: {root}}}\n"),
        );
    }
    // `a` makes and takes nothing, `b` makes and takes nothing away, `c` takes away what `b` made and makes nothing.
    let acts = "(echo x > $0-$1) 2>/dev/null && echo made; rm -f old-$0-$1 2>/dev/null && echo gone; true";
    let run = bench.shell_line(&format!(
        "for n in 1 2 3 4 5 6; do for who in a b c; do touch shared/old-$who-$n; \
         SBX exec --agent $who.yml --in shared -- sh -c '{acts}' $who $n > $who-$n.out 2> $who-$n.err & done; done; wait; \
         for who in a b c; do cat $who-*.out | sort | uniq -c | tr -d ' '; echo; done; ls shared"
    ));
    let kept: String =
        ["a", "b"].iter().flat_map(|who| (1..=6).map(move |n| format!("old-{who}-{n}\n"))).collect();
    let made: String = (1..=6).map(|n| format!("b-{n}\n")).collect();
    let errors = bench.shell_line("cat *.err").stdout;
    assert_eq!(run.stdout, format!("\n6made\n\n6gone\n\n{made}kept\n{kept}"), "{errors}");
}
