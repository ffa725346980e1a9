//! What a fenced process tries on the network, when sbx tries its own fence.
//!
//! Answers for connections, questions and requests whose answers tell whether they were let through. It leaves to
//! others what is tried.
//! Invariant: nothing is sent that a gateway or a listener of the trial does not answer.

use crate::plan::PROXY_PORT;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a listener waits for somebody from outside.
const AWAITING: Duration = Duration::from_millis(300);
/// Where names are asked for.
const NAMES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53);

/// The number for "permission denied", by which a refusal is told that is not the kernel's.
fn refused() -> io::Error {
    io::Error::from_raw_os_error(13)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Is connected to somebody, even if that one hangs up at once.
pub(super) fn arrive(address: SocketAddr) -> io::Result<()> {
    match connect(address) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Connects, asks and hears something.
pub(super) fn reach(address: SocketAddr) -> io::Result<()> {
    let mut stream = connect(address)?;
    write!(stream, "GET / HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    if stream.read(&mut [0])? == 0 { Err(refused()) } else { Ok(()) }
}

/// Listens, and is found by somebody.
pub(super) fn be_found(address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let begun = Instant::now();
    while begun.elapsed() < AWAITING {
        if listener.accept().is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(refused())
}

/// Asks a name server by datagram, and is answered, whatever the answer is.
pub(super) fn ask(server: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind(if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(server)?;
    socket.send(&question("sbx-doctor.invalid"))?;
    socket.recv(&mut [0; 512]).map(drop)
}

/// A question for the address of a name.
fn question(name: &str) -> Vec<u8> {
    let mut bytes = vec![0x5b, 0x78, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap_or_default());
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The address that stands for a name inside. Asked by stream, which every fence allows.
fn look_up(name: &str) -> io::Result<IpAddr> {
    if name == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let mut stream = connect(NAMES)?;
    let asked = question(name);
    stream.write_all(&u16::try_from(asked.len()).unwrap_or_default().to_be_bytes())?;
    stream.write_all(&asked)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    match answer[..] {
        // One address is all that is ever answered, and it stands at the end.
        [_, _, _, _, _, _, 0, 1, .., a, b, c, d] => Ok(Ipv4Addr::new(a, b, c, d).into()),
        _ => Err(refused()),
    }
}

/// Makes a request, written `METHOD host:port`, by connecting to its host, and is told by the gateway whether it may be
/// made.
pub(super) fn request(object: &OsStr) -> io::Result<()> {
    let (method, authority) = written(object)?;
    let (host, port) = authority.rsplit_once(':').ok_or_else(refused)?;
    let port: u16 = port.parse().map_err(|_| refused())?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let ip = bare.parse::<IpAddr>().or_else(|_| look_up(bare))?;
    judged(SocketAddr::new(ip, port), method, "/", authority)
}

/// The same through the proxy that programs are told of.
pub(super) fn request_by_proxy(object: &OsStr) -> io::Result<()> {
    let (method, authority) = written(object)?;
    let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY_PORT));
    judged(proxy, method, &format!("http://{authority}/"), authority)
}

fn written(object: &OsStr) -> io::Result<(&str, &str)> {
    object.to_str().and_then(|text| text.split_once(' ')).ok_or_else(refused)
}

/// Whether a gateway that dials nothing would have passed a request on: then it says that the other side is out of
/// reach.
fn judged(address: SocketAddr, method: &str, target: &str, host: &str) -> io::Result<()> {
    let mut stream = connect(address)?;
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(64 << 10).read_to_end(&mut answer)?;
    if answer.starts_with(b"HTTP/1.1 502 ") { Ok(()) } else { Err(refused()) }
}
