//! Named tools as tools of the server: their schema, their values, their files that change.

use crate::world::{ALL, done, recorded, refused, serve, text, world};
use serde_json::{Value, json};

const TOOLS: &str = "tools:\n  greet: {run: [echo, hello, '${who}'], params: {who: identifier}, description: says hello}\n  git: {kind: command, binary: git, args_mode: free, allowed_subcommands: [status, log]}\n  scratch: 'echo x > $SESSION_DIR/f; cat $SESSION_DIR/f; echo $SESSION_DIR'\n  lines: {run: [seq, '${n}'], params: {n: {type: int, min: 1, max: 5}}, output: lines}\n  fails: 'echo out; echo err >&2; exit 4'\n";

#[test]
fn values_are_checked_and_come_through_whole() {
    let env = world(ALL, TOOLS);
    let mut talk = serve(&env);
    let listed = talk.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let tool = |name: &str| {
        tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| unreachable!("{listed}"))
    };
    assert_eq!(tool("greet")["inputSchema"]["required"], json!(["who"]));
    assert_eq!(tool("greet")["description"], "says hello");
    assert_eq!(tool("greet")["annotations"]["destructiveHint"], true, "running a command is high risk");
    assert_eq!(tool("greet")["annotations"]["openWorldHint"], false);
    assert_eq!(text(&talk.call("greet", json!({ "who": "you" }))), "hello you");
    for bad in [json!({}), json!({ "who": "a b" }), json!({ "who": "x", "y": 1 }), json!({ "who": ["x"] })] {
        assert_eq!(refused(&talk.call("greet", bad.clone())), "invalid_params", "{bad}");
    }
    assert!(recorded(&env, "greet", "invalid_params"));
    let answer = talk.call("lines", json!({ "n": 3 }));
    assert_eq!(done(&answer)["value"], json!(["1", "2", "3"]));
    assert_eq!(refused(&talk.call("lines", json!({ "n": 6 }))), "invalid_params");
    assert_eq!(refused(&talk.call("git", json!({ "args": ["push"] }))), "invalid_params");
    assert_eq!(refused(&talk.call("git", json!({ "arguments": ["log"] }))), "invalid_params");
    let answer = talk.call("fails", json!({}));
    assert_eq!(refused(&answer), "nonzero_exit");
    assert!(text(&answer).contains("out") && text(&answer).contains("err"), "{answer}");
}

#[test]
fn a_session_has_one_private_directory_as_long_as_the_server() {
    let env = world(ALL, TOOLS);
    let mut talk = serve(&env);
    let dir = |answer: &Value| done(answer)["value"].as_str().unwrap().lines().last().unwrap().to_owned();
    let first = dir(&talk.call("scratch", json!({})));
    assert_eq!(first, dir(&talk.call("scratch", json!({}))));
    assert!(std::path::Path::new(&first).is_dir());
    talk.close();
    assert_eq!(talk.ended().0.code(), Some(0));
    assert!(!std::path::Path::new(&first).exists(), "it goes with the server");
}

#[test]
fn files_of_tools_are_taken_up_while_it_runs() {
    let env = world(ALL, "");
    let file =
        |word: &str| format!("name = \"say\"\nkind = \"command\"\nbinary = \"echo\"\nargs = [\"{word}\"]\n");
    let mut talk = serve(&env);
    assert_eq!(refused(&talk.call("say", json!({}))), "unknown_tool");
    env.write("home/.config/sbx/tools/say.toml", file("one"));
    assert_eq!(talk.line()["method"], "notifications/tools/list_changed");
    assert_eq!(text(&talk.call("say", json!({}))), "one");
    env.write("home/.config/sbx/tools/say.toml", "name = ");
    talk.hears("last good tools are kept");
    assert_eq!(text(&talk.call("say", json!({}))), "one");
    env.write("home/.config/sbx/tools/say.toml", file("two"));
    talk.hears("whole again");
    assert_eq!(text(&talk.call("say", json!({}))), "two");
    std::fs::remove_file(env.home().join(".config/sbx/tools/say.toml")).unwrap();
    assert_eq!(talk.line()["method"], "notifications/tools/list_changed");
    assert_eq!(refused(&talk.call("say", json!({}))), "unknown_tool");
}

#[test]
fn a_tool_is_narrowed_to_its_own_needs() {
    let env = world(
        &["proc.exec: {in: ROOT, cmds: [echo, git]}"],
        "tools:\n  log: {run: [git, log]}\n  shell: 'echo hi'\n",
    );
    let mut talk = serve(&env);
    assert!(talk.tools().contains(&"log".to_owned()) && !talk.tools().contains(&"shell".to_owned()));
    let answer = talk.call("shell", json!({}));
    assert_eq!(refused(&answer), "capability_absent", "{answer}");
    assert!(recorded(&env, "shell", "capability_absent"));
}

#[test]
fn operations_of_sbx_itself_run_in_the_helper() {
    let tools = "tools:\n  note: {kind: internal, api: fs.write, params: {path: {type: path, allowed_prefix: $PROJECT}, content: text}}\n  show: {kind: internal, api: fs.read, params: {path: path}, max_stdout_bytes: 5}\n  names: {kind: internal, api: fs.list, params: {path: path}}\n  drop: {kind: internal, api: fs.delete, params: {path: path}}\n";
    let env = world(ALL, tools);
    let mut talk = serve(&env);
    let path = |name: &str| env.project().join(name).display().to_string();
    done(&talk.call("note", json!({ "path": path("n.txt"), "content": "hello world" })));
    assert_eq!(std::fs::read_to_string(env.project().join("n.txt")).unwrap(), "hello world");
    let answer = talk.call("show", json!({ "path": "n.txt" }));
    assert_eq!((text(&answer), &done(&answer)["stdout_truncated"]), ("hello", &json!(true)));
    let answer = talk.call("names", json!({ "path": "." }));
    assert!(done(&answer)["value"].to_string().contains("n.txt"), "{answer}");
    let answer = talk.call("show", json!({ "path": "/etc/passwd" }));
    assert_eq!(refused(&answer), "scope_violation");
    assert!(recorded(&env, "show", "scope_violation"));
    assert_eq!(refused(&talk.call("note", json!({ "path": "/tmp/x", "content": "" }))), "invalid_params");
    done(&talk.call("drop", json!({ "path": "n.txt" })));
    assert!(!env.project().join("n.txt").exists());
}

#[test]
fn built_in_tools_say_that_they_only_read_and_go_when_the_configuration_leaves_them_out() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    let listed = talk.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let status =
        tools.iter().find(|tool| tool["name"] == "git_status").unwrap_or_else(|| unreachable!("{listed}"));
    assert_eq!(status["annotations"]["readOnlyHint"], true);
    assert_eq!(status["annotations"]["destructiveHint"], false);
    env.write("project/f", "x");
    let sum = talk.call("sha256", json!({ "file": "f" }));
    assert!(
        text(&sum).starts_with("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
        "{sum}"
    );
    env.write("home/.config/sbx/config.yml", "builtin_tools: [sha256]\n");
    assert_eq!(talk.line()["method"], "notifications/tools/list_changed");
    let names = talk.tools();
    assert!(names.contains(&"sha256".to_owned()) && !names.contains(&"git_status".to_owned()), "{names:?}");
    assert_eq!(refused(&talk.call("git_status", json!({}))), "unknown_tool");
}
