//! Names inside: granted ones and no others, asked by datagram and by stream.

use crate::world::World;

const GRANTS: &str =
    "net.get: {hosts: [\"api.test\", \"*.api.test\", \"inside.test:$HTTP\", \"missing.test\"]}";

const ASK: &str = r#"
def ask(name, kind, tcp=False, edns=True, server="127.0.0.1"):
    q = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 1 if edns else 0)
    q += b"".join(bytes([len(l)]) + l.encode() for l in name.split(".") if l) + b"\0" + struct.pack(">HH", kind, 1)
    if edns: q += b"\0" + struct.pack(">HHIH", 41, 1232, 0, 0)
    if tcp:
        s = socket.create_connection((server, 53), 30); s.sendall(struct.pack(">H", len(q)) + q)
        n = struct.unpack(">H", s.recv(2))[0]; d = s.recv(n)
    else:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); d = b""
        for attempt in range(20):  # as resolvers do, because a datagram may be lost
            try: s.sendto(q, (server, 53)); d = s.recv(2000); break
            except TimeoutError: pass
    rcode = d[3] & 15; answers = struct.unpack(">H", d[6:8])[0]
    return rcode, answers, d
"#;

#[test]
fn granted_names_have_addresses_and_others_do_not_exist() {
    let world = World::new();
    let script = format!(
        "{ASK}{}",
        r#"
for name in ("api.test", "API.Test", "www.api.test", "inside.test", "inside.api.test", "missing.test", "other.test", "xapi.test", "api.test.other.test", "localhost", "sbx"):
    for tcp in (False, True):
        r = ask(name, 1, tcp); print(name, r[0], r[1])
a = socket.gethostbyname("api.test"); print(a.startswith("198.18."), a == socket.gethostbyname("API.TEST."))
for kind in (28, 65, 33, 16, 255): print(kind, ask("api.test", kind)[:2])
print(socket.gethostbyaddr(a)[0])
print([ask(name, kind)[:2] for name, kind in (("_imap._tcp.api.test", 33), ("_imap._tcp.other.test", 33), ("_imap._tcp.api.test", 1))])
d = ask("other.test", 1)[2]; print(d[-6:] == b"\0\x0f\0\2\0\x12")
d = ask("other.test", 1, edns=False); print(d[0])
print(ask("other.test", 1, server="8.8.8.8")[0])
"#
    );
    let ran = world.python(GRANTS, &script);
    let mut expected = String::new();
    for (name, code) in [
        ("api.test", 0),
        ("API.Test", 0),
        ("www.api.test", 0),
        ("inside.test", 0),
        ("inside.api.test", 3),
        ("missing.test", 3),
        ("other.test", 3),
        ("xapi.test", 3),
        ("api.test.other.test", 3),
        ("localhost", 0),
        ("sbx", 0),
    ] {
        let line = format!("{name} {code} {}\n", i32::from(code == 0));
        expected += &line.repeat(2);
    }
    expected += "True True\n28 (0, 0)\n65 (0, 0)\n33 (0, 0)\n16 (0, 0)\n255 (0, 1)\napi.test\n[(0, 0), (3, 0), (3, 0)]\nTrue\n3\n3\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
}

#[test]
fn a_name_that_leads_inside_is_reached_only_when_named() {
    let world = World::new();
    let grants = "net.get: {hosts: [\"inside.test:$HTTP\", \"*.api.test:$HTTP\", \"*\"]}";
    let script = "for h in inside.test inside.api.test; do \
curl -s -m 40 -o /dev/null -w \"$h %{http_code}\\n\" http://$h:{http}/ || true; \
curl -s -m 40 -o /dev/null -w \"$h %{http_code}\\n\" -x $SBX_PROXY http://$h:{http}/ || true; done";
    let ran = world.run(grants, script);
    let expected = "inside.test 200\ninside.test 200\ninside.api.test 000\ninside.api.test 403\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
    assert_eq!(world.http.take().len(), 2);
}

#[test]
fn names_can_be_asked_of_any_server() {
    let script = format!(
        "{ASK}{}",
        r#"
for server in ("127.0.0.1", "127.0.0.53", "8.8.8.8", "10.1.2.3", "::1", "fd00::1", "2001:4860:4860::8888"):
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(30); s.connect((server, 53))
    s.send(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\3api\4test\0" + struct.pack(">HH", 1, 1))
    d = s.recv(2000); print(server, d[3] & 15, d[-4], ask("api.test", 1, True, server=server)[:2])
"#
    );
    for world in
        [World::new(), World::new().variable("SBX_TEST_NO_RULES", "1"), World::new().backend("bwrap")]
    {
        let ran = world.python(GRANTS, &script);
        let servers =
            ["127.0.0.1", "127.0.0.53", "8.8.8.8", "10.1.2.3", "::1", "fd00::1", "2001:4860:4860::8888"];
        let expected: String = servers.map(|server| format!("{server} 0 198 (0, 1)\n")).concat();
        assert_eq!(ran.stdout, expected, "{ran:?}");
    }
}

#[test]
fn odd_questions_do_not_stop_the_stub() {
    let world = World::new();
    let script = format!(
        "{ASK}{}",
        r#"
import random
random.seed(5)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(3000): s.sendto(bytes(random.randrange(256) for _ in range(random.randrange(0, 600))), ("127.0.0.1", 53))
for i in range(50):
    c = socket.create_connection(("127.0.0.1", 53), 30); c.sendall(bytes(random.randrange(256) for _ in range(40))); c.close()
time.sleep(0.3); print(ask("api.test", 1)[0], ask("api.test", 1, True)[0])
"#
    );
    let ran = world.python(GRANTS, &script);
    assert_eq!(ran.stdout, "0 0\n", "{ran:?}");
}

#[test]
fn many_who_ask_for_one_name_at_once_are_all_answered() {
    let world = World::new();
    let script = r#"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)
for number in range(150):
    s.sendto(struct.pack(">HHHHHH", number, 0x100, 1, 0, 0, 0) + b"\3api\4test\0\0\1\0\1", ("127.0.0.1", 53))
print(len({s.recv(600)[:2] for _ in range(150)}))
"#;
    let ran = world.python("net.get: {hosts: [api.test]}", script);
    assert_eq!(ran.stdout, "150\n", "{ran:?}");
}
