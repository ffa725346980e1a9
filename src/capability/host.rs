//! Host names and addresses, normalised once, and the patterns that match them.
//!
//! Anything that two programs could read differently (octal addresses, control characters,
//! backslashes, percent signs) is refused rather than interpreted.

use super::Capability;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Anywhere on the public internet.
    Public,
    /// This machine, this network, or a cloud's metadata service.
    Inside,
}

/// A normalised host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A DNS name.
    Name(Box<str>),
    /// An address; an IPv4 address mapped into IPv6 is the IPv4 address.
    Ip(IpAddr),
}

/// Why a text is not a host or URL that sbx will deal with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Nothing is written.
    #[error("the host is empty")]
    Empty,
    /// A NUL, control character, blank, or a character with a meaning elsewhere.
    #[error("the host contains {0:?}")]
    Character(char),
    /// Octal, hexadecimal, decimal or shortened.
    #[error("`{0}` is not an IPv4 address in its usual form (four decimal numbers without leading zeros)")]
    Ipv4(String),
    /// Not an IPv6 address.
    #[error("`{0}` is not an IPv6 address")]
    Ipv6(String),
    /// Not a DNS name.
    #[error("`{0}` is not a host name")]
    Name(String),
    /// Not a port.
    #[error("`{0}` is not a port (1 to 65535)")]
    Port(String),
    /// A wildcard where none may stand.
    #[error("`*` stands alone or as `*.` at the start, not in `{0}`")]
    Wildcard(String),
    /// Not a URL with a host.
    #[error("`{0}` is not an absolute http or https URL")]
    Url(String),
}

impl Host {
    /// Normalises a host: lower case, ASCII, one trailing dot off, brackets and userinfo off.
    ///
    /// # Errors
    /// When it could be read in more than one way, or not at all.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let text = without_user(text)?;
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(|| HostError::Ipv6(text.to_owned()))?;
            return ipv6(inner);
        }
        if text.bytes().filter(|byte| *byte == b':').count() > 1 {
            return ipv6(text);
        }
        refuse_odd_characters(text)?;
        let ascii = to_ascii(text)?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        if looks_like_ipv4(name) {
            return name
                .parse::<Ipv4Addr>()
                .map(|address| Self::Ip(address.into()))
                .map_err(|_| HostError::Ipv4(text.to_owned()));
        }
        if is_dns_name(name) { Ok(Self::Name(name.into())) } else { Err(HostError::Name(text.to_owned())) }
    }

    /// Whether only a grant that names this very host may reach it.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        match self {
            Self::Name(name) => &**name == "localhost" || name.ends_with(".localhost"),
            Self::Ip(address) => classify(*address) == Address::Inside,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// What stands behind a user and a password. Who is named there must not hold anything by which another reader would
/// find the host to be over already, or not to have begun.
fn without_user(text: &str) -> Result<&str, HostError> {
    let Some((user, host)) = text.rsplit_once('@') else { return Ok(text) };
    let odd = |c: &char| !c.is_ascii_graphic() || "/\\?#@[]<>^|\"`{}".contains(*c);
    user.chars().find(odd).map_or(Ok(host), |c| Err(HostError::Character(c)))
}

fn refuse_odd_characters(text: &str) -> Result<(), HostError> {
    // What nearly all names are made of, told by a look at the bytes.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')) {
        return Ok(());
    }
    let odd = |c: &char| c.is_control() || c.is_whitespace() || "/\\%?#[]<>^|\"`{}:".contains(*c);
    text.chars().find(odd).map_or(Ok(()), |c| Err(HostError::Character(c)))
}

fn to_ascii(text: &str) -> Result<String, HostError> {
    let lower = text.to_ascii_lowercase();
    let plain = lower.is_ascii() && !lower.split('.').any(|label| label.starts_with("xn--"));
    if plain {
        return Ok(lower);
    }
    idna::domain_to_ascii(&lower).map_err(|_| HostError::Name(text.to_owned()))
}

fn ipv6(text: &str) -> Result<Host, HostError> {
    let address: Ipv6Addr = text.parse().map_err(|_| HostError::Ipv6(text.to_owned()))?;
    Ok(Host::Ip(IpAddr::V6(address).to_canonical()))
}

/// Whether some program would read the name as an IPv4 address: its last label is a number.
fn looks_like_ipv4(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let digits = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let hex = last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits || hex
}

fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Says whether an address lies on the public internet; every embedded IPv4 address counts.
#[must_use]
pub(crate) fn classify(address: IpAddr) -> Address {
    let inside = match address.to_canonical() {
        IpAddr::V4(v4) => is_inside_v4(v4),
        IpAddr::V6(v6) => is_inside_v6(v6),
    };
    if inside { Address::Inside } else { Address::Public }
}

fn is_inside_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || address == Ipv4Addr::new(168, 63, 129, 16) // a cloud's metadata service on a public address
}

fn is_inside_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_inside_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0, 0, 0, 0, 0, 0, high, low] => (high == 0 && low <= 1) || embedded(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, ..] | [0x2001, 0, ..] => true,
        [first, ..] => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80 || first & 0xff00 == 0xff00,
    }
}

/// A host and, where known, a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port; none when nobody said.
    pub port: Option<u16>,
}

impl Target {
    /// Reads `host`, `host:port` or `[v6]:port`.
    ///
    /// # Errors
    /// When host or port cannot be read in exactly one way.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let text = without_user(text)?;
        let (host, port) = split_port(text)?;
        Ok(Self { host: Host::parse(host)?, port })
    }

    /// Reads the host and port a URL leads to.
    ///
    /// # Errors
    /// When it is not an absolute http, https, ws or wss URL, or its host is odd.
    pub fn from_url(url: &str) -> Result<Self, HostError> {
        let not_a_url = || HostError::Url(url.chars().take(200).collect());
        let (scheme, rest) = url.split_once("://").ok_or_else(not_a_url)?;
        let default = match scheme.to_ascii_lowercase().as_str() {
            "http" | "ws" => 80,
            "https" | "wss" => 443,
            _ => return Err(not_a_url()),
        };
        if let Some(c) = url.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '\\') {
            return Err(HostError::Character(c));
        }
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let target = Self::parse(authority)?;
        Ok(Self { port: target.port.or(Some(default)), ..target })
    }
}

/// Splits `:port` off; a bare IPv6 address has none.
fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    let (host, port) = match text.strip_prefix('[').and_then(|_| text.find(']')) {
        Some(close) => match &text[close + 1..] {
            "" => return Ok((text, None)),
            rest => {
                (&text[..=close], rest.strip_prefix(':').ok_or_else(|| HostError::Ipv6(text.to_owned()))?)
            }
        },
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, port),
            _ => return Ok((text, None)),
        },
    };
    let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(number @ 1..) if digits => Ok((host, Some(number))),
        _ => Err(HostError::Port(port.to_owned())),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => write!(f, "{}", self.host),
        }
    }
}

/// What a host pattern says about the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// `*`: every public host.
    Any,
    /// `*.x`: `x` and every name below it.
    Below(Box<str>),
    /// One host.
    Exact(Host),
    /// One host as far as a wildcard reaches it, which is not inside: what is left when a wildcard is narrowed to a name.
    /// Nobody writes this.
    Outside(Host),
}

impl HostPattern {
    /// Reads a pattern with its optional port.
    ///
    /// # Errors
    /// When the wildcard stands elsewhere than `*` or `*.x`, or the host is odd.
    pub fn parse(text: &str) -> Result<(Self, Option<u16>), HostError> {
        if text.contains("://") {
            return Err(HostError::Character('/'));
        }
        let (host, port) = split_port(text)?;
        let pattern = match host.strip_prefix("*.") {
            None if host == "*" => Self::Any,
            None => Self::Exact(no_wildcard(host).and_then(Host::parse)?),
            Some(suffix) => match no_wildcard(suffix).and_then(Host::parse)? {
                Host::Name(name) => Self::Below(name),
                Host::Ip(_) => return Err(HostError::Wildcard(text.to_owned())),
            },
        };
        Ok((pattern, port))
    }

    /// Whether the pattern names this very host.
    #[must_use]
    pub fn names(&self, host: &Host) -> bool {
        matches!(self, Self::Exact(exact) if exact == host)
    }

    /// Whether the pattern matches the host.
    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        match self {
            Self::Exact(exact) => exact == host,
            _ if host.is_inside() => false,
            Self::Any => true,
            Self::Outside(exact) => exact == host,
            Self::Below(suffix) => match host {
                Host::Name(name) => is_below(name, suffix),
                Host::Ip(_) => false,
            },
        }
    }

    /// Whether every host that matches `child` matches this pattern too.
    #[must_use]
    pub fn covers(&self, child: &Self) -> bool {
        match (self, child) {
            (_, Self::Exact(host) | Self::Outside(host)) => self.matches(host),
            (Self::Any, Self::Any | Self::Below(_)) => true,
            (Self::Below(parent), Self::Below(child)) => is_below(child, parent),
            (Self::Below(_) | Self::Exact(_) | Self::Outside(_), _) => false,
        }
    }
}

fn no_wildcard(text: &str) -> Result<&str, HostError> {
    if text.contains('*') { Err(HostError::Wildcard(text.to_owned())) } else { Ok(text) }
}

/// Whether `name` is `suffix` or ends in `.suffix`.
fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Below(suffix) => write!(f, "*.{suffix}"),
            Self::Exact(host) | Self::Outside(host) => write!(f, "{host}"),
        }
    }
}

/// An HTTP method and the verb it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(Capability);

impl Method {
    /// The verb for a method token, which is case-sensitive; none when no verb allows it.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Self> {
        Some(Self(match token {
            "GET" | "HEAD" | "OPTIONS" => Capability::NetGet,
            "POST" => Capability::NetPost,
            "PUT" | "PATCH" => Capability::NetPut,
            "DELETE" => Capability::NetDelete,
            _ => return None,
        }))
    }

    /// The capability it needs.
    #[must_use]
    pub const fn capability(self) -> Capability {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    fn matches(pattern: &str, text: &str) -> bool {
        HostPattern::parse(pattern).unwrap().0.matches(&host(text))
    }

    #[test]
    fn spelling_does_not_matter() {
        for spelling in ["API.GitHub.com", "api.github.com.", "user:pw@api.github.com"] {
            assert_eq!(host(spelling).to_string(), "api.github.com");
        }
        assert_eq!(host("bücher.example").to_string(), "xn--bcher-kva.example");
        assert_eq!(host("[::ffff:1.2.3.4]"), host("1.2.3.4"));
    }

    #[test]
    fn odd_addresses_are_refused() {
        for odd in [
            "0177.0.0.1",
            "2130706433",
            "0x7f.0.0.1",
            "0x7f000001",
            "127.1",
            "1.2.3.4.5",
            "１２７.1",
            "1.2.3.04",
        ] {
            assert!(Host::parse(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn odd_characters_are_refused() {
        for odd in [
            "a\0.com",
            "a b.com",
            "a.com\n",
            "a%2ecom",
            "a/b",
            "a\\b",
            "",
            ".",
            "a..b",
            "-a.com",
            "fe80::1%eth0",
        ] {
            assert!(Host::parse(odd).is_err(), "{odd:?}");
            assert!(Target::parse(odd).is_err(), "{odd:?}");
        }
        for user in [
            "evil.com/",
            "evil.com?",
            "evil.com#",
            "evil.com\\",
            "//evil.com",
            "a@evil.com",
            "a b",
            "a\t",
            "\u{ff0f}",
        ] {
            for host in ["good.com", "good.com:443"] {
                let odd = format!("{user}@{host}");
                assert!(Target::parse(&odd).is_err(), "{odd:?}");
                assert!(Host::parse(&odd).is_err(), "{odd:?}");
            }
        }
    }

    #[test]
    fn a_suffix_pattern_includes_its_apex_and_any_depth() {
        assert!(matches("*.github.com", "github.com"));
        assert!(matches("*.github.com", "a.b.github.com"));
        assert!(!matches("*.github.com", "notgithub.com"));
        assert!(!matches("*.github.com", "github.com.evil.com"));
    }

    #[test]
    fn wildcards_never_reach_inside() {
        for inside in [
            "localhost",
            "x.localhost",
            "127.0.0.1",
            "10.0.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "[::1]",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "[::ffff:10.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "168.63.129.16",
            "0.0.0.0",
            "[::]",
            "[::7f00:1]",
        ] {
            assert!(!matches("*", inside), "{inside}");
        }
        assert!(matches("*", "93.184.216.34") && matches("*", "[2606:4700::1111]"));
        assert!(matches("127.0.0.1", "127.0.0.1") && matches("localhost", "LOCALHOST"));
        assert!(!matches("*.localhost", "a.localhost"));
    }

    #[test]
    fn wildcards_elsewhere_are_refused() {
        for odd in [
            "api.*.com",
            "*github.com",
            "**",
            "*.",
            "*.*.com",
            "*.1.2.3.4",
            "https://a.com",
            "a.com:0",
            "a.com:x",
        ] {
            assert!(HostPattern::parse(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_url_leads_to_its_real_host() {
        let target = |url| Target::from_url(url).map(|target| target.to_string());
        assert_eq!(target("https://allowed.com@evil.com/x").unwrap(), "evil.com:443");
        assert_eq!(target("http://[::1]:8080/").unwrap(), "[::1]:8080");
        assert_eq!(target("HTTP://A.com?x=@b").unwrap(), "a.com:80");
        for odd in
            ["/relative", "file:///etc/passwd", "https:///x", "https://a.com\\@b.com/", "http://a.com:99999/"]
        {
            assert!(target(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn inclusion_of_patterns() {
        let covers =
            |a: &str, b: &str| HostPattern::parse(a).unwrap().0.covers(&HostPattern::parse(b).unwrap().0);
        assert!(covers("*", "*.a.com") && covers("*.a.com", "*.b.a.com") && covers("*.a.com", "a.com"));
        assert!(!covers("*.a.com", "*") && !covers("a.com", "*.a.com") && !covers("*", "127.0.0.1"));
    }
}
