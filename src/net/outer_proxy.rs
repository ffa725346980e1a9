//! The proxy that the caller's own network asks for.
//!
//! Answers for reading where it is and for asking it for a connection, or for being asked for requests of plain HTTP. It
//! leaves to the authority what may be asked.
//! Invariant: its credentials are shown nowhere.

use crate::capability::{Host, HostPattern, Target};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::io;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

/// A proxy further out, and who is reached without it.
#[derive(Clone)]
pub(crate) struct OuterProxy {
    /// Who is asked for connections.
    tunnels: Place,
    /// Who is asked for requests of plain HTTP; many proxies allow connections to few ports.
    requests: Place,
    without: Vec<HostPattern>,
    /// Networks, by their first address and how many bits of it count.
    without_networks: Vec<(IpAddr, u32)>,
    without_any: bool,
}

/// Where a proxy is, and who it is told that asks.
#[derive(Clone)]
struct Place {
    host: String,
    port: u16,
    credentials: Option<Zeroizing<String>>,
}

impl fmt::Debug for OuterProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OuterProxy")
            .field("host", &self.tunnels.host)
            .field("port", &self.tunnels.port)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// Reads `http://[user:password@]host[:port]`.
    fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        if rest.contains("://") {
            return None;
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (credentials, authority) = match authority.rsplit_once('@') {
            Some((credentials, authority)) => {
                let plain = Zeroizing::new(decode_percent(credentials));
                (Some(Zeroizing::new(STANDARD.encode(plain.as_slice()))), authority)
            }
            None => (None, authority),
        };
        let target = Target::parse(authority).ok()?;
        let (host, port) = (target.host.to_string(), target.port.unwrap_or(8080));
        Some(Self { host, port, credentials })
    }

    async fn reach(&self) -> io::Result<TcpStream> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.port)).await?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// The line that says who asks, with its end; nothing where nobody need say so.
    fn credentials(&self) -> Zeroizing<String> {
        let line = |credentials: &Zeroizing<String>| {
            format!("Proxy-Authorization: Basic {}\r\n", credentials.as_str())
        };
        Zeroizing::new(self.credentials.as_ref().map(line).unwrap_or_default())
    }
}

impl OuterProxy {
    /// Reads where connections and requests of plain HTTP are asked for, and a list of hosts that need no proxy.
    pub(crate) fn parse(tunnels: &str, requests: &str, without: &str) -> Option<Self> {
        let words = || without.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
        let pattern = |word: &str| {
            let suffix = word.strip_prefix("*.").or_else(|| word.strip_prefix('.'));
            match suffix {
                Some(suffix) => HostPattern::parse(&format!("*.{suffix}")),
                // A bare name stands for all below it too, as other programs have it.
                None => HostPattern::parse(&format!("*.{word}")).or_else(|_| HostPattern::parse(word)),
            }
            .ok()
            .map(|(pattern, _)| pattern)
        };
        Some(Self {
            tunnels: Place::parse(tunnels)?,
            requests: Place::parse(requests)?,
            without: words().filter_map(pattern).collect(),
            without_networks: words().filter_map(network).collect(),
            without_any: words().any(|word| word == "*"),
        })
    }

    /// Whether a target is reached through it. This machine's own services never are.
    pub(crate) fn serves(&self, target: &Target) -> bool {
        let own = target.host.is_inside();
        let excepted = self.without_any || self.without.iter().any(|pattern| pattern.matches(&target.host));
        let within = match target.host {
            Host::Ip(ip) => self.without_networks.iter().any(|network| is_within(ip, *network)),
            Host::Name(_) => false,
        };
        !own && !excepted && !within
    }

    /// A connection to the target through it.
    pub(crate) async fn connect(&self, target: &Target) -> io::Result<TcpStream> {
        let mut stream = self.tunnels.reach().await?;
        let credentials = self.tunnels.credentials();
        let request = Zeroizing::new(format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n",
            credentials.as_str()
        ));
        stream.write_all(request.as_bytes()).await?;
        read_answer(&mut stream).await?;
        Ok(stream)
    }

    /// A connection on which it is asked for requests of plain HTTP; each must name its target and carry
    /// [`OuterProxy::credentials`].
    pub(crate) async fn ask(&self) -> io::Result<TcpStream> {
        self.requests.reach().await
    }

    /// What such a request carries in its head to say who asks.
    pub(crate) fn credentials(&self) -> Zeroizing<String> {
        self.requests.credentials()
    }
}

/// A network as `10.0.0.0/8`.
fn network(word: &str) -> Option<(IpAddr, u32)> {
    let (first, bits) = word.split_once('/')?;
    let first: IpAddr = first.parse().ok()?;
    let most = if first.is_ipv4() { 32 } else { 128 };
    bits.parse().ok().filter(|bits| *bits <= most).map(|bits| (first, bits))
}

fn is_within(ip: IpAddr, (first, bits): (IpAddr, u32)) -> bool {
    match (ip.to_canonical(), first) {
        (IpAddr::V4(ip), IpAddr::V4(first)) => {
            let apart = ip.to_bits() ^ first.to_bits();
            apart.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(first)) => {
            let apart = ip.to_bits() ^ first.to_bits();
            apart.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// Reads the proxy's answer byte by byte, because what follows it is the target's own.
async fn read_answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > 16 << 10 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the proxy's answer is too long"));
        }
        answer.push(stream.read_u8().await?);
    }
    let line = String::from_utf8_lossy(&answer);
    let status = line.split_whitespace().nth(1).unwrap_or_default();
    if line.starts_with("HTTP/1.") && status == "200" {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("the proxy answered {status}")))
}

fn decode_percent(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Target {
        Target { host: Host::parse(text).unwrap(), port: Some(443) }
    }

    fn parse(url: &str, without: &str) -> Option<OuterProxy> {
        OuterProxy::parse(url, url, without)
    }

    #[test]
    fn a_proxy_is_read_and_shows_no_password() {
        let proxy = parse("http://me:p%40ss@proxy.example:3128/", "").unwrap();
        let place = &proxy.tunnels;
        assert_eq!((place.host.as_str(), place.port), ("proxy.example", 3128));
        assert_eq!(*place.credentials(), "Proxy-Authorization: Basic bWU6cEBzcw==\r\n");
        assert!(!format!("{proxy:?}").contains("bWU6"));
        assert!(parse("socks5://x", "").is_none() && parse("http://", "").is_none());
        let two = OuterProxy::parse("a.example:1", "http://b.example", "").unwrap();
        assert_eq!((two.tunnels.port, two.requests.port), (1, 8080));
        assert_eq!(*two.credentials(), "");
    }

    #[test]
    fn exceptions_are_reached_directly() {
        let proxy = parse("proxy.example:1", ".corp.example, db.example,10.0.0.5").unwrap();
        assert!(proxy.serves(&host("example.org")));
        for direct in ["a.corp.example", "db.example", "x.db.example", "localhost", "127.0.0.1"] {
            assert!(!proxy.serves(&host(direct)), "{direct}");
        }
        let proxy = parse("p:1", "203.0.113.0/24,2001:db8::/32,198.51.100.7/32,0.0.0.0/99").unwrap();
        for (address, through) in [
            ("203.0.113.9", false),
            ("203.0.112.9", true),
            ("2001:db8:1::1", false),
            ("2001:db9::1", true),
            ("198.51.100.7", false),
            ("198.51.100.8", true),
            ("a.example", true),
        ] {
            assert_eq!(proxy.serves(&host(address)), through, "{address}");
        }
        assert!(!parse("p:1", "0.0.0.0/0").unwrap().serves(&host("8.8.8.8")));
        assert!(!parse("p:1", "*").unwrap().serves(&host("example.org")));
    }
}
