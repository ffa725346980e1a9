//! Names that are asked of a resolver, read from the datagrams that ask.
//!
//! Answers for telling a question for a name from any other datagram, strictly.
//! Invariant: what is not exactly one question for an address is none.

use crate::linux::broker::Caller;

/// Questions are not longer than this.
const LONGEST: usize = 512;
/// Identification, flags and four counts.
const HEAD: usize = 12;
/// Messages of one `sendmmsg` that are looked at.
const MESSAGES: u64 = 4;
/// Bytes of a message header and of an entry of `sendmmsg`.
const HEADER: usize = 56;
const ENTRY: u64 = 64;

/// The names that a call asks a resolver for.
pub(super) fn asked(call: &str, a: [u64; 6], caller: &Caller) -> Vec<String> {
    let read = |address: u64, length: u64| -> Option<String> {
        let length = usize::try_from(length).ok().filter(|length| (HEAD + 5..=LONGEST).contains(length))?;
        let mut bytes = vec![0; length];
        caller.bytes(address, &mut bytes).ok()?;
        name_in(&bytes)
    };
    if call == "sendto" {
        return read(a[1], a[2]).into_iter().collect();
    }
    let message = |index: u64| -> Option<String> {
        let mut header = [0; HEADER];
        caller.bytes(a[1].wrapping_add(index * ENTRY), &mut header).ok()?;
        let word = |at: usize| Some(u64::from_ne_bytes(header.get(at..at + 8)?.try_into().ok()?));
        let (vectors, count) = (word(16)?, word(24)?);
        let mut vector = [0; 16];
        (count == 1).then_some(())?;
        caller.bytes(vectors, &mut vector).ok()?;
        let half = |at: usize| Some(u64::from_ne_bytes(vector.get(at..at + 8)?.try_into().ok()?));
        read(half(0)?, half(8)?)
    };
    let mut names: Vec<String> = (0..a[2].min(MESSAGES)).filter_map(message).collect();
    names.dedup();
    names
}

/// The name that a datagram asks the address of.
fn name_in(bytes: &[u8]) -> Option<String> {
    let half = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    // A plain question, recursion and authentic data at most wanted; one question, no answers.
    let plain = half(2)? & !0x0130 == 0 && half(4)? == 1 && half(6)? == 0 && half(8)? == 0 && half(10)? <= 1;
    if !plain {
        return None;
    }
    let (mut name, mut at) = (String::new(), HEAD);
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = bytes.get(at..at + length).filter(|_| length < 64 && name.len() < 254)?;
        let fine = label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !fine {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(std::str::from_utf8(label).ok()?);
        at += length;
    }
    // An address of either family, or the records of a web service; in the class of the internet.
    let known = matches!(half(at)?, 1 | 28 | 64 | 65) && half(at + 2)? == 1;
    (known && name.contains('.')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &str, kind: u8) -> Vec<u8> {
        let mut bytes = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.bytes());
        }
        bytes.extend([0, 0, kind, 0, 1]);
        bytes
    }

    #[test]
    fn a_question_for_a_name_is_known_and_nothing_else_is() {
        assert_eq!(name_in(&question("api.example.org", 1)).as_deref(), Some("api.example.org"));
        assert_eq!(name_in(&question("api.example.org", 28)).as_deref(), Some("api.example.org"));
        assert_eq!(name_in(&question("api.example.org", 16)), None);
        assert_eq!(name_in(&question("a b.example", 1)), None);
        let mut answer = question("api.example.org", 1);
        answer[2] = 0x81;
        assert_eq!(name_in(&answer), None);
        let whole = question("api.example.org", 1);
        for cut in 0..whole.len() {
            assert_eq!(name_in(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(name_in(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"), None);
    }
}
