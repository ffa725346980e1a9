//! Requests with an agent's authority: verbs, hosts, redirects, secrets, and what is no answer.

use crate::origin::{Origin, certificate};
use crate::world::{Said, World};
use serde_json::json;
use std::process::Stdio;

const NAMES: &str = "a.test 127.0.0.1 public\nb.test 127.0.0.1 public\ninside.test 127.0.0.1 private\n";

struct Net {
    world: World,
    http: Origin,
    https: Origin,
}

impl Net {
    fn new(grants: &[&str], sections: &str) -> Self {
        let (config, pem) = certificate(&["a.test"]);
        let (http, https) = (Origin::start(None), Origin::start(Some(config)));
        let world = World::new(&[]);
        world.env.write("origin.pem", pem);
        world.env.write("resolver", NAMES);
        let lines: String = grants.iter().map(|grant| format!("  - \"{grant}\"\n")).collect();
        world.env.write_record("a.md", format!("---\nid: a\ncapabilities:\n{lines}{sections}---\n"));
        Self { world, http, https }
    }

    fn ask_with(&self, words: &[&str], input: &[u8], variables: &[(&str, &str)]) -> Said {
        let words: Vec<String> = words
            .iter()
            .map(|word| {
                word.replace("$HTTPS", &self.https.port.to_string())
                    .replace("$HTTP", &self.http.port.to_string())
            })
            .collect();
        let base = self.world.env.home();
        let base = base.parent().unwrap();
        let mut all = vec!["--json", "http", "-a", "a"];
        all.extend(words.iter().map(String::as_str));
        let mut command = self.world.env.sbx_command(&all);
        command.env("SBX_TEST_RESOLVER", base.join("resolver")).env("SSL_CERT_FILE", base.join("origin.pem"));
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        crate::world::fed(command, input)
    }

    fn ask(&self, words: &[&str]) -> Said {
        self.ask_with(words, b"", &[])
    }
}

#[test]
fn verbs_and_hosts_are_decided() {
    let net = Net::new(&["net.get{hosts=[a.test]}", "net.post{hosts=[b.test]}"], "");
    let got = net.ask(&["GET", "http://a.test:$HTTP/x?y=1"]);
    assert_eq!((got.status, &got.json["status"]), (0, &json!(200)), "{got:?}");
    assert_eq!(got.json["body"], "GET /x?y=1 ");
    assert_eq!(got.json["headers"]["x-kind"], "plain");
    let head = net.ask(&["HEAD", "http://a.test:$HTTP/x"]);
    assert_eq!((&head.json["status"], &head.json["body"]), (&json!(200), &json!("")));
    let posted = net.ask_with(&["POST", "http://b.test:$HTTP/p", "--body"], b"content", &[]);
    assert_eq!(posted.json["body"], "POST /p content", "{posted:?}");
    net.http.take();
    for (words, code, capability) in [
        (&["POST", "http://a.test:$HTTP/"][..], "scope_violation", "net.post"),
        (&["GET", "http://b.test:$HTTP/"], "scope_violation", "net.get"),
        (&["DELETE", "http://a.test:$HTTP/"], "capability_absent", "net.delete"),
        (&["GET", "http://inside.test:$HTTP/"], "scope_violation", "net.get"),
        (&["GET", "http://127.0.0.1:$HTTP/"], "scope_violation", "net.get"),
        (&["BREW", "http://a.test:$HTTP/"], "scope_violation", "net.get"),
    ] {
        let said = net.ask(words);
        assert_eq!((said.status, said.code()), (1, code), "{words:?} {said:?}");
        assert_eq!(said.json["request"]["capability"], capability);
        let events = net.world.events();
        assert!(events.iter().any(|event| event["body"]["denial"] == said.json), "{words:?}");
    }
    assert_eq!(net.http.take(), Vec::<String>::new(), "nothing that is denied is sent");
}

#[test]
fn a_wide_grant_does_not_reach_inside() {
    let net = Net::new(&["net.get{hosts=[\\\"*\\\"]}"], "");
    let said = net.ask(&["GET", "http://inside.test:$HTTP/"]);
    assert_eq!((said.status, said.code()), (1, "scope_violation"), "{said:?}");
    assert_eq!(net.http.take().len(), 0);
    assert_eq!(net.ask(&["GET", "http://a.test:$HTTP/"]).status, 0);
}

#[test]
fn every_redirect_is_decided_anew() {
    let net = Net::new(&["net.get{hosts=[a.test]}", "net.post{hosts=[a.test]}"], "");
    let near = net.ask(&["GET", "http://a.test:$HTTP/go?to=/there"]);
    assert_eq!(near.json["body"], "GET /there ", "{near:?}");
    assert_eq!(near.json["redirected_from"].as_array().unwrap().len(), 1);
    let away = net.ask(&["GET", "http://a.test:$HTTP/go?to=http://b.test:$HTTP/stolen"]);
    assert_eq!((away.status, away.code()), (1, "scope_violation"), "{away:?}");
    let inside = net.ask(&["GET", "http://a.test:$HTTP/go?to=http://169.254.169.254/latest"]);
    assert_eq!((inside.status, inside.code()), (1, "scope_violation"), "{inside:?}");
    assert!(!net.http.take().iter().any(|line| line.starts_with("GET /stolen")));
    // What was posted is posted again only where the answer says so.
    let see = net.ask_with(&["POST", "http://a.test:$HTTP/see?to=/s", "--body"], b"x", &[]);
    assert_eq!(see.json["body"], "GET /s ", "{see:?}");
    let keep = net.ask_with(&["POST", "http://a.test:$HTTP/keep?to=/k", "--body"], b"x", &[]);
    assert_eq!(keep.json["body"], "POST /k x", "{keep:?}");
    let round = net.ask(&["GET", "http://a.test:$HTTP/loop", "--redirects", "3"]);
    assert_eq!((round.status, &round.json["status"]), (0, &json!(302)));
    assert_eq!(net.http.take().iter().filter(|line| line.contains("/loop")).count(), 4);
    let odd = net.ask(&["GET", "http://a.test:$HTTP/go?to=file:///etc/passwd"]);
    assert_eq!((odd.status, odd.code()), (2, "unreachable"), "{odd:?}");
}

#[test]
fn what_is_for_one_host_is_not_taken_to_another() {
    let net = Net::new(&["net.get{hosts=[a.test,b.test]}"], "");
    let said =
        net.ask(&["GET", "http://a.test:$HTTP/go?to=http://b.test:$HTTP/b", "-H", "Authorization: mine"]);
    assert_eq!(said.status, 0, "{said:?}");
    let asked = net.http.take();
    assert!(asked[0].ends_with("mine") && !asked[1].contains("mine"), "{asked:?}");
}

#[test]
fn tls_is_verified_and_secrets_are_put_in_on_the_way() {
    let secret = "env:\n  KEY: {inject: {host: a.test, header: Authorization}}\n";
    let net = Net::new(&["net.get{hosts=[a.test,b.test]}"], secret);
    let said = net.ask_with(&["GET", "https://a.test:$HTTPS/s"], b"", &[("KEY", "s3cr3t-value")]);
    assert_eq!(said.json["body"], "GET /s ", "{said:?}");
    assert_eq!(net.https.take(), ["GET /s 0 Bearer s3cr3t-value"]);
    assert!(!said.json.to_string().contains("s3cr3t"));
    let log = std::fs::read_to_string(net.world.env.home().join(".local/state/sbx/audit.jsonl")).unwrap();
    assert!(!log.contains("s3cr3t"), "no secret is recorded");
    // Not over a connection that is not verified, not to another host, and not to a wrong certificate.
    net.ask_with(&["GET", "http://a.test:$HTTP/p"], b"", &[("KEY", "s3cr3t-value")]);
    assert_eq!(net.http.take(), ["GET /p 0"]);
    let wrong = net.ask_with(&["GET", "https://b.test:$HTTPS/"], b"", &[("KEY", "s3cr3t-value")]);
    assert_eq!((wrong.status, wrong.code()), (2, "unreachable"), "{wrong:?}");
    assert_eq!(net.https.take().len(), 0);
}

#[test]
fn answers_are_bounded_and_oddities_told() {
    let net = Net::new(&["net.get{hosts=[a.test]}"], "");
    let big = net.ask(&["GET", "http://a.test:$HTTP/big"]);
    assert_eq!((big.json["body"].as_str().unwrap().len(), &big.json["truncated"]), (1 << 20, &json!(true)));
    let all = net.ask(&["GET", "http://a.test:$HTTP/big", "--max-bytes", "4000000"]);
    assert_eq!((all.json["body"].as_str().unwrap().len(), &all.json["truncated"]), (3 << 20, &json!(false)));
    let chunked = net.ask(&["GET", "http://a.test:$HTTP/chunked"]);
    assert_eq!(chunked.json["body"], "abcdef", "{chunked:?}");
    let binary = net.ask(&["GET", "http://a.test:$HTTP/binary"]);
    assert_eq!((&binary.json["encoding"], &binary.json["body"]), (&json!("base64"), &json!("/wD+")));
    let slow = net.ask(&["GET", "http://a.test:$HTTP/slow", "--timeout", "300"]);
    assert_eq!((slow.status, slow.code()), (2, "timed_out"), "{slow:?}");
    let odd = net.ask(&["GET", "http://a.test:$HTTP/odd"]);
    assert!(odd.code() == "unreachable" || odd.json["status"] == 502, "{odd:?}");
    let nobody = net.ask(&["GET", "http://a.test:1/"]);
    assert_eq!((nobody.status, nobody.code()), (2, "unreachable"), "{nobody:?}");
}

#[test]
fn what_carries_a_request_is_not_for_the_caller_to_write() {
    let net = Net::new(&["net.get{hosts=[a.test]}"], "");
    for line in [
        "Host: b.test",
        "Transfer-Encoding: chunked",
        "Content-Length: 5",
        "Connection: upgrade",
        "X: a\rb",
        "Bad Name: x",
    ] {
        let said = net.ask(&["GET", "http://a.test:$HTTP/", "-H", line]);
        assert_eq!((said.status, said.code()), (2, "invalid_arguments"), "{line} {said:?}");
    }
    for url in ["http://u:p@a.test:$HTTP/", "http://a.test:$HTTP/ä"] {
        assert_eq!(net.ask(&["GET", url]).code(), "invalid_arguments", "{url}");
    }
    for url in ["ftp://a.test/", "a.test", "http:///x"] {
        let said = net.ask(&["GET", url]);
        assert_eq!(said.status, 1, "{url} {said:?}");
    }
    let disguised = net.ask(&["GET", "http://a.test:$HTTP/", "-H", "X-HTTP-Method-Override: DELETE"]);
    assert_ne!(disguised.json["status"], 200, "{disguised:?}");
    assert_eq!(net.http.take().len(), 0);
}
