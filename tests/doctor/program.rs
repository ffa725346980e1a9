//! The program on this machine, and on this machine made weaker.

use crate::support::{TestEnv, program};
use sbx::run::{Act, acting, told};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn doctor(env: &TestEnv, switches: &[(&str, &str)]) -> Value {
    let output =
        env.sbx_command(&["doctor", "--json"]).envs(switches.iter().copied()).output().expect("sbx starts");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| unreachable!("no JSON: {error}\n{}", env.shown(&output)))
}

fn backend<'a>(report: &'a Value, name: &str) -> &'a Value {
    let backends = report["backends"].as_array().expect("backends");
    backends.iter().find(|backend| backend["backend"] == name).expect("the backend")
}

fn state(report: &Value, name: &str, guarantee: &str) -> String {
    let guarantees = backend(report, name)["guarantees"].as_array().expect("guarantees");
    let found = guarantees.iter().find(|found| found["guarantee"] == guarantee);
    found.map_or_else(|| "nothing".to_owned(), |found| found["state"].as_str().unwrap_or_default().to_owned())
}

fn codes(report: &Value) -> Vec<&str> {
    report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter_map(|finding| finding["code"].as_str())
        .collect()
}

#[test]
fn what_is_promised_here_is_held_against_every_attack() {
    let env = TestEnv::new();
    let report = doctor(&env, &[]);
    let mut attacked = 0;
    for tried in report["backends"].as_array().expect("backends") {
        assert_eq!(tried["failure"], Value::Null, "{tried:#}");
        for guarantee in tried["guarantees"].as_array().expect("guarantees") {
            assert_ne!(guarantee["state"], "broken", "{} {guarantee}", tried["backend"]);
            attacked += usize::from(guarantee["state"] == "held");
        }
    }
    assert!(attacked > 30, "{report:#}");
    assert!(!codes(&report).contains(&"broken"));
    for guarantee in [
        "fs-read",
        "fs-write",
        "fs-delete",
        "net-none",
        "exec-only",
        "pid-hidden",
        "protected-paths",
        "teardown-killed",
    ] {
        assert_eq!(state(&report, "native", guarantee), "held", "{guarantee}");
    }
    for (name, way, names) in [
        ("native", "redirected", "held"),
        ("bwrap", "redirected", "held"),
        ("landlock", "on-behalf", "missing"),
    ] {
        assert_eq!(backend(&report, name)["network"], way);
        for (guarantee, state_of) in
            [("net-hosts", "held"), ("net-ports", "held"), ("net-names", names), ("net-listen", names)]
        {
            assert_eq!(state(&report, name, guarantee), state_of, "{name} {guarantee}");
        }
    }
    let findings = report["findings"].as_array().expect("findings");
    let told = findings.iter().filter_map(|finding| finding["message"].as_str());
    assert!(
        told.into_iter().any(|message| message.contains("dig, static programs in Go or built with musl"))
    );
    assert_eq!(env.files(), Vec::<String>::new(), "nothing is left behind");
}

/// An attack that could not succeed would show nothing.
#[test]
fn without_a_fence_the_attacks_go_through() {
    let env = TestEnv::new();
    let secret = env.write("outside/secret", "x");
    let socket = env.project().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    port.set_nonblocking(true).expect("a listener");
    let answering = port.try_clone().expect("a listener");
    let names = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (at, asked) = (
        port.local_addr().expect("an address").to_string(),
        names.local_addr().expect("an address").to_string(),
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    std::thread::spawn(move || {
        loop {
            if let Ok((mut stream, _)) = answering.accept() {
                let _ = std::io::Write::write_all(&mut stream, b"here");
            }
            let _ = std::net::TcpStream::connect(free);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    std::thread::spawn(move || {
        let mut room = [0; 512];
        while let Ok((length, from)) = names.recv_from(&mut room) {
            let _ = names.send_to(&room[..length], from);
        }
    });
    let own = std::process::id().to_string();
    let began = sbx::run::process_began(&own).expect("a moment");
    let acts = [
        Act::new("look", &secret),
        Act::new("read", &secret),
        Act::new("write", &secret),
        Act::new("chmod", &secret),
        Act::new("truncate", &secret),
        Act::new("create", env.project().join("new")),
        Act::new("exec", "/bin/true"),
        Act::connect(port.local_addr().expect("an address")),
        Act::new("arrive", &at),
        Act::new("reach", &at),
        Act::new("ask", &asked),
        Act::new("be-found", free.to_string()),
        Act::new("socket", &socket),
        Act::new("process", format!("{own}:{began}")),
        Act::new("signal", &own),
        Act::new("loopback", ""),
        Act::new("terminal", ""),
        Act::new("delete", &secret),
        Act::new("outlive", env.project().join("outlived")),
        Act::new("remain", env.project()),
    ];
    env.write("project/go", "");
    let line = acting(&program(), &acts);
    let output = Command::new(&line[0]).args(&line[1..]).output().expect("sbx starts");
    let told = told(&output.stdout);
    assert_eq!(told.len(), acts.len());
    for tried in told {
        assert_eq!(tried.error, None, "{}", tried.name);
    }
    assert!(env.project().join("lived").exists());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !env.project().join("outlived").exists() {
        assert!(std::time::Instant::now() < until, "nothing outlives its launch, fence or not");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The program can be made to see a weaker machine; builds without the feature test-hooks cannot.
fn needs_switches(env: &TestEnv) {
    let weak = doctor(env, &[("SBX_TEST_NO_NAMESPACES", "1"), ("SBX_TEST_NO_BWRAP", "1")]);
    assert_eq!(backend(&weak, "native")["works"], false, "build with `--features sbx/test-hooks`");
}

#[test]
fn weaker_machines_are_described_as_they_are() {
    let env = TestEnv::new();
    needs_switches(&env);
    let closed = doctor(&env, &[("SBX_TEST_NO_NAMESPACES", "1"), ("SBX_TEST_NO_BWRAP", "1")]);
    assert_eq!(backend(&closed, "bwrap")["works"], false);
    assert_eq!(backend(&closed, "landlock")["works"], true);
    assert_eq!(
        (state(&closed, "landlock", "fs-read"), state(&closed, "landlock", "fs-hidden")),
        ("held".into(), "missing".into())
    );
    assert!(codes(&closed).contains(&"degraded") && closed["level"] == "warning", "{closed:#}");
    let bare = doctor(&env, &[("SBX_TEST_NO_RULES", "1")]);
    assert_eq!(backend(&bare, "native")["network"], "per-port");
    assert_eq!(
        (state(&bare, "native", "net-ports"), state(&bare, "native", "net-names")),
        ("missing".into(), "held".into())
    );
    assert!(!codes(&bare).contains(&"broken"), "{bare:#}");
    let nothing = [("SBX_TEST_NO_NAMESPACES", "1"), ("SBX_TEST_NO_BWRAP", "1"), ("SBX_TEST_LANDLOCK", "0")];
    let nothing = doctor(&env, &nothing);
    assert!(codes(&nothing).contains(&"no-backend") && nothing["level"] == "error", "{nothing:#}");
    for (level, truncate, signals) in
        [("1", "missing", "missing"), ("3", "held", "missing"), ("6", "held", "held")]
    {
        let report = doctor(&env, &[("SBX_TEST_LANDLOCK", level)]);
        assert_eq!(report["landlock"].to_string(), level);
        assert_eq!(state(&report, "landlock", "fs-truncate"), truncate, "level {level}");
        assert_eq!(state(&report, "landlock", "signals"), signals, "level {level}");
        assert_eq!(state(&report, "native", "fs-truncate"), "held", "level {level}");
        assert!(!codes(&report).contains(&"broken"), "level {level}: {report:#}");
    }
}

#[test]
fn records_are_examined_and_the_exit_status_tells() {
    let env = TestEnv::new();
    let fine = env.sbx(&["doctor"]);
    assert!(fine.contains("0 errors, 0 warnings") && fine.ends_with("[exit 0]\n"), "{fine}");
    env.write_record(
        "w.md",
        "---\ncapabilities:\n  - fs.wriet: {in: ~/x}\n  - fs.write: {in: \"~\"}\n  - fs.read\n---\n",
    );
    let shown = env.sbx(&["doctor"]);
    for told in ["did you mean `fs.write`?", "fs.write covers the whole of [HOME]", "w.md:5", "fix: "] {
        assert!(shown.contains(told), "{told} in {shown}");
    }
    assert!(shown.ends_with("[exit 1]\n"), "{shown}");
}

#[test]
fn loose_permissions_are_told_and_put_right_only_when_asked() {
    let env = TestEnv::new();
    let record = env.write_record("a.md", "---\ncapabilities: []\n---\n");
    let mode = || std::fs::metadata(&record).expect("the record").permissions().mode() & 0o777;
    std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o666)).expect("a mode");
    let shown = env.sbx(&["doctor"]);
    assert!(shown.contains("a.md can be changed by other users") && shown.ends_with("[exit 1]\n"), "{shown}");
    assert_eq!(mode(), 0o666);
    let shown = env.sbx(&["doctor", "--fix"]);
    assert!(shown.starts_with("fixed: [HOME]/.config/sbx/agents/a.md is now 644\n"), "{shown}");
    assert!(shown.ends_with("[exit 0]\n") && mode() == 0o644, "{shown}");
}

#[test]
fn another_sbx_on_the_way_and_a_broken_log_are_told() {
    let env = TestEnv::new();
    let other = env.write("first/sbx", "#!/bin/sh\n");
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    env.sbx(&["exec", "--agent", "scout", "--", "ls"]);
    let log = env.home().join(".local/state/sbx/audit.jsonl");
    let text = std::fs::read_to_string(&log).expect("a log");
    std::fs::write(&log, text.replace("ls", "rm")).expect("a log");
    let path = format!("{}:/usr/bin:/bin", other.parent().expect("a directory").display());
    let report = doctor(&env, &[("PATH", &path)]);
    let codes = codes(&report);
    assert!(codes.contains(&"other-sbx") && codes.contains(&"audit-broken"), "{codes:?}");
}

#[test]
fn what_clients_are_told_of_sbx_is_examined() {
    let env = TestEnv::new();
    let own = program().canonicalize().expect("the program").display().to_string();
    env.write(
        "home/.claude/settings.json",
        r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "sbx", "args": ["hook", "claude-code", "--agent", "builder"]}]}]}}"#,
    );
    env.write(
        "home/.codex/hooks.json",
        r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "/gone/sbx hook codex --agent nobody"}]}]}}"#,
    );
    env.write(
        "home/.cursor/hooks.json",
        format!(r#"{{"hooks": {{"preToolUse": [{{"command": "{own} hook cursor --agent builder", "failClosed": true}}]}}}}"#),
    );
    env.write(
        "home/.cursor/mcp.json",
        format!(
            r#"{{"mcpServers": {{
                "bare": {{"command": "npx", "args": ["-y", "x"]}},
                "loose": {{"command": "{own}", "args": ["mcp", "wrap", "--agent", "builder", "--", "npx", "-y", "@a/x"]}},
                "tight": {{"command": "{own}", "args": ["mcp", "wrap", "--agent", "builder", "--", "npx", "-y", "@a/x@1.2.3"]}},
                "remote": {{"url": "https://a.example"}}
            }}}}"#
        ),
    );
    env.write("project/.mcp.json", "{oops");
    let other = env.write("other/sbx", "#!/bin/sh\n");
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    env.write(
        "home/.gemini/settings.json",
        format!(r#"{{"hooks": {{"BeforeTool": [{{"hooks": [{{"command": "{} hook gemini --agent builder"}}]}}]}}}}"#, other.display()),
    );
    let report = doctor(&env, &[]);
    let found: Vec<(&str, &str, bool)> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["area"] == "clients")
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().unwrap_or_default();
            (text("code"), text("level"), text("message").contains("cursor"))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("client-file", "note", false),
            ("server-unfenced", "note", true),
            ("server-unpinned", "warning", true),
            ("client-by-name", "warning", false),
            ("hook-fails-open", "warning", false),
            ("client-missing", "warning", false),
            ("client-agent", "warning", false),
            ("client-other-sbx", "warning", false),
        ],
        "{report:#}"
    );
}

#[test]
fn servers_of_projects_are_examined_with_the_line_that_fences_them() {
    let env = TestEnv::new();
    let (project, gone) = (env.project(), env.home().join("gone"));
    let (project, gone) = (project.display(), gone.display());
    let server =
        |name: &str| format!(r#"{{"mcpServers": {{"{name}": {{"command": "npx", "args": ["-y", "x"]}}}}}}"#);
    let (local, lost) = (server("local"), server("lost"));
    env.write("home/.claude.json", format!(r#"{{"projects": {{"{project}": {local}, "{gone}": {lost}}}}}"#));
    env.write("project/.mcp.json", server("shared"));
    let report = doctor(&env, &[]);
    let unfenced: Vec<(&str, &str)> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["code"] == "server-unfenced")
        .map(|finding| {
            (finding["message"].as_str().unwrap_or_default(), finding["fix"][0].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(unfenced.len(), 2, "{report:#}");
    assert!(unfenced[0].0.contains(&format!("for {project}) starts the server local ")), "{unfenced:?}");
    assert_eq!(unfenced[0].1, "sbx mcp install --client claude-code --wrap-existing --name local --agent A");
    assert!(unfenced[1].0.ends_with(".mcp.json) starts the server shared without a fence"), "{unfenced:?}");
    assert_eq!(
        unfenced[1].1,
        "sbx mcp install --client claude-code --project --wrap-existing --name shared --agent A"
    );
}

#[test]
fn tools_servers_and_the_configuration_are_looked_at() {
    let env = TestEnv::new();
    let config =
        env.record("x.md").parent().and_then(std::path::Path::parent).expect("a directory").to_path_buf();
    let write = |name: &str, text: &str| {
        let path = config.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    let before = doctor(&env, &[]);
    assert!(!codes(&before).iter().any(|code| code.starts_with("tool-") || *code == "configuration"));
    write("tools/broken.toml", "name = ");
    write(
        "tools/gone.toml",
        "name = \"gone\"\nkind = \"command\"\nbinary = \"no-such-program-here\"\nargs = [\"x\"]\n",
    );
    write("tools/there.toml", "name = \"there\"\nkind = \"command\"\nbinary = \"echo\"\nargs = [\"x\"]\n");
    write("config.yml", "sandbox: [\n");
    write(
        "agents/away.md",
        "---\ncapabilities:\n  - net.get: {hosts: [localhost]}\nenv:\n  KEY: {inject: {host: api.example, header: X}}\n---\n",
    );
    let report = doctor(&env, &[]);
    let of = |code: &str| codes(&report).iter().filter(|found| **found == code).count();
    assert_eq!((of("tool-broken"), of("tool-missing"), of("configuration")), (1, 1, 1), "{report:#}");
    assert_eq!(of("inert"), 2, "{report:#}");
    assert!(report["backends"].as_array().is_some_and(|backends| backends.len() > 1), "{report:#}");
    assert_eq!(report["level"], "error");
}
