//! Records that are no records: every kind of file that can lie where one is expected.

use crate::support::TestEnv;
use expect_test::expect;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

/// Every command that reads a record, on this file.
fn all_ways(env: &TestEnv, file: &str) -> String {
    let shown = env.sbx(&["agents", "show", file]);
    for args in [
        ["agents", "lint", file].as_slice(),
        &["agents", "capabilities", file],
        &["agents", "grant", file, "records.read", "--yes"],
        &["agents", "revoke", file, "records.read", "--yes"],
        &["check", "--agent", file, "fs.read", "x"],
        &["explain", "--agent", file],
        &["provider-tools", "--agent", file],
        &["skills", "list", "--agent", file],
    ] {
        assert_eq!(env.sbx(args), shown, "sbx {args:?}");
    }
    shown
}

#[test]
fn a_missing_file() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: cannot read [PROJECT]/./none.md
          caused by: No such file or directory (os error 2)
        [exit 2]
    "#]]
    .assert_eq(&all_ways(&env, "./none.md"));
}

#[test]
fn a_directory() {
    let env = TestEnv::new();
    std::fs::create_dir_all(env.project().join("dir.md")).expect("a directory");
    expect![[r#"
        [stderr]
        error: [PROJECT]/dir.md is not a regular file
        [exit 2]
    "#]]
    .assert_eq(&all_ways(&env, "dir.md"));
}

#[test]
fn a_pipe_is_not_waited_for() {
    let env = TestEnv::new();
    assert!(env.sh("mkfifo pipe.md").contains("[exit 0]"));
    expect![[r#"
        [stderr]
        error: [PROJECT]/pipe.md is not a regular file
        [exit 2]
    "#]]
    .assert_eq(&all_ways(&env, "pipe.md"));
}

#[test]
fn a_device_is_not_read() {
    let env = TestEnv::new();
    std::os::unix::fs::symlink("/dev/zero", env.project().join("zero.md")).expect("a link");
    expect![[r#"
        [stderr]
        error: [PROJECT]/zero.md is not a regular file
        [exit 2]
    "#]]
    .assert_eq(&all_ways(&env, "zero.md"));
}

#[test]
fn a_file_of_a_megabyte() {
    let env = TestEnv::new();
    env.write("project/big.md", format!("---\ncapabilities: []\n---\n{}", "x".repeat(1 << 20)));
    expect![[r#"
        [stderr]
        error: [PROJECT]/big.md is larger than 256 kB
        [exit 2]
    "#]]
    .assert_eq(&all_ways(&env, "big.md"));
}

#[test]
fn bytes_that_are_no_text() {
    let env = TestEnv::new();
    env.write("project/latin.md", b"---\ndescription: caf\xe9\n---\n");
    expect![[r#"
        [stderr]
        error: [PROJECT]/latin.md is not UTF-8 text (byte 20)
        [exit 2]
    "#]]
    .assert_eq(&all_ways(&env, "latin.md"));
}

#[test]
fn a_file_that_may_not_be_read() {
    let env = TestEnv::new();
    let file = env.write("project/closed.md", "---\ncapabilities: []\n---\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).expect("chmod");
    if std::fs::read(&file).is_ok() {
        // Root reads everything; the same test runs as an ordinary user too.
        assert!(env.sbx(&["agents", "show", "closed.md"]).contains("[exit 0]"));
        return;
    }
    expect![[r#"
        [stderr]
        error: cannot read [PROJECT]/closed.md
          caused by: Permission denied (os error 13)
        [exit 2]
    "#]]
    .assert_eq(&all_ways(&env, "closed.md"));
}

#[test]
fn a_link_in_a_circle() {
    let env = TestEnv::new();
    std::os::unix::fs::symlink("round.md", env.project().join("round.md")).expect("a link");
    expect![[r#"
        [stderr]
        error: cannot read [PROJECT]/round.md
          caused by: Too many levels of symbolic links (os error 40)
        [exit 2]
    "#]]
    .assert_eq(&all_ways(&env, "round.md"));
}

#[test]
fn an_empty_file() {
    let env = TestEnv::new();
    env.write("project/empty.md", "");
    expect![[r#"
        [stderr]
        error: the record has errors
        error[yaml]: the record has no front matter
         --> [PROJECT]/empty.md:1:1
          |
        1 | 
          | ^
          = help: start the file with a line `---`, the record's YAML, and another line `---`
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "empty.md"]));
}

#[test]
fn markdown_without_front_matter() {
    let env = TestEnv::new();
    env.write("project/prose.md", "# Just prose\n");
    expect![[r#"
        [stderr]
        error: the record has errors
        error[yaml]: the record has no front matter
         --> [PROJECT]/prose.md:1:1
          |
        1 | # Just prose
          | ^
          = help: start the file with a line `---`, the record's YAML, and another line `---`
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "prose.md"]));
}

#[test]
fn front_matter_that_does_not_end() {
    let env = TestEnv::new();
    env.write("project/open.md", "---\ncapabilities: []\n");
    expect![[r#"
        [stderr]
        error: the record has errors
        error[yaml]: the front matter is not closed
         --> [PROJECT]/open.md:1:1
          |
        1 | ---
          | ^^^
          = help: end it with a line `---`
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "open.md"]));
}

#[test]
fn anchors_and_several_documents() {
    let env = TestEnv::new();
    env.write("project/anchor.yml", "capabilities: &a [records.read]\n");
    expect![[r#"
        [stderr]
        error: the record has errors
        error[yaml]: anchors (`&name`) are not allowed
         --> [PROJECT]/anchor.yml:1:15
          |
        1 | capabilities: &a [records.read]
          |               ^^^^
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "anchor.yml"]));
    env.write("project/two.yml", "capabilities: []\n---\ncapabilities: [records.read]\n");
    expect![[r#"
        [stderr]
        error: the record has errors
        error[yaml]: there is more than one YAML document
         --> [PROJECT]/two.yml:2:1
          |
        2 | ---
          | ^^^
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "two.yml"]));
}

#[test]
fn a_name_that_is_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let env = TestEnv::new();
    let name = OsStr::from_bytes(b"caf\xe9.md");
    expect![[r#"
        [stderr]
        error: invalid UTF-8 was detected in one or more arguments

        Usage: sbx agents show [OPTIONS] <AGENT>

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&[OsStr::new("agents"), OsStr::new("show"), name]));
}

#[test]
fn a_full_disk_leaves_the_record_as_it_was() {
    let env = TestEnv::new();
    let file = env.write_record("a.md", "---\ncapabilities: []\n---\n");
    // A file-size limit of zero blocks is what a full disk looks like to one process.
    let shown = env.sh("trap '' XFSZ; ulimit -f 0; sbx agents grant a records.read --yes 2>&1 | cat; true");
    assert!(shown.contains("cannot write"), "{shown}");
    assert_eq!(std::fs::read_to_string(file).expect("the record"), "---\ncapabilities: []\n---\n");
    assert_eq!(env.files(), ["[HOME]/.config/sbx/agents/a.md"]);
}

#[test]
fn a_tilde_that_the_shell_left_alone_is_the_home() {
    let env = TestEnv::new();
    env.write("home/a.md", "---\ncapabilities: []\n---\n");
    expect![[r#"
        no authority
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "capabilities", "~/a.md"]));
}

#[test]
fn without_a_home_sbx_says_so() {
    let env = TestEnv::new();
    let output = env.sbx_command(&["agents", "list"]).env_remove("HOME").output().expect("sbx starts");
    expect![[r#"
        [stderr]
        error: cannot tell the home directory: HOME is not set to an absolute path
          hint: set HOME
        [exit 2]
    "#]]
    .assert_eq(&env.shown(&output));
}

#[test]
fn xdg_config_home_is_respected() {
    let env = TestEnv::new();
    env.write("elsewhere/sbx/agents/a.md", "---\ndescription: from elsewhere\ncapabilities: []\n---\n");
    let elsewhere = env.home().join("../elsewhere").canonicalize().expect("a directory");
    let output =
        env.sbx_command(&["agents", "list"]).env("XDG_CONFIG_HOME", elsewhere).output().expect("sbx starts");
    expect![[r#"
        a        user      none    from elsewhere
        builder  built-in  high    edits, builds and tests the current project, without network
        fetcher  built-in  medium  fetches from the public internet, and nothing else
        scout    built-in  high    reads the current project and runs read-only tools in it
        [exit 0]
    "#]]
    .assert_eq(&env.shown(&output));
}

#[test]
fn a_project_whose_name_is_no_text_makes_nothing_panic() {
    let env = TestEnv::new();
    let name = std::ffi::OsStr::from_bytes(b"p\xff");
    let project = env.home().join(name);
    std::fs::create_dir_all(project.join(".git")).expect("a project");
    std::fs::write(project.join("f"), "x\n").expect("a file");
    for line in [
        "exec --agent scout -- rm x",
        "exec --json --agent scout -- rm x",
        "exec --agent builder -- cat f",
        "exec --json --explain --agent builder -- touch ../out",
        "eval --agent scout ls",
        "eval --json --agent scout ls",
        "explain --json --agent builder",
        "explain --json --agent builder -- ls",
        "explain --tree --json --agent builder",
        "agents capabilities builder --json",
        "agents show builder --json",
        "agents list --json",
        "agents new one --project --yes --json",
        "check --json --agent builder fs.read f",
        "check --json --agent builder proc.exec -- ls",
        "check --json --agent scout proc.eval ls",
        "why --json --agent builder fs.read f",
        "fs read --json --agent builder f",
        "fs write --json --agent scout f",
        "tools list --json --agent builder",
        "tools run --json --agent builder git_status",
        "tools validate --json",
        "skills list --json --agent builder",
        "risk check --json --agent builder ls",
        "report --json",
        "learn -- ls",
        "learn --json -- ls",
        "mcp install claude-code --agent builder --print --json",
        "hook install claude-code --agent builder --json",
        "doctor --json",
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let output = env.sbx_command(&args).current_dir(&project).output().expect("sbx starts");
        let said = env.shown(&output);
        assert!(!said.contains("panicked"), "{line}: {said}");
        assert!(output.status.code().is_some_and(|code| code < 128), "{line}: {said}");
        if args.contains(&"--json") && !output.stdout.is_empty() {
            let answer = serde_json::from_slice::<serde_json::Value>(&output.stdout);
            assert!(answer.is_ok(), "{line}: {said}");
        }
    }
    let learned =
        env.sbx_command(&["learn", "--", "cat", "f"]).current_dir(&project).output().expect("sbx starts");
    let learned = env.shown(&learned);
    assert!(learned.contains("[exit 0]") && learned.contains("cmds: [cat]"), "{learned}");
}
