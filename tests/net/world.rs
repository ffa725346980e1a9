//! A fence with a network, and origins around it.

use crate::origin::{Origin, Speaks};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The program under test: the one cargo built, or the one named by `SBX_TEST_BIN`.
fn program() -> PathBuf {
    std::env::var_os("SBX_TEST_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_sbx")), PathBuf::from)
}

/// What a launch gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A workspace, names, an authority and two origins at 127.0.0.2.
pub(crate) struct World {
    base: PathBuf,
    pub(crate) http: Origin,
    pub(crate) https: Origin,
    backend: String,
    environment: Vec<(String, String)>,
}

/// What a backend lacks, accepted by name.
const ACCEPTED: &str = "memory-limit,pids-limit,exec-only,teardown-killed,fs-hidden,fs-metadata,pid-hidden,private-tmp,\
loopback,terminals,fs-delete,teardown,signals,net-names,net-listen,net-ports,protected-paths,sockets-hidden,ipc-hidden";

impl World {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temp = std::env::temp_dir().canonicalize().unwrap();
        let base = temp.join(format!("sbx-net-{}-{number}", std::process::id()));
        for dir in ["ws", "home"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        let issued = issue(&["api.test", "www.api.test", "other.test", "localhost"]);
        std::fs::write(base.join("ws/origin.pem"), &issued.root).unwrap();
        let http = Origin::start("127.0.0.2", Speaks::Http);
        let https = Origin::start("127.0.0.2", Speaks::Https(issued.config));
        let world = Self { base, http, https, backend: "native".to_owned(), environment: Vec::new() };
        world.resolve(
            "api.test 127.0.0.2 public\nwww.api.test 127.0.0.2 public\nother.test 127.0.0.2 public\n\
             inside.test 127.0.0.2 private\ninside.api.test 127.0.0.2 private\n",
        );
        world
    }

    /// The same, behind another backend.
    pub(crate) fn backend(mut self, name: &str) -> Self {
        self.backend = name.to_owned();
        self
    }

    /// The same, with a variable of the caller's.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says where names lead.
    pub(crate) fn resolve(&self, lines: &str) {
        std::fs::write(self.base.join("resolver"), lines).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.base.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs shell text with grants of the network, written as lines of `capabilities`.
    pub(crate) fn run(&self, grants: &str, script: &str) -> Ran {
        self.run_with(grants, "", script, &[])
    }

    /// The same with more sections and more arguments of `exec`.
    pub(crate) fn run_with(&self, grants: &str, sections: &str, script: &str, arguments: &[&str]) -> Ran {
        self.start(grants, sections, script, arguments).finish()
    }

    /// Starts it and goes on.
    pub(crate) fn start(&self, grants: &str, sections: &str, script: &str, arguments: &[&str]) -> Running {
        let grants = grants
            .replace("$HTTPS", &self.https.port().to_string())
            .replace("$HTTP", &self.http.port().to_string());
        let ws = self.base.join("ws");
        let grants: String = grants.lines().map(|line| format!("  - {}\n", line.trim())).collect();
        let record = format!(
            "id: tester\ncapabilities:\n  - proc.exec: {{in: {ws}}}\n  - fs.write: {{in: {ws}}}\n  - fs.delete: {{in: {ws}}}\n\
             {grants}{sections}\n",
            ws = ws.display()
        );
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let record = self.write(&format!("agent-{number}.yml"), record);
        let mut command = Command::new(program());
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.base.join("home"))
            .env("SBX_TEST_RESOLVER", self.base.join("resolver"))
            .env("SSL_CERT_FILE", ws.join("origin.pem"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&ws)
            .args(["exec", "--backend", &self.backend, "--allow-degraded", ACCEPTED, "--agent"])
            .arg(record)
            .args(arguments)
            .args(["--", "sh", "-c", &self.fill(script)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Puts ports and paths into a script.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("{http}", &self.http.port().to_string())
            .replace("{https}", &self.https.port().to_string())
            .replace("{ca}", "--cacert origin.pem")
    }

    /// Runs Python text, after a few helpers.
    pub(crate) fn python(&self, grants: &str, script: &str) -> Ran {
        self.write("ws/script.py", format!("{HELPERS}\n{}", self.fill(script)));
        self.run(grants, "python3 script.py")
    }

    /// Events of one sort in the audit.
    pub(crate) fn audit(&self, kind: &str) -> Vec<serde_json::Value> {
        let text =
            std::fs::read_to_string(self.base.join("home/.local/state/sbx/audit.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.filter(|event| event["kind"] == kind).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// What a test with random parts begins with: always the same, and what the clock says. `SBX_TEST_SEED` names one, to
/// repeat what was told of a failure.
pub(crate) fn seeds(usual: u64) -> Vec<u64> {
    if let Some(given) = std::env::var("SBX_TEST_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return vec![given];
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    vec![usual, u64::from(now.subsec_nanos()) ^ now.as_secs()]
}

/// Tells of its seed when the test fails.
pub(crate) struct Seeded(pub(crate) u64);

impl Drop for Seeded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "SBX_TEST_SEED={} repeats this", self.0);
        }
    }
}

/// A port of an address of this machine that nobody listens on, and that the system gives to nobody by itself.
pub(crate) fn free_port(address: &str) -> u16 {
    let first = 10_000 + std::process::id() % 10_000;
    let number = u32::try_from(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap();
    let mut ports =
        (0..2000).map(|step| u16::try_from(10_000 + (first + number * 7 + step) % 20_000).unwrap());
    ports.find(|port| std::net::TcpListener::bind((address, *port)).is_ok()).expect("a free port")
}

/// Waits for something that comes in its own time, but not forever.
pub(crate) fn awaited(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A launch under way.
pub(crate) struct Running(std::process::Child);

impl Running {
    pub(crate) fn finish(self) -> Ran {
        let output = self.0.wait_with_output().unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What scripts begin with.
const HELPERS: &str = r#"
import os, socket, ssl, struct, sys, time, urllib.parse
P = urllib.parse.urlparse(os.environ["SBX_PROXY"]); PROXY = (P.hostname, P.port)
def talk(address, data, wait=30):
    s = socket.create_connection(address, 30); s.settimeout(wait)
    out = b""
    try:
        s.sendall(data)
        while True:
            d = s.recv(65536)
            if not d: break
            out += d
    except OSError as error: out += b"<" + type(error).__name__.encode() + b">"
    s.close()
    return out
def show(out): print(out.split(b"\r\n")[0].decode("latin1"))
"#;

/// What a server shows, and what those who come to it must trust.
pub(crate) struct Issued {
    pub(crate) config: Arc<rustls::ServerConfig>,
    /// The authority, the server's certificate and its key.
    pub(crate) root: String,
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// A certificate for names, by an authority of its own.
pub(crate) fn issue(names: &[&str]) -> Issued {
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "a test's own authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = params.self_signed(&authority).unwrap();
    let issuer = Issuer::new(params, authority);
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let (chain, written) = (leaf.pem(), key.serialize_pem());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Issued { config: Arc::new(config), root: root.pem(), chain, key: written }
}
