//! Services of this machine reached from inside, and ports of a fence reached from outside.

use crate::origin::{Origin, Speaks};
use crate::world::{World, awaited, free_port};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

#[test]
fn a_service_of_this_machine_is_reached_by_literal_grant_only() {
    for backend in ["native", "bwrap", "landlock"] {
        let world = World::new().backend(backend);
        let [own, other] =
            [Origin::start("127.0.0.1", Speaks::Http), Origin::start("127.0.0.1", Speaks::Http)];
        let script = format!(
            "for h in 127.0.0.1 localhost; do for p in {} {}; do curl -s -m 40 -o /dev/null -w \"$h %{{http_code}}\\n\" --noproxy '*' http://$h:$p/; done; done",
            own.port(),
            other.port()
        );
        for host in ["127.0.0.1", "localhost"] {
            let ran = world.run(&format!("net.get: {{hosts: [\"{host}:{}\", \"*\"]}}", own.port()), &script);
            let expected = "127.0.0.1 200\n127.0.0.1 000\nlocalhost 200\nlocalhost 000\n";
            assert_eq!(ran.stdout, expected, "{backend} {host} {ran:?}");
            assert_eq!((own.take().len(), other.take().len()), (2, 0), "{backend}");
        }
        let ran = world.run("net.get: {hosts: [\"*\"]}", &script);
        assert!(!ran.stdout.contains("200"), "{backend} {ran:?}");
    }
}

/// What is not granted is never led out, so that only the command itself sees that it is refused.
#[test]
fn a_service_that_is_not_granted_is_explained() {
    let own = Origin::start("127.0.0.1", Speaks::Http);
    for grants in ["net.get: {hosts: [api.test]}", "fs.read: {in: /usr/share}"] {
        let world = World::new();
        let script = format!(
            "curl -s -m 20 --noproxy '*' http://127.0.0.1:{}/; curl -s -m 20 --noproxy '*' http://127.0.0.1:1/; true",
            own.port()
        );
        let ran = world.run_with(grants, "", &script, &["--explain"]);
        let grant = format!("sbx agents grant tester 'net.get{{hosts=[127.0.0.1:{}]}}'", own.port());
        assert!(ran.stderr.contains(&grant), "{grants} {ran:?}");
        assert!(!ran.stderr.contains("127.0.0.1:1]"), "nobody listens there: {ran:?}");
        assert!(own.take().is_empty());
    }
}

/// Starts a server that speaks first, as databases and ssh do, and then says what it hears.
fn speaking_first() -> u16 {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                stream.write_all(b"220 hello\r\n").unwrap();
                let mut room = [0; 100];
                while let Ok(read @ 1..) = stream.read(&mut room) {
                    stream.write_all(&room[..read]).unwrap();
                }
            });
        }
    });
    port
}

/// A host that a secret is for is inspected, which is no reason to refuse what is neither TLS nor HTTP there.
#[test]
fn a_secret_for_a_host_leaves_its_other_services_alone() {
    let port = speaking_first();
    let world = World::new().variable("KEY", "s3cr3t-value");
    let grants = ["get", "post", "put", "delete"].map(|verb| format!("net.{verb}: {{hosts: [api.test]}}"));
    let script = format!(
        "python3 -c 'import socket; s = socket.create_connection((\"api.test\", {port}), 30); s.settimeout(30); print(s.recv(100)); \
         s.sendall(b\"SSH-2.0-x\"); print(s.recv(100))'; curl -s -o /dev/null https://api.test:{{https}}/x"
    );
    let section = "env:\n  KEY: {inject: {host: api.test, header: X-Key}}";
    let ran = world.run_with(&grants.join("\n"), section, &script, &[]);
    assert_eq!(ran.stdout, "b'220 hello\\r\\n'\nb'SSH-2.0-x'\n", "{ran:?}");
    let sent: Vec<Option<String>> = world.https.take().into_iter().map(|seen| seen.authorization).collect();
    assert_eq!(sent, [Some("s3cr3t-value".to_owned())]);
}

#[test]
fn a_server_that_speaks_first_is_heard() {
    let port = speaking_first();
    for backend in ["native", "bwrap", "landlock"] {
        let world = World::new().backend(backend);
        let grants = ["get", "post", "put", "delete"]
            .map(|verb| format!("net.{verb}: {{hosts: [\"api.test:{port}\"]}}"))
            .join("\n");
        let script = format!(
            "s = socket.create_connection((\"api.test\", {port}), 30); s.settimeout(30); print(s.recv(100)); s.sendall(b\"abc\"); print(s.recv(100)); \
s.shutdown(1); print(s.recv(100))"
        );
        let ran = world.python(&grants, &script);
        assert_eq!(ran.stdout, "b'220 hello\\r\\n'\nb'abc'\nb''\n", "{backend} {ran:?}");
        let read = format!("net.get: {{hosts: [\"api.test:{port}\"]}}");
        // As ssh does, which speaks first too.
        let speaks = format!(
            "s = socket.create_connection((\"api.test\", {port}), 30); s.settimeout(30); s.sendall(b\"SSH-2.0-x\\r\\n\")\n\
             try: print(s.recv(100))\nexcept ConnectionResetError: print('reset')"
        );
        world.write("ws/script.py", format!("import socket\n{speaks}"));
        let ran = world.run_with(&read, "", "python3 script.py", &["--explain"]);
        assert_eq!(ran.stdout, "reset\n", "{backend} {ran:?}");
        for verb in ["post", "put", "delete"] {
            let grant = format!("sbx agents grant tester 'net.{verb}{{hosts=[api.test:{port}]}}'");
            assert!(ran.stderr.contains(&grant), "{backend} {verb} {ran:?}");
        }
    }
}

/// Bytes pass untouched only where all verbs are held of where the name leads, and not merely of the name.
#[test]
fn a_name_that_leads_inside_is_whole_only_when_all_verbs_name_it() {
    let port = speaking_first();
    let world = World::new();
    let any =
        ["get", "post", "put", "delete"].map(|verb| format!("net.{verb}: {{hosts: [\"*\"]}}")).join("\n");
    let named = |verbs: &[&str]| {
        let grant = |verb: &&str| format!("\nnet.{verb}: {{hosts: [inside.test]}}");
        any.clone() + &verbs.iter().map(grant).collect::<String>()
    };
    let script = format!(
        "s = socket.create_connection((\"inside.test\", {port}), 30); s.settimeout(30)\n\
         try: print(s.recv(5))\nexcept ConnectionResetError: print('reset')\n\
         c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE\n\
         try: c.wrap_socket(socket.create_connection((\"inside.test\", {{https}}), 30), server_hostname=\"inside.test\"); print('tls')\n\
         except OSError: print('refused')"
    );
    for (grants, expected) in
        [(named(&["get"]), "reset\nrefused\n"), (named(&["get", "post", "put", "delete"]), "b'220 h'\ntls\n")]
    {
        let ran = world.python(&grants, &script);
        assert_eq!(ran.stdout, expected, "{grants} {ran:?}");
    }
}

#[test]
fn a_listed_port_is_published_on_this_machine() {
    for backend in ["native", "bwrap", "landlock"] {
        let world = World::new().backend(backend);
        let port = free_port("127.0.0.1");
        let script = format!("cd /usr/share && python3 -m http.server {port} --bind 127.0.0.1 2>&1");
        let running = world.start(
            "fs.read: {in: /usr/share}",
            &format!("listen: [{port}]\nlimits: {{wall: 90s}}"),
            &script,
            &[],
        );
        let mut answer = String::new();
        awaited("the port is published", || {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
            stream.read_to_string(&mut answer).is_ok() && !answer.is_empty()
        });
        running.kill();
        assert!(answer.starts_with("HTTP/1.0 200"), "{backend} {answer}");
    }
}

#[test]
fn what_comes_to_a_published_port_where_nobody_listens_is_told() {
    let world = World::new();
    let port = free_port("127.0.0.1");
    let running = world.start(
        "fs.read: {in: /usr/share}",
        &format!("listen: [{port}]\nlimits: {{wall: 90s}}"),
        "touch begun; until [ -e seen ]; do sleep 0.05; done",
        &[],
    );
    awaited("the command runs", || world.path("ws/begun").exists());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(stream.read(&mut [0]).is_err(), "it is reset");
    world.write("ws/seen", "");
    assert_eq!(running.finish().status, 0);
    let connections = world.audit("connection");
    let failed = |event: &&serde_json::Value| {
        event["body"]["target"] == format!("127.0.0.1:{port}") && event["body"]["how"] == "failed"
    };
    assert_eq!(connections.iter().filter(failed).count(), 1, "{connections:?}");
}

#[test]
fn a_port_that_is_taken_is_told() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ran = world.run_with("fs.read: {in: /usr/share}", &format!("listen: [{port}]"), "echo ran", &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains(&format!("port {port} of this machine cannot be listened on")), "{ran:?}");
}
