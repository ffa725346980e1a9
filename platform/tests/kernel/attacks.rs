//! Ways past a fenced network that have worked somewhere, by plain system calls.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

fn check(value: i64) -> io::Result<i64> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// A socket of any kind.
fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers.
    let raw = check(unsafe { libc::socket(family, kind, protocol) }.into())?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
}

/// An address as the kernel reads it, whose family can change under its eyes.
#[repr(C, align(8))]
struct Address {
    family: AtomicU16,
    rest: [u8; 14],
}

impl Address {
    fn of(address: &str) -> Option<Self> {
        let SocketAddr::V4(four) = address.parse().ok()? else { return None };
        let mut rest = [0; 14];
        rest[..2].copy_from_slice(&four.port().to_be_bytes());
        rest[2..6].copy_from_slice(&four.ip().octets());
        Some(Self { family: AtomicU16::new(libc::AF_INET as u16), rest })
    }

    fn connect(&self, socket: &OwnedFd) -> io::Result<()> {
        // SAFETY: sixteen readable bytes.
        check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const *self).cast(), 16) }.into()).map(drop)
    }

    fn send(&self, socket: &OwnedFd, flags: i32) -> io::Result<()> {
        let to = (&raw const *self).cast();
        // SAFETY: four readable bytes, and sixteen.
        check(unsafe { libc::sendto(socket.as_raw_fd(), b"leak".as_ptr().cast(), 4, flags, to, 16) } as i64)
            .map(drop)
    }
}

/// A listener of the host that would share its port.
pub(crate) fn sharing_listener() -> io::Result<std::net::TcpListener> {
    let listener = socket(2, 1, 0)?;
    set(&listener, libc::SOL_SOCKET, libc::SO_REUSEPORT)?;
    let Some(address) = Address::of("127.0.0.1:0") else { return Err(io::ErrorKind::InvalidInput.into()) };
    // SAFETY: sixteen readable bytes.
    check(unsafe { libc::bind(listener.as_raw_fd(), (&raw const address).cast(), 16) }.into())?;
    // SAFETY: plain integers.
    check(unsafe { libc::listen(listener.as_raw_fd(), 64) }.into())?;
    Ok(listener.into())
}

/// What the probe does inside.
pub(crate) fn act(words: &[&str]) -> Option<String> {
    let done = |result: io::Result<()>| match result {
        Ok(()) => String::from("ok"),
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(-1)),
    };
    Some(match words {
        ["socket", kind] => {
            let numbers: Vec<i32> = kind.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [family, kind, protocol] = numbers[..] else { return None };
            done(socket(family, kind, protocol).map(drop))
        }
        ["fast-open", address] => {
            let address = Address::of(address)?;
            let flags = libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL;
            done(socket(2, 1, 0).and_then(|socket| address.send(&socket, flags)))
        }
        ["fast-open-later", address] => done(fast_open_later(&Address::of(address)?)),
        ["multipath", address] => {
            let address = Address::of(address)?;
            done(socket(2, 1, 262).and_then(|socket| address.connect(&socket)))
        }
        ["send-unconnected", address] => {
            let address = Address::of(address)?;
            done(socket(2, 1, 0).and_then(|socket| address.send(&socket, libc::MSG_NOSIGNAL)))
        }
        ["datagram", address] => {
            let address = Address::of(address)?;
            done(socket(2, 2, 0).and_then(|socket| address.send(&socket, 0)))
        }
        ["mapped", address] => done(TcpStream::connect(mapped(address)?).map(drop)),
        ["exchange", address, tries] => exchange(Address::of(address)?, tries.parse().ok()?),
        ["share", address] => done(share(&Address::of(address)?)),
        ["pair", path] => done(send_from_pair(path)),
        ["unbound"] => match unbound() {
            Ok(ip) => ip,
            Err(error) => done(Err(error)),
        },
        _ => return None,
    })
}

fn mapped(address: &str) -> Option<SocketAddr> {
    let SocketAddr::V4(four) = address.parse().ok()? else { return None };
    Some(SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port()))
}

/// Connects "later": the packet leaves with the first bytes.
fn fast_open_later(address: &Address) -> io::Result<()> {
    let socket = socket(2, 1, 0)?;
    set(&socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT)?;
    address.connect(&socket)?;
    address.send(&socket, libc::MSG_NOSIGNAL)
}

/// How long a race is run at most, and how often at least.
const RACE: Duration = Duration::from_secs(5);
const LEAST: usize = 200;

/// Says "file system" until the fence has looked, and "internet" afterwards.
fn exchange(address: Address, tries: usize) -> String {
    let address = Arc::new(address);
    let stop = Arc::new(AtomicBool::new(false));
    let thread = {
        let (address, stop) = (Arc::clone(&address), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                address.family.store(libc::AF_UNIX as u16, Ordering::Relaxed);
                address.family.store(libc::AF_INET as u16, Ordering::Relaxed);
            }
        })
    };
    let begun = Instant::now();
    // However slow the machine is, and however fast.
    let rounds = (0..tries).take_while(|round| *round < LEAST || begun.elapsed() < RACE);
    let connected =
        rounds.filter(|_| socket(2, 1, 0).and_then(|socket| address.connect(&socket)).is_ok()).count();
    stop.store(true, Ordering::Relaxed);
    let _ = thread.join();
    format!("{connected} connected")
}

fn set(socket: &OwnedFd, level: i32, option: i32) -> io::Result<()> {
    let on = 1_i32;
    // SAFETY: one readable integer.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), 4) };
    check(set.into()).map(drop)
}

/// Listens beside somebody else on the same port, which makes it one's own, and calls it.
fn share(address: &Address) -> io::Result<()> {
    let listener = socket(2, 1, 0)?;
    let shared = set(&listener, libc::SOL_SOCKET, libc::SO_REUSEPORT);
    // SAFETY: sixteen readable bytes.
    check(unsafe { libc::bind(listener.as_raw_fd(), (&raw const *address).cast(), 16) }.into())?;
    // SAFETY: plain integers.
    check(unsafe { libc::listen(listener.as_raw_fd(), 64) }.into())?;
    for _ in 0..40 {
        address.connect(&socket(2, 1, 0)?)?;
    }
    shared
}

/// A pair of datagram sockets needs no permission to make sockets, and can send anywhere.
fn send_from_pair(path: &str) -> io::Result<()> {
    std::os::unix::net::UnixDatagram::pair()?.0.send_to(b"leak", path).map(drop)
}

/// Listens without saying where; the address it got.
fn unbound() -> io::Result<String> {
    let socket = socket(2, 1, 0)?;
    // SAFETY: plain integers.
    check(unsafe { libc::listen(socket.as_raw_fd(), 1) }.into())?;
    Ok(std::net::TcpListener::from(socket).local_addr()?.ip().to_string())
}
