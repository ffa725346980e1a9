//! Verbs, request by request, over plain HTTP.

use crate::world::World;

const READ: &str = "net.get: {hosts: [\"api.test:$HTTP\"]}";
const ALL: &str = "net.get: {hosts: [\"api.test:$HTTP\"]}\nnet.post: {hosts: [\"api.test:$HTTP\"]}\n\
net.put: {hosts: [\"api.test:$HTTP\"]}\nnet.delete: {hosts: [\"api.test:$HTTP\"]}";

fn methods(world: &World) -> Vec<String> {
    world.http.take().into_iter().map(|seen| seen.method).collect()
}

const EACH: &str = "for m in GET HEAD OPTIONS POST PUT PATCH DELETE TRACE FOO; do \
curl -s -m 40 -o /dev/null $( [ $m = HEAD ] && echo -I || echo -X $m ) -w \"$m %{http_code}\\n\" http://api.test:{http}/x; done";

#[test]
fn each_method_needs_its_verb() {
    for backend in ["native", "bwrap", "landlock"] {
        let world = World::new().backend(backend);
        for (grants, allowed) in [
            (READ, "GET HEAD OPTIONS"),
            ("net.post: {hosts: [\"api.test\"]}", "POST"),
            ("net.put: {hosts: [\"*.test\"]}", "PUT PATCH"),
            ("net.delete: {hosts: [\"*\"]}", "DELETE"),
        ] {
            let ran = world.run(grants, EACH);
            for line in ran.stdout.lines() {
                let (method, status) = line.split_once(' ').unwrap();
                let expected = if allowed.split(' ').any(|m| m == method) { "200" } else { "403" };
                assert_eq!(status, expected, "{backend} {grants} {method}: {ran:?}");
            }
            assert_eq!(ran.stdout.lines().count(), 9, "{ran:?}");
            assert_eq!(methods(&world).join(" "), allowed, "{backend} {grants}");
        }
    }
}

#[test]
fn a_header_that_names_another_method_needs_that_verb() {
    let world = World::new();
    let script = "for h in X-HTTP-Method-Override:DELETE x-http-method:put X-Method-Override:GET; do \
curl -s -m 40 -o /dev/null -H $h -w '%{http_code} ' http://api.test:{http}/x; \
curl -s -m 40 -o /dev/null --http2 -H $h -w '%{http_code} ' https://api.test:{https}/x; done";
    let grants = "net.get: {hosts: [api.test]}";
    assert_eq!(world.run(grants, script).stdout, "403 403 403 403 200 200 ");
    assert_eq!((world.http.take().len(), world.https.take().len()), (1, 1));
}

#[test]
fn a_refusal_carries_the_denial() {
    let world = World::new();
    let ran = world.run(READ, "curl -s -d x http://api.test:{http}/x");
    let denial: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(denial["code"], "capability_absent");
    assert_eq!(denial["is_error"], true);
    assert_eq!(denial["suggested_grant"], world.fill("net.post{hosts=[api.test:{http}]}"));
    assert!(methods(&world).is_empty());
}

#[test]
fn bodies_stream_in_both_directions() {
    let world = World::new();
    let script = "head -c 3000000 /dev/zero > big; curl -s -T big http://api.test:{http}/put; \
curl -s -H 'Transfer-Encoding: chunked' -T big http://api.test:{http}/chunked; \
curl -s -H 'Expect: 100-continue' --data-binary @big http://api.test:{http}/expect; \
curl -s http://api.test:{http}/big/5000000 | wc -c; \
curl -s http://api.test:{http}/1 http://api.test:{http}/2 http://api.test:{http}/3";
    let ran = world.run(ALL, script);
    let expected = "PUT /put api.test:{http} 3000000\nPUT /chunked api.test:{http} 3000000\n\
POST /expect api.test:{http} 3000000\n5000000\nGET /1 api.test:{http} 0\nGET /2 api.test:{http} 0\nGET /3 api.test:{http} 0\n";
    assert_eq!(ran.stdout, world.fill(expected), "{ran:?}");
}

#[test]
fn an_answer_arrives_as_it_is_made() {
    let world = World::new();
    let ran = world.python(
        READ,
        r#"
import urllib.request
r = urllib.request.urlopen("http://api.test:{http}/steps", timeout=60); got = []
for step in range(5):
    # Each part is made only after this.
    urllib.request.urlopen("http://api.test:{http}/step", timeout=60).read()
    got.append(r.readline().decode().strip()); r.readline()
print(got, r.read())
"#,
    );
    assert_eq!(ran.stdout, "['data: 0', 'data: 1', 'data: 2', 'data: 3', 'data: 4'] b''\n", "{ran:?}");
}

#[test]
fn an_upgrade_needs_more_than_reading() {
    let world = World::new();
    let script = r#"
s = socket.create_connection(("api.test", {http}), 30); s.settimeout(30)
s.sendall(b"GET /ws HTTP/1.1\r\nHost: api.test:{http}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
head = s.recv(4096); show(head)
if b" 101 " in head:
    s.sendall(b"ping"); print(s.recv(100).decode()); s.sendall(b"pong"); print(s.recv(100).decode())
"#;
    let ran = world.python(READ, script);
    assert_eq!(ran.stdout, "HTTP/1.1 403 Forbidden\n", "{ran:?}");
    assert!(world.http.take().is_empty());
    for grants in [&format!("{READ}\nnet.post: {{hosts: [\"api.test\"]}}"), ALL] {
        let ran = world.python(grants, script);
        assert_eq!(ran.stdout, "HTTP/1.1 101 Switching Protocols\nping\npong\n", "{ran:?}");
    }
}

#[test]
fn refusals_are_told_at_the_end_and_recorded() {
    let world = World::new();
    let ran = world
        .run(READ, "curl -s -o /dev/null -d x http://api.test:{http}/x; curl -s http://api.test:1/; exit 3");
    assert_eq!(ran.status, 3);
    let wanted = world.fill("smallest grant: sbx agents grant tester 'net.post{hosts=[api.test:{http}]}'");
    assert!(ran.stderr.contains(&wanted), "{ran:?}");
    let quiet = world.run(READ, "curl -s -o /dev/null -d x http://api.test:{http}/x");
    assert_eq!((quiet.status, quiet.stderr.as_str()), (0, ""));
    let told =
        world.run_with(READ, "", "curl -s -o /dev/null -d x http://api.test:{http}/x; true", &["--explain"]);
    assert!(told.stderr.contains("refused: capability_absent"), "{told:?}");
    let denied =
        world.audit("request").into_iter().filter(|event| event["body"]["decision"] == "deny").count();
    assert_eq!(denied, 3, "{:?}", world.audit("request"));
    let names = world.audit("name");
    let told = |event: &serde_json::Value| {
        event["body"]["name"] == "api.test" && event["body"]["decision"] == "allow"
    };
    assert!(names.iter().any(|event| told(event) && event["body"]["duration_ms"].is_u64()), "{names:?}");
    assert!(world.run(READ, "curl -s -o /dev/null http://api.test:{http}/x").status == 0);
    let received = |event: &serde_json::Value| event["body"]["received"].as_u64().unwrap_or_default();
    let connections = world.audit("connection");
    // It may end with the launch, which is another word for how it was carried.
    let carried = |event: &serde_json::Value| {
        received(event) > 0 && event["body"]["target"] == world.fill("api.test:{http}")
    };
    assert!(connections.iter().any(carried), "{connections:?}");
}

#[test]
fn without_a_grant_there_is_no_gateway() {
    let world = World::new();
    let ran = world.run("fs.read: {in: /usr/share}", "env | grep -c SBX_PROXY; getent hosts api.test; curl -s http://api.test:{http}/; cat /proc/net/dev | wc -l");
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), ["0", "3"], "{ran:?}");
    assert!(world.http.take().is_empty());
}
