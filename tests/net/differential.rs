//! What the gateway lets pass is read by other servers as the gateway read it.
//!
//! Random mixtures of lengths, encodings, line ends and hidden requests are sent through the gateway to servers with
//! parsers of their own. Every request that a server read is one that was sent, once, and every answer that the gateway
//! let pass is to a request that the server read.

use crate::matrix::programs;
use crate::world::{World, awaited, free_port};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[test]
fn python_reads_what_the_gateway_read() {
    let world = World::new();
    let script = world.write("server.py", PYTHON);
    let mut server = Command::new("python3");
    server.arg(script);
    differ(&world, server, None);
}

#[test]
fn node_reads_what_the_gateway_read() {
    let world = World::new();
    let script = world.write("server.js", NODE);
    let mut server = Command::new("node");
    server.arg(script);
    differ(&world, server, None);
}

#[test]
fn nginx_reads_what_the_gateway_read() {
    let Some(programs) = programs() else { return };
    let world = World::new();
    let port = free_port("127.0.0.2");
    let dir = world.path("nginx");
    std::fs::create_dir_all(&dir).unwrap();
    let config = NGINX.replace("PORT", &port.to_string()).replace("DIR", &dir.display().to_string());
    let config = world.write("nginx/nginx.conf", config);
    let mut server = Command::new(programs.join("nginx/usr/sbin/nginx"));
    server.arg("-p").arg(&dir).arg("-e").arg("stderr").arg("-c").arg(config);
    differ(&world, server, Some(port));
}

/// A server under test; ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// Sends the mixtures to a server that prints its port, unless that is known, and then each request it read.
fn differ(world: &World, mut command: Command, port: Option<u16>) {
    let mut server =
        Server(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let port = port.unwrap_or_else(|| lines.next().unwrap().unwrap().parse().unwrap());
    awaited("the server listens", || TcpStream::connect(("127.0.0.2", port)).is_ok());
    let hosts = format!("{{hosts: [\"api.test:{port}\"]}}");
    let ran = world
        .python(&format!("net.get: {hosts}\nnet.post: {hosts}"), &ATTACKS.replace("PORT", &port.to_string()));
    // A server that says no to this has told of all that came before.
    let mut last = TcpStream::connect(("127.0.0.2", port)).unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = (last.write_all(b"?\r\n\r\n"), last.read_to_end(&mut Vec::new()));
    drop(server);
    assert!(ran.stdout.ends_with("done\n"), "{ran:?}");
    let seen = count(lines.map_while(Result::ok));
    let text =
        |event: &serde_json::Value, key: &str| event["body"][key].as_str().unwrap_or_default().to_owned();
    let requests = world.audit("request").into_iter();
    let allowed = requests.filter(|event| event["body"]["status"] == 200);
    let passed = count(allowed.map(|event| format!("{} {}", text(&event, "method"), text(&event, "path"))));
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
random.seed(11)
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
