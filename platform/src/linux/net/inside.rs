//! The sockets of a network namespace of one's own.
//!
//! Answers for making them in the right order and for finding out which way connections can be led to them. It
//! leaves routes, rules and serving to others.
//! Invariant: runs in the new namespace, before privileges are dropped and before the command exists.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

use super::kit::{Kit, Part};
use super::{route, rules};
use crate::door::Way;
use crate::linux::sys::{datagram, inet, number, socket};
use crate::plan::Gateway;
use crate::report::{SetupFailure, Step};

/// Where names are asked for.
const NAMES: u16 = 53;
/// This host, in both families.
const LOOPBACK: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);

/// The sockets, and the near end of the line on which more can be had, if anything is published.
pub(crate) fn arrange(gateway: &Gateway) -> Result<(Kit, Option<OwnedFd>), SetupFailure> {
    let fail = |object: &str, error: &io::Error| SetupFailure {
        step: Step::Network,
        object: object.to_owned(),
        errno: number(error),
    };
    route::make_everything_local().map_err(|error| fail("routes", &error))?;
    // What has a port by agreement comes before what takes any.
    let mut parts = named(gateway).map_err(|error| fail("own listeners", &error))?;
    let way = match redirected().map_err(|error| fail("listener", &error))? {
        Some(listeners) => {
            parts.extend(listeners);
            parts.extend(names(LOOPBACK).map_err(|error| fail("name sockets", &error))?);
            parts.extend(name_streams().map_err(|error| fail("name listeners", &error))?);
            Way::Redirected
        }
        None => {
            // A listener of that port on every address is one for this address too.
            parts.retain(|(part, listener)| {
                let port = || inet::local(listener.as_raw_fd()).map_or(0, |address| address.port());
                *part != Part::Service || !gateway.ports.contains(&port())
            });
            parts.extend(per_port(gateway).map_err(|error| fail("listeners", &error))?);
            Way::PerPort
        }
    };
    let mut inner = None;
    if !gateway.published.is_empty() {
        let (ours, theirs) = socket::pair().map_err(|error| fail("line", &error))?;
        parts.push((Part::Inward, ours));
        inner = Some(theirs);
    }
    Ok((Kit { way, parts }, inner))
}

/// The proxy, and one listener for each service of the host.
fn named(gateway: &Gateway) -> io::Result<Vec<(Part, OwnedFd)>> {
    let mut parts = Vec::new();
    if let Some(port) = gateway.proxy {
        parts.push((Part::Proxy, listen((Ipv4Addr::LOCALHOST, port).into())?));
    }
    for (at, address) in gateway.services.iter().enumerate() {
        if !gateway.services[..at].contains(address) {
            parts.push((Part::Service, listen(*address)?));
        }
    }
    Ok(parts)
}

/// One listener for everything, and the rules that lead there; `None` where the kernel has no such rules.
fn redirected() -> io::Result<Option<Vec<(Part, OwnedFd)>>> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = first.local_addr()?.port();
    let mut parts = vec![(Part::Stream, widen(first)?)];
    // Without IPv6 nothing comes that way either.
    if let Ok(second) = listen((Ipv6Addr::LOCALHOST, port).into()) {
        parts.push((Part::Stream, second));
    }
    Ok(rules::redirect(port).ok().map(|()| parts))
}

/// A listener on every address for each port that may be asked for, and for names by stream and by datagram.
fn per_port(gateway: &Gateway) -> io::Result<Vec<(Part, OwnedFd)>> {
    let mut ports = gateway.ports.clone();
    ports.sort_unstable();
    ports.dedup();
    ports.retain(|port| *port != NAMES && Some(*port) != gateway.proxy);
    let mut parts = Vec::new();
    for port in ports {
        parts.push((Part::Stream, listen_everywhere(port)?));
    }
    parts.push((Part::NameStream, listen_everywhere(NAMES)?));
    parts.extend(names((Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED))?);
    Ok(parts)
}

fn listen_everywhere(port: u16) -> io::Result<OwnedFd> {
    listen((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|_| listen((Ipv4Addr::UNSPECIFIED, port).into()))
}

/// Where names are asked for by stream on the loopback addresses; the newer one only where there is one.
fn name_streams() -> io::Result<Vec<(Part, OwnedFd)>> {
    let mut parts = vec![(Part::NameStream, listen((Ipv4Addr::LOCALHOST, NAMES).into())?)];
    let second = listen((Ipv6Addr::LOCALHOST, NAMES).into());
    parts.extend(second.ok().map(|listener| (Part::NameStream, listener)));
    Ok(parts)
}

/// The same by datagram, on these addresses. Answers come from the address that was asked.
fn names((four, six): (Ipv4Addr, Ipv6Addr)) -> io::Result<Vec<(Part, OwnedFd)>> {
    let datagrams = |ip: IpAddr| -> io::Result<OwnedFd> {
        let socket = inet::datagrams(ip.is_ipv6())?;
        inet::bind(socket.as_raw_fd(), (ip, NAMES).into())?;
        inet::widen_receive_buffer(socket.as_raw_fd());
        datagram::tell_destinations(socket.as_raw_fd(), ip.is_ipv6())?;
        Ok(socket)
    };
    let mut parts = vec![(Part::Names, datagrams(four.into())?)];
    parts.extend(datagrams(six.into()).ok().map(|socket| (Part::Names, socket)));
    Ok(parts)
}

pub(super) fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    widen(TcpListener::bind(address)?)
}

/// Lets as many wait as the kernel allows; what is sent on its connections is not paced, because they stay on this host.
fn widen(listener: TcpListener) -> io::Result<OwnedFd> {
    inet::listen(listener.as_raw_fd(), 4096)?;
    // Every kernel has it; without it only time is lost.
    let _ = inet::set(listener.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"reno");
    Ok(listener.into())
}
