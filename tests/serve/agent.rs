//! A whole piece of work over the protocol alone: find the fault, mend it, see the tests pass, commit.

use crate::server::Talk;
use crate::support::TestEnv;
use crate::world::{done, events, refused, text, world};
use serde_json::{Value, json};
use std::process::Command;

const GRANTS: &[&str] = &[
    "fs.read: {in: ROOT}",
    "fs.write: {in: ROOT}",
    "fs.delete: {in: ROOT}",
    "proc.exec: {in: ROOT, cmds: [git, sh], patterns: [\"sh test.sh\"]}",
];

fn git(env: &TestEnv, words: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(env.project())
        .args(words)
        .env("HOME", env.home())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A project whose test fails, committed.
fn project() -> TestEnv {
    let env = world(GRANTS, "tools:\n  test: {run: [sh, test.sh], description: runs the tests}\n");
    env.write("project/add.sh", "add() { echo $(($1 - $2)); }\n");
    env.write(
        "project/test.sh",
        ". ./add.sh\n[ \"$(add 2 3)\" = 5 ] || { echo 'add 2 3 is not 5'; exit 1; }\necho passed\n",
    );
    let _ = std::fs::remove_dir_all(env.project().join(".git"));
    git(&env, &["init", "-q", "-b", "work"]);
    git(&env, &["add", "."]);
    git(&env, &["-c", "user.name=t", "-c", "user.email=t@t.example", "commit", "-qm", "first"]);
    env
}

fn run(talk: &mut Talk, words: &[&str]) -> Value {
    talk.call("exec", json!({ "argv": words }))
}

#[test]
fn an_agent_does_its_whole_work_with_these_tools_only() {
    let env = project();
    let mut talk = crate::world::serve(&env);
    let answer = talk.call("test", json!({}));
    assert_eq!(refused(&answer), "nonzero_exit");
    assert!(text(&answer).contains("add 2 3 is not 5"), "{answer}");
    let found = talk.call("search", json!({ "pattern": "add\\(\\)" }));
    let file = done(&found)["matches"][0]["path"].as_str().unwrap().to_owned();
    assert_eq!(text(&talk.call("read_file", json!({ "path": file }))), "add() { echo $(($1 - $2)); }\n");
    done(&talk.call("edit_file", json!({ "path": file, "old_text": "$1 - $2", "new_text": "$1 + $2" })));
    assert_eq!(text(&talk.call("test", json!({}))), "passed");
    let answer = run(&mut talk, &["git", "diff", "--stat"]);
    assert!(done(&answer)["stdout"].as_str().unwrap().contains("add.sh"), "{answer}");
    let who = ["git", "-c", "user.name=agent", "-c", "user.email=agent@a.example"];
    let commit: Vec<&str> = who.iter().copied().chain(["commit", "-am", "Add adds"]).collect();
    done(&run(&mut talk, &commit));
    let answer = run(&mut talk, &["git", "status", "--porcelain"]);
    assert_eq!(done(&answer)["stdout"], "", "{answer}");
    // What it must not do meanwhile.
    assert_eq!(refused(&run(&mut talk, &["curl", "https://a.example/"])), "scope_violation");
    let hook = json!({ "path": ".git/hooks/post-commit", "content": "#!/bin/sh\n" });
    assert_eq!(refused(&talk.call("write_file", hook)), "scope_violation");
    talk.close();
    assert_eq!(talk.ended().0.code(), Some(0));
    assert_eq!(git(&env, &["log", "--format=%an %s"]), "agent Add adds\nt first\n");
    assert!(git(&env, &["show", "HEAD"]).contains("+add() { echo $(($1 + $2)); }"));
    let calls = events(&env, |event| event["kind"] == "mcp" && event.to_string().contains("\"call\""));
    assert_eq!(calls.len(), 10, "every call is in the log");
    assert!(env.sbx(&["audit", "verify"]).contains("[exit 0]"));
}
