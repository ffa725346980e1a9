//! A small server on this machine's own address that remembers what it was asked.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) struct Origin {
    pub(crate) port: u16,
    log: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// Starts one; it lasts as long as the test program.
    pub(crate) fn start(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let kept = log.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, tls) = (kept.clone(), tls.clone());
                std::thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                    let _ = serve(stream, tls, &log);
                });
            }
        });
        Self { port, log }
    }

    /// What it was asked, and forgets it.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

fn serve(
    stream: TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    match tls {
        None => answer(stream, log),
        Some(config) => {
            let connection = rustls::ServerConnection::new(config).map_err(std::io::Error::other)?;
            let mut stream = rustls::StreamOwned::new(connection, stream);
            answer(&mut stream, log)?;
            stream.conn.send_close_notify();
            stream.flush()
        }
    }
}

fn answer(mut stream: impl Read + Write, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut room = [0; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut room)? {
            0 => return Ok(()),
            read => bytes.extend(&room[..read]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let line = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    let length: usize = line("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        match stream.read(&mut room)? {
            0 => return Ok(()),
            read => bytes.extend(&room[..read]),
        }
    }
    let mut words = head.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let auth = line("authorization").unwrap_or_default();
    log.lock().unwrap().push(format!("{method} {path} {length} {auth}").trim_end().to_owned());
    let (route, to) = path.split_once("?to=").unwrap_or((path, ""));
    let redirect =
        |status: u16| format!("HTTP/1.1 {status} Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    let sized = |body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Kind: plain\r\n\r\n", body.len());
        [head.as_bytes(), if method == "HEAD" { &[] } else { body }].concat()
    };
    let said = match route {
        "/go" => redirect(302).into_bytes(),
        "/see" => redirect(303).into_bytes(),
        "/keep" => redirect(307).into_bytes(),
        "/loop" => b"HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n".to_vec(),
        "/big" => sized(&vec![b'x'; 3 << 20]),
        "/binary" => sized(b"\xff\0\xfe"),
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n".to_vec()
        }
        "/odd" => b"this is not HTTP\r\n\r\n".to_vec(),
        "/slow" => {
            let _ = stream.read(&mut room);
            Vec::new()
        }
        _ => sized(format!("{method} {route} {}", String::from_utf8_lossy(&bytes[end..])).as_bytes()),
    };
    stream.write_all(&said)?;
    stream.flush()
}

/// A certificate for names, and the authority that vouches for it, as PEM.
pub(crate) fn certificate(names: &[&str]) -> (Arc<rustls::ServerConfig>, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let own = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    let leaf_key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let leaf = CertificateParams::new(names).unwrap().signed_by(&leaf_key, &issuer).unwrap();
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], der)
        .unwrap();
    (Arc::new(config), own.pem())
}
