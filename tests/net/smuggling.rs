//! Requests that two programs could read differently are read by none.

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
    let expected = "['HTTP/1.1 200 OK', 'HTTP/1.1 403 Forbidden', 'HTTP/1.1 200 OK']\nHTTP/1.1 200 OK\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
    let paths: Vec<String> = world.http.take().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/1", "/3", "/4"]);
}

/// What the gateway lets pass is read by other servers as the gateway read it.
#[test]
fn other_servers_read_what_the_gateway_read() {
    let world = World::new();
    for (name, program) in [("python3", PYTHON), ("node", NODE)] {
        if !crate::world::has(name) {
            continue;
        }
        let script = world.write(if name == "node" { "server.js" } else { "server.py" }, program);
        let mut server = std::process::Command::new(name)
            .arg(script)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(server.stdout.take().unwrap()));
        let port = lines.next().unwrap().unwrap();
        let attacks = ATTACKS.replace("PORT", &port);
        let ran = world.python(&format!("net.get: {{hosts: [\"api.test:{port}\"]}}"), &attacks);
        let _ = (server.kill(), server.wait());
        assert!(ran.stdout.ends_with("done\n"), "{ran:?}");
        let seen: Vec<String> = lines.map_while(Result::ok).collect();
        // Each request that was sent whole counts once, and none that was hidden in another is seen.
        assert!(!seen.is_empty(), "{name} saw nothing");
        assert!(seen.iter().all(|line| line.starts_with("GET /ok")), "{name}: {seen:?}");
    }
}

const PYTHON: &str = r#"
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def handle_one_request(self):
        super().handle_one_request()
    def any(self):
        n = int(self.headers.get("content-length") or 0)
        if n: self.rfile.read(n)
        elif (self.headers.get("transfer-encoding") or "").lower() == "chunked":
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16); self.rfile.read(size); self.rfile.readline()
                if size == 0: break
        print(self.command, self.path, flush=True)
        self.send_response(200); self.send_header("content-length", "2"); self.end_headers(); self.wfile.write(b"ok")
    do_GET = do_POST = do_PUT = do_DELETE = any
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.2", 0), H); print(s.server_address[1], flush=True); s.serve_forever()
"#;

const NODE: &str = r#"
const s = require("http").createServer((q, r) => { q.resume(); q.on("end", () => { console.log(q.method + " " + q.url); r.end("ok"); }); });
s.listen(0, "127.0.0.2", () => console.log(s.address().port));
"#;

const ATTACKS: &str = r#"
import random
random.seed(11)
H = b"Host: api.test:PORT\r\n"
hidden = b"POST /hidden HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n\r\n"
pieces = [b"Content-Length: %d\r\n" % len(hidden), b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-encoding: identity\r\n",
  b"Transfer-Encoding:\tchunked\r\n", b" Transfer-Encoding: chunked\r\n", b"Content-Length: +0\r\n", b"Content-Length : 0\r\n", b"X: y\n", b"X: y\r",
  b"Transfer-Encoding: chunked, identity\r\n", b"Expect: 100-continue\r\n", b"Connection: keep-alive\r\n", b"Connection: close\r\n", b"Content-Length: 0x10\r\n"]
bodies = [hidden, b"0\r\n\r\n" + hidden, b"%x\r\n" % len(hidden) + hidden + b"\r\n0\r\n\r\n", b"", b"0\r\n" + hidden, b"0\n\n" + hidden]
for i in range(250):
    head = b"GET /ok%d HTTP/1.%d\r\n" % (i, random.choice([1, 1, 1, 0])) + H + b"".join(random.sample(pieces, random.randrange(0, 4))) + b"\r\n"
    talk(("api.test", PORT), head + random.choice(bodies), 0.15)
print("done")
"#;
