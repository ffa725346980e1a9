//! What the caller hands in with its own descriptors, tried behind every backend.

use crate::bench::Bench;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

/// Lets go of the peer of descriptor 0 and reaches for another port, by stream and by datagram.
const LEAD_AWAY: &str = "import ctypes,os,socket,sys\n\
    port=int(sys.argv[1])\n\
    libc=ctypes.CDLL(None)\n\
    for kind in ('tcp','udp'):\n  \
      try:\n    \
        s=socket.socket(fileno=os.dup(0))\n    \
        libc.connect(s.fileno(),bytes(16),16)\n    \
        if kind=='tcp': s.connect(('127.0.0.1',port)); s.send(b'led away')\n    \
        else: s.sendto(b'led away',('127.0.0.1',port))\n  \
      except OSError as e: print(kind,e)\n\
    print('tried')\n";

/// Whether somebody came to the port, once the command has ended.
fn came(port: &TcpListener, datagrams: &UdpSocket) -> bool {
    port.set_nonblocking(true).expect("a port");
    datagrams.set_nonblocking(true).expect("a socket");
    std::thread::sleep(Duration::from_millis(100));
    port.accept().is_ok() || datagrams.recv(&mut [0; 64]).is_ok()
}

#[test]
fn a_socket_that_is_handed_in_leads_nowhere_else() {
    for backend in crate::attacks::BACKENDS {
        let bench = Bench::new("socket");
        bench.open_record("");
        bench.write("try.py", LEAD_AWAY);
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let datagrams = UdpSocket::bind(other.local_addr().expect("an address")).expect("a socket");
        let number = other.local_addr().expect("an address").port().to_string();
        let connected = TcpStream::connect(server.local_addr().expect("an address")).expect("connected");
        let alone = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (pair, _peer) = UnixDatagram::pair().expect("a pair");
        let handed: [OwnedFd; 3] = [connected.into(), alone.into(), pair.into()];
        for socket in handed {
            // Whatever waits for input finds none.
            let run = bench.handing(backend, &["python3", "try.py", &number], socket);
            assert!(run.stdout.contains("tried"), "{backend:?}: {} {}", run.stdout, run.stderr);
            assert!(!came(&other, &datagrams), "{backend:?}: {}", run.stdout);
        }
    }
}

#[test]
fn a_pair_of_streams_is_handed_in_and_works() {
    let bench = Bench::new("pair");
    bench.open_record("");
    let (mut own, theirs) = UnixStream::pair().expect("a pair");
    own.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let run = bench.handing(
        ("native", ""),
        &["python3", "-c", "import os,socket; socket.socket(fileno=os.dup(0)).send(b'here')"],
        theirs.into(),
    );
    assert_eq!(run.status, 0, "{}", run.stderr);
    let mut said = [0; 4];
    own.read_exact(&mut said).expect("an answer");
    assert_eq!(&said, b"here");
}

#[test]
fn only_oneself_is_slowed_down() {
    let bench = Bench::new("nice");
    bench.open_record("");
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
    let nice = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeper.id())).expect("a process");
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(16).map(str::to_owned))
    };
    let before = nice();
    let begun = Instant::now();
    for backend in crate::attacks::BACKENDS {
        let script = "python3 -c 'import ctypes,os; l=ctypes.CDLL(None); n=251 if os.uname().machine==\"x86_64\" else 30; print(l.setpriority(2,0,15), l.syscall(n,3,0,0x6007))'; \
                      nice -n 5 true && echo fine";
        let run = crate::attacks::attack(&bench, backend, script);
        assert!(run.stdout.ends_with("fine\n"), "{backend:?}: {} {}", run.stdout, run.stderr);
        if backend.0 == "landlock" {
            assert!(run.stdout.starts_with("-1 -1"), "{}", run.stdout);
            assert_eq!(nice(), before, "after {:?}", begun.elapsed());
        }
    }
    let _ = (sleeper.kill(), sleeper.wait());
}

#[test]
fn the_callers_input_cannot_be_forged() {
    for (backend, accepted) in crate::attacks::BACKENDS {
        let bench = Bench::new("forged");
        bench.open_record("");
        let line = format!(
            "printf 'a\\nb\\n' | while read -r f && [ ${{n:=0}} -lt 4 ]; do n=$((n + 1)); echo got $f; \
             SBX exec --agent agent.yml --backend {backend} {accepted} -- sh -c 'echo FORGED > /proc/self/fd/0; \
             echo out > /dev/stdout; echo err > /dev/stderr'; done"
        );
        let run = bench.shell_line(&line);
        assert!(run.stdout.starts_with("got a\nout\n"), "{backend}: {} {}", run.stdout, run.stderr);
        assert!(!run.stdout.contains("FORGED"), "{backend}: {}", run.stdout);
        assert!(run.stderr.contains("err\n"), "{backend}: {}", run.stderr);
    }
}

#[test]
fn where_names_may_only_be_taken_away_modes_stay() {
    for backend in &crate::attacks::BACKENDS[..2] {
        let bench = Bench::new("unwritten");
        bench.record(
            "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n  - fs.delete: {in: ROOT}\n",
        );
        bench.write("kept", "x");
        bench.write("gone", "x");
        bench.shell_line("chmod 640 kept");
        let run = crate::attacks::attack(&bench, *backend, "chmod 666 kept; rm gone; stat -c %a kept");
        assert_eq!(run.stdout, "640\n", "{backend:?}: {}", run.stderr);
        assert!(!bench.exists("gone"), "{backend:?}");
    }
}
