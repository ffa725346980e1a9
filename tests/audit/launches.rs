//! What the program records, shows and refuses.

use crate::support::TestEnv;
use serde_json::{Value, json};

const OPEN: &str = "audit: {on_failure: open}\n";

fn events(env: &TestEnv) -> Vec<Value> {
    env.json(&["audit", "show", "--all", "--json"]).as_array().cloned().unwrap_or_default()
}

fn kinds(env: &TestEnv) -> Vec<String> {
    events(env).iter().map(|event| event["kind"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_launch_and_its_end_are_recorded() {
    let env = TestEnv::new();
    env.sbx(&["exec", "--agent", "scout", "--", "ls", "--color=never"]);
    env.sbx(&["eval", "--agent", "builder", "exit 3"]);
    let events = events(&env);
    assert_eq!(kinds(&env), ["launch", "end", "launch", "end"]);
    assert_eq!(events[0]["body"]["argv"], json!(["ls", "--color=never"]));
    assert_eq!(events[2]["body"]["cmd"], "exit 3");
    assert_eq!(events[3]["body"]["status"], 3);
    assert_eq!(events[0]["body"]["launch"], events[1]["body"]["launch"]);
    assert_eq!(events[0]["session"], events[1]["session"]);
    assert_ne!(events[0]["session"], events[2]["session"]);
    assert_eq!(events[1]["agent"], "scout");
    assert!(events[1]["body"]["backend"].is_string() && events[1]["body"]["guarantees"].is_array());
    assert!(events[1]["body"]["missing"].is_array() && events[1]["body"]["duration_ms"].is_u64());
    assert!(env.sbx(&["audit", "verify"]).starts_with("whole: 4 lines in 1 files\n"));
}

#[test]
fn limits_refusals_and_failures_are_recorded() {
    let env = TestEnv::new();
    env.write_record(
        "t.md",
        "---\nlimits: {wall: 300ms}\ncapabilities:\n  - proc.exec: {in: $PROJECT, cmds: [sleep]}\n---\n",
    );
    env.sbx(&["exec", "--agent", "t", "--", "sleep", "20"]);
    env.sbx(&["exec", "--agent", "t", "--", "rm", "x"]);
    env.sbx(&["exec", "--agent", "t", "--in", "nowhere", "--", "sleep", "0"]);
    assert_eq!(kinds(&env), ["launch", "limit", "end", "decision", "launch", "end"]);
    let events = events(&env);
    assert_eq!(events[1]["body"]["limit"], "wall");
    assert_eq!(events[3]["body"]["decision"], "deny");
    assert_eq!(events[3]["body"]["denial"]["code"], "scope_violation");
    assert!(events[5]["body"]["error"].as_str().is_some_and(|error| error.contains("nowhere")));
    let denied = env.json(&["audit", "show", "--denied", "--json"]);
    assert_eq!(denied.as_array().map(Vec::len), Some(1));
}

#[test]
fn check_records_only_when_asked() {
    let env = TestEnv::new();
    env.sbx(&["check", "--agent", "scout", "fs.read", "x"]);
    assert!(events(&env).is_empty());
    env.sbx(&["check", "--agent", "scout", "--audit", "fs.read", "x"]);
    env.sbx(&["check", "--agent", "scout", "--audit", "fs.write", "x"]);
    let decisions: Vec<Value> = events(&env).iter().map(|event| event["body"]["decision"].clone()).collect();
    assert_eq!(decisions, ["allow", "deny"]);
    env.sbx(&["why", "--agent", "scout", "fs.write", "x"]);
    env.sbx(&["why", "--agent", "scout", "--audit", "fs.write", "x"]);
    assert_eq!(kinds(&env), ["decision"; 3]);
}

#[test]
fn a_batch_gives_no_answer_that_is_not_recorded() {
    let env = TestEnv::new();
    let line = |path: &str| format!("{{\"cap\": \"fs.read\", \"path\": \"{path}\"}}\n");
    let questions = [line("a"), line("/etc/b"), "nonsense\n".to_owned()].concat().repeat(50);
    let batch = ["check", "--agent", "scout", "--batch", "--audit"];
    let shown = env.sbx_with_input(&batch, questions.as_bytes());
    let counts = |word: &str| shown.matches(&format!("\"decision\":\"{word}\"")).count();
    assert_eq!((counts("allow"), counts("deny"), counts("error")), (50, 50, 50), "{shown}");
    let decisions: Vec<Value> = events(&env).iter().map(|event| event["body"]["decision"].clone()).collect();
    assert_eq!(decisions, ["allow", "deny"].repeat(50), "in the order of the questions");
    // A log that cannot be written: nothing is answered.
    let log = env.home().join(".local/state/sbx/audit.jsonl");
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let shown = env.sbx_with_input(&batch, line("a").as_bytes());
    assert!(!shown.contains("decision") && shown.contains("cannot write to the audit log"), "{shown}");
}

#[test]
fn a_caller_can_name_the_session() {
    let env = TestEnv::new();
    for (name, kept) in [("run-7", true), ("two words", false), ("", false)] {
        let mut command = env.sbx_command(&["exec", "--agent", "scout", "--", "ls"]);
        assert!(command.env("SBX_SESSION", name).status().unwrap().success());
        assert_eq!(events(&env).last().unwrap()["session"] == name, kept, "{name}");
    }
    let shown = env.json(&["audit", "show", "--session", "run-7", "--json"]);
    assert_eq!(shown.as_array().map(Vec::len), Some(2));
}

#[test]
fn secrets_in_arguments_never_reach_the_file() {
    let env = TestEnv::new();
    let secret = "hunter2-Zx9";
    env.write_record("r.md", "---\ncapabilities:\n  - proc.exec: {in: $PROJECT, cmds: [echo, env]}\n---\n");
    for line in [
        &["echo", "--password", secret][..],
        &["echo", &format!("--token={secret}")],
        &["env", &format!("API_KEY={secret}"), "true"],
        &["echo", "-H", &format!("Authorization: Bearer {secret}")],
        &["echo", &format!("https://me:{secret}@host.example/")],
        &["curl", "-u", &format!("me:{secret}"), "https://host.example/"],
    ] {
        env.sbx(&[&["exec", "--agent", "r", "--"], line].concat());
    }
    env.sbx(&[
        "eval",
        "--agent",
        "builder",
        &format!("DB_PASSWORD='{secret}' true; echo \"token: {secret}\""),
    ]);
    let text = std::fs::read_to_string(env.home().join(".local/state/sbx/audit.jsonl")).unwrap();
    assert!(text.lines().count() > 12 && text.contains("[redacted]"));
    assert!(!text.contains(secret), "{text}");
}

#[test]
fn an_unwritable_log_refuses_the_launch_unless_the_configuration_says_otherwise() {
    let env = TestEnv::new();
    std::fs::create_dir_all(env.home().join(".local/state/sbx/audit.jsonl")).unwrap();
    let run = ["eval", "--agent", "builder", "touch ran; echo ran"];
    let refused = env.sbx(&run);
    assert!(refused.contains("error: the launch cannot be recorded, so nothing was run"), "{refused}");
    assert!(refused.contains("[HOME]/.local/state/sbx/audit.jsonl"), "{refused}");
    assert!(refused.contains("on_failure: open") && refused.ends_with("[exit 125]\n"), "{refused}");
    assert!(!env.project().join("ran").exists());
    env.write("home/.config/sbx/config.yml", OPEN);
    let ran = env.sbx(&run);
    assert!(ran.starts_with("ran\n") && ran.ends_with("[exit 0]\n"), "{ran}");
    assert!(ran.contains("cannot write to the audit log"), "{ran}");
}

#[test]
fn state_goes_where_the_user_says() {
    let env = TestEnv::new();
    let elsewhere = env.home().join("elsewhere");
    let mut command = env.sbx_command(&["exec", "--agent", "scout", "--", "ls"]);
    assert!(command.env("XDG_STATE_HOME", &elsewhere).status().unwrap().success());
    assert!(elsewhere.join("sbx/audit.jsonl").exists() && !env.home().join(".local").exists());
}

/// A file system of a few pages, in a mount namespace of its own, filled to the last byte.
#[test]
fn a_full_disk_refuses_the_launch_and_leaves_the_log_whole() {
    let env = TestEnv::new();
    env.write("open.yml", OPEN);
    let state = env.home().join(".local/state/sbx");
    std::fs::create_dir_all(&state).unwrap();
    let script = format!(
        r#"set -e
mount -t tmpfs -o size=64k none '{state}'
sbx exec --agent scout -- ls > /dev/null
dd if=/dev/zero of='{state}/fill' bs=64 count=4096 2> /dev/null || true
n=0; while [ $n -lt 40 ] && sbx exec --agent scout -- ls > /dev/null 2> '{home}/error'; do n=$((n+1)); done
echo "refused after $n"; grep -c 'cannot be recorded' '{home}/error'
mkdir -p '{home}/.config/sbx'; cp '{home}/../open.yml' '{home}/.config/sbx/config.yml'
sbx exec --agent scout -- echo 'ran without' 2> /dev/null
rm '{home}/.config/sbx/config.yml' '{state}/fill'
sbx exec --agent scout -- echo 'ran again'
sbx audit verify | head -1
"#,
        state = state.display(),
        home = env.home().display(),
    );
    let mut command = env.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    let output = command.output().expect("unshare starts");
    let shown = env.shown(&output);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("refused after ") && !lines[0].ends_with(" 40"), "{shown}");
    assert_eq!(lines[1..4], ["1", "ran without", "ran again"], "{shown}");
    assert!(lines[4].starts_with("whole: "), "{shown}");
}

#[test]
fn following_shows_what_happens_next() {
    use std::io::{BufRead, BufReader};
    let env = TestEnv::new();
    env.sbx(&["exec", "--agent", "scout", "--", "ls"]);
    let mut child =
        env.spawn(&["audit", "show", "--follow", "--kind", "launch", "--json"], std::process::Stdio::null());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let next = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| -> Value {
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    assert_eq!(next(&mut lines)["body"]["argv"], json!(["ls"]));
    env.sbx(&["exec", "--agent", "scout", "--", "wc", "nothing"]);
    assert_eq!(next(&mut lines)["body"]["argv"], json!(["wc", "nothing"]));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_log_is_not_to_be_seen_behind_the_fence() {
    let env = TestEnv::new();
    env.write_record("r.md", include_str!("home.md"));
    let log = env.home().join(".local/state/sbx/audit.jsonl");
    let script =
        format!("cat {0}; ls -a $(dirname {0}); echo x >> {0}; rm -rf $(dirname {0}); true", log.display());
    let home = env.home().display().to_string();
    for backend in ["native", "bwrap"] {
        let at = ["--in", &home, "--backend", backend, "--allow-degraded=teardown-killed"];
        let shown = env.sbx(&[&["eval", "--agent", "r"], &at[..], &[&script]].concat());
        assert!(shown.contains("[exit 0]") && !shown.contains("seq"), "{backend}: {shown}");
        assert!(!shown.contains("audit.head"), "{backend}: {shown}");
        assert!(env.sbx(&["audit", "verify"]).starts_with("whole"), "{backend}");
    }
    let missing = "fs-hidden,fs-metadata,pid-hidden,private-tmp,loopback,terminals,teardown-killed,exec-only";
    let landlock = [
        "eval",
        "--agent",
        "r",
        "--in",
        &home,
        "--backend",
        "landlock",
        "--allow-degraded",
        missing,
        &script,
    ];
    let shown = env.sbx(&landlock);
    assert!(shown.contains("landlock cannot hide [HOME]/.local/state/sbx"), "{shown}");
    assert!(shown.ends_with("[exit 125]\n"), "{shown}");
    let denied = env.sbx(&["check", "--agent", "r", "fs.read", "~/.local/state/sbx/audit.jsonl"]);
    assert!(denied.contains("hidden from every agent") && denied.ends_with("[exit 1]\n"), "{denied}");
}
