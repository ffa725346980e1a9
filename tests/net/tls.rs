//! HTTPS: opened and judged with fewer than four verbs, untouched with all of them.

use crate::world::{Ran, World};
use hyper::Version;

const READ: &str = "net.get: {hosts: [\"api.test:$HTTPS\"]}";

fn all(hosts: &str) -> String {
    ["get", "post", "put", "delete"].map(|verb| format!("net.{verb}: {{hosts: [{hosts}]}}")).join("\n")
}

#[test]
fn requests_over_tls_need_their_verbs() {
    for backend in ["native", "bwrap", "landlock"] {
        let world = World::new().backend(backend);
        for version in ["--http1.1", "--http2"] {
            let script = format!(
                "for m in GET POST PUT DELETE; do curl -s -m 40 -o out {version} -X $m -w \"$m %{{http_code}} %{{http_version}}\\n\" \
https://api.test:{{https}}/x; done; grep code out"
            );
            let ran = world.run(READ, &script);
            let number = if version == "--http2" { "2" } else { "1.1" };
            let expected = format!(
                "GET 200 {number}\nPOST 403 {number}\nPUT 403 {number}\nDELETE 403 {number}\n  \"code\": \"capability_absent\",\n"
            );
            assert_eq!(ran.stdout, expected, "{backend} {ran:?}");
            let seen = world.https.take();
            assert_eq!(seen.len(), 1, "{seen:?}");
            let expected = if version == "--http2" { Version::HTTP_2 } else { Version::HTTP_11 };
            assert_eq!((seen[0].method.as_str(), seen[0].version), ("GET", expected));
        }
    }
}

#[test]
fn an_inspected_host_is_verified_outside() {
    let world = World::new();
    world.write("ws/origin.pem", "");
    let ran = world.run(READ, "curl -s -m 40 https://api.test:{https}/x; echo $?");
    assert_ne!(ran.stdout, "0\n", "{ran:?}");
    assert!(world.https.take().is_empty());
}

#[test]
fn all_four_verbs_leave_tls_untouched() {
    let world = World::new();
    let grants = all("\"api.test:$HTTPS\"");
    // The origin's own certificate is seen, which only its own authority vouches for.
    let ran = world.run(&grants, "curl -s {ca} -X DELETE https://api.test:{https}/x; curl -s https://api.test:{https}/x; echo $?; env | grep -c SSL_CERT");
    assert_eq!(ran.stdout, world.fill("DELETE /x api.test:{https} 0\n60\n0\n"), "{ran:?}");
}

fn greeting(world: &World, grants: &str, name: &str) -> Ran {
    let script = format!(
        r#"
c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
try:
    s = c.wrap_socket(socket.create_connection(("api.test", {{https}}), 30), server_hostname={name})
    s.sendall(b"GET /x HTTP/1.1\r\nHost: api.test:{{https}}\r\nConnection: close\r\n\r\n"); show(s.recv(4096))
except OSError as error: print(type(error).__name__)
"#
    );
    world.python(grants, &script)
}

#[test]
fn a_greeting_names_the_host_it_goes_to() {
    let world = World::new();
    for grants in [READ.to_owned(), all("\"api.test:$HTTPS\", \"other.test:$HTTPS\"")] {
        assert_eq!(greeting(&world, &grants, "\"api.test\"").stdout, "HTTP/1.1 200 OK\n");
        assert_eq!(world.https.take().len(), 1);
        for name in ["\"other.test\"", "\"evil.test\"", "None"] {
            let ran = greeting(&world, &grants, name);
            assert!(!ran.stdout.contains("200"), "{grants} {name} {ran:?}");
            assert!(world.https.take().is_empty(), "{name}");
        }
    }
}

#[test]
fn host_and_authority_are_those_of_the_connection() {
    let world = World::new();
    let grants = "net.get: {hosts: [\"api.test:$HTTPS\", \"other.test:$HTTPS\"]}";
    for version in ["--http1.1", "--http2"] {
        let script = format!(
            "curl -s -m 40 {version} -o /dev/null -w '%{{http_code}}\n' -H 'Host: other.test:{{https}}' https://api.test:{{https}}/x"
        );
        let ran = world.run(grants, &script);
        assert_eq!(ran.stdout, "421\n", "{version} {ran:?}");
        assert!(world.https.take().is_empty());
    }
}

#[test]
fn bodies_trailers_and_streams_pass_when_inspected() {
    let world = World::new();
    let grants = "net.get: {hosts: [\"api.test:$HTTPS\"]}\nnet.put: {hosts: [\"api.test:$HTTPS\"]}\nnet.post: {hosts: [\"api.test:$HTTPS\"]}";
    let script = "head -c 3000000 /dev/zero > big; for v in --http1.1 --http2; do \
curl -s $v -T big https://api.test:{https}/put; curl -s $v https://api.test:{https}/big/5000000 | wc -c; \
curl -s $v https://api.test:{https}/ticks | grep -c data; done; \
curl -s --http2 -D heads https://api.test:{https}/trailers > /dev/null; curl -sv --http2 https://api.test:{https}/trailers 2>&1 | grep -c 'grpc-status: 0'";
    let ran = world.run(grants, script);
    let once = world.fill("PUT /put api.test:{https} 3000000\n5000000\n5\n");
    assert_eq!(ran.stdout, format!("{once}{once}1\n"), "{ran:?}");
    // Both protocols are told of with what passed.
    let events = world.audit("request");
    let bytes = |path: &str, key: &str| -> Vec<u64> {
        let of = events.iter().filter(|event| event["body"]["path"] == path);
        of.map(|event| event["body"][key].as_u64().unwrap()).collect()
    };
    let (sent, received) = (bytes("/put", "sent"), bytes("/big/5000000", "received"));
    assert_eq!((sent.len(), received.len()), (2, 2), "{events:?}");
    assert!(sent.iter().all(|sent| (3_000_000..3_001_000).contains(sent)), "{sent:?}");
    assert!(received.iter().all(|received| (5_000_000..5_700_000).contains(received)), "{received:?}");
}

#[test]
fn a_websocket_passes_when_inspected() {
    let world = World::new();
    let script = r#"
c = ssl.create_default_context()
s = c.wrap_socket(socket.create_connection(("api.test", {https}), 30), server_hostname="api.test")
s.sendall(b"GET /ws HTTP/1.1\r\nHost: api.test:{https}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
head = s.recv(4096); show(head)
if b" 101 " in head: s.sendall(b"ping"); print(s.recv(100).decode())
"#;
    let ran = world.python(&format!("{READ}\nnet.post: {{hosts: [\"*.test\"]}}"), script);
    assert_eq!(ran.stdout, "HTTP/1.1 101 Switching Protocols\nping\n", "{ran:?}");
    let ran = world.python(READ, script);
    assert_eq!(ran.stdout, "HTTP/1.1 403 Forbidden\n", "{ran:?}");
}

#[test]
fn what_is_neither_tls_nor_http_needs_all_four_verbs() {
    let world = World::new();
    let script = r#"print(talk(("api.test", {http}), b"\x00\x01\x02 hello"))"#;
    let ran = world.python("net.get: {hosts: [\"api.test\"]}", script);
    assert_eq!(ran.stdout, "b'<ConnectionResetError>'\n", "{ran:?}");
    let events = world.audit("connection");
    assert!(events.iter().any(|event| event["body"]["needs"] == "all"), "{events:?}");
}

/// As gRPC talks: each side goes on when it has heard the other, several calls share a connection, and both end with
/// trailers.
const CHAT: &str = r#"
const h = require("http2").connect("https://api.test:{https}");
const chat = (name) => new Promise((done, fail) => {
  const r = h.request({ ":method": "POST", ":path": "/chat/" + name, te: "trailers", "content-type": "application/grpc" }, { waitForTrailers: true });
  let heard = 0, said = [];
  r.on("response", (head) => said.push(head[":status"]));
  r.on("data", (d) => { said.push(String(d)); if (++heard < 5) r.write(name + heard); else r.end(); });
  r.on("wantTrailers", () => r.sendTrailers({ "x-last": name }));
  r.on("trailers", (t) => said.push(t["x-last"], t["grpc-status"]));
  r.on("end", () => done(said.join(" "))); r.on("error", fail); r.write(name + 0);
});
Promise.all(["a", "b", "c"].map(chat)).then((all) => { console.log(all.join("\n")); h.close(); });
"#;

#[test]
fn both_ways_are_open_at_once_and_end_with_trailers() {
    let world = World::new();
    world.write("ws/chat.js", world.fill(CHAT));
    let hosts = "{hosts: [\"api.test:$HTTPS\"]}";
    let ran = world.run(&format!("net.get: {hosts}\nnet.post: {hosts}"), "timeout 60 node chat.js");
    let one = |name: &str| format!("200 {name}0 {name}1 {name}2 {name}3 {name}4 {name} 0\n");
    assert_eq!(ran.stdout, ["a", "b", "c"].map(one).concat(), "{ran:?}");
    let events = world.audit("request");
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(
        events.iter().all(|event| event["body"]["status"] == 200 && event["body"].get("end").is_none()),
        "{events:?}"
    );
    let refused = world.run(&format!("net.get: {hosts}"), "timeout 60 node chat.js");
    assert!(!refused.stdout.contains("a1"), "{refused:?}");
}

/// The bundle is laid over the system's own, so that a program which reads only that need not be told of it.
#[test]
fn a_program_that_reads_the_systems_bundle_only_trusts_what_is_inspected() {
    for backend in ["native", "bwrap"] {
        let world = World::new().backend(backend);
        let script = "env -u SSL_CERT_FILE wget --no-config -q -O - https://api.test:{https}/w";
        let ran = world.run("net.get: {hosts: [api.test]}", script);
        assert_eq!(ran.stdout, world.fill("GET /w api.test:{https} 0\n"), "{backend} {ran:?}");
    }
}
