//! Connecting, binding and listening on the command's behalf, where it has no network of its own.
//!
//! Answers for what becomes of each such call: the command's own socket is connected to a door on the host's
//! loopback, with the destination noted in the book, or to a listener of the launch itself, or refused. It
//! leaves reading the call and answering it to the broker.
//! Invariant: a socket of the command is only ever connected to a door or to a listener of the same launch, and
//! only ever bound to a loopback address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use super::book::Book;
use super::inside;
use super::kit::{Kit, Part};
use crate::door::Way;
use crate::linux::sys::{c_path, errno, fd, inet, process, socket};
use crate::plan::Gateway;

/// Where names are asked for.
const NAMES: u16 = 53;
/// Listeners that are remembered.
const OWN_MAX: usize = 256;

/// What the keeper needs to act on the command's behalf.
#[derive(Debug)]
pub(crate) struct Behalf {
    book: Book,
    streams: SocketAddr,
    names: SocketAddr,
    /// The address the plan tells of, and the door behind it.
    proxy: Option<(SocketAddr, SocketAddr)>,
    services: Vec<SocketAddr>,
    /// Ports that somebody outside listens on for the command, so that it cannot have them itself.
    published: Vec<u16>,
    /// Ports that were given for others: what was given, and what was asked for.
    given: Vec<(u16, u16)>,
    own: Vec<Own>,
    /// The kernel's lists of sockets, to see whether a listener is still there.
    lists: Vec<OwnedFd>,
}

/// A listener of the launch.
#[derive(Debug)]
struct Own {
    address: SocketAddr,
    /// The port it was meant for.
    meant: u16,
    /// Whether it was meant for every address.
    wide: bool,
    inode: u64,
}

/// The doors on this host's loopback, what the keeper needs, and its end of the line inward.
///
/// An error where the kernel, or a fence around this one, does not let a socket be taken from its owner.
pub(crate) fn prepare(gateway: &Gateway) -> io::Result<(Kit, Behalf, Option<OwnedFd>)> {
    try_taking()?;
    let mut parts = Vec::new();
    let mut door = |part: Part| -> io::Result<SocketAddr> {
        let listener = inside::listen((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = inet::local(listener.as_raw_fd())?;
        parts.push((part, listener));
        Ok(address)
    };
    let (streams, names) = (door(Part::Stream)?, door(Part::NameStream)?);
    let proxy = match gateway.proxy {
        Some(port) => Some(((Ipv4Addr::LOCALHOST, port).into(), door(Part::Proxy)?)),
        None => None,
    };
    let (file, book) = Book::new()?;
    parts.push((Part::Book, file));
    let mut inner = None;
    if !gateway.published.is_empty() {
        let (ours, theirs) = socket::pair()?;
        parts.push((Part::Inward, ours));
        inner = Some(theirs);
    }
    let lists = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|list| fd::open(fd::cwd(), &c_path(Path::new(list)).ok()?, libc::O_RDONLY, 0).ok());
    let behalf = Behalf {
        book,
        streams,
        names,
        proxy,
        services: gateway.services.clone(),
        published: gateway.published.clone(),
        given: Vec::new(),
        own: Vec::new(),
        lists: lists.collect(),
    };
    Ok((Kit { way: Way::OnBehalf, parts }, behalf, inner))
}

/// Takes a descriptor of our own as one of the command's will be taken.
fn try_taking() -> io::Result<()> {
    let line = socket::pair()?.0;
    let pidfd = process::pidfd_open(process::own_pid())?;
    process::copy_descriptor(&pidfd, line.as_raw_fd()).map(drop)
}

impl Behalf {
    /// Descriptors that must stay open.
    pub(crate) fn raw(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.lists.iter().map(AsRawFd::as_raw_fd)
    }

    /// Connects `socket`, which is the command's own, as if it were to `asked`.
    pub(crate) fn connect(&self, socket: &OwnedFd, asked: SocketAddr) -> io::Result<()> {
        let six = stream_family(socket)?;
        let asked = SocketAddr::new(meant(asked.ip()), asked.port());
        if inet::is_connected(socket.as_raw_fd()) {
            return Err(errno(libc::EISCONN));
        }
        if let Some((told, door)) = &self.proxy
            && *told == asked
        {
            return self.lead(socket, six, *door, asked);
        }
        if asked.port() == NAMES {
            return self.lead(socket, six, self.names, asked);
        }
        if !asked.ip().is_loopback() || self.services.contains(&asked) {
            return self.lead(socket, six, self.streams, asked);
        }
        let own = self.listener(asked).ok_or_else(|| errno(libc::ECONNREFUSED))?;
        let to = suited(own.address, six).ok_or_else(|| errno(libc::ECONNREFUSED))?;
        connect(socket, to)
    }

    /// Connects to a door, so that whoever serves it knows where it was meant to go.
    fn lead(&self, socket: &OwnedFd, six: bool, door: SocketAddr, asked: SocketAddr) -> io::Result<()> {
        let raw = socket.as_raw_fd();
        if inet::local(raw)?.port() == 0 {
            bind_somewhere(raw, six)?;
        }
        let port = inet::local(raw)?.port();
        self.book.write(port, asked);
        let to = suited(door, six).ok_or_else(|| errno(libc::ECONNREFUSED))?;
        let connected = connect(socket, to);
        if connected.as_ref().is_err_and(|error| error.raw_os_error() != Some(libc::EINPROGRESS)) {
            self.book.take(port);
        }
        connected
    }

    /// Gives `socket` an address of this host's loopback.
    pub(crate) fn bind(&mut self, socket: &OwnedFd, asked: SocketAddr) -> io::Result<()> {
        let six = stream_family(socket)?;
        let ip = asked.ip().to_canonical();
        if self.published.contains(&asked.port()) && (ip.is_unspecified() || ip.is_loopback()) {
            return self.bind_published(socket.as_raw_fd(), six, asked.port());
        }
        if ip.is_unspecified() {
            return bind_wide(socket.as_raw_fd(), six, asked.port());
        }
        if !ip.is_loopback() {
            return Err(errno(libc::EACCES));
        }
        inet::bind(socket.as_raw_fd(), asked)
    }

    /// Gives another port for one that is published, and remembers for which.
    fn bind_published(&mut self, raw: RawFd, six: bool, asked: u16) -> io::Result<()> {
        if self.own.iter().any(|own| own.meant == asked && self.is_listening(own.inode)) {
            return Err(errno(libc::EADDRINUSE));
        }
        bind_somewhere(raw, six)?;
        if self.given.len() == OWN_MAX {
            self.given.remove(0);
        }
        self.given.push((inet::local(raw)?.port(), asked));
        Ok(())
    }

    /// Lets `socket` listen, and remembers that it does.
    pub(crate) fn listen(&mut self, socket: &OwnedFd, backlog: i32) -> io::Result<()> {
        let raw = socket.as_raw_fd();
        if inet::family(raw)? == libc::AF_UNIX {
            return inet::listen(raw, backlog);
        }
        let six = stream_family(socket)?;
        if inet::local(raw)?.port() == 0 {
            bind_somewhere(raw, six)?;
        }
        inet::listen(raw, backlog)?;
        let address = inet::local(raw)?;
        // Asked for every address, it was bound to the mapped form of the older family's own.
        let wide = address.ip().to_canonical() == IpAddr::V4(Ipv4Addr::LOCALHOST);
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        self.own.retain(|own| own.address != address);
        if self.own.len() == OWN_MAX {
            self.own.remove(0);
        }
        let meant = self.given.iter().rev().find(|(given, _)| *given == address.port());
        let meant = meant.map_or(address.port(), |(_, asked)| *asked);
        self.own.push(Own { address, meant, wide, inode: fd::stat(raw)?.st_ino });
        Ok(())
    }

    /// The port of this host behind `port` of the launch, if it listens there in that family.
    pub(crate) fn serves(&self, six: bool, port: u16) -> Option<u16> {
        let ip: IpAddr = if six { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let own = self.listener(SocketAddr::new(ip, port))?;
        (own.address.is_ipv6() == six).then(|| own.address.port())
    }

    /// The listener of the launch behind `asked`, if it is still the one that was remembered.
    fn listener(&self, asked: SocketAddr) -> Option<&Own> {
        let port = |own: &Own| asked.port() == own.meant || asked.port() == own.address.port();
        let fits = |own: &&Own| port(own) && (own.wide || own.address.ip() == asked.ip());
        self.own.iter().find(fits).filter(|own| self.is_listening(own.inode))
    }

    /// Whether a socket with this number still listens, by the kernel's own lists.
    fn is_listening(&self, inode: u64) -> bool {
        const LISTENING: &str = "0A";
        self.lists.iter().any(|list| {
            let text = whole(list.as_raw_fd());
            text.lines().any(|line| {
                let mut fields = line.split_whitespace().skip(3);
                fields.next() == Some(LISTENING)
                    && fields.nth(5).and_then(|field| field.parse().ok()) == Some(inode)
            })
        })
    }
}

/// A list from its beginning.
fn whole(list: RawFd) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = fd::read_at(list, &mut buffer, bytes.len() as i64) {
        bytes.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a TCP socket is of the newer family; an error for every other kind of socket.
fn stream_family(socket: &OwnedFd) -> io::Result<bool> {
    let raw = socket.as_raw_fd();
    if !inet::is_tcp(raw)? {
        return Err(errno(libc::EACCES));
    }
    Ok(inet::family(raw)? == libc::AF_INET6)
}

/// The address the kernel would have taken: "any" is this host.
fn meant(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(four) if four.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(six) if six.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// `address` as a socket of that family can name it.
fn suited(address: SocketAddr, six: bool) -> Option<SocketAddr> {
    match (address.ip(), six) {
        (IpAddr::V4(four), true) => Some(SocketAddr::new(four.to_ipv6_mapped().into(), address.port())),
        (IpAddr::V4(_), false) | (IpAddr::V6(_), true) => Some(address),
        (IpAddr::V6(_), false) => None,
    }
}

fn bind_somewhere(raw: RawFd, six: bool) -> io::Result<()> {
    bind_wide(raw, six, 0)
}

/// Binds where both families can reach it.
fn bind_wide(raw: RawFd, six: bool, port: u16) -> io::Result<()> {
    if six {
        inet::allow_both_families(raw)?;
    }
    let address = suited((Ipv4Addr::LOCALHOST, port).into(), six).ok_or_else(|| errno(libc::EACCES))?;
    inet::bind(raw, address)
}

/// Connects without ever waiting long: whoever listens is on this host, so the kernel answers at once.
fn connect(socket: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    const PATIENCE: i32 = 1_000;
    let raw = socket.as_raw_fd();
    if fd::is_nonblocking(raw)? {
        return inet::connect(raw, to);
    }
    let connected = inet::connect_within(socket, to, PATIENCE);
    fd::set_blocking(raw)?;
    connected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_means_this_host() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (asked, is) in [
            ("0.0.0.0", "127.0.0.1"),
            ("::", "::1"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("::ffff:0.0.0.0", "127.0.0.1"),
            ("203.0.113.7", "203.0.113.7"),
        ] {
            assert_eq!(meant(ip(asked)), ip(is), "{asked}");
        }
    }

    #[test]
    fn a_socket_is_bound_to_loopback_only() {
        let gateway = Gateway { published: vec![7], ..Gateway::default() };
        let (_, mut behalf, _) = prepare(&gateway).unwrap();
        let to = |text: &str| text.parse::<SocketAddr>().unwrap();
        let socket = inet::unconnected(false).unwrap();
        let refused = behalf.bind(&socket, to("192.0.2.1:0")).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        behalf.bind(&socket, to("0.0.0.0:0")).unwrap();
        let bound = inet::local(socket.as_raw_fd()).unwrap();
        assert!(bound.ip().is_loopback());
        assert_eq!(behalf.serves(false, bound.port()), None);
        behalf.listen(&socket, 1).unwrap();
        assert_eq!(behalf.serves(false, bound.port()), Some(bound.port()));
        drop(socket);
        assert_eq!(behalf.serves(false, bound.port()), None);
        let published = inet::unconnected(true).unwrap();
        behalf.bind(&published, to("[::]:7")).unwrap();
        behalf.listen(&published, 1).unwrap();
        let given = inet::local(published.as_raw_fd()).unwrap().port();
        assert_eq!(behalf.serves(false, 7), Some(given));
        let second = behalf.bind(&inet::unconnected(false).unwrap(), to("127.0.0.1:7")).unwrap_err();
        assert_eq!(second.raw_os_error(), Some(libc::EADDRINUSE));
    }
}
