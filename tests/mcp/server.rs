//! A server that does as it is told, and a client that is in no hurry.

use crate::support::TestEnv;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a test waits for something that should be there at once.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Where `scripts/test` has put real clients and servers. That there are none is a failure, unless it was said before.
pub(crate) fn peers() -> Option<PathBuf> {
    if std::env::var_os("SBX_TEST_WITHOUT_MCP_PEERS").is_some() {
        return None;
    }
    let dir = std::env::var_os("SBX_TEST_MCP").map_or_else(|| PathBuf::from("/opt/sbx-mcp"), PathBuf::from);
    assert!(
        dir.join("py/bin/python").exists() && dir.join("npm/node_modules").is_dir(),
        "there are no MCP peers at {}: `scripts/test install_mcp_peers` installs them, SBX_TEST_MCP names where; \
         with SBX_TEST_WITHOUT_MCP_PEERS=1 these tests are left out",
        dir.display()
    );
    Some(dir)
}

/// A server of the old era, in Python, which every test machine has.
pub(crate) const SERVER: &str = r#"
import json, os, signal, subprocess, sys, time
def send(m): sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
def tool(name, text="does " ): return {"name": name, "description": text + name, "inputSchema": {"type": "object"}}
if os.path.exists("stubborn"): signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.path.exists("dies"): sys.exit(3)
pages = [[tool("echo"), tool("evil")], [tool("other")], [tool("big"), tool("exit"), tool("look"), tool("spawn"), tool("changed", open("text").read() if os.path.exists("text") else "")]]
for line in sys.stdin:
    m = json.loads(line); method = m.get("method"); i = m.get("id"); p = m.get("params") or {}
    if i is None: continue
    if method == "initialize": send({"jsonrpc": "2.0", "id": i, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}, "instructions": "be good"}})
    elif method == "tools/list":
        n = int(p.get("cursor", 0)); r = {"tools": pages[n]}
        if n + 1 < len(pages): r["nextCursor"] = str(n + 1)
        send({"jsonrpc": "2.0", "id": i, "result": r})
    elif method == "tools/call":
        a = p.get("arguments") or {}; name = p["name"]; text = line.rstrip("\n")
        if name == "big": text = "x" * a["bytes"]
        if name == "exit": sys.stderr.write("leaving\n"); sys.stderr.flush(); os._exit(a["code"])
        if name == "look": text = json.dumps({"env": sorted(os.environ), "etc": os.path.exists(a.get("path", "/root"))})
        if name == "spawn": subprocess.Popen(["/bin/sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"], stdin=subprocess.DEVNULL)
        if a.get("stderr"): sys.stderr.write(("z" * 99 + "\n") * (a["stderr"] // 100)); sys.stderr.flush()
        if name == "echo" and a.get("noise"): sys.stdout.write("a banner\n"); sys.stdout.flush()
        if a.get("write"):
            try: open(a["write"], "w").close()
            except OSError as e: text = str(e)
        if a.get("read"):
            try: open(a["read"]).read()
            except OSError as e: text = str(e)
        if a.get("fetch"):
            import urllib.request
            try: urllib.request.urlopen(a["fetch"], timeout=10).read()
            except OSError as e: text = str(e)
        if a.get("half"): sys.stdout.write(" "); sys.stdout.flush(); time.sleep(a["half"])
        if a.get("sleep"): time.sleep(a["sleep"])
        send({"jsonrpc": "2.0", "id": i, "result": {"content": [{"type": "text", "text": text}]}})
    else: send({"jsonrpc": "2.0", "id": i, "error": {"code": -32601, "message": "no " + str(method)}})
while os.path.exists("stubborn"): time.sleep(1)
"#;

/// A project with the server in it, and a record that may run anything there.
pub(crate) fn world(section: &str) -> TestEnv {
    let env = TestEnv::new();
    env.write("project/server.py", SERVER);
    record(&env, section);
    env
}

/// Writes the agent's record.
pub(crate) fn record(env: &TestEnv, section: &str) {
    let root = env.project();
    let root = root.display();
    let text = format!(
        "id: tester\ncapabilities:\n  - fs.read: {{in: {root}}}\n  - proc.exec: {{in: {root}}}\n{section}"
    );
    // Put in place whole, as editors do.
    let staged = env.write("staged", text);
    std::fs::create_dir_all(env.record("").as_path()).expect("a directory");
    std::fs::rename(staged, env.record("tester.yml")).expect("a record");
}

/// Lines in which some server could find a call with these parameters, and which are not one message to every reader.
pub(crate) fn tricks(params: &str) -> Vec<Vec<u8>> {
    let mut id = 0;
    let mut line = |text: &str| {
        id += 1;
        text.replace("PARAMS", params).replace("ID", &id.to_string()).into_bytes()
    };
    let call = r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":PARAMS}"#;
    let mut bad_text = line(&call.replacen('{', "{\"x\":\"?\",", 1));
    if let Some(at) = bad_text.iter().position(|byte| *byte == b'?') {
        bad_text[at] = 0xff;
    }
    vec![
        line(&format!("{{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":\r{call}\r}}")),
        line(r#"{"jsonrpc":"2.0","id":ID,"method":"ping","method":"tools/call","params":PARAMS}"#),
        line(r#"{"jsonrpc":"2.0","id":ID,"Method":"tools/call","params":PARAMS}"#),
        line(&format!("[{call}]")),
        line(&format!("\u{feff}{call}")),
        bad_text,
        line("not json"),
    ]
}

/// A client and the wrap it talks to.
pub(crate) struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
    next: u64,
}

impl Talk {
    /// `sbx mcp wrap` with the server of this world.
    pub(crate) fn wrap(env: &TestEnv, options: &[&str]) -> Self {
        let lead = ["mcp", "wrap", "--agent", "tester"];
        let args: Vec<&str> =
            lead.iter().chain(options).copied().chain(["--", "python3", "server.py"]).collect();
        Self::start(env, &args)
    }

    pub(crate) fn start(env: &TestEnv, args: &[&str]) -> Self {
        let mut command = env.sbx_command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::of(command.spawn().expect("sbx starts"))
    }

    pub(crate) fn of(mut child: Child) -> Self {
        let (tell, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let (tell, errors) = channel();
        let mut err = child.stderr.take().expect("a pipe");
        std::thread::spawn(move || {
            let mut text = [0; 4096];
            while let Ok(length @ 1..) = err.read(&mut text) {
                let _ = tell.send(String::from_utf8_lossy(&text[..length]).into_owned());
            }
        });
        Self { input: child.stdin.take(), child, lines, errors, next: 100 }
    }

    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("still open");
        input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n")).expect("sbx reads");
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().expect("still open").write_all(bytes).expect("sbx reads");
    }

    /// The next line, whatever it is.
    pub(crate) fn line(&mut self) -> Value {
        let line =
            self.lines.recv_timeout(SOON).unwrap_or_else(|error| unreachable!("{error}: {}", self.said()));
        serde_json::from_str(&line).unwrap_or_else(|error| unreachable!("{error}: {line}"))
    }

    /// The answer to one request.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        loop {
            let line = self.line();
            if line["id"] == id {
                return line;
            }
        }
    }

    pub(crate) fn hello(&mut self) {
        self.ask("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// The names of all tools, page by page.
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.ask("tools/list", params);
            let tools = page["result"]["tools"].as_array().unwrap_or_else(|| unreachable!("{page}"));
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap_or("?").to_owned()));
            match page["result"]["nextCursor"].as_str() {
                Some(next) => params = json!({ "cursor": next }),
                None => return names,
            }
        }
    }

    /// Everything on stderr so far.
    pub(crate) fn said(&self) -> String {
        self.errors.try_iter().collect()
    }

    /// Waits until stderr says something.
    pub(crate) fn hears(&self, wanted: &str) -> String {
        let (mut text, until) = (String::new(), Instant::now() + SOON);
        while !text.contains(wanted) {
            let left = until.saturating_duration_since(Instant::now());
            match self.errors.recv_timeout(left) {
                Ok(more) => text.push_str(&more),
                Err(_) => unreachable!("`{wanted}` was not said, but: {text}"),
            }
        }
        text
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes the stream to the server.
    pub(crate) fn close(&mut self) {
        drop(self.input.take());
    }

    /// How it ended, and how long that took.
    pub(crate) fn ended(&mut self) -> (ExitStatus, Duration) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return (status, started.elapsed());
            }
            assert!(started.elapsed() < SOON, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn rest(&self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200)) {
            lines.push(line);
        }
        lines
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
