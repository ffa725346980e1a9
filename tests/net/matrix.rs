//! The programs people really use, unmodified and untold, each doing an allowed and a denied act behind every way
//! that connections can come to the gateway.
//!
//! `scripts/test install_net_programs` puts what is needed below `SBX_TEST_NET`. A program that is missing fails the
//! test; `SBX_TEST_NET=none` leaves the matrix out and says so.

use crate::world::{World, issue};
use cases::CASES;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

#[path = "matrix/cases.rs"]
mod cases;

/// Variables by which programs are told what to trust, where nothing does it for them.
const TRUST: [&str; 8] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "npm_config_cafile",
];

/// Runs every case by itself, one after the other, and says for each what came of it.
const DRIVER: &str = r#"
export HOME=$PWD/home PY=$NET/py/bin/python PATH=$NET/bin:$PATH
export SSH="ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
for script in "$PWD"/cases/*; do
    name=${script##*/}; at=$(mktemp -d -p "$PWD")
    said=$(cd "$at" && timeout 120 sh "$script" 2>&1); status=$?
    case $said in
        *matrix-ok*) echo "reached $name" ;;
        *) echo "missed $name $status $(printf %s "$said" | tail -c 300 | tr '\n' '|')" ;;
    esac
done
"#;

/// Where the programs are; none when the matrix was left out on purpose.
pub(crate) fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("SBX_TEST_NET").map(PathBuf::from);
    if named.as_deref() == Some(Path::new("none")) {
        let _ = writeln!(std::io::stderr(), "NOT RUN: SBX_TEST_NET=none leaves the program matrix out");
        return None;
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/sbx-net"));
    let places = named.into_iter().chain([PathBuf::from("/opt/sbx-net")]).chain(home);
    let found = places.into_iter().find(|dir| dir.join("bin/go-fetch").exists());
    assert!(
        found.is_some(),
        "the programs of the matrix are not installed: run `scripts/test install_packages install_net_programs`"
    );
    found
}

/// The servers that the programs reach.
struct Servers {
    process: Child,
    ports: serde_json::Value,
    log: Arc<Mutex<Vec<String>>>,
}

impl Servers {
    fn start(world: &World, programs: &Path) -> Self {
        let issued = issue(&["api.test", "other.test"]);
        world.write("ws/origin.pem", &issued.root);
        let (chain, key) =
            (world.write("chain.pem", &issued.chain), world.write("key.pem", issued.key.as_str()));
        let script = world.write("origin.py", include_str!("matrix/origin.py"));
        std::fs::create_dir_all(world.path("served")).unwrap();
        let mut process = Command::new(programs.join("py/bin/python"))
            .arg(script)
            .arg(world.path("served"))
            .args([chain, key])
            .env("HOME", world.path("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().expect("the servers tell their ports").unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = log.clone();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line))
        });
        Self { process, ports: serde_json::from_str(&first).unwrap(), log }
    }

    /// What reached them since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn fill(&self, text: &str) -> String {
        let port = |name: &str| self.ports[name].to_string();
        text.replace("{tls}", &port("https")).replace("{plain}", &port("http")).replace("{ssh}", &port("ssh"))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = (self.process.kill(), self.process.wait());
    }
}

/// Runs all cases in one fence; each with what it said when it did not reach what it wanted.
fn run(
    world: &World,
    servers: &Servers,
    programs: &Path,
    grants: &str,
    environment: &str,
) -> Vec<(String, Option<String>)> {
    let net = programs.display();
    let grants = servers.fill(&format!("{grants}\nfs.read: {{in: {net}}}"));
    let ran = world.run(&grants, &format!("{environment} NET={net} sh driver.sh"));
    let told = ran.stdout.lines().filter_map(|line| match line.split_once(' ')? {
        ("reached", name) => Some((name.to_owned(), None)),
        (_, rest) => rest.split_once(' ').map(|(name, why)| (name.to_owned(), Some(why.to_owned()))),
    });
    let told: Vec<(String, Option<String>)> = told.collect();
    assert_eq!(told.len(), CASES.len(), "{ran:?}");
    told
}

/// Grants for the three ports of a host; `untouched` gives all four verbs on the port of TLS too.
fn grants(host: &str, untouched: bool) -> String {
    let whole = if untouched { "\"HOST:{ssh}\", \"HOST:{tls}\"" } else { "\"HOST:{ssh}\"" };
    let others = ["post", "put", "delete"].map(|verb| format!("net.{verb}: {{hosts: [{whole}]}}"));
    let read = "net.get: {hosts: [\"HOST:{plain}\", \"HOST:{tls}\", \"HOST:{ssh}\"]}";
    format!("{read}\n{}", others.join("\n")).replace("HOST", host)
}

/// The whole matrix behind one way.
fn matrix(world: &World, own_resolvers: bool, untouched: bool) {
    let Some(programs) = programs() else { return };
    let servers = Servers::start(world, &programs);
    // It reads the system's own bundle, over which nothing is laid there, and which knows nothing of this origin.
    let told = if own_resolvers && !untouched { "" } else { "--ca-certificate=$SSL_CERT_FILE" };
    let put = |at: usize, script: &str| world.write(&format!("ws/cases/{at:02}-{}", CASES[at].name), script);
    for (at, case) in CASES.iter().enumerate() {
        put(at, &servers.fill(case.script).replace("{trust}", told));
    }
    world.write("ws/driver.sh", DRIVER);
    let trust = TRUST.map(|name| format!("{name}=$PWD/origin.pem")).join(" ");
    let environment = if untouched { trust.as_str() } else { "" };

    let allowed = run(world, &servers, &programs, &grants("api.test", untouched), environment);
    let missed: Vec<_> = allowed.iter().filter(|(_, why)| why.is_some()).collect();
    let beyond = CASES.iter().enumerate().filter(|(_, case)| case.own_resolver && !own_resolvers);
    let beyond: Vec<String> = beyond.map(|(at, case)| format!("{at:02}-{}", case.name)).collect();
    let names: Vec<&String> = missed.iter().map(|(name, _)| name).collect();
    assert_eq!(names, beyond.iter().collect::<Vec<_>>(), "did not reach what is granted: {missed:#?}");
    let log = servers.take();
    for way in ["ssh ", "http "] {
        assert!(log.iter().any(|line| line.starts_with(way)), "{log:?}");
    }

    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let last = CASES.len() - 1;
    put(last, &format!("curl -sS -m 40 --noproxy '*' http://127.0.0.1:{port}/ && echo matrix-ok"));
    let denied = run(world, &servers, &programs, &grants("other.test", untouched), environment);
    let reached: Vec<_> = denied.iter().filter(|(_, why)| why.is_none()).collect();
    assert!(reached.is_empty(), "reached what is not granted: {reached:?}");
    assert_eq!(servers.take(), Vec::<String>::new(), "a denied act was seen outside");
    service.set_nonblocking(true).unwrap();
    assert!(service.accept().is_err(), "a service of the host was reached");
}

#[test]
fn every_program_behind_native_when_inspected() {
    matrix(&World::new(), true, false);
}

#[test]
fn every_program_behind_native_when_untouched() {
    matrix(&World::new(), true, true);
}

#[test]
fn every_program_with_one_listener_a_port() {
    matrix(&World::new().variable("SBX_TEST_NO_RULES", "1"), true, false);
}

#[test]
fn every_program_behind_bwrap() {
    matrix(&World::new().backend("bwrap"), true, false);
}

#[test]
fn every_program_behind_bwrap_with_one_listener_a_port() {
    matrix(&World::new().backend("bwrap").variable("SBX_TEST_NO_RULES", "1"), true, false);
}

#[test]
fn every_program_behind_landlock_but_those_with_their_own_resolver() {
    matrix(&World::new().backend("landlock"), false, false);
}
