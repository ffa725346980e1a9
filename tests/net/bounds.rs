//! A hostile program inside cannot exhaust the supervisor.

use crate::world::{Running, World};
use std::time::Duration;

/// The most memory the supervisor had, sampled while it lasts.
fn peak(running: &Running) -> u64 {
    let status = format!("/proc/{}/status", running.id());
    let mut peak = 0;
    while let Ok(text) = std::fs::read_to_string(&status) {
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let Some(size) = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()) else {
            break;
        };
        peak = peak.max(size);
        std::thread::sleep(Duration::from_millis(20));
    }
    peak
}

#[test]
fn ten_thousand_connections_take_bounded_memory() {
    let world = World::new();
    world.write(
        "ws/flood.py",
        world
            .fill(
                r#"
import socket, os, time, errno
done = 0
for child in range(8):
    if os.fork() == 0:
        held = []
        for i in range(1250):
            s = socket.socket(); s.setblocking(False)
            try: s.connect((ADDRESS, {http}))
            except OSError: pass
            held.append(s)
            if i % 3 == 0:
                try: s.send(b"GET / HTTP/1.1\r\nX: " + b"a" * 2000)
                except OSError: pass
            if len(held) > 200: held.pop(0).close()
        time.sleep(0.3); os._exit(0)
for child in range(8): os.wait()
print("made")
import urllib.request
print(urllib.request.urlopen("http://api.test:{http}/after", timeout=60).read().decode().split()[1])
"#,
            )
            .replace("ADDRESS", "socket.gethostbyname('api.test')"),
    );
    let running = world.start("net.get: {hosts: [\"api.test\"]}", "", "python3 flood.py", &[]);
    let peak = peak(&running);
    let ran = running.finish();
    assert_eq!(ran.stdout, "made\n/after\n", "{ran:?}");
    assert!(peak > 0 && peak < 200_000, "{peak} kB");
}

#[test]
fn a_flood_of_names_takes_bounded_memory_and_is_not_told_one_by_one() {
    let world = World::new();
    world.write(
        "ws/flood.py",
        world.fill(
            r#"
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setblocking(False)
def ask(name):
    q = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0\0\1\0\1"
    try: s.sendto(q, ("127.0.0.1", 53))
    except OSError: pass
for i in range(60000):
    ask("n%d.%s.evil.example" % (i, "x" * 50)); ask("n%d.wild.test" % i)
    try: s.recv(600)
    except OSError: pass
import time
for attempt in range(10):
    try: print(socket.gethostbyname("api.test")[:7]); break
    except OSError: time.sleep(1)
"#,
        ),
    );
    let running =
        world.start("net.get: {hosts: [\"api.test\", \"*.wild.test\"]}", "", "python3 flood.py", &[]);
    let peak = peak(&running);
    let ran = running.finish();
    assert_eq!(ran.stdout, "198.18.\n", "{ran:?}");
    assert!(peak > 0 && peak < 200_000, "{peak} kB");
    let told = world.audit("name").len();
    assert!(told > 0 && told < 20_000, "{told}");
}

#[test]
fn parallel_connections_are_all_served() {
    let world = World::new();
    let script = r#"
import concurrent.futures, urllib.request
def one(i): return urllib.request.urlopen("http://api.test:{http}/%d" % i, timeout=30).read().decode().split()[1] == "/%d" % i
with concurrent.futures.ThreadPoolExecutor(50) as pool: print(sum(pool.map(one, range(400))))
"#;
    let ran = world.python("net.get: {hosts: [\"api.test\"]}", script);
    assert_eq!(ran.stdout, "400\n", "{ran:?}");
    assert_eq!(world.http.take().len(), 400);
}

/// Many connections of HTTP/2 with many answers each that nobody reads.
#[test]
fn slow_readers_of_http_2_take_bounded_memory() {
    let world = World::new();
    let script = "u=https://api.test:{https}/big/20000000; for c in $(seq 60); do \
timeout -s KILL 12 curl -sZ --parallel-max 25 --http2 --limit-rate 1 $(for s in $(seq 25); do echo -o /dev/null $u; done) > /dev/null 2>&1 & done; \
sleep 10; curl -s -m 60 --http2 -o /dev/null -w '%{http_code}' https://api.test:{https}/after; wait";
    let running = world.start("net.get: {hosts: [api.test]}", "limits: {pids: 400}", script, &[]);
    let peak = peak(&running);
    let ran = running.finish();
    assert_eq!(ran.stdout, "200", "{ran:?}");
    let seen = world.https.take().len();
    assert!(seen > 300, "{seen} requests");
    // With windows of 8 MB for every connection it would be half a gigabyte.
    assert!(peak > 0 && peak < 350_000, "{peak} kB");
}
