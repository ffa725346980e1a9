//! The tools that ship: what they come to, who is offered them, and what stands in for them.

use crate::support::TestEnv;
use expect_test::expect;
use serde_json::Value;

/// A project with one commit, and a change that is not committed.
fn world() -> TestEnv {
    let env = TestEnv::new();
    std::fs::remove_dir(env.project().join(".git")).expect("a place for a repository");
    let git = "git init -q -b main . && git config user.name T && git config user.email t@x.example";
    let made = env.sh(&format!("{git} && echo one > a.txt && git add a.txt && git commit -qm 'the first'"));
    assert_eq!(made, "[exit 0]\n");
    env.write("project/a.txt", "one\ntwo\n");
    env
}

fn definition(name: &str, command: &str) -> String {
    format!("name = \"{name}\"\nkind = \"command\"\n{command}\n")
}

/// The row of a tool in what `list` answers.
fn row(env: &TestEnv, agent: &str, name: &str) -> Value {
    let rows = env.json(&["--json", "tools", "list", "-a", agent]);
    let rows = rows.as_array().expect("a list").iter();
    rows.filter(|row| row["name"] == name).cloned().next().unwrap_or_default()
}

#[test]
fn they_are_listed_with_their_needs_and_offered_to_those_who_hold_them() {
    let env = world();
    expect![[r#""#]].assert_eq(&env.sbx(&["tools", "list", "-a", "builder"]));
    expect![[r#""#]].assert_eq(&env.sbx(&["tools", "show", "-a", "scout", "git_diff"]));
    expect![[r#""#]].assert_eq(&env.sbx(&["tools", "validate"]));
    assert_eq!(row(&env, "scout", "git_status")["offered"], true);
    for (agent, tool) in [("scout", "sha256"), ("fetcher", "git_status")] {
        let row = row(&env, agent, tool);
        assert_eq!(row["reason"]["code"], "capability_absent", "{row}");
    }
}

#[test]
fn they_run_behind_the_fence_of_their_agent() {
    let env = world();
    let run = |words: &[&str]| env.sbx(&[&["tools", "run", "-a", "scout"], words].concat());
    assert_eq!(run(&["git_status"]), "## main\n M a.txt\n[exit 0]\n");
    assert!(run(&["git_diff"]).contains("+two"));
    assert_eq!(run(&["git_diff", "form=name-status", "path=a.txt"]), "M\ta.txt\n[exit 0]\n");
    assert!(run(&["git_log"]).contains("\tT\tthe first\n"));
    assert_eq!(run(&["git_show", "what=HEAD:a.txt"]), "one\n[exit 0]\n");
    assert!(run(&["git_blame", "file=a.txt", "lines=2,2"]).contains("Not Committed Yet"));
    assert_eq!(run(&["git_files"]), "a.txt\n[exit 0]\n");
    assert!(run(&["disk_usage", "depth=0"]).ends_with("\t[PROJECT]\n[exit 0]\n"));
    let sum = env.sbx(&["tools", "run", "-a", "builder", "sha256", "file=a.txt"]);
    assert!(sum.starts_with("25c62fd8f0cfc0e3f68bd6ffc4f6e4c76b1b0bd6a0d1b35b4b5a"), "{sum}");
    assert!(run(&["git_diff", "since=--output=x"]).starts_with("[stderr]\ninvalid_params"));
}

#[test]
fn a_higher_layer_stands_in_for_them_and_gains_nothing() {
    let env = world();
    let user = "home/.config/sbx/tools/log.toml";
    env.write(user, definition("git_log", "binary = \"echo\"\nargs = [\"the user's\"]"));
    assert_eq!(env.sbx(&["tools", "run", "-a", "scout", "git_log"]), "the user's\n[exit 0]\n");
    assert_eq!(row(&env, "scout", "git_log")["layer"], "user");
    // The name of a tool that was offered gives another command nothing.
    env.write(user, definition("git_log", "binary = \"curl\"\nargs = [\"https://a.example/\"]"));
    let row_of_user = row(&env, "scout", "git_log");
    assert_eq!(row_of_user["reason"]["code"], "capability_absent", "{row_of_user}");
    // A session's stands in for both.
    env.write("project/mine.yml", "git_log: {run: [echo, the session's]}\n");
    env.sbx(&["tools", "add", "-a", "scout", "--session", "s", "mine.yml"]);
    let run = ["tools", "run", "-a", "scout", "--session", "s", "git_log"];
    assert_eq!(env.sbx(&run), "the session's\n[exit 0]\n");
    env.sbx(&["tools", "stop", "--session", "s", "--all"]);
    // When the user's is gone the built-in one is there again.
    std::fs::remove_file(env.home().join(".config/sbx/tools/log.toml")).expect("a file");
    assert_eq!(row(&env, "scout", "git_log")["layer"], "builtin");
}

#[test]
fn they_can_be_switched_off_one_by_one_or_altogether() {
    let env = world();
    env.write("home/.config/sbx/tools/off.toml", "name = \"git_log\"\nenabled = false\n");
    env.write_record(
        "w.md",
        "---\nid: w\ncapabilities:\n  - proc.exec: {in: $PROJECT}\ntools:\n  git_diff: {enabled: false}\n---\n",
    );
    for tool in ["git_log", "git_diff"] {
        let told = env.sbx(&["tools", "run", "-a", "w", tool]);
        assert!(told.starts_with(&format!("[stderr]\nunknown_tool: there is no tool `{tool}`")), "{told}");
        assert_eq!(row(&env, "w", tool)["kind"], "off");
    }
    assert_eq!(row(&env, "scout", "git_diff")["offered"], true, "another agent has it still");
    expect![[r#""#]].assert_eq(&env.sbx(&["tools", "show", "-a", "w", "git_diff"]));
    env.write("home/.config/sbx/config.yml", "builtin_tools: [git_status]\n");
    std::fs::remove_file(env.home().join(".config/sbx/tools/off.toml")).expect("a file");
    let rows = env.json(&["--json", "tools", "list", "-a", "scout"]);
    let names: Vec<&str> =
        rows.as_array().expect("a list").iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["git_status"]);
    env.write("home/.config/sbx/config.yml", "builtin_tools: []\n");
    assert_eq!(env.json(&["--json", "tools", "list", "-a", "scout"]), serde_json::json!([]));
    env.write("home/.config/sbx/config.yml", "builtin_tools: [git_stats]\n");
    expect![[r#""#]].assert_eq(&env.sbx(&["tools", "list", "-a", "scout"]));
}

#[test]
fn what_only_reads_cannot_write_whatever_its_agent_may() {
    let env = world();
    let tool = |name: &str, rest: &str| {
        let text = definition(name, &format!("binary = \"cp\"\nargs = [\"a.txt\", \"{name}.txt\"]\n{rest}"));
        env.write(format!("home/.config/sbx/tools/{name}.toml"), text);
        env.sbx(&["tools", "run", "-a", "builder", name])
    };
    assert_eq!(tool("writes", ""), "[exit 0]\n");
    assert!(env.project().join("writes.txt").exists());
    let told = tool("reads", "read_only = true");
    assert!(told.contains("nonzero_exit"), "{told}");
    assert!(!env.project().join("reads.txt").exists());
    env.write(
        "project/odd.yml",
        "a: {kind: internal, api: fs.write, read_only: true}\nb: {run: [curl, x], net: {post: [a.example]}, read_only: true}\n",
    );
    expect![[r#""#]].assert_eq(&env.sbx(&["tools", "validate", "odd.yml"]));
}
