//! A program that only knows connections: `fetch HOST PORT PATH`.

use std::io::{Read as _, Write as _};

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, host, port, path] = &words[..] else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    let mut stream = std::net::TcpStream::connect((host.as_str(), port.parse().unwrap_or(0)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    std::io::stdout().write_all(answer.as_bytes())
}
