//! The sockets of a network namespace of one's own.
//!
//! Answers for making them in the right order and for finding out which way connections can be led to them. It
//! leaves routes, rules and serving to others.
//! Invariant: runs in the new namespace, before privileges are dropped and before the command exists.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use super::kit::{Kit, Part};
use super::{route, rules};
use crate::door::Way;
use crate::linux::sys::{inet, number, socket};
use crate::plan::Gateway;
use crate::report::{SetupFailure, Step};

/// Where names are asked for.
const NAMES: u16 = 53;

/// The sockets, and the near end of the line on which more can be had, if anything is published.
pub(crate) fn arrange(gateway: &Gateway) -> Result<(Kit, Option<OwnedFd>), SetupFailure> {
    let fail = |object: &str, error: &io::Error| SetupFailure {
        step: Step::Network,
        object: object.to_owned(),
        errno: number(error),
    };
    route::make_everything_local().map_err(|error| fail("routes", &error))?;
    let mut kit = redirected().map_err(|error| fail("listener", &error))?;
    if kit.is_none() {
        kit = Some(per_port(gateway).map_err(|error| fail("listeners", &error))?);
    }
    let mut kit = kit.unwrap_or(Kit { way: Way::PerPort, parts: Vec::new() });
    names(&mut kit).map_err(|error| fail("name sockets", &error))?;
    for address in &gateway.services {
        // A listener of that port on every address is one for this address too.
        let covered = kit.way == Way::PerPort && gateway.ports.contains(&address.port());
        if !covered {
            let listener = listen(*address).map_err(|error| fail(&format!("service {address}"), &error))?;
            kit.parts.push((Part::Service, listener));
        }
    }
    if let Some(port) = gateway.proxy {
        let listener = listen((Ipv4Addr::LOCALHOST, port).into()).map_err(|error| fail("proxy", &error))?;
        kit.parts.push((Part::Proxy, listener));
    }
    let mut inner = None;
    if !gateway.published.is_empty() {
        let (ours, theirs) = socket::pair().map_err(|error| fail("line", &error))?;
        kit.parts.push((Part::Inward, ours));
        inner = Some(theirs);
    }
    Ok((kit, inner))
}

/// One listener for everything, and the rules that lead there; `None` where the kernel has no such rules.
fn redirected() -> io::Result<Option<Kit>> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = first.local_addr()?.port();
    let mut parts = vec![(Part::Stream, widen(first)?)];
    // Without IPv6 nothing comes that way either.
    if let Ok(second) = listen((Ipv6Addr::LOCALHOST, port).into()) {
        parts.push((Part::Stream, second));
    }
    Ok(rules::redirect(port).ok().map(|()| Kit { way: Way::Redirected, parts }))
}

/// A listener on every address for each port that may be asked for.
fn per_port(gateway: &Gateway) -> io::Result<Kit> {
    let mut parts = Vec::new();
    for port in gateway.ports.iter().filter(|port| **port != NAMES) {
        parts.push((Part::Stream, listen_everywhere(*port)?));
    }
    Ok(Kit { way: Way::PerPort, parts })
}

fn listen_everywhere(port: u16) -> io::Result<OwnedFd> {
    listen((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|_| listen((Ipv4Addr::UNSPECIFIED, port).into()))
}

fn names(kit: &mut Kit) -> io::Result<()> {
    let datagrams = |address: SocketAddr| -> io::Result<OwnedFd> {
        let socket = UdpSocket::bind(address)?;
        inet::widen_receive_buffer(socket.as_raw_fd());
        Ok(socket.into())
    };
    kit.parts.push((Part::Names, datagrams((Ipv4Addr::LOCALHOST, NAMES).into())?));
    kit.parts.push((Part::NameStream, listen((Ipv4Addr::LOCALHOST, NAMES).into())?));
    let second: SocketAddr = (Ipv6Addr::LOCALHOST, NAMES).into();
    if let (Ok(socket), Ok(listener)) = (datagrams(second), listen(second)) {
        kit.parts.extend([(Part::Names, socket), (Part::NameStream, listener)]);
    }
    Ok(())
}

pub(super) fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    widen(TcpListener::bind(address)?)
}

/// Lets as many wait as the kernel allows.
fn widen(listener: TcpListener) -> io::Result<OwnedFd> {
    inet::listen(listener.as_raw_fd(), 4096)?;
    Ok(listener.into())
}
