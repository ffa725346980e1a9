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

/// A server that speaks first, as databases and ssh do.
#[test]
fn a_server_that_speaks_first_is_heard() {
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
        let ran = world.python(&format!("net.get: {{hosts: [\"api.test:{port}\"]}}"), "print('no')");
        assert_eq!(ran.stdout, "no\n");
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
fn a_port_that_is_taken_is_told() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ran = world.run_with("fs.read: {in: /usr/share}", &format!("listen: [{port}]"), "echo ran", &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains(&format!("port {port} of this machine cannot be listened on")), "{ran:?}");
}
