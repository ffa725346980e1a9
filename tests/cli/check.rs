//! `sbx check`: one question, or many as JSON lines.

use crate::support::TestEnv;
use expect_test::expect;
use serde_json::Value;

const AGENT: &str = "\
---
capabilities:
  - fs.read: {in: ~/site, paths: [docs, \"*.toml\"]}
  - fs.write: {in: ~/site}
  - net.get: {hosts: [\"*.example.com\", \"127.0.0.1:8080\"]}
  - proc.exec: {in: ~/site, patterns: [\"npm test *\"]}
  - proc.eval: {in: ~/site}
  - records.update: {classes: [note]}
  - agent.update: {ids: [a, b]}
---
";

fn with_agent() -> TestEnv {
    let env = TestEnv::new();
    env.write_record("w.md", AGENT);
    env.write("home/site/docs/a.md", "");
    env
}

fn ask(env: &TestEnv, args: &[&str]) -> String {
    let mut all = vec!["check", "--agent", "w"];
    all.extend(args);
    env.sbx(&all)
}

#[test]
fn files_inside_and_outside_a_scope() {
    let env = with_agent();
    expect![[r#"
        allowed: fs.read [HOME]/site/docs/a.md
          by medium  fs.read{in=~/site,paths=[docs,*.toml]}  in [HOME]/site  [HOME]/.config/sbx/agents/w.md:3
        [exit 0]
    "#]]
    .assert_eq(&ask(&env, &["fs.read", "~/site/docs/a.md"]));
    expect![[r#"
        scope_violation: w may not fs.read [HOME]/site/src/a.rs
          nearest grant: fs.read{in=~/site,paths=[docs,*.toml]} at [HOME]/.config/sbx/agents/w.md:3
          why not: it allows docs, *.toml below [HOME]/site
          smallest grant: sbx agents grant w 'fs.read{in=[HOME]/site,paths=[src/a.rs]}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["fs.read", "~/site/src/a.rs"]));
    expect![[r#"
        scope_violation: w may not fs.read [HOME]/other
          nearest grant: fs.read{in=~/site,paths=[docs,*.toml]} at [HOME]/.config/sbx/agents/w.md:3
          why not: [HOME]/other lies outside [HOME]/site
          smallest grant: sbx agents grant w 'fs.read{in=[HOME],paths=[other]}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["fs.read", "~/site/docs/../../other"]));
    expect![[r#"
        capability_absent: w may not fs.delete [HOME]/site/docs/a.md: it does not hold fs.delete
          smallest grant: sbx agents grant w 'fs.delete{in=[HOME]/site/docs,paths=[a.md]}'
          hint: renaming a file away, as editors do when they save, needs fs.delete too
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["fs.delete", "~/site/docs/a.md"]));
}

#[test]
fn a_link_is_decided_by_its_target() {
    let env = with_agent();
    env.write("home/secret", "");
    std::os::unix::fs::symlink(env.home().join("secret"), env.home().join("site/docs/link")).expect("a link");
    expect![[r#"
        scope_violation: w may not fs.read [HOME]/site/docs/link (which is [HOME]/secret)
          nearest grant: fs.read{in=~/site,paths=[docs,*.toml]} at [HOME]/.config/sbx/agents/w.md:3
          why not: [HOME]/secret lies outside [HOME]/site
          smallest grant: sbx agents grant w 'fs.read{in=[HOME],paths=[secret]}'
          hint: links are followed: the decision is about what the path leads to
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["fs.read", "~/site/docs/link"]));
    expect![[r#"
        {
          "is_error": true,
          "code": "scope_violation",
          "agent": "w",
          "tool": null,
          "request": {
            "capability": "fs.read",
            "path": "[HOME]/site/docs/link",
            "target": "[HOME]/secret"
          },
          "message": "w may not fs.read [HOME]/site/docs/link (which is [HOME]/secret)",
          "nearest_grant": {
            "grant": "fs.read{in=~/site,paths=[docs,*.toml]}",
            "place": {
              "file": "[HOME]/.config/sbx/agents/w.md",
              "line": 3,
              "column": 5
            },
            "reason": "[HOME]/secret lies outside [HOME]/site"
          },
          "suggested_grant": "fs.read{in=[HOME],paths=[secret]}",
          "hint": "links are followed: the decision is about what the path leads to",
          "decision": "deny"
        }
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["--json", "fs.read", "~/site/docs/link"]));
}

#[test]
fn a_protected_path_is_not_opened_by_a_wider_grant() {
    let env = with_agent();
    expect![[r#"
        scope_violation: w may not fs.write [HOME]/site/.git/hooks/pre-commit
          nearest grant: fs.write{in=~/site} at [HOME]/.config/sbx/agents/w.md:4
          why not: [HOME]/site/.git/hooks is protected (git runs these programs on commit, merge, checkout and push): only a grant whose `paths` names it opens it
          smallest grant: sbx agents grant w 'fs.write{in=[HOME]/site,paths=[.git/hooks/pre-commit]}'
        [exit 1]
    "#]].assert_eq(&ask(&env, &["fs.write", "~/site/.git/hooks/pre-commit"]));
}

#[test]
fn hosts_and_urls() {
    let env = with_agent();
    expect![[r#"
        allowed: net.get api.example.com:443
          by medium  net.get{hosts=[*.example.com,127.0.0.1:8080]}  [HOME]/.config/sbx/agents/w.md:5
        [exit 0]
    "#]]
    .assert_eq(&ask(&env, &["net.get", "https://api.example.com/v1"]));
    expect![[r#"
        scope_violation: w may not net.get example.com.evil.dev:443
          nearest grant: net.get{hosts=[*.example.com,127.0.0.1:8080]} at [HOME]/.config/sbx/agents/w.md:5
          why not: it allows *.example.com, 127.0.0.1:8080
          smallest grant: sbx agents grant w 'net.get{hosts=[example.com.evil.dev]}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["net.get", "https://example.com.evil.dev/"]));
    expect![[r#"
        capability_absent: w may not net.post api.example.com: it does not hold net.post
          smallest grant: sbx agents grant w 'net.post{hosts=[api.example.com]}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["net.post", "api.example.com"]));
    expect![[r#"
        allowed: net.get 127.0.0.1:8080
          by medium  net.get{hosts=[*.example.com,127.0.0.1:8080]}  [HOME]/.config/sbx/agents/w.md:5
        [exit 0]
    "#]]
    .assert_eq(&ask(&env, &["net.get", "http://127.0.0.1:8080/"]));
    expect![[r#"
        scope_violation: w asked for a host that is refused: `0x7f000001` is not an IPv4 address in its usual form (four decimal numbers without leading zeros)
          nearest grant: net.get{hosts=[*.example.com,127.0.0.1:8080]} at [HOME]/.config/sbx/agents/w.md:5
          why not: `0x7f000001` is not an IPv4 address in its usual form (four decimal numbers without leading zeros)
        [exit 1]
    "#]].assert_eq(&ask(&env, &["net.get", "http://0x7f000001:8080/"]));
}

#[test]
fn commands_and_shell_text() {
    let env = with_agent();
    expect![[r#"
        allowed: proc.exec npm test --watch
          by high    proc.exec{in=~/site,patterns=[npm test *]}  in [HOME]/site  [HOME]/.config/sbx/agents/w.md:6
        [exit 0]
    "#]]
    .assert_eq(&ask(&env, &["--in", "~/site", "proc.exec", "--", "npm", "test", "--watch"]));
    let site = env.home().join("site").display().to_string();
    expect![[r#"
        allowed: proc.exec npm test --watch
          by high    proc.exec{in=~/site,patterns=[npm test *]}  in [HOME]/site  [HOME]/.config/sbx/agents/w.md:6
        [exit 0]
    "#]].assert_eq(&ask(&env, &["--in", &site, "proc.exec", "--", "npm", "test", "--watch"]));
    expect![[r#"
        scope_violation: w may not proc.exec npm install
          nearest grant: proc.exec{in=~/site,patterns=[npm test *]} at [HOME]/.config/sbx/agents/w.md:6
          why not: it allows npm test *
          smallest grant: sbx agents grant w 'proc.exec{in=[HOME]/site,cmds=[npm]}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["--in", &site, "proc.exec", "--", "npm", "install"]));
    expect![[r#"
        allowed: proc.eval `ls | wc -l`
          by high    proc.eval{in=~/site}  in [HOME]/site  [HOME]/.config/sbx/agents/w.md:7
        [exit 0]
    "#]]
    .assert_eq(&ask(&env, &["--in", &site, "proc.eval", "ls | wc -l"]));
    expect![[r#"
        scope_violation: w may not proc.eval `ls | wc -l`
          nearest grant: proc.eval{in=~/site} at [HOME]/.config/sbx/agents/w.md:7
          why not: the working directory [PROJECT] lies outside [HOME]/site
          smallest grant: sbx agents grant w 'proc.eval{in=[PROJECT]}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["proc.eval", "ls | wc -l"]));
}

#[test]
fn records_and_agents() {
    let env = with_agent();
    expect![[r#"
        allowed: records.update notes/1 (class note)
          by medium  records.update{classes=[note]}  [HOME]/.config/sbx/agents/w.md:8
        [exit 0]
    "#]]
    .assert_eq(&ask(&env, &["--class", "note", "records.update", "notes/1"]));
    expect![[r#"
        scope_violation: w may not records.update tasks/1 (class task)
          nearest grant: records.update{classes=[note]} at [HOME]/.config/sbx/agents/w.md:8
          why not: it allows note
          smallest grant: sbx agents grant w 'records.update{paths=[tasks/1],classes=[task]}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["--class", "task", "records.update", "tasks/1"]));
    expect![[r#"
        allowed: agent.update agents/b
          by medium  agent.update{ids=[a,b]}  [HOME]/.config/sbx/agents/w.md:9
        [exit 0]
    "#]]
    .assert_eq(&ask(&env, &["agent.update", "agents/b"]));
    expect![[r#"
        scope_violation: w may not agent.update agents/c
          nearest grant: agent.update{ids=[a,b]} at [HOME]/.config/sbx/agents/w.md:9
          why not: it allows a, b
          smallest grant: sbx agents grant w 'agent.update{id=agents/c}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["agent.update", "c"]));
    expect![[r#"
        capability_absent: w may not agent.grant agents/a: it does not hold agent.grant
          smallest grant: sbx agents grant w 'agent.grant{id=agents/a}'
        [exit 1]
    "#]]
    .assert_eq(&ask(&env, &["agent.grant", "a", "net.get{hosts=[x.example.com]}"]));
}

#[test]
fn an_answer_for_machines_names_the_grant_and_its_place() {
    let env = with_agent();
    expect![[r#"
        {
          "decision": "allow",
          "grant": "fs.read{in=~/site,paths=[docs,*.toml]}",
          "place": {
            "file": "[HOME]/.config/sbx/agents/w.md",
            "line": 3,
            "column": 5
          }
        }
        [exit 0]
    "#]]
    .assert_eq(&ask(&env, &["--json", "fs.read", "~/site/docs/a.md"]));
}

#[test]
fn a_question_that_is_none_exits_2() {
    let env = with_agent();
    expect![[r#"
        [stderr]
        error: there is no capability `fs.reed`
          hint: did you mean `fs.read`?
        [exit 2]
    "#]]
    .assert_eq(&ask(&env, &["fs.reed", "x"]));
    expect![[r#"
        [stderr]
        error: there is no capability `zzz`
          hint: `sbx schema capabilities` lists all seventeen
        [exit 2]
    "#]]
    .assert_eq(&ask(&env, &["zzz", "x"]));
    expect![[r#"
        [stderr]
        error: fs.read is asked about one object
          hint: sbx check --agent A fs.read PATH | net.get URL | proc.exec -- COMMAND | proc.eval 'TEXT'
        [exit 2]
    "#]]
    .assert_eq(&ask(&env, &["fs.read"]));
    expect![[r#"
        [stderr]
        error: fs.read is asked about one object
          hint: sbx check --agent A fs.read PATH | net.get URL | proc.exec -- COMMAND | proc.eval 'TEXT'
        [exit 2]
    "#]]
    .assert_eq(&ask(&env, &["fs.read", "a", "b"]));
    expect![[r#"
        [stderr]
        error: proc.exec needs a command
          hint: sbx check --agent A proc.exec -- git log
        [exit 2]
    "#]]
    .assert_eq(&ask(&env, &["proc.exec"]));
    expect![[r#"
        [stderr]
        error[unknown_capability]: there is no capability `net.got`
         --> spec:1:1
          |
        1 | net.got
          | ^^^^^^^
          = did you mean `net.get`?
          = help: `sbx schema capabilities` lists all seventeen
        [exit 2]
    "#]]
    .assert_eq(&ask(&env, &["agent.grant", "a", "net.got"]));
}

#[test]
fn a_batch_answers_every_line_in_order() {
    let env = with_agent();
    let input = r#"{"cap": "net.get", "host": "api.example.com"}
{"cap": "net.get", "url": "https://api.example.com/"}

{"cap": "fs.read", "path": "~/site/docs/a.md"}
"#;
    expect![[r#"
        {"decision":"allow","grant":"net.get{hosts=[*.example.com,127.0.0.1:8080]}","place":{"file":"[HOME]/.config/sbx/agents/w.md","line":5,"column":5}}
        {"decision":"allow","grant":"net.get{hosts=[*.example.com,127.0.0.1:8080]}","place":{"file":"[HOME]/.config/sbx/agents/w.md","line":5,"column":5}}
        {"decision":"allow","grant":"fs.read{in=~/site,paths=[docs,*.toml]}","place":{"file":"[HOME]/.config/sbx/agents/w.md","line":3,"column":5}}
        [exit 0]
    "#]].assert_eq(&env.sbx_with_input(&["check", "-a", "w", "--batch"], input.as_bytes()));
}

#[test]
fn a_batch_exits_with_the_worst_of_its_answers() {
    let env = with_agent();
    let (allow, deny, bad) = (
        "{\"cap\": \"net.get\", \"host\": \"api.example.com\"}\n",
        "{\"cap\": \"net.get\", \"host\": \"other.dev\"}\n",
        "nonsense\n",
    );
    for (input, status) in [
        (allow.to_owned(), 0),
        (format!("{allow}{deny}{allow}"), 1),
        (format!("{deny}{bad}{allow}"), 2),
        (String::new(), 0),
    ] {
        let shown = env.sbx_with_input(&["check", "-a", "w", "--batch"], input.as_bytes());
        assert!(shown.ends_with(&format!("[exit {status}]\n")), "{input}{shown}");
        assert_eq!(shown.lines().count(), input.lines().count() + 1, "{shown}");
    }
}

#[test]
fn bad_lines_of_a_batch_are_answered_with_their_error_and_the_rest_go_on() {
    let env = with_agent();
    let input = b"nonsense\n[]\n{\"cap\": \"fs.reed\", \"path\": \"x\"}\n{\"cap\": \"fs.read\"}\n{\"cap\": \"fs.read\", \"path\": \"x\", \"extra\": 1}\n\xff\n{\"cap\": \"net.get\", \"host\": \"a.example.com\"}";
    expect![[r#"
        {"decision":"error","error":{"code":"bad_request","message":"not JSON: expected ident at line 1 column 2","line":1}}
        {"decision":"error","error":{"code":"bad_request","message":"a request is a JSON object","line":2}}
        {"decision":"error","error":{"code":"bad_request","message":"there is no capability `fs.reed`; did you mean `fs.read`?","line":3}}
        {"decision":"error","error":{"code":"bad_request","message":"the request lacks `path`","line":4}}
        {"decision":"error","error":{"code":"bad_request","message":"a request has no key `extra`","line":5}}
        {"decision":"error","error":{"code":"bad_request","message":"not JSON: expected value at line 1 column 1","line":6}}
        {"decision":"allow","grant":"net.get{hosts=[*.example.com,127.0.0.1:8080]}","place":{"file":"[HOME]/.config/sbx/agents/w.md","line":5,"column":5}}
        [exit 2]
    "#]].assert_eq(&env.sbx_with_input(&["check", "-a", "w", "--batch"], input));
}

#[test]
fn a_line_that_is_too_long_ends_the_batch() {
    let env = with_agent();
    let mut input = b"{\"cap\": \"net.get\", \"host\": \"a.example.com\"}\n".to_vec();
    input.extend(std::iter::repeat_n(b'x', 3 << 20));
    input.extend(b"\n{\"cap\": \"net.get\", \"host\": \"a.example.com\"}\n");
    expect![[r#"
        {"decision":"allow","grant":"net.get{hosts=[*.example.com,127.0.0.1:8080]}","place":{"file":"[HOME]/.config/sbx/agents/w.md","line":5,"column":5}}
        {"decision":"error","error":{"code":"bad_request","message":"the line is too long","line":2}}
        [stderr]
        error: line 2 is longer than 1048576 bytes
        [exit 2]
    "#]].assert_eq(&env.sbx_with_input(&["check", "-a", "w", "--batch"], &input));
}

#[test]
fn a_batch_of_many_lines_is_answered_whole() {
    let env = with_agent();
    let line = "{\"cap\": \"net.get\", \"host\": \"a.example.com\"}\n";
    let shown = env.sbx_with_input(&["check", "-a", "w", "--batch"], line.repeat(20_000).as_bytes());
    assert_eq!(shown.matches("\"decision\":\"allow\"").count(), 20_000);
}

#[test]
fn a_batch_answers_one_question_before_the_next_is_asked() {
    use std::io::{BufRead, BufReader, Write};
    let env = with_agent();
    let mut child = env.spawn(&["check", "-a", "w", "--batch"], std::process::Stdio::piped());
    let mut questions = child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
    for _ in 0..3 {
        questions.write_all(b"{\"cap\": \"net.get\", \"host\": \"a.example.com\"}\n").expect("asked");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("answered");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["decision"], "allow");
    }
    drop(questions);
    assert!(child.wait().expect("an end").success());
}

#[test]
fn a_batch_takes_no_question_on_the_command_line() {
    let env = with_agent();
    expect![[r#"
        [stderr]
        error: the argument '--batch' cannot be used with:
          [CAPABILITY]
          [OBJECT]...

        Usage: sbx check --agent <AGENT> --batch [CAPABILITY] [OBJECT]...

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&ask(&env, &["--batch", "fs.read", "x"]));
}

#[test]
fn a_mark_that_anybody_could_have_put_there_makes_no_project() {
    let env = TestEnv::new();
    env.write("shared/.git/HEAD", "");
    env.write("shared/secret", "");
    env.write("shared/mine/own", "");
    let asked = "cd ../shared/mine && sbx check -a scout fs.read ../secret; sbx check -a scout fs.read own";
    let allowed = |told: &str| told.matches("allowed").count();
    assert_eq!(allowed(&env.sh(asked)), 2, "{}", env.sh(asked));
    let shared = env.home().with_file_name("shared");
    std::fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).expect("opened");
    let told = env.sh(asked);
    assert!(allowed(&told) == 1 && told.contains("scope_violation"), "{told}");
}
