//! The packet filter's rules: where connections are led.
//!
//! Answers for one small table for each family, put in place as one batch. Only comparisons, immediate values
//! and redirection are used, which are the parts that reduced kernels have, if they have any.
//! Invariant: the rules lead and never open: without them nothing answers at all.

use std::io;

use super::netlink::{ACK, APPEND, Batch, CREATE, Line};
use super::route::OWN;

const FILTER: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = FILTER << 8;
const NEW_CHAIN: u16 = FILTER << 8 | 3;
const NEW_RULE: u16 = FILTER << 8 | 6;
/// The hook for packets made on this host.
const OUTPUT: u32 = 3;
/// Where translation of destinations belongs.
const PRIORITY: i32 = -100;
const ACCEPT: u32 = 1;
const REGISTER: u32 = 1;
const NAME: &str = "sbx";
const TCP: u8 = 6;
const UDP: u8 = 17;
const NAMES: u16 = 53;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

/// Leads all TCP to `streams` and all questions for names to port 53, both on the loopback address; leaves what
/// is meant for the loopback device or for our own address alone.
pub(super) fn redirect(streams: u16) -> io::Result<()> {
    let line = Line::open(libc::NETLINK_NETFILTER)?;
    let kind = kind();
    let batch = |families: &[i32]| {
        let mut batch = Batch::default();
        batch.message(BATCH_BEGIN, 0, &general(libc::AF_UNSPEC, FILTER));
        for (at, family) in families.iter().enumerate() {
            table(&mut batch, *family, streams, kind, at + 1 == families.len());
        }
        batch.message(BATCH_END, 0, &general(libc::AF_UNSPEC, FILTER));
        batch
    };
    line.ask(&batch(&[libc::AF_INET, libc::AF_INET6])).or_else(|_| {
        // What is left of answers to the first batch stays on the first line.
        Line::open(libc::NETLINK_NETFILTER)?.ask(&batch(&[libc::AF_INET]))
    })
}

/// The kind of chain; for a test, one that no kernel knows, so that the path of a refusal is really taken.
fn kind() -> &'static str {
    #[cfg(feature = "test-hooks")]
    if crate::hooks::rules_missing() {
        return "none";
    }
    "nat"
}

fn general(family: i32, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family as u8, 0, high, low]
}

fn table(batch: &mut Batch, family: i32, streams: u16, kind: &str, last: bool) {
    let head = general(family, 0);
    batch.message(NEW_TABLE, CREATE, &head).text(1, NAME);
    batch
        .message(NEW_CHAIN, CREATE, &head)
        .text(1, NAME)
        .text(3, NAME)
        .nest(4, |hook| {
            hook.number(1, OUTPUT).number(2, PRIORITY.cast_unsigned());
        })
        .text(7, kind);
    for protocol in [UDP, TCP] {
        rule(batch, &head, false, |list| {
            is_protocol(list, protocol);
            has(list, TRANSPORT_HEADER, 2, &NAMES.to_be_bytes());
            lead_to(list, NAMES);
        });
    }
    let accepted: &[(u32, &[u8])] = if family == libc::AF_INET {
        &[(16, &[127]), (16, &OWN.octets())]
    } else {
        &[(24, &std::net::Ipv6Addr::LOCALHOST.octets())]
    };
    for (offset, bytes) in accepted {
        rule(batch, &head, false, |list| {
            has(list, NETWORK_HEADER, *offset, bytes);
            accept(list);
        });
    }
    rule(batch, &head, last, |list| {
        is_protocol(list, TCP);
        lead_to(list, streams);
    });
}

/// Adds a rule; only the last of a batch is answered, unless one is refused.
fn rule(batch: &mut Batch, head: &[u8], last: bool, fill: impl FnOnce(&mut Batch)) {
    let flags = if last { APPEND | ACK } else { APPEND };
    batch.message(NEW_RULE, flags, head).text(1, NAME).text(2, NAME).nest(4, fill);
}

fn expression(list: &mut Batch, name: &str, fill: impl FnOnce(&mut Batch)) {
    list.nest(1, |element| {
        element.text(1, name).nest(2, fill);
    });
}

/// Goes on only if the register holds `value`.
fn equals(list: &mut Batch, value: &[u8]) {
    expression(list, "cmp", |cmp| {
        cmp.number(1, REGISTER).number(2, 0).nest(3, |data| {
            data.put(1, value);
        });
    });
}

fn is_protocol(list: &mut Batch, protocol: u8) {
    const L4_PROTOCOL: u32 = 16;
    expression(list, "meta", |meta| {
        meta.number(1, REGISTER).number(2, L4_PROTOCOL);
    });
    equals(list, &[protocol]);
}

/// Goes on only if these bytes stand at `offset` of that header.
fn has(list: &mut Batch, header: u32, offset: u32, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(0);
    expression(list, "payload", |payload| {
        payload.number(1, REGISTER).number(2, header).number(3, offset).number(4, length);
    });
    equals(list, bytes);
}

fn lead_to(list: &mut Batch, port: u16) {
    expression(list, "immediate", |immediate| {
        immediate.number(1, REGISTER).nest(2, |data| {
            data.put(1, &port.to_be_bytes());
        });
    });
    expression(list, "redir", |redirect| {
        redirect.number(1, REGISTER);
    });
}

fn accept(list: &mut Batch) {
    const VERDICT: u32 = 0;
    expression(list, "immediate", |immediate| {
        immediate.number(1, VERDICT).nest(2, |data| {
            data.nest(2, |verdict| {
                verdict.number(1, ACCEPT);
            });
        });
    });
}
