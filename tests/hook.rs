//! `sbx hook`: each client's contract as recorded cases, and that a rewritten command really runs behind the fence.
//!
//! A case in `tests/hook/CLIENT.json` has what the client says (`input`, or `raw` bytes) and what it gets: `stdout`
//! exactly, or `denied` with a part of the reason in the client's own form, or `blocked` with a part of stderr and
//! status 2. `[PROJECT]`, `[HOME]` and `[SBX]` stand for this world's places.
#![expect(clippy::panic, reason = "a test that cannot go on should say so and stop")]
#![expect(unreachable_pub, dead_code, reason = "the support module is shared by several test programs")]

mod support;

use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use support::{TestEnv, program, source_dir};

/// What the agents of the cases may do.
const DEV: &str = "id: dev
capabilities:
  - fs.read: {in: $PROJECT}
  - fs.write: {in: $PROJECT}
  - fs.delete: {in: $PROJECT}
  - proc.exec: {in: $PROJECT}
  - proc.eval: {in: $PROJECT}
  - net.get: {hosts: [docs.example]}
mcp:
  allowed_tools: [read]
  arguments:
    read: {path: fs.read}
";
const LOOKER: &str = "id: looker
capabilities:
  - fs.read: {in: $PROJECT}
  - proc.exec: {in: $PROJECT, cmds: [rg, cat]}
";

/// One with rules for servers' tools, and no list of them.
const RULED: &str = "id: ruled
capabilities:
  - fs.read: {in: $PROJECT}
mcp:
  actions: {act: do}
  arguments: {read: {path: fs.read}}
";

/// One that may read what lies right in the project.
const PARTLY: &str = "id: partly\ncapabilities:\n  - fs.read: {in: $PROJECT, paths: ['*']}\n";

struct World(TestEnv);

impl World {
    fn new() -> Self {
        let env = TestEnv::new();
        env.write_record("dev.yml", DEV);
        env.write_record("looker.yml", LOOKER);
        env.write_record("partly.yml", PARTLY);
        env.write_record("ruled.yml", RULED);
        let home = env.home().display().to_string();
        env.write_record("homely.yml", format!("id: homely\ncapabilities:\n  - fs.read: {{in: {home}}}\n"));
        env.write("project/a.txt", "a\n");
        env.write("project/src/x.rs", "fn x() {}\n");
        env.write("secret.txt", "secret\n");
        std::os::unix::fs::symlink("/etc/hostname", env.project().join("out")).expect("a link");
        Self(env)
    }

    fn sbx(&self) -> PathBuf {
        program().canonicalize().expect("the program")
    }

    fn placed(&self, text: &str) -> String {
        text.replace("[PROJECT]", &self.0.project().display().to_string())
            .replace("[HOME]", &self.0.home().display().to_string())
            .replace("[SBX]", &self.sbx().display().to_string())
    }

    fn hook(&self, client: &str, args: &[String], input: &[u8]) -> Output {
        let mut command = self.0.command(self.sbx());
        // The directory is the client's to say, and not where the hook happens to be started.
        command.args(["hook", client]).args(args).current_dir("/");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sbx starts");
        let fed = child.stdin.take().expect("a pipe").write_all(input);
        let output = child.wait_with_output().expect("sbx ends");
        // Who is told of a wrong option has not read anything.
        assert!(fed.is_ok() || !output.status.success());
        output
    }

    /// The answer to a shell command, as the command that the client then runs.
    fn led(&self, agent: &str, command: &str) -> String {
        let input = json!({
            "cwd": self.0.project(), "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": command },
        });
        let args = ["--agent".to_owned(), agent.to_owned()];
        let output = self.hook("claude-code", &args, input.to_string().as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let led = &answer["hookSpecificOutput"]["updatedInput"]["command"];
        led.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

/// Why a client was told no, in its own form and no other.
fn reason(client: &str, answer: &Value) -> Option<String> {
    let why = match client {
        "gemini" => (answer["decision"] == "deny").then(|| &answer["reason"])?,
        "cursor" => {
            let why = (answer["permission"] == "deny").then(|| &answer["agent_message"])?;
            (answer["user_message"] == *why).then_some(why)?
        }
        _ => {
            let own = &answer["hookSpecificOutput"];
            let fits = own["permissionDecision"] == "deny" && own["hookEventName"] == "PreToolUse";
            // Strict readers take nothing else beside these.
            fits.then_some(own).filter(|own| own.as_object().is_some_and(|own| own.len() == 3))?;
            &own["permissionDecisionReason"]
        }
    };
    why.as_str().map(str::to_owned)
}

fn check(world: &World, client: &str, case: &Value) -> Result<(), String> {
    let args: Vec<String> = match case.get("args") {
        Some(args) => serde_json::from_value(args.clone()).map_err(|error| error.to_string())?,
        None => vec!["--agent".to_owned(), "dev".to_owned()],
    };
    let input = match case.get("raw") {
        Some(raw) => raw.as_str().unwrap_or_default().to_owned(),
        None => case["input"].to_string(),
    };
    let output = world.hook(client, &args, world.placed(&input).as_bytes());
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    let got = format!("{:?} {stdout}{stderr}", output.status.code());
    let part = |key: &str| case[key].as_str().map(|part| world.placed(part));
    let fits = if let Some(part) = part("blocked") {
        output.status.code() == Some(2) && stdout.is_empty() && stderr.contains(&part)
    } else if let Some(part) = part("denied") {
        let answer: Value = serde_json::from_str(&stdout).map_err(|_| got.clone())?;
        output.status.code() == Some(0) && reason(client, &answer).is_some_and(|why| why.contains(&part))
    } else {
        let wanted = world.placed(&case["stdout"].to_string());
        let said = if stdout.is_empty() {
            json!("")
        } else {
            serde_json::from_str(&stdout).map_err(|_| got.clone())?
        };
        output.status.code() == Some(0) && said.to_string().as_str() == wanted && stderr.is_empty()
    };
    if fits { Ok(()) } else { Err(got) }
}

#[test]
fn every_client_is_answered_by_its_contract() {
    let (mut ran, mut wrong) = (0, String::new());
    let world = World::new();
    for client in ["claude-code", "codex", "cursor", "vscode", "gemini"] {
        let path = source_dir().join(format!("tests/hook/{client}.json"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let cases: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{client}: {error}"));
        assert_eq!(cases["client"], client);
        for case in cases["cases"].as_array().expect("cases") {
            ran += 1;
            if let Err(got) = check(&world, client, case) {
                wrong += &format!("\n{client}: {}\n  {got}\n", case["name"]);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(ran >= 90, "only {ran} cases were found");
    // All of it was recorded, and the log is whole.
    let shown = world.0.sbx(&["audit", "show", "--last", "1000", "--json"]);
    for word in ["risk_denied", "claude-code", "cursor", "StrReplace", "fs.read", "\"served\": \"read\""] {
        assert!(shown.contains(word), "{word} is not in the log");
    }
    assert!(world.0.sbx(&["audit", "verify"]).ends_with("[exit 0]\n"));
}

/// Commands that a careless way of quoting would take apart, in one shell or another.
const TRICKY: &[&str] = &[
    r"printf '%s\n' 'it'\''s' \\ 'a\b'",
    r#"printf '%s\n' "q\"q" '$HOME' "`echo x`" '!!' '#' '~' '*'"#,
    "printf '%s\\n' one\nprintf '%s\\n' two",
    r"printf '%s\n' \'; printf '%s\n' 'x\'",
    "printf '%s\\n' '\\' ; printf '%s\\n' 'end'",
    "cat <<'E'\n'\"\\$(x)\nE",
];

#[test]
fn a_led_command_is_one_word_to_every_shell() {
    let world = World::new();
    for shell in ["sh", "bash", "zsh", "fish"] {
        for command in TRICKY {
            let plain = world.0.command("sh").args(["-c", command]).output().expect("sh starts");
            let led = world.led("dev", command);
            let through = world.0.command(shell).args(["-c", &led]).output();
            let through = through.unwrap_or_else(|error| panic!("{shell} is needed for this test: {error}"));
            assert_eq!(
                String::from_utf8_lossy(&through.stdout),
                String::from_utf8_lossy(&plain.stdout),
                "{shell}: {led}\n{}",
                String::from_utf8_lossy(&through.stderr)
            );
        }
    }
}

#[test]
fn nothing_of_a_command_runs_outside() {
    let world = World::new();
    let outside = world.0.home().join("outside");
    let name = outside.display();
    for shell in ["sh", "bash", "zsh", "fish"] {
        for command in [
            format!("touch {name}"),
            format!("true; touch {name}"),
            format!("echo '\n'; touch {name}"),
            format!("echo \\'; touch {name}; echo \\'"),
            format!("echo '\\'; touch {name}; echo '\\'"),
            format!("echo \"\\\"; touch {name}; echo \\\"\""),
            format!("true\ntouch {name}"),
            format!("{} eval --agent dev -- true; touch {name}", world.sbx().display()),
        ] {
            let led = world.led("dev", &command);
            let through = world.0.command(shell).args(["-c", &led]).output();
            through.unwrap_or_else(|error| panic!("{shell} is needed for this test: {error}"));
            assert!(!outside.exists(), "{shell} ran a part of it outside: {led}");
        }
    }
}

#[test]
fn a_led_command_works_within_and_only_there() {
    let world = World::new();
    let secret = world.0.project().parent().expect("a base").join("secret.txt");
    let command = format!("echo made > made.txt; cat a.txt; cat {}; echo $?", secret.display());
    let led = world.led("dev", &command);
    let output = world.0.command("sh").args(["-c", &led]).output().expect("sh starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "a\n1\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(world.0.project().join("made.txt")).expect("it was made"), "made\n");
    // A command of words alone is led through `exec`, and the launch is in the log.
    let led = world.led("looker", "cat a.txt");
    assert!(led.contains(" exec --agent looker "), "{led}");
    let output = world.0.command("sh").args(["-c", &led]).output().expect("sh starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert!(world.0.sbx(&["audit", "show", "--json"]).contains("\"launch\""));
}

#[test]
fn the_project_stays_the_one_that_was_decided_on() {
    let world = World::new();
    let other = world.0.write("other/.git/HEAD", "ref: refs/heads/main\n");
    let other = other.parent().and_then(|git| git.parent()).expect("a directory").to_path_buf();
    let led = world.led("dev", "echo x > made.txt");
    // A client whose model chooses the directory: the authority does not follow it there.
    let output = world.0.command("sh").args(["-c", &led]).current_dir(&other).output().expect("sh starts");
    assert_eq!(output.status.code(), Some(126), "{output:?}");
    assert!(!other.join("made.txt").exists());
}

#[test]
fn what_cannot_be_recorded_is_blocked() {
    let world = World::new();
    world.0.write("home/.local/state/sbx", "a file where a directory should be");
    let input = json!({
        "cwd": world.0.project(), "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": "ls" },
    });
    let args = ["--agent".to_owned(), "dev".to_owned()];
    let output = world.hook("codex", &args, input.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("audit log") && output.stdout.is_empty(),
        "{output:?}"
    );
}

#[test]
fn more_than_a_client_may_say_is_blocked() {
    let world = World::new();
    let mut input =
        br#"{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"content":""#.to_vec();
    input.resize(sbx::hook::MOST + 2, b'x');
    let output = world.hook("claude-code", &["--agent".to_owned(), "dev".to_owned()], &input);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("more than"), "{output:?}");
}

#[test]
fn a_search_is_decided_on_all_below_it() {
    let world = World::new();
    let judged = |agent: &str, tool: &str, input: Value| {
        let call = json!({
            "cwd": world.0.project(), "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input,
        });
        let args = ["--agent".to_owned(), agent.to_owned()];
        let output = world.hook("claude-code", &args, call.to_string().as_bytes());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let path = |below: &str| json!({ "pattern": "x", "path": world.0.project().join(below) });
    assert_eq!(judged("dev", "Grep", path("src")), "");
    assert_eq!(judged("partly", "Grep", path("a.txt")), "");
    let told = judged("partly", "Grep", path("src"));
    assert!(told.contains("deny") && told.contains("reads all below"), "{told}");
    let state = world.0.home().join(".local/state");
    std::fs::create_dir_all(state.join("sbx")).expect("a directory");
    let told = judged("homely", "Grep", json!({ "pattern": "x", "path": state }));
    assert!(told.contains("deny") && told.contains("own log"), "{told}");
    for odd in [" /etc/passwd", "\t/etc/passwd", "vscode-remote://x/etc/passwd", "$HOME/x", "~root/x"] {
        let told = judged("dev", "Read", json!({ "file_path": odd }));
        assert!(told.contains("deny") && told.contains("some read it as another path"), "{odd}: {told}");
    }
    for outside in ["file:/etc/passwd", "FILE:///etc/passwd"] {
        assert!(
            judged("dev", "Read", json!({ "file_path": outside })).contains("scope_violation"),
            "{outside}"
        );
    }
    // Such a file does not make the other meaning go away: whoever can make it would choose what is judged.
    std::fs::write(world.0.project().join("$odd name"), "x").expect("a file");
    assert!(judged("dev", "Read", json!({ "file_path": "$odd name" })).contains("deny"));
    assert_eq!(judged("dev", "Read", json!({ "file_path": "./$odd name" })), "");
}
