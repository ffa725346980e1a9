//! `npx` and `uvx` from nothing: packages made here, fetched from a registry on this machine, run behind the fence.
//!
//! The registry is a thread that serves a few files on loopback and counts how often it is asked; when it is gone, what
//! was fetched must still start.

use crate::server::{SERVER, Talk, peers, record, world};
use crate::support::TestEnv;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Serves files by path, until it is closed.
struct Registry {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    closed: Arc<AtomicBool>,
}

impl Registry {
    fn open(files: impl FnOnce(SocketAddr) -> Vec<(String, &'static str, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let files = files(address);
        let (asked, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&asked), Arc::clone(&closed));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                let _ = serve(&stream, &files);
            }
        });
        Self { address, asked, closed }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: &TcpStream, files: &[(String, &str, Vec<u8>)]) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines.by_ref() {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let found = files.iter().find(|(name, ..)| name == path);
    let (status, kind, body) =
        found.map_or(("404 Not Found", "text/plain", &[][..]), |(_, kind, body)| ("200 OK", kind, body));
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    // Whoever asks for the head only wants to know that it is there.
    if first.starts_with("HEAD") { Ok(()) } else { stream.write_all(body) }
}

fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| unreachable!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A server in JavaScript as a package: its installation script would leave a mark.
fn npm_package(env: &TestEnv) -> Vec<u8> {
    env.write(
        "tiny/package.json",
        r#"{"name":"@t/tiny-server","version":"1.2.3","bin":{"tiny-server":"main.js"},"scripts":{"install":"touch $HOME/installed"}}"#,
    );
    env.write(
        "tiny/main.js",
        "#!/usr/bin/env node\nrequire('readline').createInterface({input: process.stdin}).on('line', (line) => {\n  const m = JSON.parse(line); if (m.id === undefined) return;\n  console.log(JSON.stringify({jsonrpc: '2.0', id: m.id, result: {content: [{type: 'text', text: 'from ' + __filename}]}}));\n});\n",
    );
    let dir = env.home().with_file_name("tiny");
    let name = ran(env.command("npm").args(["pack", "--silent"]).current_dir(&dir));
    std::fs::read(dir.join(name.lines().last().expect("a name"))).expect("a package")
}

/// A server in Python as a package.
fn wheel(env: &TestEnv) -> Vec<u8> {
    let script = env.write(
        "wheel.py",
        r#"
import sys, zipfile
code = """import json, sys
def main():
    for line in sys.stdin:
        m = json.loads(line)
        if m.get("id") is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"content": [{"type": "text", "text": "from " + __file__}]}}), flush=True)
"""
info = "tiny_server-1.2.3.dist-info/"
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("tiny_server.py", code)
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny-server\nVersion: 1.2.3\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "entry_points.txt", "[console_scripts]\ntiny-server = tiny_server:main\n")
    wheel.writestr(info + "RECORD", "tiny_server.py,,\n" + "".join(info + n + ",,\n" for n in ("METADATA", "WHEEL", "entry_points.txt", "RECORD")))
"#,
    );
    let file = script.with_file_name("tiny_server-1.2.3-py3-none-any.whl");
    ran(env.command("python3").arg(script).arg(&file));
    std::fs::read(file).expect("a wheel")
}

/// Wraps a command, makes one call, and hands out what the server says and what sbx says about it.
fn called(env: &TestEnv, path: Option<&Path>, command: &[&str]) -> (String, String) {
    let lead = ["mcp", "wrap", "--agent", "tester", "--"];
    let mut sbx = env.sbx_command(&lead.iter().chain(command).copied().collect::<Vec<_>>());
    if let Some(path) = path {
        let usual = "/usr/local/bin:/usr/bin:/bin";
        sbx.env("PATH", format!("{}:{usual}", path.display()));
    }
    sbx.stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut talk = Talk::of(sbx.spawn().expect("sbx starts"));
    let answer = talk.call("any", json!({}));
    talk.close();
    talk.ended();
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| unreachable!("{answer} {}", talk.said()));
    (text.to_owned(), talk.said())
}

#[test]
fn npx_fetches_outside_and_runs_inside() {
    let env = TestEnv::new();
    record(&env, "");
    let package = npm_package(&env);
    let registry = Registry::open(|address| {
        let tarball = format!("http://{address}/tiny-server-1.2.3.tgz");
        let about = json!({
            "name": "@t/tiny-server", "dist-tags": { "latest": "1.2.3" },
            "versions": { "1.2.3": {
                "name": "@t/tiny-server", "version": "1.2.3", "bin": { "tiny-server": "main.js" },
                "hasInstallScript": true, "dist": { "tarball": tarball },
            } },
        });
        vec![
            ("/@t%2ftiny-server".to_owned(), "application/json", about.to_string().into_bytes()),
            ("/tiny-server-1.2.3.tgz".to_owned(), "application/octet-stream", package),
        ]
    });
    env.write(
        "home/.npmrc",
        format!("registry=http://{}/\naudit=false\nfund=false\nupdate-notifier=false\n", registry.address),
    );
    let (said, told) = called(&env, None, &["npx", "-y", "@t/tiny-server"]);
    assert!(said.starts_with("from ") && said.contains("_npx/"), "{said}");
    assert!(told.contains("@t/tiny-server 1.2.3"), "{told}");
    assert!(registry.asked() >= 2, "it was fetched from somewhere else");
    assert!(!env.home().join("installed").exists(), "the installation script was run");
    let asked = registry.asked();
    called(&env, None, &["npx", "-y", "@t/tiny-server"]);
    assert_eq!(registry.asked(), asked, "what was fetched is fetched again");
    // A fetch that was stopped halfway is not taken for a whole one.
    let modules = PathBuf::from(said.trim_start_matches("from "));
    let modules = modules.ancestors().find(|dir| dir.ends_with("node_modules")).expect("modules");
    std::fs::remove_file(modules.join(".package-lock.json")).expect("npm's own list");
    std::fs::remove_dir_all(modules.join("@t")).expect("the package");
    assert_eq!(called(&env, None, &["npx", "-y", "@t/tiny-server"]).0, said);
    drop(registry);
    assert_eq!(called(&env, None, &["npx", "-y", "@t/tiny-server"]).0, said);
}

#[test]
fn uvx_fetches_outside_and_runs_inside() {
    let Some(peers) = peers() else { return };
    let env = TestEnv::new();
    record(&env, "");
    let (wheel, name) = (wheel(&env), "tiny_server-1.2.3-py3-none-any.whl");
    let registry = Registry::open(|_| {
        let page = format!("<!DOCTYPE html><html><body><a href=\"/{name}\">{name}</a></body></html>");
        vec![
            ("/simple/tiny-server/".to_owned(), "text/html", page.into_bytes()),
            (format!("/{name}"), "application/octet-stream", wheel),
        ]
    });
    env.write(
        "home/.config/uv/uv.toml",
        format!(
            "python-downloads = \"never\"\n[[index]]\nurl = \"http://{}/simple/\"\ndefault = true\n",
            registry.address
        ),
    );
    let uv = peers.join("py/bin");
    let (said, told) = called(&env, Some(&uv), &["uvx", "tiny-server"]);
    assert!(said.starts_with("from ") && said.contains("tiny_server.py"), "{said}");
    assert!(told.contains("tiny-server 1.2.3"), "{told}");
    assert!(registry.asked() >= 2, "it was fetched from somewhere else");
    drop(registry);
    assert_eq!(called(&env, Some(&uv), &["uvx", "tiny-server"]).0, said);
}

/// A package in the project, which npx finds there without asking anyone.
fn local_package(env: &TestEnv, version: &str) {
    let manifest = json!({ "name": "mine", "version": version, "bin": "server.py" });
    env.write("project/node_modules/mine/package.json", manifest.to_string());
    let program =
        env.write("project/node_modules/mine/server.py", format!("#!/usr/bin/env python3\n{SERVER}"));
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

#[test]
fn another_version_than_the_pinned_one_is_told_by_whoever_compares() {
    let env = world("mcp: {pins: pins.json}\n");
    local_package(&env, "1.0.0");
    let pin = |option: &str| {
        let words = ["mcp", "pin", option, "--agent", "tester", "--", "npx", "-y", "mine"];
        env.sbx(&words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>())
    };
    let pinned = pin("");
    assert!(pinned.contains("[exit 0]"), "{pinned}");
    let same = pin("--check");
    assert!(same.contains("[exit 0]") && !same.contains("package"), "{same}");
    let wrap = |option: &[&str]| {
        let lead = ["mcp", "wrap", "--agent", "tester"];
        let words: Vec<&str> =
            lead.iter().chain(option).chain(&["--", "npx", "-y", "mine"]).copied().collect();
        let mut talk = Talk::start(&env, &words);
        talk.close();
        talk.ended().0.code()
    };
    assert_eq!(wrap(&[]), Some(0));
    // Nobody can tell which version a launcher would start.
    assert_eq!(wrap(&["--no-resolve"]), Some(125));
    local_package(&env, "2.0.0");
    assert_eq!(wrap(&[]), Some(125));
    let other = pin("--check");
    assert!(other.contains("changed  (package)\n           mine 1.0.0 became mine 2.0.0"), "{other}");
    assert!(other.contains("8 tools compared with") && other.contains("[exit 1]"), "{other}");
}

#[test]
fn the_ready_map_applies_to_a_command_that_is_run_as_it_is() {
    let env = world("");
    let program = env.write("project/mcp-server-git", format!("#!/usr/bin/env python3\n{SERVER}"));
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    for options in [&[][..], &["--no-resolve"]] {
        let lead = ["mcp", "wrap", "--agent", "tester"];
        let words: Vec<&str> =
            lead.iter().chain(options).chain(&["--", "./mcp-server-git"]).copied().collect();
        let mut talk = Talk::start(&env, &words);
        talk.hello();
        let policy = talk.call("get_policy", json!({}));
        assert_eq!(policy["result"]["structuredContent"]["preset"], "git", "{options:?}: {policy}");
    }
}
