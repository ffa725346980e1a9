//! `sbx learn`: what is proposed for real programs is enough for them, and no more than a person would write.

#![expect(unreachable_pub, dead_code, reason = "the support module is shared by several test programs")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Output;
use support::TestEnv;

/// A program that does its work offline in a small project of its own.
struct Work {
    files: &'static [(&'static str, &'static str)],
    /// Shell text that prepares the project.
    before: &'static str,
    argv: &'static [&'static str],
    /// What the record must say, and may not say.
    says: &'static [&'static str],
    never: &'static [&'static str],
    /// What is there afterwards, once it ran for real.
    leaves: &'static str,
}

fn world(work: &Work) -> TestEnv {
    let env = TestEnv::new();
    std::fs::remove_dir(env.project().join(".git")).expect("an empty directory");
    for (name, text) in work.files {
        env.write(Path::new("project").join(name), text);
    }
    let prepared = env.command("sh").args(["-ec", work.before]).output().expect("sh starts");
    assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr));
    env
}

fn run(env: &TestEnv, args: &[&str]) -> Output {
    env.sbx_command(args).output().expect("sbx starts")
}

/// Every file of the project with its content.
fn contents(env: &TestEnv) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut pending = vec![env.project()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => pending.push(entry.path()),
                _ => found.push((entry.path(), std::fs::read(entry.path()).unwrap_or_default())),
            }
        }
    }
    found.sort();
    found
}

fn goes_round(work: &Work) {
    let env = world(work);
    let before = contents(&env);
    let text = |output: &Output| {
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let learned = run(&env, &[&["learn", "--write", "--id", "worker", "--"], work.argv].concat());
    assert!(learned.status.success(), "{:?} is watched: {}", work.argv, text(&learned));
    assert!(contents(&env) == before, "{:?} left something behind while it was watched", work.argv);
    let record = std::fs::read_to_string(env.record("worker.md")).expect("a record");
    assert_eq!(record.trim_end(), String::from_utf8_lossy(&learned.stdout).trim_end());
    for says in work.says {
        assert!(record.contains(says), "{says} in\n{record}");
    }
    for never in work.never {
        assert!(!record.contains(never), "no {never} in\n{record}");
    }
    let lint = run(&env, &["agents", "lint", "worker"]);
    assert!(lint.status.code() != Some(2), "{}", text(&lint));
    let ran = run(&env, &[&["exec", "--agent", "worker", "--explain", "--"], work.argv].concat());
    assert!(ran.status.success(), "{:?} under\n{record}\n{}", work.argv, text(&ran));
    assert!(env.project().join(work.leaves).exists(), "{:?} did its work under\n{record}", work.argv);
}

#[test]
fn git_goes_round() {
    goes_round(&Work {
        files: &[("a", "one\n")],
        before: "git init -q . && git config user.email a@example.org && git config user.name a && git add a && git commit -qm one && echo two > a",
        argv: &["git", "commit", "-qam", "two"],
        says: &[
            "proc.exec: {in: $PROJECT, cmds: [",
            "git]}",
            "fs.write: {in: $PROJECT, paths: [\".git\"]}",
            "fs.delete:",
        ],
        never: &["net.", "fs.read", "proc.eval"],
        leaves: ".git/COMMIT_EDITMSG",
    });
}

#[test]
fn cargo_goes_round() {
    goes_round(&Work {
        files: &[
            ("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("src/lib.rs", "#[test]\nfn it_works() { assert_eq!(2 + 2, 4); }\n"),
        ],
        before: "mkdir .sbx",
        argv: &["/usr/bin/cargo", "test", "--offline", "--quiet"],
        says: &["proc.exec: {in: $PROJECT}", "fs.write: {in: $PROJECT}"],
        never: &["net.", "fs.read"],
        leaves: "target/debug",
    });
}

#[test]
fn npm_goes_round() {
    goes_round(&Work {
        files: &[
            (
                "package.json",
                "{\"name\": \"small\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node test.js\"}}\n",
            ),
            (
                "test.js",
                "require('assert').strictEqual(2 + 2, 4); require('fs').writeFileSync('out.txt', 'fine');\n",
            ),
        ],
        before: "mkdir .sbx",
        argv: &["npm", "test"],
        says: &["proc.exec: {in: $PROJECT", "fs.write: {in: $PROJECT}"],
        never: &["net.", "proc.eval"],
        leaves: "out.txt",
    });
}

#[test]
fn pytest_goes_round() {
    goes_round(&Work {
        files: &[(
            "test_small.py",
            "def test_small(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    assert 2 + 2 == 4\n",
        )],
        before: "mkdir .sbx",
        argv: &["pytest", "-q"],
        says: &["proc.exec: {in: $PROJECT", "fs.write: {in: $PROJECT}"],
        never: &["net.", "/tmp/pytest"],
        leaves: ".pytest_cache",
    });
}

#[test]
fn node_goes_round() {
    goes_round(&Work {
        files: &[
            (
                "build.js",
                "const fs = require('fs'); fs.writeFileSync('dist/out.js', fs.readFileSync('src/in.js'));\n",
            ),
            ("src/in.js", "1\n"),
            ("dist/old.js", "0\n"),
        ],
        before: "mkdir .sbx",
        argv: &["node", "build.js"],
        says: &["cmds: [node]", "fs.write: {in: $PROJECT, paths: [dist]}"],
        never: &["net.", "fs.delete", "fs.read"],
        leaves: "dist/out.js",
    });
}

#[test]
fn python_goes_round() {
    goes_round(&Work {
        files: &[(
            "main.py",
            "import json, pathlib, sqlite3\npathlib.Path('out').mkdir()\npathlib.Path('out/x.json').write_text(json.dumps({}))\npathlib.Path('out/x.json').unlink()\n",
        )],
        before: "mkdir .sbx",
        argv: &["python3", "main.py"],
        says: &["proc.exec: {in: $PROJECT", "fs.write: {in: $PROJECT}", "fs.delete: {in: $PROJECT}"],
        never: &["net."],
        leaves: "out",
    });
}

#[test]
fn secrets_are_closed_called_out_and_never_proposed() {
    let env = TestEnv::new();
    env.write("home/.ssh/id_ed25519", "key");
    env.write("home/.netrc", "machine a login b password c");
    env.write("home/.config/tool/settings", "fine");
    env.write("project/.env", "TOKEN=x");
    env.write("project/.git/hooks/README.sample", "");
    let script = "cat ~/.ssh/id_ed25519; ls ~/.ssh; cat ~/.netrc; cat .env; cat ~/.config/tool/settings; echo x > .git/hooks/pre-commit; echo y >> ~/.bashrc; true";
    let answer = env.json(&["learn", "--json", "--", "sh", "-c", script]);
    let schema = jsonschema::validator_for(&env.json(&["schema", "learn"])).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(&answer).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let list = |key: &str, field: &str| -> Vec<String> {
        let items = answer[key].as_array().expect("a list").iter();
        items.map(|item| env.anonymous(item[field].as_str().expect("text"))).collect()
    };
    let called = list("called_out", "path");
    for path in [
        "[HOME]/.ssh",
        "[HOME]/.netrc",
        "[PROJECT]/.env",
        "[PROJECT]/.git/hooks/pre-commit",
        "[HOME]/.bashrc",
    ] {
        assert!(called.iter().any(|called| called == path), "{path} in {called:?}");
    }
    let grants = list("grants", "grant");
    assert!(grants.iter().any(|grant| grant == "fs.read{in=~/.config/tool,paths=[settings]}"), "{grants:?}");
    assert!(
        grants
            .iter()
            .all(|grant| !grant.contains(".ssh") && !grant.contains("netrc") && !grant.contains("fs.write")),
        "{grants:?}"
    );
    let shown = run(&env, &["learn", "--", "sh", "-c", script]);
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(
        said.contains("Permission denied") && !said.contains("key\n") && !said.contains("password c"),
        "{said}"
    );
    assert!(!env.project().join(".git/hooks/pre-commit").exists() && !env.home().join(".bashrc").exists());
}

#[test]
fn what_an_agent_lacks_is_shown_and_given() {
    let env = TestEnv::new();
    env.write("project/out/old", "");
    env.write_record("a.md", "---\ncapabilities:\n  - proc.exec: {in: $PROJECT}\n---\n");
    let args = ["learn", "--agent", "a", "--", "sh", "-c", "echo x > out/new"];
    let shown = env.sbx(&args);
    assert!(shown.contains("= high    proc.exec{in=$PROJECT,cmds=[sh]}  held already\n"), "{shown}");
    assert!(shown.contains("+ high    fs.write{in=$PROJECT,paths=[out]}  1 file was written\n"), "{shown}");
    assert!(shown.contains("  sbx agents grant a 'fs.write{in=$PROJECT,paths=[out]}'\n"), "{shown}");
    let refused = env.sbx(&["exec", "--agent", "a", "--", "sh", "-c", "echo x > out/new"]);
    assert!(!refused.contains("[exit 0]"), "{refused}");
    let given = env.sbx(&["learn", "--agent", "a", "--write", "--", "sh", "-c", "echo x > out/new"]);
    assert!(given.contains("granted fs.write{in=$PROJECT,paths=[out]}"), "{given}");
    let done = env.sbx(&["exec", "--agent", "a", "--", "sh", "-c", "echo x > out/new"]);
    assert!(done.contains("[exit 0]") && env.project().join("out/new").exists(), "{done}");
}

/// A program on the caller's own path needs that path: it is shown, given, and there is a command for it.
#[test]
fn a_variable_that_an_agent_lacks_is_given_too() {
    let env = TestEnv::new();
    let own = env.write("home/bin/own-tool", "#!/bin/sh\necho own\n");
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a program");
    let path = format!("{}:/usr/bin:/bin", own.parent().expect("a directory").display());
    let sbx = |args: &[&str]| {
        let output = env.sbx_command(args).env("PATH", &path).output().expect("it runs");
        env.shown(&output)
    };
    for record in ["---\ncapabilities: []\n---\n", "---\ncapabilities: []\nenv:\n  - TERM\n---\n"] {
        env.write_record("a.md", record);
        let shown = sbx(&["learn", "--agent", "a", "--", "own-tool"]);
        assert!(shown.contains("+ env: [PATH]\n"), "{shown}");
        assert!(shown.contains("  sbx agents grant a --env PATH\n"), "{shown}");
        let given = sbx(&["learn", "--agent", "a", "--write", "--", "own-tool"]);
        assert!(given.contains("passed env: [PATH] in [HOME]/.config/sbx/agents/a.md"), "{given}");
        let done = sbx(&["exec", "--agent", "a", "--", "own-tool"]);
        assert!(done.contains("own\n") && done.contains("[exit 0]"), "{done}");
        let again = sbx(&["learn", "--agent", "a", "--json", "--", "own-tool"]);
        assert!(again.contains("\"commands\": []"), "{again}");
    }
    env.write_record("a.md", "---\ncapabilities: []\n---\n");
    let command = sbx(&["agents", "grant", "a", "--env", "PATH", "--yes"]);
    assert!(command.contains("passed env: [PATH]") && command.contains("[exit 0]"), "{command}");
}

#[test]
fn what_is_allowed_really_happens_and_the_rest_does_not() {
    let env = TestEnv::new();
    env.write("project/kept/old", "");
    let shown = env.sbx(&["learn", "--allow", "kept", "--", "sh", "-c", "echo x > kept/new; echo y > other"]);
    assert!(shown.contains("[exit 0]"), "{shown}");
    assert!(env.project().join("kept/new").exists() && !env.project().join("other").exists());
}

#[test]
fn hosts_and_methods_are_learned_from_what_was_let_out() {
    let env = TestEnv::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in listener.incoming().take(16).flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    let host = format!("127.0.0.1:{port}");
    let script = format!(
        "curl -sf http://{host}/a && curl -sf -X POST http://{host}/b && ! curl -sf -X DELETE http://{host}/c"
    );
    let shown =
        env.sbx(&["learn", "--allow-net", &host, "--id", "caller", "--write", "--", "sh", "-c", &script]);
    assert!(shown.contains("[exit 0]"), "{shown}");
    for grant in [format!("net.get: {{hosts: [\"{host}\"]}}"), format!("net.post: {{hosts: [\"{host}\"]}}")] {
        assert!(shown.contains(&grant), "{grant} in {shown}");
    }
    assert!(!shown.contains("net.delete"), "{shown}");
    let again = env.sbx(&["exec", "--agent", "caller", "--", "sh", "-c", &script]);
    assert!(again.contains("[exit 0]"), "{again}");
    let closed = env.sbx(&["learn", "--", "curl", "-sf", "http://api.example.org/"]);
    assert!(
        closed.contains("net.get: {hosts: [api.example.org]}") && closed.contains("not let out"),
        "{closed}"
    );
}

#[test]
fn a_name_that_is_taken_is_said_before_anything_runs() {
    let env = TestEnv::new();
    env.write_record("sh.md", "---\ncapabilities: []\n---\n");
    let shown = env.sbx(&["learn", "--write", "--", "sh", "-c", "echo ran >&2"]);
    assert!(shown.contains("sh.md exists already") && !shown.contains("ran\n"), "{shown}");
}

/// Where sbx itself makes no view there is no copy to write to: the command is watched all the same, and changes nothing.
#[test]
fn where_changes_cannot_be_kept_apart_nothing_is_written() {
    let env = TestEnv::new();
    env.write("project/there", "known\n");
    let accepted = "teardown-killed";
    env.write("home/.config/sbx/config.yml", format!("accept_degraded: [{accepted}]\n"));
    let script = "cat there; echo new > made; echo changed > there; exit 0";
    let mut sbx = env.sbx_command(&["--json", "learn", "--", "sh", "-c", script]);
    sbx.env("SBX_TEST_NO_NAMESPACES", "1");
    let output = sbx.output().expect("sbx starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{told}"));
    assert_eq!(answer["copied"], false, "{answer:#}\n{told}");
    let grants = answer["grants"].to_string();
    assert!(grants.contains("fs.write") && grants.contains("cmds=[cat,sh]"), "{answer:#}");
    assert_eq!(std::fs::read_to_string(env.project().join("there")).expect("it stands"), "known\n");
    assert!(!env.project().join("made").exists());
    let mut sbx = env.sbx_command(&["learn", "--", "true"]);
    let told = env.shown(&sbx.env("SBX_TEST_NO_NAMESPACES", "1").output().expect("sbx starts"));
    assert!(told.contains("changes cannot be kept apart here (cannot make namespaces"), "{told}");
}
