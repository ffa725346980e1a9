//! Everything that leaves is told, however it ends.

use crate::world::{World, awaited};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that reads some of each request and then says this and nothing more; how many connections it saw, and how
/// many of them ended from the other side.
fn server(says: &'static [u8]) -> (u16, Arc<[AtomicUsize; 2]>) {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counts = seen.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let seen = counts.clone();
            std::thread::spawn(move || {
                let mut room = [0; 1000];
                let _ = stream.read(&mut room);
                let _ = stream.write_all(says);
                seen[0].fetch_add(1, Ordering::Relaxed);
                while let Ok(1..) = stream.read(&mut room) {}
                seen[1].fetch_add(1, Ordering::Relaxed);
                // It does not end by itself.
                std::thread::sleep(std::time::Duration::from_secs(600));
            });
        }
    });
    (port, seen)
}

fn of<'a>(events: &'a [Value], path: &str) -> Vec<&'a Value> {
    events.iter().map(|event| &event["body"]).filter(|body| body["path"] == path).collect()
}

#[test]
fn a_request_is_told_although_the_launch_ends_before_its_answer() {
    for backend in ["native", "landlock"] {
        let world = World::new().backend(backend);
        let (port, seen) = server(b"");
        let hosts = format!("{{hosts: [\"api.test:{port}\"]}}");
        let running = world.start(
            &format!("net.get: {hosts}\nnet.post: {hosts}"),
            "",
            &format!(
                "curl -s -d secret http://api.test:{port}/sent & until [ -e seen ]; do sleep 0.05; done"
            ),
            &[],
        );
        awaited("the request arrives", || seen[0].load(Ordering::Relaxed) == 1);
        world.write("ws/seen", "");
        assert_eq!(running.finish().status, 0);
        let events = world.audit("request");
        let [told] = of(&events, "/sent")[..] else { panic!("{backend} {events:?}") };
        assert_eq!(told["decision"], "allow");
        assert_eq!((&told["status"], &told["method"]), (&Value::Null, &Value::from("POST")));
        assert_eq!(told["end"], "ended with the launch", "{told}");
        assert!(told["sent"].as_u64() > Some(6), "{told}");
        let connections = world.audit("connection");
        let ended = |event: &Value| {
            event["body"]["target"] == format!("api.test:{port}")
                && event["body"]["end"] == "ended with the launch"
        };
        // By the proxy, which is the way there, requests are told and no connection.
        assert!(backend == "landlock" || connections.iter().any(ended), "{connections:?}");
    }
}

/// A port where connections are begun and never made, and what keeps it so.
fn never_made() -> (u16, impl Sized) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let _inside = runtime.enter();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap().into_std().unwrap();
    let address = listener.local_addr().unwrap();
    let patience = std::time::Duration::from_millis(500);
    let waiting: Vec<TcpStream> =
        std::iter::from_fn(|| TcpStream::connect_timeout(&address, patience).ok()).take(64).collect();
    assert!(waiting.len() < 64, "nobody waits");
    (address.port(), (listener, waiting))
}

/// Whether somebody on this machine is connecting to a port.
fn is_tried(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let tried = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(2).is_some_and(|to| to.ends_with(&format!(":{port:04X}"))) && words.get(3) == Some(&"02")
    };
    table.lines().any(tried)
}

#[test]
fn a_request_is_told_although_the_launch_ends_before_anything_was_reached() {
    for by_proxy in [false, true] {
        let world = World::new();
        let (port, _kept) = never_made();
        let way = if by_proxy { "-x $SBX_PROXY" } else { "" };
        let script =
            format!("curl -s {way} http://api.test:{port}/far & until [ -e seen ]; do sleep 0.05; done");
        let grant = format!("net.get: {{hosts: [\"api.test:{port}\"]}}");
        let running = world.start(&grant, "", &script, &[]);
        awaited("a connection is tried", || is_tried(port));
        world.write("ws/seen", "");
        assert_eq!(running.finish().status, 0);
        let events = world.audit("request");
        let [told] = of(&events, "/far")[..] else { panic!("{by_proxy} {events:?}") };
        assert_eq!((&told["status"], &told["sent"]), (&Value::Null, &Value::from(0)), "{told}");
        assert_eq!(told["end"], "ended with the launch", "{told}");
    }
}

#[test]
fn a_question_is_told_although_the_launch_ends_before_its_answer() {
    let world = World::new();
    world.resolve("api.test 127.0.0.2 public\nslow.test\n");
    let script = r#"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)
for name in (b"\4slow", b"\3api"):
    s.sendto(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + name + b"\4test\0\0\1\0\1", ("127.0.0.1", 53))
print(b"\3api" in s.recv(600))
"#;
    let ran = world.python("net.get: {hosts: [api.test, slow.test]}", script);
    assert_eq!(ran.stdout, "True\n", "{ran:?}");
    let names = world.audit("name");
    let [told] = names.iter().filter(|event| event["body"]["name"] == "slow.test").collect::<Vec<_>>()[..]
    else {
        panic!("{names:?}")
    };
    assert_eq!(told["body"]["answer"], "ended with the launch", "{told}");
}

#[test]
fn an_answer_that_nobody_waits_for_is_told() {
    let world = World::new();
    let script = "for u in 'http://api.test:{http}' '--http1.1 https://api.test:{https}' '--http2 https://api.test:{https}'; do \
rm -f out; curl -s --limit-rate 100k -o out $u/big/1000000000 & until [ -s out ]; do sleep 0.05; done; kill -9 $!; wait; done";
    let ran = world.run("net.get: {hosts: [api.test]}", script);
    let events = world.audit("request");
    let told = of(&events, "/big/1000000000");
    assert_eq!(told.len(), 3, "{events:?} {ran:?}");
    for told in told {
        assert_eq!(told["status"], 200, "{told}");
        assert!(["broken off", "ended with the launch"].contains(&told["end"].as_str().unwrap()), "{told}");
    }
    let whole = world.run(
        "net.get: {hosts: [api.test]}",
        "for v in --http1.1 --http2; do curl -s $v https://api.test:{https}/whole; done; curl -s http://api.test:{http}/whole; \
curl -sI http://api.test:{http}/whole",
    );
    let events = world.audit("request");
    let told = of(&events, "/whole");
    assert_eq!(told.len(), 4, "{whole:?}");
    assert!(told.iter().all(|told| told["status"] == 200 && told.get("end").is_none()), "{told:?}");
}

#[test]
fn what_cannot_be_reached_through_the_proxy_is_told() {
    let world = World::new();
    let closed = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
    let script = format!(
        "curl -s -o /dev/null -w '%{{http_code}} ' -x $SBX_PROXY http://api.test:{closed}/x; \
         curl -s -o /dev/null -w '%{{http_connect}} ' -p -x $SBX_PROXY http://missing.test:1/y; \
         curl -s -o /dev/null -p -x $SBX_PROXY http://api.test:{closed}/z; true"
    );
    let ran = world.run("net.get: {hosts: [api.test, missing.test]}", &script);
    assert_eq!(ran.stdout, "502 502 ", "{ran:?}");
    let events = world.audit("request");
    let [told] = of(&events, "/x")[..] else { panic!("{events:?}") };
    assert_eq!((&told["decision"], &told["end"]), (&Value::from("allow"), &Value::from("not reached")));
    let connections = world.audit("connection");
    let failed = |target: String| {
        let is = |event: &&Value| event["body"]["target"] == target && event["body"]["how"] == "failed";
        connections.iter().filter(is).count()
    };
    assert_eq!(failed("missing.test:1".to_owned()), 1, "{connections:?}");
    assert_eq!(of(&events, "/z").len(), 1, "{events:?}");
}

#[test]
fn every_question_for_a_name_is_told() {
    let world = World::new();
    let script = "for family in (socket.AF_INET, socket.AF_INET6):\n    try: print(socket.getaddrinfo('api.test', 1, family)[0][4][0][:7])\n    except OSError: print('none')";
    let ran = world.python("net.get: {hosts: [api.test]}", script);
    assert_eq!(ran.stdout, "198.18.\nnone\n", "{ran:?}");
    let names = world.audit("name");
    for kind in ["A", "AAAA"] {
        let is = |event: &&Value| event["body"]["name"] == "api.test" && event["body"]["type"] == kind;
        assert_eq!(names.iter().filter(is).count(), 1, "{kind} {names:?}");
    }
}

#[test]
fn a_flood_of_names_hides_no_request() {
    let world = World::new();
    let script = r#"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
for i in range(6000):
    s.sendto(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\6x%05d\7invalid\0\0\1\0\1" % i, ("127.0.0.1", 53))
    try: s.recv(600)
    except TimeoutError: pass
import urllib.request
print(urllib.request.urlopen("http://api.test:{http}/after", timeout=60).status)
try: urllib.request.urlopen("http://api.test:{http}/refused", data=b"x", timeout=60)
except urllib.error.HTTPError as error: print(error.code)
"#;
    let ran = world.python("net.get: {hosts: [api.test]}", script);
    assert_eq!(ran.stdout, "200\n403\n", "{ran:?}");
    let requests = world.audit("request");
    assert_eq!(of(&requests, "/after").len(), 1, "{requests:?}");
    assert!(requests.iter().any(|event| event["body"]["decision"] == "deny"), "{requests:?}");
    let names = world.audit("name");
    let left_out: u64 = names
        .iter()
        .filter_map(|event| {
            let count = |key: &str| event["body"][key].as_u64();
            count("left_out").or_else(|| count("left_out_before"))
        })
        .sum();
    let told = names.iter().filter(|event| event["body"].get("left_out").is_none()).count() as u64;
    assert!(left_out + told >= 6000, "{left_out} {told}");
}

/// A client that is gone, and one that says that it has said all.
#[test]
fn a_client_that_hangs_up_is_not_waited_for() {
    let world = World::new();
    let (port, seen) = server(b"");
    let hosts = format!("{{hosts: [\"api.test:{port}\"]}}");
    let script = format!(
        r#"
H = b"Host: api.test:{port}\r\n"
for data in (b"GET /left HTTP/1.1\r\n" + H + b"\r\n", b"POST /cut HTTP/1.1\r\n" + H + b"Content-Length: 100\r\n\r\npart",
        b"POST /chunks HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n5\r\npart"):
    s = socket.create_connection(("api.test", {port}), 30); s.sendall(data); time.sleep(0.3); s.close()
while not os.path.exists("seen"): time.sleep(0.05)
s = socket.create_connection(("api.test", {{http}}), 30); s.settimeout(30)
s.sendall(b"GET /half HTTP/1.1\r\nHost: api.test:{{http}}\r\n\r\n"); s.shutdown(1); show(s.recv(4096))
"#
    );
    world.write("ws/script.py", "");
    let grants = format!("net.get: {hosts}\nnet.post: {hosts}\nnet.get: {{hosts: [\"api.test:$HTTP\"]}}");
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| world.python(&grants, &script));
        awaited("the server is left by all three", || seen[1].load(Ordering::Relaxed) == 3);
        world.write("ws/seen", "");
        running.join().unwrap()
    });
    assert_eq!(ran.stdout, "HTTP/1.1 200 OK\n", "{ran:?}");
    let requests = world.audit("request");
    for path in ["/left", "/cut", "/chunks"] {
        let [told] = of(&requests, path)[..] else { panic!("{path} {requests:?}") };
        assert_eq!(told["status"], Value::Null, "{told}");
    }
}

/// Asks again and again on one connection, until the gateway itself answers; `{get}` sends a path and gives a status.
const UNTIL_REFUSED: &str = r#"
print(get("/0"), flush=True)
open("begun", "w").close()
while not os.path.exists("moved"): time.sleep(0.02)
for n in range(1, 60):
    status = get(f"/{n}")
    if status != 200: break
    time.sleep(0.1)
print(status, n)
"#;

/// The same over HTTP/2, where one connection carries all.
const UNTIL_REFUSED_TWO: &str = r#"
const fs = require("fs"), wait = (ms) => new Promise((done) => setTimeout(done, ms));
const h = require("http2").connect("https://api.test:{https}");
const get = (path) => new Promise((done, fail) => {
  const r = h.request({ ":path": path }); let status; r.on("response", (head) => status = head[":status"]);
  r.on("error", fail); r.on("end", () => done(status)); r.resume(); r.end();
});
(async () => {
  console.log(await get("/0")); fs.writeFileSync("begun", "");
  while (!fs.existsSync("moved")) await wait(20);
  let status, n;
  for (n = 1; n < 60; n++) { status = await get("/" + n); if (status !== 200) break; await wait(100); }
  console.log(status, n); h.close();
})();
"#;

#[test]
fn nothing_begins_on_an_open_connection_once_the_log_has_failed() {
    let by_python = |connect: &str| {
        format!(
            "import http.client\nc = http.client.{connect}\nc.auto_open = 1\n\
             def get(path):\n    c.request('GET', path); r = c.getresponse(); r.read(); c.auto_open = 0; return r.status\n{UNTIL_REFUSED}"
        )
    };
    let plain = by_python("HTTPConnection('api.test', {http})");
    let inspected = by_python("HTTPSConnection('api.test', {https})");
    for (script, with) in [(plain.as_str(), "python3"), (&inspected, "python3"), (UNTIL_REFUSED_TWO, "node")]
    {
        let world = World::new();
        let head = if with == "node" { "" } else { "import os, time\n" };
        world.write("ws/script", format!("{head}{}", world.fill(script)));
        let running = world.start("net.get: {hosts: [api.test]}", "", &format!("{with} script"), &[]);
        awaited("the first request is answered", || world.path("ws/begun").exists());
        let log = world.path("home/.local/state/sbx/audit.jsonl");
        std::fs::rename(&log, world.path("kept.jsonl")).unwrap();
        std::fs::create_dir(&log).unwrap();
        world.write("ws/moved", "");
        let ran = running.finish();
        let lines: Vec<&str> = ran.stdout.lines().collect();
        let [first, last] = lines[..] else { panic!("{with} {ran:?}") };
        let (status, number) = last.split_once(' ').unwrap();
        assert_eq!((first, status), ("200", "502"), "{with} {ran:?}");
        let seen: Vec<String> =
            world.https.take().into_iter().chain(world.http.take()).map(|seen| seen.path).collect();
        assert!(!seen.contains(&format!("/{number}")), "{with} {number} {seen:?}");
    }
}

/// Nor does anything come in by a published port.
#[test]
fn nothing_comes_in_once_the_log_has_failed() {
    let world = World::new();
    let port = crate::world::free_port("127.0.0.1");
    let script = format!(
        "touch begun; python3 -m http.server {port} --bind 127.0.0.1 2>&1 & until [ -e seen ]; do sleep 0.05; done; kill $!"
    );
    let running = world.start(
        "fs.read: {in: /usr/share}",
        &format!("listen: [{port}]\nlimits: {{wall: 90s}}"),
        &script,
        &[],
    );
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said).map(|_| said)
    };
    awaited("the port answers", || answer().is_ok_and(|said| said.contains(" 200 ")));
    let log = world.path("home/.local/state/sbx/audit.jsonl");
    std::fs::rename(&log, world.path("kept.jsonl")).unwrap();
    std::fs::create_dir(&log).unwrap();
    awaited("nothing comes in any more", || answer().is_err());
    world.write("ws/seen", "");
    running.finish();
}

/// What an agent needs to correct itself: the system call with its error where there was one, and the command to run.
#[test]
fn refusals_are_explained_to_machines_with_call_error_and_command() {
    let world = World::new();
    // Not below /tmp, which is private inside.
    let outside = std::path::PathBuf::from(format!("/var/tmp/sbx-told-{}", std::process::id()));
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("secret"), "").unwrap();
    let place = outside.display();
    let script = format!(
        "cat {place}/secret; rm -f origin.pem; mkdir {place}/made; curl -s http://other.test:HTTP/x; env -i /usr/bin/id; true"
    )
    .replace("HTTP", "{http}");
    let grants = "net.get: {hosts: [api.test]}\nfs.read: {in: /usr/share}";
    let ran = world.run_with(grants, "", &script, &["--explain", "--json"]);
    std::fs::remove_dir_all(&outside).unwrap();
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let refused = answer["refused"].as_array().unwrap();
    let about = |text: &str| {
        let is = |one: &&Value| one["message"].as_str().is_some_and(|message| message.contains(text));
        refused.iter().find(is).unwrap_or_else(|| panic!("{text} in {answer:#}"))
    };
    let name = outside.file_name().unwrap().display();
    let (read, write) = (
        format!("'fs.read{{in={place},paths=[secret]}}'"),
        // A name is made in its directory.
        format!("'fs.write{{in=/var/tmp,paths=[{name}]}}'"),
    );
    for (text, calls, errors, command) in [
        (format!("fs.read {place}/secret"), &["openat", "open"][..], &[2, 13][..], read),
        (format!("fs.write {place}/made"), &["mkdir", "mkdirat"], &[2, 13, 30], write),
    ] {
        let one = about(&text);
        assert!(calls.iter().any(|call| one["call"] == *call), "{one:#}");
        assert!(errors.iter().any(|error| one["errno"] == *error), "{one:#}");
        assert_eq!(one["command"], format!("sbx agents grant tester {command}"), "{one:#}");
        assert_eq!(
            (&one["is_error"], &one["agent"]),
            (&Value::from(true), &Value::from("tester")),
            "{one:#}"
        );
    }
    let host = about("net.get other.test");
    assert_eq!((&host["call"], &host["errno"]), (&Value::Null, &Value::Null), "{host:#}");
    assert_eq!(host["command"], "sbx agents grant tester 'net.get{hosts=[other.test]}'", "{host:#}");
}
