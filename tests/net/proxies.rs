//! Programs that were told of a proxy, and the proxy further out that the caller has.

use crate::origin::{Origin, Speaks};
use crate::world::World;

fn all(hosts: &str) -> String {
    ["get", "post", "put", "delete"].map(|verb| format!("net.{verb}: {{hosts: [{hosts}]}}")).join("\n")
}

#[test]
fn the_proxy_speaks_http_connect_and_socks() {
    for backend in ["native", "bwrap", "landlock"] {
        let world = World::new().backend(backend);
        let grants = all("\"api.test:$HTTP\", \"api.test:$HTTPS\"");
        let script = "S=socks5h://${SBX_PROXY#http://}; for p in $SBX_PROXY $S; do \
curl -s -x $p http://api.test:{http}/plain; curl -s -x $p {ca} https://api.test:{https}/tls; done; curl -s -p -x $SBX_PROXY http://api.test:{http}/tunnel";
        let ran = world.run(&grants, script);
        let once = "GET /plain api.test:{http} 0\nGET /tls api.test:{https} 0\n";
        assert_eq!(
            ran.stdout,
            world.fill(&format!("{once}{once}GET /tunnel api.test:{{http}} 0\n")),
            "{backend} {ran:?}"
        );
    }
}

/// Programs that look names up by themselves and then ask the proxy for the address.
#[test]
fn the_proxy_knows_addresses_of_names_inside() {
    let world = World::new();
    let own = Origin::start("127.0.0.1", Speaks::Http);
    let script = format!(
        "S=socks5://${{SBX_PROXY#http://}}; for p in $SBX_PROXY $S; do curl -s -p -x $p http://$(getent hosts api.test | cut -d' ' -f1):{{http}}/ -H 'Host: api.test:{{http}}'; \
         for h in localhost 127.0.0.1; do curl -s -o /dev/null -w '%{{http_code}} ' --noproxy '' -p -x $p http://$h:{}/; done; done",
        own.port()
    );
    let ran =
        world.run(&format!("net.get: {{hosts: [\"api.test\", \"localhost:{}\"]}}", own.port()), &script);
    let once = world.fill("GET / api.test:{http} 0\n200 200 ");
    assert_eq!(ran.stdout, once.repeat(2), "{ran:?}");
}

#[test]
fn the_proxy_judges_each_request() {
    let world = World::new();
    let grants = "net.get: {hosts: [\"api.test\"]}";
    let script = "code() { curl -s -m 40 -o /dev/null -w '%{http_code} %{http_connect}\n' -x \"$@\"; }; S=socks5h://${SBX_PROXY#http://}; \
code $SBX_PROXY http://api.test:{http}/; code $SBX_PROXY -d x http://api.test:{http}/; code $SBX_PROXY http://other.test:{http}/; \
code $SBX_PROXY https://api.test:{https}/; code $SBX_PROXY -d x https://api.test:{https}/; code $SBX_PROXY https://other.test:{https}/; \
code $S http://api.test:{http}/; code $S -d x http://api.test:{http}/; code $S http://other.test:{http}/";
    let ran = world.run(grants, script);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let expected =
        ["200 000", "403 000", "403 000", "200 200", "403 200", "000 403", "200 000", "403 000", "000 000"];
    assert_eq!(lines, expected, "{ran:?}");
    assert_eq!((world.http.take().len(), world.https.take().len()), (2, 1));
}

#[test]
fn odd_targets_are_refused_by_the_proxy() {
    let world = World::new();
    let script = r#"
for t in (b"127.0.0.2:{http}", b"[::ffff:127.0.0.2]:{http}", b"2130706434:{http}", b"0x7f000002:{http}", b"127.2:{http}", b"api.test\0.x:{http}",
          b"x@api.test:{http}", b"api.test", b"api.test:0", b"api.test:99999", b"evil.test:{http}", b"localhost:{http}"):
    out = talk(PROXY, b"CONNECT " + t + b" HTTP/1.1\r\nHost: " + t + b"\r\n\r\n", 20)
    if b" 200 " in out: print("tunnelled", t)
    out = talk(PROXY, b"GET http://" + t + b"/ HTTP/1.1\r\nHost: api.test:{http}\r\nConnection: close\r\n\r\n", 20)
    if b" 200 " in out: print("passed", t)
for t in (b"api.test:{http}", b"API.test.:{http}"):
    show(talk(PROXY, b"GET http://" + t + b"/ HTTP/1.1\r\nHost: " + t + b"\r\nConnection: close\r\n\r\n", 20))
show(talk(PROXY, b"GET http://api.test:{http}/ HTTP/1.1\r\nHost: other.test:{http}\r\nConnection: close\r\n\r\n", 20))
show(talk(PROXY, b"GET / HTTP/1.1\r\nHost: api.test:{http}\r\nConnection: close\r\n\r\n", 20))
def socks(name, cmd=1):
    s = socket.create_connection(PROXY, 30); s.settimeout(30); out = b""
    s.sendall(b"\5\1\0\5" + bytes([cmd]) + b"\0\3" + bytes([len(name)]) + name + struct.pack(">H", {http}))
    while len(out) < 4: out += s.recv(4 - len(out)) or b"<end>"
    return out
print(socks(b"api.test"), socks(b"api.test", 2), socks(b"evil.test"), socks(b"evil.test\0api.test"))
"#;
    let ran = world.python(&all("\"api.test:$HTTP\""), script);
    let expected = "HTTP/1.1 200 OK\nHTTP/1.1 200 OK\nHTTP/1.1 421 Misdirected Request\nHTTP/1.1 421 Misdirected Request\n\
b'\\x05\\x00\\x05\\x00' b'\\x05\\x00\\x05\\x07' b'\\x05\\x00\\x05\\x02' b'\\x05\\x00\\x05\\x02'\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
    assert_eq!(world.http.take().len(), 2);
}

#[test]
fn variables_that_a_record_names_tell_of_the_proxy() {
    let world = World::new().variable("HTTP_PROXY", "http://secret:word@proxy.example:1");
    let ran = world.run_with(
        "net.get: {hosts: [\"api.test\"]}",
        "env: [HTTP_PROXY, ALL_PROXY]",
        "echo $HTTP_PROXY $ALL_PROXY $https_proxy",
        &[],
    );
    assert_eq!(ran.stdout, "http://127.0.0.1:61080 socks5h://127.0.0.1:61080\n", "{ran:?}");
    let none = world.run("net.get: {hosts: [\"api.test\"]}", "env | grep -i _proxy=");
    assert_eq!(none.stdout, "SBX_PROXY=http://127.0.0.1:61080\n", "{none:?}");
}

/// A proxy that allows CONNECT to one port and knows who asks, and says what it was asked.
const OUTER: &str = r#"
import socket, threading, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.3", 0)); s.listen(); print(s.getsockname()[1], flush=True)
def pump(a, b):
    try:
        while True:
            d = a.recv(65536)
            if not d: break
            b.sendall(d)
        b.shutdown(1)
    except OSError: pass
def one(c):
    head = b""
    while b"\r\n\r\n" not in head: head += c.recv(1)
    lines = head.split(b"\r\n"); auth = [l for l in lines if l.lower().startswith(b"proxy-auth")]
    method, target, _ = lines[0].decode().split()
    print(method, target, auth[0].decode().split()[-1] if auth else "-", flush=True)
    if not auth: return c.sendall(b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
    if method == "CONNECT" and not target.endswith(":" + sys.argv[1]): return c.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
    o = socket.create_connection(("127.0.0.2", int(target.split("/")[2 if "://" in target else 0].rsplit(":", 1)[1])))
    if method == "CONNECT": c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    else: o.sendall(b"\r\n".join(l for l in lines if not l.lower().startswith(b"proxy-")))
    threading.Thread(target=pump, args=(c, o), daemon=True).start(); pump(o, c)
while True: threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
"#;

/// The proxy further out, its port, and what it says.
struct Outer {
    running: std::process::Child,
    port: String,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Outer {
    fn start(world: &World) -> Self {
        let script = world.write("outer.py", OUTER);
        let mut running = std::process::Command::new("python3")
            .arg(script)
            .arg(world.https.port().to_string())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(running.stdout.take().unwrap()));
        let port = lines.next().unwrap().unwrap();
        Self { running, port, lines }
    }

    /// Ends it; what it was asked.
    fn asked(mut self) -> Vec<String> {
        let _ = (self.running.kill(), self.running.wait());
        self.lines.by_ref().map_while(Result::ok).collect()
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        let _ = (self.running.kill(), self.running.wait());
    }
}

/// Connections are asked for with CONNECT, requests of plain HTTP as such, whatever verbs are held.
#[test]
fn a_proxy_further_out_is_used_when_configured() {
    let (me, you) = ("bWU6cHc=", "eW91OnB3");
    let some = "net.get: {hosts: [api.test, direct.test]}\nnet.post: {hosts: [api.test]}".to_owned();
    // With all verbs TLS is the origin's own, and what cannot be reached is reset before anything is said.
    for (grants, trusted, not_reached) in [(some, "", "502"), (all("api.test, direct.test"), "{ca}", "000")] {
        let world = World::new();
        let outer = Outer::start(&world);
        world.resolve("");
        let world = world
            .variable("HTTPS_PROXY", &format!("http://me:pw@127.0.0.3:{}", outer.port))
            .variable("HTTP_PROXY", &format!("http://you:pw@127.0.0.3:{}", outer.port))
            .variable("NO_PROXY", "direct.test");
        world.write("home/.config/sbx/config.yml", "proxy: environment\n");
        let script = "curl -s http://api.test:{http}/a http://api.test:{http}/again; curl -s {trusted} https://api.test:{https}/b; \
head -c 5000000 /dev/zero | curl -s -H 'Expect:' --data-binary @- http://api.test:{http}/body; \
head -c 300000 /dev/zero | curl -s -H 'Transfer-Encoding: chunked' -T - -X POST http://api.test:{http}/chunks; \
curl -s -x $SBX_PROXY http://api.test:{http}/proxied; \
curl -s -m 40 -o /dev/null -w '%{http_code}\n' http://direct.test:{http}/c; env | grep -c pw@";
        let ran = world.run(&grants, &script.replace("{trusted}", trusted));
        assert_eq!(
            ran.stdout,
            world.fill(&format!(
                "{}{not_reached}\n0\n",
                "GET /a api.test:{http} 0\nGET /again api.test:{http} 0\nGET /b api.test:{https} 0\nPOST /body api.test:{http} 5000000\n\
POST /chunks api.test:{http} 300000\nGET /proxied api.test:{http} 0\n"
            )),
            "{ran:?}"
        );
        let plain = |line: &str| format!("{} {you}", world.fill(line));
        let expected = [
            plain("GET http://api.test:{http}/a"),
            format!("CONNECT api.test:{} {me}", world.https.port()),
            plain("POST http://api.test:{http}/body"),
            plain("POST http://api.test:{http}/chunks"),
            plain("GET http://api.test:{http}/proxied"),
        ];
        assert_eq!(outer.asked(), expected, "{grants}");
    }
}

#[test]
fn a_proxy_further_out_that_wants_other_credentials_is_not_heard_inside() {
    let world = World::new();
    let outer = Outer::start(&world);
    let world = world.variable("HTTPS_PROXY", &format!("http://127.0.0.3:{}", outer.port));
    world.write("home/.config/sbx/config.yml", "proxy: environment\n");
    let script = "curl -s -w ' %{http_code}' http://api.test:{http}/a";
    let ran = world.run("net.get: {hosts: [api.test]}", script);
    assert!(ran.stdout.ends_with(" 502") && ran.stdout.contains("credentials"), "{ran:?}");
    assert_eq!(outer.asked(), [world.fill("GET http://api.test:{http}/a -")]);
}

/// The proxy looks names up by itself, so that where they lead is judged before it is asked.
#[test]
fn what_leads_inside_is_not_asked_of_a_proxy_further_out() {
    let world = World::new();
    world.resolve(
        "api.test 127.0.0.2 public\ninside.test 127.0.0.2 private\nmixed.test 127.0.0.2 public\nmixed.test 127.0.0.2 private\n",
    );
    let script = "code() { curl -s -m 40 -o /dev/null -w '%{http_code}/%{http_connect} ' \"$@\"; }; \
for n in api inside mixed unknown; do code http://$n.test:{http}/$n; done; code -x $SBX_PROXY http://unknown.test:{http}/told; \
code -k -x $SBX_PROXY https://inside.test:{https}/; code -k -x $SBX_PROXY https://unknown.test:{https}/; \
code -x $SBX_PROXY http://10.0.0.1:{http}/; code -x $SBX_PROXY http://169.254.169.254/; code -d x http://inside.test:{http}/sent";
    let any = "net.get: {hosts: [\"*\"]}\nnet.post: {hosts: [\"*\"]}";
    let named = format!("{any}\nnet.get: {{hosts: [inside.test, mixed.test, unknown.test]}}");
    let through = |names: &[&str]| -> Vec<String> {
        let line = |name: &&str| world.fill(&format!("GET http://{name}.test:{{http}}/{name} eW91OnB3"));
        names.iter().map(line).collect()
    };
    for (grants, expected, names) in [
        (
            any,
            "200/000 403/000 403/000 403/000 403/000 000/403 000/403 403/000 403/000 403/000 ",
            &["api"][..],
        ),
        (
            &named,
            "200/000 200/000 200/000 200/000 200/000 000/200 000/200 403/000 403/000 403/000 ",
            &["api", "inside", "mixed", "unknown"],
        ),
    ] {
        let outer = Outer::start(&world);
        let proxy = format!("http://you:pw@127.0.0.3:{}", outer.port);
        world.write("home/.config/sbx/config.yml", format!("proxy: {proxy}\n"));
        let ran = world.run_with(grants, "", script, &["--explain"]);
        assert_eq!(ran.stdout, expected, "{grants} {ran:?}");
        let asked: Vec<String> = outer
            .asked()
            .into_iter()
            .filter(|line| !line.starts_with("CONNECT") && !line.contains("/told"))
            .collect();
        assert_eq!(asked, through(names), "{grants}");
        let told =
            "where unknown.test leads is not known here, and only a grant that names the host reaches it";
        assert_eq!(ran.stderr.contains(told), grants == any, "{ran:?}");
    }
}

/// A proxy that leads every connection it is asked for to one place.
fn leading_to(port: u16) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.3:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut near in listener.incoming().flatten() {
            std::thread::spawn(move || -> std::io::Result<()> {
                use std::io::{Read as _, Write as _};
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    near.read_exact(&mut byte)?;
                    head.extend(byte);
                }
                let mut far = std::net::TcpStream::connect(("127.0.0.2", port))?;
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                let (mut from, mut to) = (near.try_clone()?, far.try_clone()?);
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
                std::io::copy(&mut far, &mut near).map(drop)
            });
        }
    });
    own
}

/// What is not TLS passes on any port of a host of which all verbs are held; what may be TLS must name its host.
#[test]
fn ssh_passes_where_tls_is_expected() {
    let world = World::new();
    let listener = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                use std::io::{Read as _, Write as _};
                let mut room = [0; 100];
                let read = stream.read(&mut room).unwrap_or(0);
                let _ = stream.write_all(&[b"heard ", &room[..read]].concat());
            });
        }
    });
    world.write("home/.config/sbx/config.yml", format!("proxy: http://127.0.0.3:{}\n", leading_to(port)));
    let script = r#"
def hello(name):
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    try: ssl.create_default_context().wrap_bio(i, o, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError: pass
    return o.read()
for first, rest in ((b"SSH-2.0-OpenSSH_9.6\r\n", b""), (b"\0\0\0\x08\x04\xd2\x16\x2f", b""), (b"\x80\x2e\x01\x03\x01", b""),
        (b"\x16\x02\x01", b""), (hello("other.test"), b""), (hello("api.test"), b""), (b"\x16", hello("other.test")[1:])):
    s = socket.create_connection(("api.test", 443), 30); s.settimeout(30)
    try:
        s.sendall(first)
        if rest: time.sleep(7); s.sendall(rest)
        print(s.recv(18))
    except OSError as error: print(type(error).__name__)
"#;
    let ran = world.python(&all("\"api.test:443\""), script);
    let reset = "ConnectionResetError\n";
    let expected = format!(
        "b'heard SSH-2.0-Open'\nb'heard \\x00\\x00\\x00\\x08\\x04\\xd2\\x16/'\n{reset}{reset}{reset}b'heard \\x16\\x03\\x01"
    );
    assert!(ran.stdout.starts_with(&expected) && ran.stdout.ends_with(reset), "{ran:?}");
    let ran = world.python("net.get: {hosts: [\"api.test:443\"]}", script);
    assert!(!ran.stdout.contains("heard"), "{ran:?}");
}
