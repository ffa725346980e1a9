//! Origins that misbehave, and a supervisor that dies.

use crate::origin::{Origin, Speaks};
use crate::world::{Ran, Running, World, awaited, issue};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A server that does this with each connection.
fn server(act: impl Fn(TcpStream) + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let act = act.clone();
            std::thread::spawn(move || act(stream));
        }
    });
    port
}

fn all(port: u16) -> String {
    ["get", "post", "put", "delete"]
        .map(|verb| format!("net.{verb}: {{hosts: [\"api.test:{port}\"]}}"))
        .join("\n")
}

#[test]
fn an_origin_that_breaks_off_is_told_as_such() {
    let world = World::new();
    let at_once = server(drop);
    let midway = server(|mut stream| {
        let _ = stream.read(&mut [0; 1000]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
    });
    let garbage = server(|mut stream| {
        let _ = stream.read(&mut [0; 1000]);
        let _ = stream.write_all(b"\x00\x01garbage\r\n\r\n");
    });
    for (port, expected) in [(at_once, "502 0"), (midway, "200 18"), (garbage, "502 0")] {
        for grants in [format!("net.get: {{hosts: [\"api.test:{port}\"]}}"), all(port)] {
            let script =
                format!("curl -s -m 40 -o /dev/null -w '%{{http_code}} ' http://api.test:{port}/; echo $?");
            let ran = world.run(&grants, &script);
            // With all verbs a server may end before its client spoke, and nobody knows that HTTP was meant.
            let early = port == at_once && grants == all(port) && ran.stdout == "000 52\n";
            assert!(early || ran.stdout == format!("{expected}\n"), "{grants}: {ran:?}");
        }
    }
}

/// A host that takes a connection and says nothing keeps nobody waiting but whoever came to it.
#[test]
fn an_origin_that_stalls_holds_up_nobody_else() {
    let world = World::new();
    let silent = server(|stream| {
        std::thread::sleep(Duration::from_secs(3600));
        drop(stream);
    });
    let script = format!(
        r#"
import threading, urllib.request
def stall(number):
    s = socket.create_connection(("api.test", {silent}), 60); held.append(s)
    if number % 2: s.sendall(b"GET / HTTP/1.1\r\nHost: api.test:{silent}\r\n\r\n"); return
    hello = ssl.MemoryBIO(); client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="api.test")
    try: client.do_handshake()
    except ssl.SSLWantReadError: s.sendall(hello.read())
held = []
for number in range(40): stall(number)
print(urllib.request.urlopen("http://api.test:{{http}}/after", timeout=60).read().decode().split()[1])
print(urllib.request.urlopen("https://api.test:{{https}}/after", timeout=60).read().decode().split()[1], len(held))
"#
    );
    let ran = world.python("net.get: {hosts: [\"api.test\"]}", &script);
    assert_eq!(ran.stdout, "/after\n/after 40\n", "{ran:?}");
}

#[test]
fn tls_that_is_none_is_refused() {
    let world = World::new();
    let garbage = server(|mut stream| {
        let _ = stream.read(&mut [0; 1000]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let script = format!("curl -s -m 40 https://api.test:{garbage}/; [ $? != 0 ] && echo refused");
    let ran = world.run(&format!("net.get: {{hosts: [\"api.test:{garbage}\"]}}"), &script);
    assert_eq!(ran.stdout, "refused\n", "{ran:?}");
    let ran = world.run(
        "net.get: {hosts: [\"api.test:443\"]}",
        "curl -s -m 40 https://api.test/; [ $? != 0 ] && echo refused",
    );
    assert_eq!(ran.stdout, "refused\n", "{ran:?}");
}

#[test]
fn garbage_from_inside_ends_only_its_own_connection() {
    let world = World::new();
    let script = r#"
import random
random.seed(3)
for i in range(60):
    start = random.choice([b"\x16\x03\x01\x02\x00", b"\x16\x03\x01", b"GET ", b"\x05\x01\x00", b"CONNECT ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b""])
    data = start + bytes(random.randrange(256) for _ in range(random.randrange(300)))
    for address in (("api.test", {http}), ("api.test", {https}), PROXY):
        try:
            s = socket.create_connection(address, 30); s.settimeout(0.05); s.sendall(data); s.shutdown(1); s.recv(1000)
        except OSError: pass
        finally: s.close()
show(talk(("api.test", {http}), b"GET /alive HTTP/1.1\r\nHost: api.test:{http}\r\nConnection: close\r\n\r\n"))
"#;
    for grants in ["net.get: {hosts: [\"api.test\"]}".to_owned(), all(0).replace(":0\"", "\"")] {
        let ran = world.python(&grants, script);
        assert_eq!(ran.stdout, "HTTP/1.1 200 OK\n", "{ran:?}");
    }
}

#[test]
fn half_closed_connections_and_slow_readers_get_everything() {
    let world = World::new();
    let echo = server(|mut stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let _ = stream.write_all(&all);
    });
    let script = format!(
        r#"
s = socket.create_connection(("api.test", {echo}), 30); s.settimeout(20)
data = b"\x01" + bytes(4000000); s.sendall(data); s.shutdown(1); got = 0
while True:
    d = s.recv(100000)
    if not d: break
    got += len(d); time.sleep(0.002)
print(got == len(data))
"#
    );
    let ran = world.python(&all(echo), &script);
    assert_eq!(ran.stdout, "True\n", "{ran:?}");
}

#[test]
fn a_refused_upload_can_read_why() {
    let world = World::new();
    let script = "head -c 30000000 /dev/zero > big; curl -s -m 40 -o out -w '%{http_code}\n' -H 'Expect:' -T big http://api.test:{http}/; grep -c capability_absent out";
    let ran = world.run("net.get: {hosts: [\"api.test\"]}", script);
    assert_eq!(ran.stdout, "403\n1\n", "{ran:?}");
    // One that looks for an answer only when everything is sent.
    let script = r#"
s = socket.create_connection(("api.test", {http}), 30); s.settimeout(30)
s.sendall(b"PUT / HTTP/1.1\r\nHost: api.test:{http}\r\nContent-Length: 30000000\r\n\r\n" + bytes(30000000))
print(s.recv(1000).split(b"\r\n")[0].decode())
"#;
    let ran = world.python("net.get: {hosts: [\"api.test\"]}", script);
    assert_eq!(ran.stdout, "HTTP/1.1 403 Forbidden\n", "{ran:?}");
    assert!(world.http.take().is_empty());
}

/// The most memory that a supervisor had while its command ran, in kilobytes, and what the command gave.
fn peak_of(running: Running) -> (u64, Ran) {
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
    (peak, running.finish())
}

#[test]
fn a_body_of_two_gigabytes_passes_in_little_memory() {
    let world = World::new();
    let running = world.start(
        "net.get: {hosts: [\"api.test\"]}",
        "",
        "curl -s http://api.test:{http}/big/2147483648 | wc -c",
        &[],
    );
    let (peak, ran) = peak_of(running);
    assert_eq!(ran.stdout, "2147483648\n", "{ran:?}");
    assert!(peak > 0 && peak < 200_000, "{peak} kB");
}

/// A host that has only addresses of the newer family is reached by programs that see only the older inside, and an
/// address that does not answer is passed over.
#[test]
fn an_origin_with_ipv6_only_is_reached() {
    let issued = issue(&["six.test", "both.test"]);
    let [plain, secure] =
        [Speaks::Http, Speaks::Https(issued.config)].map(|speaks| Origin::start("::1", speaks));
    for backend in ["native", "bwrap", "landlock"] {
        let world = World::new().backend(backend);
        world.write("ws/origin.pem", &issued.root);
        world.resolve(
            "six.test ::1 public\nboth.test 127.0.0.3 public\nboth.test ::1 public\nother.test ::1 public\n",
        );
        let (http, https) = (plain.port(), secure.port());
        let grants = format!(
            "net.get: {{hosts: [\"six.test:{http}\", \"six.test:{https}\", \"both.test:{http}\", \"[::1]:{http}\"]}}"
        );
        let script = format!(
            "for u in http://six.test:{http} https://six.test:{https} http://both.test:{http} http://[::1]:{http} \
             http://other.test:{http} http://[::1]:{https}; do curl -s -m 40 --noproxy '*' -o /dev/null -w '%{{http_code}} ' $u/; done"
        );
        let ran = world.run(&grants, &script);
        assert_eq!(ran.stdout, "200 200 200 200 000 000 ", "{backend} {ran:?}");
        let seen: Vec<String> = plain.take().into_iter().chain(secure.take()).map(|seen| seen.host).collect();
        assert_eq!(seen.len(), 4, "{backend} {seen:?}");
    }
}

/// Bodies up and down through TLS that is opened, by both protocols, in little memory.
#[test]
fn large_bodies_pass_both_ways_when_inspected() {
    const SIZE: u64 = 256 << 20;
    let world = World::new();
    let hosts = "{hosts: [\"api.test:$HTTPS\"]}";
    let script = format!(
        "for v in --http1.1 --http2; do curl -s $v https://api.test:{{https}}/big/{SIZE} | wc -c; \
         head -c {SIZE} /dev/zero | curl -s $v -T - https://api.test:{{https}}/up; done"
    );
    let running = world.start(&format!("net.get: {hosts}\nnet.put: {hosts}"), "", &script, &[]);
    let (peak, ran) = peak_of(running);
    let up = world.fill(&format!("PUT /up api.test:{{https}} {SIZE}\n"));
    assert_eq!(ran.stdout, format!("{SIZE}\n{up}").repeat(2), "{ran:?}");
    assert!(peak > 0 && peak < 200_000, "{peak} kB");
}

#[test]
fn without_its_supervisor_nothing_is_reached() {
    let world = World::new();
    let script = "while :; do curl -s -m 20 -o /dev/null http://api.test:{http}/; sleep 0.02; done";
    let running = world.start("net.get: {hosts: [\"api.test\"]}", "", script, &[]);
    let mut seen = 0;
    awaited("the command reaches its host", || {
        seen += world.http.take().len();
        seen >= 3
    });
    running.kill();
    // What was on its way may still arrive; then nothing does.
    awaited("nothing is reached any more", || {
        std::thread::sleep(Duration::from_secs(1));
        world.http.take().is_empty()
    });
}
