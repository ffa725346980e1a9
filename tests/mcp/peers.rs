//! Real clients and servers, direct and wrapped: the same but for what policy changes.

use crate::server::peers;
use crate::support::{TestEnv, source_dir};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A server, the calls that are tried on it, and what an agent needs to run it.
pub(crate) struct Case {
    name: &'static str,
    pub(crate) command: Vec<String>,
    pub(crate) calls: Value,
    record: String,
}

fn node(peers: &Path, package: &str) -> Vec<String> {
    let file = peers.join(format!("npm/node_modules/@modelcontextprotocol/{package}/dist/index.js"));
    vec!["node".to_owned(), file.display().to_string()]
}

/// A page on this machine for servers that fetch.
fn origin() -> SocketAddr {
    static ORIGIN: OnceLock<SocketAddr> = OnceLock::new();
    *ORIGIN.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut first = String::new();
                let mut lines = BufReader::new(&stream);
                let _ = lines.read_line(&mut first);
                let mut rest = String::new();
                while lines.read_line(&mut rest).is_ok_and(|length| length > 2) {
                    rest.clear();
                }
                let (status, body) = match first.split(' ').nth(1) {
                    Some("/page") => ("200 OK", "a page of this machine"),
                    _ => ("404 Not Found", "nothing"),
                };
                let head = "Content-Type: text/plain\r\nConnection: close";
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        address
    })
}

fn cases(peers: &Path, env: &TestEnv) -> Vec<Case> {
    let project = env.project().display().to_string();
    let grants = format!("  - fs.read: {{in: {project}}}\n  - proc.exec: {{in: {project}}}\n");
    let writes = format!("{grants}  - fs.write: {{in: {project}}}\n  - fs.delete: {{in: {project}}}\n");
    let python = |name: &str| peers.join("py/bin").join(name).display().to_string();
    let with = |mut command: Vec<String>, word: &str| {
        command.push(word.to_owned());
        command
    };
    vec![
        Case {
            name: "filesystem",
            command: with(node(peers, "server-filesystem"), &project),
            calls: json!([
                ["list_directory", { "path": project }],
                ["read_text_file", { "path": format!("{project}/a.txt") }],
                ["write_file", { "path": format!("{project}/new.txt"), "content": "grüße\u{2028}\n" }],
                ["edit_file", { "path": format!("{project}/new.txt"), "edits": [{ "oldText": "ü", "newText": "ue" }] }],
                ["read_text_file", { "path": format!("{project}/new.txt") }],
                ["read_text_file", { "path": format!("{project}/missing") }],
            ]),
            record: writes.clone(),
        },
        Case {
            name: "everything",
            command: node(peers, "server-everything"),
            calls: json!([["echo", { "message": "x\u{2028}y" }], ["get-sum", { "a": 1.5, "b": 2 }], ["no-such-tool", {}]]),
            record: grants.clone(),
        },
        Case {
            name: "memory",
            command: node(peers, "server-memory"),
            calls: json!([
                ["create_entities", { "entities": [{ "name": "a", "entityType": "t", "observations": ["o"] }] }],
                ["read_graph", {}],
                ["delete_entities", { "entityNames": ["a"] }],
            ]),
            record: format!("{writes}env: [MEMORY_FILE_PATH]\n"),
        },
        Case {
            name: "time",
            command: vec![python("mcp-server-time")],
            calls: json!([["convert_time", { "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" }]]),
            record: grants.clone(),
        },
        Case {
            name: "git",
            command: vec![python("mcp-server-git")],
            calls: json!([["git_log", { "repo_path": project }], ["git_status", { "repo_path": project }]]),
            record: grants.clone(),
        },
        Case {
            name: "fetch",
            command: vec![python("mcp-server-fetch"), "--allow-private-ips".to_owned()],
            calls: json!([
                ["fetch", { "url": format!("http://{}/page", origin()) }],
                ["fetch", { "url": format!("http://{}/missing", origin()), "raw": true }],
            ]),
            record: format!("{grants}  - net.get: {{hosts: [\"{}\"]}}\n", origin()),
        },
    ]
}

pub(crate) fn run(env: &TestEnv, peers: &Path, client: &str, calls: &Value, command: &[String]) -> Value {
    let source = source_dir().join("tests/mcp");
    let (program, script) = match client {
        "python" => (peers.join("py/bin/python"), source.join("client.py")),
        _ => (PathBuf::from("node"), source.join("client.mjs")),
    };
    let output = env
        .command(program)
        .env("SBX_TEST_MCP", peers)
        .env("MEMORY_FILE_PATH", env.project().join("memory.json"))
        .arg(script)
        .arg(calls.to_string())
        .args(command)
        .output()
        .expect("the client starts");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        unreachable!("{client} {command:?}: {error}\n{text}{}", String::from_utf8_lossy(&output.stderr))
    })
}

pub(crate) fn wrapped(command: &[String], options: &[&str]) -> Vec<String> {
    let sbx = crate::support::program().display().to_string();
    let lead = [sbx.as_str(), "mcp", "wrap", "--agent", "tester"];
    lead.iter()
        .chain(options)
        .chain(&["--"])
        .map(|word| (*word).to_owned())
        .chain(command.iter().cloned())
        .collect()
}

pub(crate) fn prepared(peers: &Path, name: &str) -> (TestEnv, Case) {
    let env = TestEnv::new();
    let case = cases(peers, &env).into_iter().find(|case| case.name == name).expect("a case");
    env.write_record("tester.yml", format!("id: tester\ncapabilities:\n{}", case.record));
    fresh(&env);
    (env, case)
}

/// The project as every run finds it.
pub(crate) fn fresh(env: &TestEnv) {
    let project = env.project();
    let _ = std::fs::remove_dir_all(&project);
    env.write("project/a.txt", "hello\n");
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .args(["-C", &project.display().to_string()])
            .args(args)
            .env("HOME", env.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q"]);
    git(&["add", "a.txt"]);
    git(&[
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t.example",
        "commit",
        "-qm",
        "first",
        "--date=2026-01-01T00:00:00Z",
    ]);
}

/// Without what differs from run to run: hashes of commits and times.
pub(crate) fn settled(mut seen: Value) -> Value {
    let tools = seen["tools"].as_array().cloned().unwrap_or_default();
    seen["tools"] = tools.into_iter().filter(|tool| tool["name"] != "get_policy").collect();
    let text = seen.to_string();
    let mut out = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let hash = word.len() > 40 && word[..40].bytes().all(|byte| byte.is_ascii_hexdigit());
        if hash { out.push_str(&word[40..]) } else { out.push_str(word) }
    }
    serde_json::from_str(&out).expect("still JSON")
}

fn same_through_the_wrap(name: &str) {
    let Some(peers) = peers() else { return };
    for client in ["python", "typescript"] {
        let (env, case) = prepared(&peers, name);
        let direct = run(&env, &peers, client, &case.calls, &case.command);
        fresh(&env);
        let through = run(&env, &peers, client, &case.calls, &wrapped(&case.command, &["--preset", "none"]));
        let names = |seen: &Value| seen["tools"].as_array().map_or(0, Vec::len);
        assert_eq!(names(&through), names(&direct) + 1, "{name} by {client}: all tools, and the policy");
        assert!(direct["server"]["info"]["name"].is_string(), "{name} by {client}: {direct}");
        let done = |result: &Value| result["isError"] != true && result.get("exception").is_none();
        assert!(
            direct["results"].as_array().is_some_and(|all| all.iter().any(done)),
            "{name} by {client}: {direct}"
        );
        assert_eq!(settled(through), settled(direct), "{name} by {client}");
    }
}

macro_rules! same {
    ($($test:ident $name:literal,)+) => { $(#[test] fn $test() { same_through_the_wrap($name) })+ };
}

same! {
    filesystem_is_the_same_through_the_wrap "filesystem",
    everything_is_the_same_through_the_wrap "everything",
    memory_is_the_same_through_the_wrap "memory",
    time_is_the_same_through_the_wrap "time",
    git_is_the_same_through_the_wrap "git",
    fetch_is_the_same_through_the_wrap "fetch",
}

#[test]
fn real_clients_see_denials_as_results() {
    let Some(peers) = peers() else { return };
    for client in ["python", "typescript"] {
        let (env, case) = prepared(&peers, "filesystem");
        let list = env.write("allow.yml", "allowed_tools: [read_text_file]\n").display().to_string();
        let calls = json!([
            ["write_file", { "path": "x", "content": "" }],
            ["read_text_file", { "path": "/etc/passwd" }],
            ["get_policy", {}],
        ]);
        let seen = run(&env, &peers, client, &calls, &wrapped(&case.command, &["--allowlist", &list]));
        let names: Vec<&Value> = seen["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["read_text_file", "get_policy"], "{client}");
        let text =
            |at: usize| seen["results"][at]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(text(0).contains("tool_not_allowed"), "{client}: {seen}");
        assert!(
            text(1).contains("scope_violation"),
            "{client}: the ready map asks before the server does: {seen}"
        );
        assert_eq!(
            seen["results"][2]["structuredContent"]["allowed_tools"],
            json!(["read_text_file"]),
            "{client}"
        );
    }
}

#[test]
fn the_map_for_git_asks_before_the_server_does() {
    let Some(peers) = peers() else { return };
    let (env, case) = prepared(&peers, "git");
    let project = env.project().display().to_string();
    let calls = json!([
        ["git_log", { "repo_path": project }],
        ["git_log", { "repo_path": "/" }],
        ["git_add", { "repo_path": project, "files": ["a.txt"] }],
    ]);
    let seen = run(&env, &peers, "python", &calls, &wrapped(&case.command, &[]));
    let text = |at: usize| seen["results"][at]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(text(0).contains("first"), "{seen}");
    assert!(text(1).contains("scope_violation") && text(2).contains("capability_absent"), "{seen}");
    // Every tool of the server that names a repository is in the map.
    let tools = seen["tools"].as_array().unwrap();
    let rules = run(&env, &peers, "python", &json!([["get_policy", {}]]), &wrapped(&case.command, &[]));
    let rules = rules["results"][0]["structuredContent"]["argument_rules"].to_string();
    for tool in tools.iter().filter(|tool| tool["inputSchema"]["properties"].get("repo_path").is_some()) {
        assert!(rules.contains(&format!("\"tool\":{}", tool["name"])), "{} is not in the map", tool["name"]);
    }
}

#[test]
fn fetching_needs_a_grant() {
    let Some(peers) = peers() else { return };
    let (env, case) = prepared(&peers, "fetch");
    let calls = json!([["fetch", { "url": "https://a.example/" }]]);
    let seen = run(&env, &peers, "python", &calls, &wrapped(&case.command, &[]));
    assert!(seen["results"][0]["content"][0]["text"].as_str().unwrap().contains("scope_violation"), "{seen}");
    // Without the map it is the gateway that refuses it, and the result says so.
    let seen = run(&env, &peers, "python", &calls, &wrapped(&case.command, &["--preset", "none"]));
    let result = &seen["results"][0];
    assert!(result["_meta"]["sbx/refused"].to_string().contains("a.example"), "{seen}");
}

#[test]
fn a_server_that_would_keep_its_state_in_its_package_is_told_of() {
    let Some(peers) = peers() else { return };
    let (env, case) = prepared(&peers, "memory");
    let says = |file: Option<PathBuf>| {
        let words = wrapped(&case.command, &[]);
        let mut sbx = env.command(&words[0]);
        sbx.args(&words[1..]).env_remove("MEMORY_FILE_PATH").stdin(std::process::Stdio::null());
        if let Some(file) = file {
            sbx.env("MEMORY_FILE_PATH", file);
        }
        String::from_utf8_lossy(&sbx.output().expect("sbx starts").stderr).into_owned()
    };
    assert!(says(None).contains("set MEMORY_FILE_PATH to a file that the agent may write"));
    assert!(!says(Some(env.project().join("memory.json"))).contains("cannot be kept"));
}

#[test]
fn packages_run_without_their_launcher() {
    let Some(peers) = peers() else { return };
    let (env, _) = prepared(&peers, "memory");
    // A package that npx finds in the project, without asking anyone.
    let modules = env.project().join("node_modules");
    std::fs::create_dir_all(&modules).unwrap();
    let copied =
        Command::new("cp").arg("-r").arg(peers.join("npm/node_modules/.")).arg(&modules).status().unwrap();
    assert!(copied.success());
    let command = ["npx", "-y", "@modelcontextprotocol/server-memory"].map(str::to_owned);
    let seen = run(&env, &peers, "typescript", &json!([["read_graph", {}]]), &wrapped(&command, &[]));
    assert_eq!(seen["results"][0]["isError"], Value::Null, "{seen}");
    assert!(seen["tools"].as_array().unwrap().len() > 5);
}
