//! `sbx why`: what is decided and what the kernel says are the same, over verbs, paths, commands and backends.

#![expect(unreachable_pub, dead_code, reason = "the support module is shared by several test programs")]

mod support;

use serde_json::Value;
use std::path::PathBuf;
use support::TestEnv;

/// A home outside `/tmp`, which is private scratch behind the fence.
fn world() -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    let base = PathBuf::from("/var/tmp").canonicalize().expect("a directory for large temporary files");
    let dir = base.join(
        format!("sbx-why-test-{}-{:?}", std::process::id(), std::thread::current().id())
            .replace(['(', ')'], ""),
    );
    let _ = std::fs::remove_dir_all(&dir);
    for below in ["work/lib/deep", "work/.git/hooks", "far", "closed"] {
        std::fs::create_dir_all(dir.join(below)).expect("directories");
    }
    for file in
        ["work/a.txt", "work/lib/b.rs", "work/lib/deep/c.md", "work/.git/config", "far/d.txt", "closed/e.txt"]
    {
        std::fs::write(dir.join(file), "text\n").expect("a file");
    }
    let record = format!(
        "---\ncapabilities:\n  - fs.read: {{in: {0}/work}}\n  - fs.write: {{in: {0}/work, paths: [lib]}}\n  \
         - fs.delete: {{in: {0}/work/lib/deep}}\n  - fs.write: {{in: {0}/far}}\n  \
         - proc.exec: {{in: {0}/work, cmds: [cat, ls]}}\n---\n",
        dir.display()
    );
    env.write_record("w.md", record);
    (env, dir)
}

fn why(env: &TestEnv, dir: &std::path::Path, backend: &str, question: &[&str]) -> Value {
    let at = dir.join("work").display().to_string();
    env.json(&[&["--json", "why", "--agent", "w", "--backend", backend, "--in", &at], question].concat())
}

#[test]
fn decided_and_tried_agree_over_every_verb_and_place() {
    let (env, dir) = world();
    let places = [
        "work",
        "work/a.txt",
        "work/lib",
        "work/lib/b.rs",
        "work/lib/new.rs",
        "work/lib/deep",
        "work/lib/deep/c.md",
        "work/.git/config",
        "work/.git/hooks/pre-commit",
        "far/d.txt",
        "far/new.txt",
        "closed",
        "closed/e.txt",
    ];
    let (mut yes, mut no) = (0, 0);
    for backend in ["native", "bwrap", "landlock"] {
        for verb in ["fs.read", "fs.write", "fs.delete"] {
            for place in places {
                let path = dir.join(place).display().to_string();
                let answer = why(&env, &dir, backend, &[verb, &path]);
                let verdict = answer["tried"]["verdict"].as_str().unwrap_or_default();
                assert_ne!(verdict, "differ", "{backend} {verb} {place}: {answer:#}");
                if verdict == "agree" {
                    let done = answer["tried"]["done"] == true;
                    assert_eq!(done, answer["decided"]["decision"] == "allow", "{answer:#}");
                    *(if done { &mut yes } else { &mut no }) += 1;
                }
            }
        }
    }
    assert!(yes > 30 && no > 40, "{yes} yes, {no} no");
    assert!(!dir.join("work/lib/new.rs").exists() && !dir.join("far/new.txt").exists(), "nothing is left");
    assert!(
        dir.join("work/lib/deep/c.md").exists() && dir.join("work/lib/b.rs").exists(),
        "nothing is taken"
    );
    let names = std::fs::read_dir(dir.join("work/lib")).expect("the directory").count();
    assert_eq!(names, 2, "nothing is left in a directory either");
    std::fs::remove_dir_all(dir).expect("removed");
}

#[test]
fn commands_are_asked_about_without_being_run() {
    let (env, dir) = world();
    let listed = why(&env, &dir, "native", &["proc.exec", "--", "cat", "a.txt"]);
    let other = why(&env, &dir, "native", &["proc.exec", "--", "touch", "made"]);
    if listed["tried"]["verdict"] == "untried" {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: {}", listed["tried"]["why"]);
    } else {
        assert_eq!(
            (&listed["tried"]["verdict"], &listed["tried"]["done"]),
            (&"agree".into(), &true.into()),
            "{listed:#}"
        );
        assert_eq!(
            (&other["tried"]["verdict"], &other["tried"]["done"]),
            (&"agree".into(), &false.into()),
            "{other:#}"
        );
    }
    assert_eq!(listed["decided"]["decision"], "allow");
    assert_eq!(other["decided"]["decision"], "deny");
    assert!(!dir.join("work/made").exists());
    std::fs::remove_dir_all(dir).expect("removed");
}

#[test]
fn the_answer_says_both_and_the_status_tells() {
    let (env, dir) = world();
    let path = |name: &str| dir.join(name).display().to_string();
    let shown = env.sbx(&["why", "--agent", "w", "fs.read", &path("work/a.txt")]);
    assert!(
        shown.starts_with("decided  allowed: fs.read")
            && shown.contains("behind native: done\nthey agree\n[exit 0]"),
        "{shown}"
    );
    let shown = env.sbx(&["why", "--agent", "w", "fs.delete", &path("work/a.txt")]);
    assert!(shown.contains("scope_violation") && shown.contains("they agree\n[exit 1]"), "{shown}");
    let shown = env.sbx(&["why", "--agent", "w", "fs.read", "/usr/bin/env"]);
    assert!(
        shown.contains("they differ, as they should: every process is shown")
            && shown.ends_with("[exit 1]\n"),
        "{shown}"
    );
    let shown = env.sbx(&["why", "--agent", "w", "fs.read", "/etc/passwd"]);
    assert!(shown.contains("they differ, as they should: every process has such a file"), "{shown}");
    let shown = env.sbx(&["why", "--agent", "w", "fs.read", &path("work/nothing")]);
    assert!(shown.contains("tried    not: there is nothing at"), "{shown}");
    std::fs::remove_dir_all(dir).expect("removed");
}
