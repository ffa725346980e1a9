//! What the gateway lets pass is read by other servers as the gateway read it.
//!
//! Random mixtures of lengths, encodings, line ends and hidden requests are sent through the gateway to servers with
//! parsers of their own. Every request that a server read is one that was sent, once, and every answer that the gateway
//! let pass is to a request that the server read.

use crate::matrix::programs;
use crate::world::{Seeded, World, awaited, free_port, seeds};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[test]
fn python_reads_what_the_gateway_read() {
    for seed in seeds(11) {
        let world = World::new();
        let script = world.write("server.py", PYTHON);
        let mut server = Command::new("python3");
        server.arg(script);
        differ(&world, server, None, seed);
    }
}

#[test]
fn node_reads_what_the_gateway_read() {
    for seed in seeds(11) {
        let world = World::new();
        let script = world.write("server.js", NODE);
        let mut server = Command::new("node");
        server.arg(script);
        differ(&world, server, None, seed);
    }
}

#[test]
fn nginx_reads_what_the_gateway_read() {
    let Some(programs) = programs() else { return };
    for seed in seeds(11) {
        let world = World::new();
        let port = free_port("127.0.0.2");
        let dir = world.path("nginx");
        std::fs::create_dir_all(&dir).unwrap();
        let config = NGINX.replace("PORT", &port.to_string()).replace("DIR", &dir.display().to_string());
        let config = world.write("nginx/nginx.conf", config);
        let mut server = Command::new(programs.join("nginx/usr/sbin/nginx"));
        server.arg("-p").arg(&dir).arg("-e").arg("stderr").arg("-c").arg(config);
        differ(&world, server, Some(port), seed);
    }
}

/// HTTP/2: what a server with frames and headers of its own reading read is what was sent, of one host, with nothing in it
/// that belongs to a connection.
#[test]
fn node_reads_of_http2_what_the_gateway_read() {
    for seed in seeds(11) {
        let _told = Seeded(seed);
        let world = World::new();
        let script = world.write("server.js", NODE_TWO);
        let mut server = Server::start(Command::new("node").arg(script));
        let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
        let port: u16 = lines.next().unwrap().unwrap().parse().unwrap();
        let ran = world.python(&reading_and_sending(port), &filled(ATTACKS_TWO, port, seed));
        drop(server);
        assert!(ran.stdout.ends_with("done\n"), "{ran:?}");
        let sent: Vec<&str> = ran.stdout.lines().collect();
        let read: Vec<serde_json::Value> =
            lines.map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap()).collect();
        let text = |one: &serde_json::Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        for one in &read {
            let (line, authority) = (text(one, "line"), text(one, "authority"));
            assert!(sent.contains(&line.as_str()), "read otherwise than sent: {one}");
            assert_eq!(authority, format!("api.test:{port}"), "{one}");
            let host = text(one, "host");
            assert!(host.is_empty() || host == authority, "{one}");
            for name in ["connection", "transfer-encoding", "keep-alive", "proxy-connection", "upgrade"] {
                assert!(!one["names"].as_array().unwrap().contains(&name.into()), "{one}");
            }
        }
        let seen = count(read.iter().map(|one| text(one, "line").rsplit_once(' ').unwrap().0.to_owned()));
        assert!(seen.values().all(|times| *times == 1), "read more than once: {seen:?}");
        let odd: Vec<_> = answered(&world).into_keys().filter(|line| !seen.contains_key(line)).collect();
        assert!(odd.is_empty(), "passed by the gateway and not read: {odd:?}");
        assert!(seen.len() > 50, "only {} requests came through: {ran:?}", seen.len());
        assert!(seen.len() < 200, "what is odd came through: {ran:?}");
    }
}

/// A server under test; ended when dropped.
struct Server(Child);

impl Server {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// Sends the mixtures to a server that prints its port, unless that is known, and then each request it read.
fn differ(world: &World, mut command: Command, port: Option<u16>, seed: u64) {
    let _told = Seeded(seed);
    let mut server = Server::start(&mut command);
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let port = port.unwrap_or_else(|| lines.next().unwrap().unwrap().parse().unwrap());
    awaited("the server listens", || TcpStream::connect(("127.0.0.2", port)).is_ok());
    let ran = world.python(&reading_and_sending(port), &filled(ATTACKS, port, seed));
    // A server that says no to this has told of all that came before.
    let mut last = TcpStream::connect(("127.0.0.2", port)).unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = (last.write_all(b"?\r\n\r\n"), last.read_to_end(&mut Vec::new()));
    drop(server);
    assert!(ran.stdout.ends_with("done\n"), "{ran:?}");
    let seen = count(lines.map_while(Result::ok));
    let passed = answered(world);
    assert!(seen.len() > 50, "only {} requests came through: {ran:?}", seen.len());
    assert!(seen.keys().all(|line| !line.contains("hidden")), "a hidden request was read: {seen:?}");
    // A client that has waited long enough hangs up, so not every request that was read was also answered.
    let sent = count(ran.stdout.lines().map(str::to_owned));
    let odd: Vec<_> = seen.iter().filter(|(line, times)| sent.get(*line) != Some(times)).collect();
    assert!(odd.is_empty(), "read otherwise than sent: {odd:?}");
    let odd: Vec<_> = passed.iter().filter(|(line, times)| seen.get(*line) != Some(times)).collect();
    assert!(odd.is_empty(), "passed by the gateway and not read: {odd:?}");
    assert!(passed.len() > 50, "only {} answers came back: {ran:?}", passed.len());
}

fn reading_and_sending(port: u16) -> String {
    let hosts = format!("{{hosts: [\"api.test:{port}\"]}}");
    format!("net.get: {hosts}\nnet.post: {hosts}")
}

fn filled(script: &str, port: u16, seed: u64) -> String {
    script.replace("PORT", &port.to_string()).replace("SEED", &seed.to_string())
}

/// What the gateway let pass and was answered well, by its audit.
fn answered(world: &World) -> BTreeMap<String, usize> {
    let text =
        |event: &serde_json::Value, key: &str| event["body"][key].as_str().unwrap_or_default().to_owned();
    let requests = world.audit("request").into_iter();
    let allowed = requests.filter(|event| event["body"]["status"] == 200);
    count(allowed.map(|event| format!("{} {}", text(&event, "method"), text(&event, "path"))))
}

fn count(lines: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

const PYTHON: &str = r#"
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
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

/// Requests that it refused itself are not printed: they were read by nobody behind it.
const NGINX: &str = r#"
daemon off; master_process off; pid DIR/pid; worker_processes 1; error_log stderr;
events { worker_connections 64; }
http {
    client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
    log_format said "$request_method $request_uri";
    map $status $fine { 200 1; default 0; }
    access_log /dev/stdout said if=$fine;
    server { listen 127.0.0.2:PORT; location / { return 200 "ok"; } }
}
"#;

const ATTACKS: &str = r#"
import random
random.seed(SEED)
H = b"Host: api.test:PORT\r\n"
hidden = b"POST /hidden HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n\r\n"
pieces = [b"Content-Length: %d\r\n" % len(hidden), b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-encoding: identity\r\n",
  b"Transfer-Encoding:\tchunked\r\n", b" Transfer-Encoding: chunked\r\n", b"Content-Length: +0\r\n", b"Content-Length : 0\r\n", b"X: y\n", b"X: y\r",
  b"Transfer-Encoding: chunked, identity\r\n", b"Expect: 100-continue\r\n", b"Connection: keep-alive\r\n", b"Connection: close\r\n", b"Content-Length: 0x10\r\n",
  b"TRANSFER-ENCODING: CHUNKED\r\n", b"Content-Length: 00\r\n", b"Connection: Transfer-Encoding\r\n", b"Content_Length: 5\r\n", b"X-A: \xe9\r\n", b"\r\n"]
bodies = [b"X" + hidden, b"0\r\n\r\nX" + hidden, b"%x\r\n" % len(hidden) + hidden + b"\r\n0\r\n\r\n", b"", b"0\r\n" + hidden, b"0\n\n" + hidden,
  b"%X\r\n" % len(hidden) + hidden + b"\r\n0\r\n\r\n", b"0;x=y\r\n\r\n" + hidden, b"1\r\nab\r\n0\r\n\r\n" + hidden, b"-1\r\n" + hidden]
plain = [b"", b"Content-Length: 0\r\n", b"Connection: close\r\n", b"Content-Length: %d\r\n" % len(hidden), b"Transfer-Encoding: chunked\r\n"]
fitting = {plain[3]: hidden, plain[4]: bodies[2]}
def meet(data):
    s = socket.create_connection(("api.test", PORT), 30); s.settimeout(30); out = b""
    try:
        s.sendall(data)
        while b"\r\n\r\n" not in out or out.startswith(b"HTTP/1.1 200") and not out.endswith(b"ok"):
            d = s.recv(65536)
            if not d: break
            out += d
    except OSError: pass
    s.close()
for i in range(400):
    method = random.choice([b"GET", b"GET", b"POST"]); print(method.decode(), "/ok%d" % i)
    line = b"%s /ok%d HTTP/1.%d\r\n" % (method, i, random.choice([1, 1, 1, 0])) + H
    if i % 4 == 0:
        piece = random.choice(plain)
        meet(line + piece + b"\r\n" + fitting.get(piece, b""))
    else:
        talk(("api.test", PORT), line + b"".join(random.sample(pieces, random.randrange(0, 4))) + b"\r\n" + random.choice(bodies), 0.05)
print("done")
"#;

const NODE_TWO: &str = r#"
const s = require("http2").createServer();
s.on("stream", (stream, h) => {
  let size = 0; stream.on("error", () => {}); stream.on("data", (d) => size += d.length);
  stream.on("end", () => {
    console.log(JSON.stringify({ line: h[":method"] + " " + h[":path"] + " " + size, authority: h[":authority"], host: h.host, names: Object.keys(h) }));
    if (!stream.destroyed) { stream.respond({ ":status": 200 }); stream.end("ok"); }
  });
});
s.listen(0, "127.0.0.2", () => console.log(s.address().port));
"#;

/// Every request is a connection of its own, with frames written by hand: no library would send these.
const ATTACKS_TWO: &str = r#"
import random
random.seed(SEED)
def frame(kind, flags, stream, body=b""): return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body
def head(lines):
    out = b""
    for n, v in lines: out += b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v
    return out
HOST = b"api.test:PORT"
def pseudo(method, path): return [(b":method", method), (b":scheme", b"http"), (b":authority", HOST), (b":path", path)]
def put(name, value): return lambda l: [(n, value if n == name else v) for n, v in l]
def without(name): return lambda l: [(n, v) for n, v in l if n != name]
def more(*pairs): return lambda l: l + list(pairs)
def first(*pairs): return lambda l: list(pairs) + l
odd = [more((b":path", b"/hidden")), first((b":path", b"/hidden")), more((b":method", b"DELETE")), first((b":authority", b"other.test:PORT")),
  more((b":authority", HOST)), more((b"host", b"other.test:PORT")), more((b"host", b"")), more((b"host", HOST), (b"host", b"other.test")), put(b":authority", b"other.test:PORT"),
  put(b":authority", b"x@" + HOST), put(b":authority", b"api.test"), put(b":authority", b""), put(b":authority", HOST + b"/hidden"), without(b":authority"), without(b":path"), without(b":method"), without(b":scheme"),
  put(b":path", b""), put(b":path", b"hidden"), put(b":path", b"*"), put(b":path", b"http://other.test/hidden"), put(b":path", b"/ hidden"), put(b":path", b"/hidden\r\nx: y"),
  put(b":scheme", b"https"), put(b":scheme", b"ftp"), put(b":method", b"GET /hidden"), put(b":method", b"get"), put(b":method", b"CONNECT"), more((b":protocol", b"websocket")), more((b":hidden", b"x")),
  more((b"connection", b"close")), more((b"connection", b"x-a"), (b"x-a", b"b")), more((b"transfer-encoding", b"chunked")), more((b"keep-alive", b"1")), more((b"upgrade", b"websocket")),
  more((b"proxy-connection", b"close")), more((b"te", b"gzip")), more((b"te", b"trailers")), more((b"X-Upper", b"y")), more((b"x-a", b"b\r\nx-c: d")), more((b"x-a", b"b\0c")), more((b"", b"x")), more((b"x a", b"y")),
  more((b"content-length", b"3")), more((b"content-length", b"0")), more((b"content-length", b"5"), (b"content-length", b"6")), more((b"content-length", b"+5")), more((b"content-length", b"99")), more((b"content-length", b"5, 5"))]
def meet(data):
    s = socket.create_connection(("api.test", PORT), 30); s.settimeout(0.3); out = b""
    try:
        s.sendall(data)
        # The answer, a reset of the stream or the end of the connection.
        while not out.endswith(b"ok") and b"\0\0\4\3\0\0\0\0\1" not in out:
            d = s.recv(65536)
            if not d: break
            out += d
    except OSError: pass
    s.close()
for i in range(300):
    method = random.choice([b"GET", b"POST"]); path = b"/ok%d" % i
    lines = pseudo(method, path)
    plain = i % 4 == 0
    if not plain:
        for change in random.sample(odd, random.choice([1, 1, 2])): lines = change(lines)
    body = b"" if method == b"GET" else b"x" * random.choice([0, 5])
    if plain and method == b"POST": lines = more((b"content-length", b"%d" % len(body)))(lines)
    print(method.decode(), path.decode(), len(body))
    if method == b"POST": frames = frame(1, 4, 1, head(lines)) + frame(0, 0, 1, body) + (frame(1, 5, 1, head([(b":path", b"/hidden")])) if random.randrange(9) == 0 and not plain else frame(0, 1, 1))
    else: frames = frame(1, 5, 1, head(lines))
    meet(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frames)
print("done")
"#;
