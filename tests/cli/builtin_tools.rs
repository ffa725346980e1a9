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
    let mut rows = rows.as_array().expect("a list").iter();
    rows.find(|row| row["name"] == name).cloned().unwrap_or_default()
}

#[test]
fn they_are_listed_with_their_needs_and_offered_to_those_who_hold_them() {
    let env = world();
    expect![[r#"
        disk_usage           high    builtin  proc.exec{patterns=[du -k -d * -- *]}  built-in:tools/disk_usage.toml:1
        git_blame            high    builtin  proc.exec{patterns=["git blame --no-textconv --date=short -L * -- *"]}  built-in:tools/git_blame.toml:1
        git_diff             high    builtin  proc.exec{patterns=[git diff --no-color --no-ext-diff --no-textconv --* * -- *]}  built-in:tools/git_diff.toml:1
        git_files            high    builtin  proc.exec{patterns=[git ls-files --cached --others --exclude-standard -- *]}  built-in:tools/git_files.toml:1
        git_log              high    builtin  proc.exec{patterns=["git log --no-color --no-ext-diff --no-textconv --date=short --pretty=format:%h%x09%ad%x09%an%x09%s --max-count=* --* * -- *"]}  built-in:tools/git_log.toml:1
        git_show             high    builtin  proc.exec{patterns=[git show --no-color --no-ext-diff --no-textconv --* * --]}  built-in:tools/git_show.toml:1
        git_status           high    builtin  proc.exec{patterns=["git status --short --branch --untracked-files=*"]}  built-in:tools/git_status.toml:1
        sha256               high    builtin  proc.exec{patterns=[sha256sum -- *]}  built-in:tools/sha256.toml:1
        [exit 0]
    "#]].assert_eq(&env.sbx(&["tools", "list", "-a", "builder"]));
    expect![[r#"
        git_diff             high    builtin  proc.exec{patterns=[git diff --no-color --no-ext-diff --no-textconv --* * -- *]}  built-in:tools/git_diff.toml:1
          about        What changed in the project since a revision, staged or not; or between two revisions, as A..B
          argv         git diff --no-color --no-ext-diff --no-textconv --${form} ${since} -- ${path}
          value        form: one of patch, stat, name-status, else "patch"
          value        path: a path below $PROJECT, without `..`, else "."
          value        since: text that is as a whole [A-Za-z0-9@][A-Za-z0-9@._/~^{}+-]*, else "HEAD"
          time         60s
          output       text, 1048576 and 1048576 bytes kept
          files        only read
          network      none
        [exit 0]
    "#]].assert_eq(&env.sbx(&["tools", "show", "-a", "scout", "git_diff"]));
    expect![[r#"
        built-in:tools/disk_usage.toml: disk_usage
        built-in:tools/git_blame.toml: git_blame
        built-in:tools/git_diff.toml: git_diff
        built-in:tools/git_files.toml: git_files
        built-in:tools/git_log.toml: git_log
        built-in:tools/git_show.toml: git_show
        built-in:tools/git_status.toml: git_status
        built-in:tools/sha256.toml: sha256
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["tools", "validate"]));
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
    assert!(sum.starts_with("c3f9c8c283a2b1f2f1896f27a01cbe3cddc0c9d93f752e4639035a0f5b36f6e8"), "{sum}");
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
    expect![[r#"
        git_diff             low     record    [HOME]/.config/sbx/agents/w.md:6
          not offered: the tool `git_diff` is disabled
          time         60s
          output       text, 1048576 and 1048576 bytes kept
          network      none
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["tools", "show", "-a", "w", "git_diff"]));
    env.write("home/.config/sbx/config.yml", "builtin_tools: [git_status]\n");
    std::fs::remove_file(env.home().join(".config/sbx/tools/off.toml")).expect("a file");
    let rows = env.json(&["--json", "tools", "list", "-a", "scout"]);
    let names: Vec<&str> =
        rows.as_array().expect("a list").iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["git_status"]);
    env.write("home/.config/sbx/config.yml", "builtin_tools: []\n");
    assert_eq!(env.json(&["--json", "tools", "list", "-a", "scout"]), serde_json::json!([]));
    env.write("home/.config/sbx/config.yml", "builtin_tools: [git_stats]\n");
    expect![[r#"
        [stderr]
        error: the configuration has errors
        error[bad_section]: there is no built-in tool `git_stats`
         --> [HOME]/.config/sbx/config.yml:1:17
          |
        1 | builtin_tools: [git_stats]
          |                 ^^^^^^^^^
          = help: did you mean `git_status`?
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["tools", "list", "-a", "scout"]));
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
    expect![[r#"
        error[bad_tool]: a tool that only reads has no `api` that changes something
         --> [PROJECT]/odd.yml:1:47
          |
        1 | a: {kind: internal, api: fs.write, read_only: true}
          |                                               ^^^^

        error[bad_tool]: a tool that only reads has no `net` that changes something
         --> [PROJECT]/odd.yml:2:58
          |
        2 | b: {run: [curl, x], net: {post: [a.example]}, read_only: true}
          |                                                          ^^^^
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "validate", "odd.yml"]));
}
