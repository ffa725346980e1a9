//! Requests that two programs could read differently are read by none.

use crate::origin::{Origin, Speaks};
use crate::world::World;

const READ: &str = "net.get: {hosts: [\"api.test:$HTTP\", \"other.test:$HTTP\"]}";

#[test]
fn odd_requests_do_not_reach_the_origin() {
    let world = World::new();
    let script = r#"
H = b"Host: api.test:{http}\r\n"
odd = [
  b"GET / HTTP/1.1\r\n" + H + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n" + H + b"\r\n",
  b"GET / HTTP/1.1\r\n" + H + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
  b"GET / HTTP/1.1\r\n" + H + b"Content-Length: 5, 5\r\n\r\nhello",
  b"GET / HTTP/1.1\r\n" + H + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
  b"GET / HTTP/1.1\r\n" + H + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
  b"GET / HTTP/1.1\r\n" + H + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
  b"GET / HTTP/1.1\r\n" + H + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  b"GET / HTTP/1.1\nHost: api.test:{http}\n\n",
  b"GET / HTTP/1.1\r\n" + H + b"Host: other.test:{http}\r\n\r\n",
  b"GET / HTTP/1.1\r\nHost: other.test:{http}\r\n\r\n",
  b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
  b"GET / HTTP/1.1\r\nHost: x@api.test:{http}\r\n\r\n",
  b"GET / HTTP/1.1\r\n\r\n",
  b"GET http://other.test:{http}/ HTTP/1.1\r\n" + H + b"\r\n",
  b"GET http://api.test:{http}/ HTTP/1.1\r\nHost: other.test:{http}\r\n\r\n",
  b"GET / HTTP/1.1\r\n" + H + b"Connection: Content-Length\r\nContent-Length: 3\r\n\r\nabc",
  b"GET / HTTP/1.1\r\n" + H + b"Content_Length: 3\r\n\r\nabc",
  b"GET /\x00 HTTP/1.1\r\n" + H + b"\r\n",
  b"GET / HTTP/1.1\r\n" + H + b"X: \x00\r\n\r\n",
  b"CONNECT api.test:{http} HTTP/1.1\r\n" + H + b"\r\n",
  b"GET / HTTP/1.1\r\n" + H + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
  b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n" + H + b"\r\n",
  b"get / HTTP/1.1\r\n" + H + b"\r\n",
]
for o in odd:
    out = talk(("api.test", {http}), o, 2)
    if b" 200 " in out: print("answered", o, out)
print("done", len(odd))
"#;
    let ran = world.python(READ, script);
    assert_eq!(ran.stdout, "done 23\n", "{ran:?}");
    let seen = world.http.take();
    assert!(seen.is_empty(), "{seen:?}");
}

#[test]
fn each_request_of_a_connection_is_judged() {
    let world = World::new();
    let script = r#"
H = b"Host: api.test:{http}\r\n"
out = talk(("api.test", {http}), b"GET /1 HTTP/1.1\r\n" + H + b"\r\nPOST /2 HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n\r\nGET /3 HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n")
import re; print([line.decode() for line in re.findall(rb"HTTP/1.1 [^\r]*", out)])
out = talk(("api.test", {http}), b"GET /4 HTTP/1.1\r\n" + H + b"Content-Length: 26\r\nConnection: close\r\n\r\nGET /hidden HTTP/1.1\r\n\r\n\r\n")
show(out)
"#;
    let ran = world.python(READ, script);
    let expected =
        "['HTTP/1.1 200 OK', 'HTTP/1.1 403 Forbidden', 'HTTP/1.1 200 OK']\nHTTP/1.1 403 Forbidden\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
    let paths: Vec<String> = world.http.take().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/1", "/3"]);
}

/// A server that does not read the body of such a request takes it for the next one.
#[test]
fn a_body_where_none_belongs_needs_every_verb() {
    let world = World::new();
    let script = "for v in --http1.1 --http2; do for m in GET OPTIONS; do \
curl -s -m 40 -o /dev/null $v -X $m -d 'DELETE /x HTTP/1.1' -w '%{http_code} ' http://api.test:{http}/x; \
curl -s -m 40 -o /dev/null $v -X $m -d x -w '%{http_code} ' https://api.test:{https}/x; done; done";
    let verbs = ["net.get", "net.post", "net.put", "net.delete"];
    let grants = |count| {
        verbs[..count].iter().map(|verb| format!("{verb}: {{hosts: [api.test]}}\n")).collect::<String>()
    };
    assert_eq!(world.run(grants(3).trim_end(), script).stdout, "403 ".repeat(8));
    assert_eq!((world.http.take().len(), world.https.take().len()), (0, 0));
    let plain = "curl -s -m 40 -o /dev/null -X GET -d x -w '%{http_code}' http://api.test:{http}/x";
    assert_eq!(world.run(grants(4).trim_end(), plain).stdout, "200");
}

/// Servers read the body of a DELETE, which therefore needs no more than the verb, and goes with it or not at all.
#[test]
fn a_delete_may_carry_a_body() {
    let world = World::new();
    let script = "for w in '--http1.1 http://api.test:{http}' '--http1.1 https://api.test:{https}' '--http2 https://api.test:{https}'; do \
curl -s -m 60 -X DELETE -d hello $w/x; \
head -c 300000 /dev/zero | curl -s -m 60 -X DELETE -H 'Expect:' -T - $w/y; done; \
curl -s -m 60 -X DELETE -d one http://api.test:{http}/1 --next -s -m 60 -X DELETE -d four http://api.test:{http}/2";
    let ran = world.run("net.delete: {hosts: [api.test]}", script);
    let of = |port: &str| format!("DELETE /x api.test:{{{port}}} 5\nDELETE /y api.test:{{{port}}} 300000\n");
    let last = "DELETE /1 api.test:{http} 3\nDELETE /2 api.test:{http} 4\n";
    assert_eq!(ran.stdout, world.fill(&format!("{}{}{last}", of("http"), of("https").repeat(2))), "{ran:?}");
    let _ = (world.http.take(), world.https.take());
    let refused = "for u in http://api.test:{http} https://api.test:{https}; do \
curl -s -m 60 -o /dev/null -w '%{http_code} ' -X DELETE -d hello $u/x; done";
    let without = "net.get: {hosts: [api.test]}\nnet.post: {hosts: [api.test]}\nnet.put: {hosts: [api.test]}";
    assert_eq!(world.run(without, refused).stdout, "403 403 ");
    assert_eq!((world.http.take().len(), world.https.take().len()), (0, 0));
}

/// Fetching with git is reading; anything else sent to the same path is not.
#[test]
fn what_git_does_not_send_is_no_reading() {
    let world = World::new();
    let script = "for t in application/x-git-upload-pack-request text/plain; do \
curl -s -m 40 -o /dev/null -H \"Content-Type: $t\" -d x -w '%{http_code} ' http://api.test:{http}/r/git-upload-pack; done";
    assert_eq!(world.run("net.get: {hosts: [api.test]}", script).stdout, "200 403 ");
    assert_eq!(world.http.take().len(), 1);
}

/// Chunks that two servers could read differently end the request at once, and say why.
#[test]
fn odd_chunks_are_answered_and_told() {
    let world = World::new();
    let hosts = "{hosts: [\"api.test:$HTTP\"]}";
    let script = r#"
for chunks in (b"zz\r\n", b"5;x=y\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloX", b"5 \r\nhello\r\n", b"-1\r\n"):
    for apart in (False, True):
        s = socket.create_connection(("api.test", {http}), 30); s.settimeout(30)
        s.sendall(b"POST /odd HTTP/1.1\r\nHost: api.test:{http}\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"" if apart else chunks))
        if apart: time.sleep(0.2); s.sendall(chunks)
        show(s.recv(4096)); s.close()
"#;
    let begun = std::time::Instant::now();
    let ran = world.python(&format!("net.get: {hosts}\nnet.post: {hosts}"), script);
    assert_eq!(ran.stdout, "HTTP/1.1 400 Bad Request\n".repeat(10), "{ran:?}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(25), "{:?}", begun.elapsed());
    let requests = world.audit("request");
    let odd = requests.iter().filter(|event| event["body"]["malformed"].is_string()).count();
    assert_eq!(odd, 10, "{requests:?}");
    assert!(world.http.take().iter().all(|seen| seen.body < 6), "nothing beyond the odd chunk arrives");
}

/// With all four verbs requests are read too, however they begin.
#[test]
fn requests_are_read_with_all_verbs_too() {
    let world = World::new();
    let two = Origin::start("127.0.0.2", Speaks::Http2);
    let verbs = ["net.get", "net.post", "net.put", "net.delete"];
    let grants: String = verbs.iter().map(|verb| format!("{verb}: {{hosts: [api.test]}}\n")).collect();
    let script = format!(
        r#"
import subprocess
show(talk(("api.test", {{http}}), b"\r\n\r\nGET /empty HTTP/1.1\r\nHost: api.test:{{http}}\r\nConnection: close\r\n\r\n"))
print(subprocess.run(["curl", "-s", "--http2-prior-knowledge", "http://api.test:{}/two"], capture_output=True).stdout.decode().split()[1])
"#,
        two.port()
    );
    let ran = world.python(grants.trim_end(), &script);
    assert_eq!(ran.stdout, "HTTP/1.1 200 OK\n/two\n", "{ran:?}");
    let requests = world.audit("request");
    for path in ["/empty", "/two"] {
        assert_eq!(requests.iter().filter(|event| event["body"]["path"] == path).count(), 1, "{requests:?}");
    }
}

/// Both sides of HTTP/2 speak first, and the server may be the faster one.
#[test]
fn a_server_that_greets_first_hides_no_request() {
    let two = Origin::start("127.0.0.2", Speaks::Http2);
    let verbs = ["net.get", "net.post", "net.put", "net.delete"];
    let grants: String = verbs.iter().map(|verb| format!("{verb}: {{hosts: [api.test]}}\n")).collect();
    for backend in ["native", "landlock"] {
        let world = World::new().backend(backend);
        let script = format!(
            r#"
if "{backend}" == "landlock":
    s = socket.create_connection(PROXY, 30); s.settimeout(60)
    s.sendall(b"CONNECT api.test:{port} HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n"); show(s.recv(100))
else:
    s = socket.create_connection(("api.test", {port}), 30); print("HTTP/1.1 200 Connection established")
s.settimeout(1.5)
try: print(s.recv(100))
except TimeoutError: print("silent")
s.settimeout(60)
frame = lambda kind, flags, stream, data: struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data
text = lambda name, value: bytes([name, len(value)]) + value
head = b"\x82\x86" + text(4, b"/late") + text(1, b"api.test:{port}")
s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, head))
out = b""
while b"/late" not in out: out += s.recv(65536) or exit("ended")
print("answered")
"#,
            port = two.port()
        );
        let ran = world.python(grants.trim_end(), &script);
        assert_eq!(ran.stdout, "HTTP/1.1 200 Connection established\nsilent\nanswered\n", "{ran:?}");
        let requests = world.audit("request");
        let told = requests.iter().filter(|event| event["body"]["path"] == "/late").count();
        assert_eq!(told, 1, "{requests:?} {:?}", world.audit("connection"));
    }
}
