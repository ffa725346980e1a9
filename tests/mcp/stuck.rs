//! Peers that do not read, do not end or are gone: nobody waits for them, and what happened is in the log.

use crate::server::{SOON, Talk, world};
use crate::stream::{alive, signal};
use crate::support::{TestEnv, program};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

const ALL: &str = "mcp: {allowed_tools: [\"*\"]}\n";

/// A client that says more to a hung server than pipes hold; then it says so, and stays or closes its end.
const FLOOD: &str = r#"
import json, os, subprocess, sys, time
p = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
def call(i, a): return json.dumps({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": "echo", "arguments": a}}).encode() + b"\n"
to = p.stdin.fileno(); os.set_blocking(to, False)
rest = call(1, {"sleep": 600}) + b"".join(call(i, {"text": "x" * 9000}) for i in range(2, 100)); last = time.time()
while time.time() - last < 0.5:
    try: rest = rest[os.write(to, rest):]; last = time.time()
    except BlockingIOError: time.sleep(0.01)
assert rest
if sys.argv[1] == "close": p.stdin.close()
print("full", flush=True)
time.sleep(600)
"#;

fn gone_within(name: &str, time: Duration) {
    let begun = Instant::now();
    while alive(name) > 0 {
        assert!(begun.elapsed() < time, "something is left of {name}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_that_leaves_a_hung_server_leaves_nothing_behind() {
    for how in ["kill", "close"] {
        let env = world(ALL);
        let name = env.project().join("server.py").display().to_string();
        let sbx = program();
        let mut client = env
            .command("python3")
            .args(["-c", FLOOD, how, &sbx.display().to_string()])
            .args(["mcp", "wrap", "--agent", "tester", "--", "python3", &name])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python runs");
        let mut said = String::new();
        BufReader::new(client.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "full\n");
        assert!(alive(&name) > 1, "the server runs");
        if how == "kill" {
            client.kill().unwrap();
            client.wait().unwrap();
            gone_within(&name, Duration::from_secs(8));
        } else {
            // The client itself has the name among its words.
            let begun = Instant::now();
            while alive(&name) > 1 {
                assert!(
                    begun.elapsed() < Duration::from_secs(8),
                    "the server outlives its client's last words"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
            client.kill().unwrap();
            client.wait().unwrap();
        }
        assert_eq!(kinds(&env, "end").len(), 1, "{how}");
    }
}

/// The events of a kind.
fn kinds(env: &TestEnv, kind: &str) -> Vec<Value> {
    let log = env.json(&["--json", "audit", "show", "--all"]);
    log.as_array().unwrap().iter().filter(|event| event["kind"] == kind).cloned().collect()
}

/// A wrap whose stderr is full and read by nobody until somebody wants to.
fn unread(env: &TestEnv, args: &[&str]) -> (Talk, PipeReader) {
    let (from, mut to) = std::io::pipe().unwrap();
    while sbx_platform::ready::write_now(to.as_fd(), b"full\n").is_ok() {}
    to.flush().unwrap();
    let mut command = env.sbx_command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(to);
    let mut child = command.spawn().expect("sbx starts");
    drop(command);
    child.stderr = Some(std::os::fd::OwnedFd::from(std::io::pipe().unwrap().0).into());
    (Talk::of(child), from)
}

#[test]
fn a_client_that_does_not_read_remarks_is_served_all_the_same() {
    let env = world(ALL);
    let (mut talk, mut errors) =
        unread(&env, &["mcp", "wrap", "--agent", "tester", "--", "python3", "server.py"]);
    talk.hello();
    for _ in 0..50 {
        let answer = talk.call("echo", json!({ "noise": true, "stderr": 20_000 }));
        assert!(answer["result"]["content"].is_array(), "{answer}");
    }
    talk.close();
    let (status, time) = talk.ended();
    assert!(status.success() && time < Duration::from_secs(4), "{status} after {time:?}");
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    assert!(!said.contains("tools/actions permitted"), "nobody had read it when it ended");
}

#[test]
fn what_a_server_says_on_stderr_passes_and_too_much_is_counted() {
    let env = world(ALL);
    let mut talk = Talk::wrap(&env, &[]);
    talk.hello();
    talk.call("echo", json!({ "stderr": 500 }));
    let said = talk.hears(&format!("{}\n", "z".repeat(99)));
    assert!(!said.contains("left out"), "{said}");
    talk.call("echo", json!({ "stderr": 16 << 20 }));
    talk.close();
    assert_eq!(talk.ended().0.code(), Some(0));
    assert!(talk.hears("left out").contains(" bytes "), "how much was left out is told");
}

#[test]
fn a_client_that_reads_nothing_keeps_nobody_from_ending() {
    let env = world(ALL);
    let args = ["mcp", "wrap", "--agent", "tester", "--", "python3", "server.py"];
    let mut command = env.sbx_command(&args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("sbx starts");
    // Somebody is there to read what is answered, and does not.
    let unread = child.stdout.take();
    let (nothing, _) = std::io::pipe().unwrap();
    child.stdout = Some(std::os::fd::OwnedFd::from(nothing).into());
    let mut talk = Talk::of(child);
    for id in 1..4 {
        let params = json!({ "name": "big", "arguments": { "bytes": 8 << 20 } });
        talk.send(
            &json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string(),
        );
    }
    let begun = Instant::now();
    while kinds(&env, "mcp").iter().filter(|event| event["body"]["decision"] == "allow").count() < 2 {
        assert!(begun.elapsed() < SOON, "the calls are not recorded");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(300));
    signal(&talk, "-TERM");
    let (_, time) = talk.ended();
    assert!(time < Duration::from_secs(4), "{time:?}");
    assert_eq!(kinds(&env, "end").len(), 1);
    drop(unread);
}

#[test]
fn a_servers_end_names_its_launch_as_every_other_end_does() {
    let env = world(ALL);
    let mut talk = Talk::wrap(&env, &[]);
    talk.hello();
    talk.close();
    talk.ended();
    env.sbx(&["mcp", "pin", "--agent", "tester", "--", "python3", "server.py"]);
    let (launches, ends) = (kinds(&env, "launch"), kinds(&env, "end"));
    assert_eq!((launches.len(), ends.len()), (2, 2));
    for (launch, end) in launches.iter().zip(&ends) {
        assert!(launch["body"]["launch"].is_string(), "{launch}");
        assert_eq!(launch["body"]["launch"], end["body"]["launch"]);
        assert_eq!(end["body"]["server"], "server.py");
    }
}

#[test]
fn a_server_that_reaches_a_limit_is_recorded_so() {
    let env = world(&format!("limits: {{wall: 2s}}\n{ALL}"));
    let mut talk = Talk::wrap(&env, &[]);
    talk.hello();
    assert_eq!(talk.ended().0.code(), Some(124));
    let (limits, ends) = (kinds(&env, "limit"), kinds(&env, "end"));
    assert_eq!((limits.len(), ends.len()), (1, 1));
    assert_eq!(limits[0]["body"]["launch"], ends[0]["body"]["launch"]);
}

#[test]
fn a_server_whose_fence_cannot_be_had_has_an_end_too() {
    let env = world(ALL);
    let wrap = ["mcp", "wrap", "--agent", "tester", "--backend", "landlock", "--", "python3", "server.py"];
    let said = env.sbx(&wrap);
    assert!(said.contains("backend landlock does not give") && said.contains("[exit 125]"), "{said}");
    let (launches, ends) = (kinds(&env, "launch"), kinds(&env, "end"));
    assert_eq!((launches.len(), ends.len()), (1, 1));
    assert_eq!(launches[0]["body"]["launch"], ends[0]["body"]["launch"]);
    assert!(ends[0]["body"]["error"].as_str().unwrap().contains("landlock"), "{}", ends[0]);
}
