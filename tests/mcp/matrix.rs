//! Every real client on every real server, direct and wrapped; and what real servers must not be led to.

use crate::peers::{Case, fresh, prepared, run, settled, wrapped};
use crate::rust::{seen, the_new_era};
use crate::server::{Talk, peers, tricks};
use crate::support::TestEnv;
use rmcp::ClientLifecycleMode;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

/// The first call whose arguments are text, as every client can be given them.
fn plain_call(case: &Case) -> (String, Vec<(String, String)>) {
    let words = |call: &Value| {
        let arguments = call[1].as_object()?.iter();
        let texts = arguments.map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        Some((call[0].as_str()?.to_owned(), texts.collect::<Option<Vec<_>>>()?))
    };
    case.calls.as_array().unwrap().iter().find_map(words).expect("a call")
}

/// What the inspector prints.
fn inspected(env: &TestEnv, peers: &Path, options: &[String], command: &[String]) -> Value {
    let output = env
        .command("node")
        .env("MEMORY_FILE_PATH", env.project().join("memory.json"))
        .arg(peers.join("npm/node_modules/.bin/mcp-inspector"))
        .arg("--cli")
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .expect("the inspector starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(&text)
        .unwrap_or_else(|error| unreachable!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn by_the_inspector(name: &str) {
    let Some(peers) = peers() else { return };
    let (env, case) = prepared(&peers, name);
    let (tool, arguments) = plain_call(&case);
    let words = arguments.iter().flat_map(|(key, value)| ["--tool-arg".to_owned(), format!("{key}={value}")]);
    let lead = ["--tool-name".to_owned(), tool].into_iter().chain(words);
    // Its option for arguments takes all words up to the next option.
    let call: Vec<String> = lead.chain(["--method", "tools/call"].map(str::to_owned)).collect();
    let list = ["--method", "tools/list"].map(str::to_owned);
    let through = wrapped(&case.command, &["--preset", "none"]);
    let ask = |command: &[String]| {
        fresh(&env);
        let listed = inspected(&env, &peers, &list, command);
        let result = inspected(&env, &peers, &call, command);
        json!({ "tools": listed["tools"], "results": [result] })
    };
    let direct = ask(&case.command);
    assert!(direct["results"][0]["content"].is_array(), "{name}: {direct}");
    assert!(direct["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{name}: {direct}");
    assert_eq!(settled(ask(&through)), settled(direct), "{name}");
}

fn the_old_era() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

fn by_the_rust_client(name: &str, new_era: bool) {
    let Some(peers) = peers() else { return };
    let (env, case) = prepared(&peers, name);
    let (tool, arguments) = plain_call(&case);
    let arguments: Value = arguments
        .into_iter()
        .map(|(key, value)| (key, Value::String(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let calls = [(tool.as_str(), arguments)];
    let modes: &[fn() -> ClientLifecycleMode] =
        if new_era { &[the_old_era, the_new_era] } else { &[the_old_era] };
    let through = wrapped(&case.command, &["--preset", "none"]);
    for mode in modes {
        let ask = |command: &[String]| {
            fresh(&env);
            seen(&env, command, mode(), &calls)
        };
        let direct = ask(&case.command);
        assert!(direct["results"][0]["content"].is_array(), "{name}: {direct}");
        assert_eq!(settled(ask(&through)), settled(direct), "{name}");
    }
}

macro_rules! same {
    ($($inspector:ident $rust:ident $name:literal $new_era:literal,)+) => { $(
        #[test] fn $inspector() { by_the_inspector($name) }
        #[test] fn $rust() { by_the_rust_client($name, $new_era) }
    )+ };
}

// Whether a server speaks the protocol of the new era too stands last.
same! {
    the_inspector_sees_the_same_of_filesystem the_rust_client_sees_the_same_of_filesystem "filesystem" false,
    the_inspector_sees_the_same_of_everything the_rust_client_sees_the_same_of_everything "everything" false,
    the_inspector_sees_the_same_of_memory the_rust_client_sees_the_same_of_memory "memory" false,
    the_inspector_sees_the_same_of_time the_rust_client_sees_the_same_of_time "time" true,
    the_inspector_sees_the_same_of_git the_rust_client_sees_the_same_of_git "git" true,
    the_inspector_sees_the_same_of_fetch the_rust_client_sees_the_same_of_fetch "fetch" true,
}

#[test]
fn a_server_that_tells_its_environment_has_nothing_to_tell() {
    let Some(peers) = peers() else { return };
    for client in ["python", "typescript"] {
        let (env, case) = prepared(&peers, "everything");
        let told = |command: &[String]| {
            let seen = run(&env, &peers, client, &json!([["get-env", {}]]), command);
            let text = seen["results"][0]["content"][0]["text"].as_str().map(str::to_owned);
            serde_json::from_str::<Value>(&text.unwrap_or_else(|| unreachable!("{seen}"))).unwrap()
        };
        let names = |told: &Value| told.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let direct = names(&told(&case.command));
        for leaked in ["MEMORY_FILE_PATH", "SBX_TEST_MCP", "XDG_RUNTIME_DIR"] {
            assert!(direct.iter().any(|name| name == leaked), "{client}: {direct:?}");
        }
        let through = told(&wrapped(&case.command, &[]));
        let own = ["HOME", "LANG", "LC_CTYPE", "PATH", "TERM", "TMPDIR"];
        assert!(names(&through).iter().all(|name| own.contains(&name.as_str())), "{client}: {through}");
        let home = env.home().display().to_string();
        assert!(!through.to_string().contains(&home), "{client}: {through}");
    }
}

/// The answers to tricks, by whoever gave them: those that are results of a call.
fn results_of(mut talk: Talk, params: &str) -> usize {
    let about = json!({ "name": "t", "version": "1" });
    talk.ask(
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about }),
    );
    talk.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    for trick in tricks(params) {
        talk.send_raw(&[trick.as_slice(), b"\n"].concat());
    }
    talk.send(r#"{"jsonrpc":"2.0","id":"last","method":"tools/list"}"#);
    let mut results = 0;
    loop {
        let line = talk.line();
        results += usize::from(line["result"]["content"].is_array() && line["result"]["isError"] != true);
        if line["id"] == "last" {
            break;
        }
    }
    let late = talk.rest();
    results + late.iter().filter(|line| line.contains("\"content\"")).count()
}

#[test]
fn tricks_reach_no_real_server() {
    let Some(peers) = peers() else { return };
    let time = r#"{"name":"convert_time","arguments":{"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}}"#;
    for (name, params) in [("time", time), ("everything", r#"{"name":"echo","arguments":{"message":"x"}}"#)] {
        let (env, case) = prepared(&peers, name);
        let talk = |command: &[String]| {
            let mut process = env.command(&command[0]);
            process.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            Talk::of(process.spawn().expect("it starts"))
        };
        assert!(
            results_of(talk(&case.command), params) > 0,
            "{name}: some trick works on the server by itself"
        );
        let list = env.write("allow.yml", "allowed_tools: [other]\n").display().to_string();
        let through = wrapped(&case.command, &["--allowlist", &list]);
        assert_eq!(results_of(talk(&through), params), 0, "{name}: none works through the wrap");
        let log = env.json(&["--json", "audit", "show", "--all"]);
        let events = log.as_array().unwrap().iter().filter(|event| event["kind"] == "mcp");
        let decided: Vec<&Value> =
            events.map(|event| &event["body"]["decision"]).filter(|one| !one.is_null()).collect();
        assert!(
            decided.len() >= tricks(params).len() && decided.iter().all(|one| **one == "deny"),
            "{name}: {log}"
        );
    }
}
