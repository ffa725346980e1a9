//! Every address is local.
//!
//! Answers for the addresses and routes of a network namespace of one's own, by one batch of messages. It
//! leaves what happens to connections to [`super::rules`].
//! Invariant: nothing is routed anywhere but to the loopback device.

use std::io;
use std::net::Ipv4Addr;

use super::netlink::{ACK, Batch, CREATE, Line};

/// The address of the namespace itself. Without one that is no loopback address, resolvers that ask which
/// families are configured find none.
pub(super) const OWN: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 1);

/// The loopback device is the first in every namespace.
const LOOPBACK: u32 = 1;
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
/// Table "local", a static route, valid on this host only, of type "local".
const LOCAL: [u8; 4] = [255, 4, 254, 2];

/// Raises the loopback device, gives it an address and makes every address local. IPv6 only where there is any.
pub(super) fn make_everything_local() -> io::Result<()> {
    let line = Line::open(libc::NETLINK_ROUTE)?;
    let mut batch = Batch::default();
    let up = u32::try_from(libc::IFF_UP).unwrap_or(1);
    let words = |words: [u32; 4]| words.map(u32::to_ne_bytes).concat();
    batch.message(NEW_LINK, ACK, &words([0, LOOPBACK, up, up]));
    let address = [[libc::AF_INET as u8, 32, 0, 0], LOOPBACK.to_ne_bytes()].concat();
    batch.message(NEW_ADDRESS, ACK | CREATE, &address).put(1, &OWN.octets()).put(2, &OWN.octets());
    route(&mut batch, libc::AF_INET).put(7, &OWN.octets());
    line.ask(&batch)?;
    let mut batch = Batch::default();
    route(&mut batch, libc::AF_INET6);
    // Without it, IPv6 leads nowhere at all.
    let _ = line.ask(&batch);
    Ok(())
}

fn route(batch: &mut Batch, family: i32) -> &mut Batch {
    let body = [[family as u8, 0, 0, 0], LOCAL, [0; 4]].concat();
    batch.message(NEW_ROUTE, ACK | CREATE, &body).put(4, &LOOPBACK.to_ne_bytes())
}
