//! DNS messages: the one question that is read and the few answers that are written.
//!
//! Answers for bytes. It leaves to the stub what a name leads to.
//! Invariant: no input panics, and nothing is read beyond the bytes given.

use std::net::{Ipv4Addr, Ipv6Addr};

const HEADER: usize = 12;
/// What a datagram may carry when the asker says nothing of it.
const PLAIN_DATAGRAM: usize = 512;
const OPT: u16 = 41;
const INTERNET: u16 = 1;
/// "Prohibited", as RFC 8914 numbers its reasons.
const PROHIBITED: u16 = 18;
const EXTENDED_ERROR: u16 = 15;

/// What is asked about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its IPv4 address.
    A,
    /// Its IPv6 address.
    Aaaa,
    /// The name of an address.
    Ptr,
    /// Whatever there is.
    Any,
    /// Something that is answered with nothing.
    Other,
}

impl Kind {
    /// The usual word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Ptr => "PTR",
            Self::Any => "ANY",
            Self::Other => "other",
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    id: u16,
    recursion: bool,
    /// The question as it was written, to be repeated in the answer.
    raw: Vec<u8>,
    /// The most a datagram may carry; none when the asker does not speak EDNS.
    payload: Option<u16>,
    /// The name, in lower case, without the last dot.
    pub(crate) name: String,
    /// What is asked.
    pub(crate) kind: Kind,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
    /// A name.
    Name(String),
    /// The name exists and has nothing of this kind.
    Nothing,
    /// The name does not exist.
    NoSuchName,
    /// The name is not for this asker.
    Prohibited,
    /// It could not be found out.
    Failed,
}

/// Reads a question; on failure the bytes that say so, or none when not even that can be said.
pub(crate) fn parse(bytes: &[u8]) -> Result<Question, Option<Vec<u8>>> {
    let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (Some(id), Some(flags)) = (word(0), word(2)) else { return Err(None) };
    // An answer is never answered: two of us could go on for ever.
    if bytes.len() < HEADER || flags & 0x8000 != 0 {
        return Err(None);
    }
    let refuse = |code: u16| Err(Some(bare(id, flags, code)));
    if flags & 0x7800 != 0 {
        return refuse(4);
    }
    let counts = [word(4), word(6), word(8), word(10)].map(Option::unwrap_or_default);
    if counts[0] != 1 || counts[1] != 0 || counts[2] != 0 {
        return refuse(1);
    }
    let Some((name, end)) = read_name(bytes, HEADER) else { return refuse(1) };
    let (Some(kind), Some(class)) = (word(end), word(end + 2)) else { return refuse(1) };
    if class != INTERNET {
        return refuse(5);
    }
    let Ok(payload) = read_payload(bytes, end + 4, counts[3]) else { return refuse(1) };
    Ok(Question {
        id,
        recursion: flags & 0x0100 != 0,
        raw: bytes[HEADER..end + 4].to_vec(),
        payload,
        name,
        kind: match kind {
            1 => Kind::A,
            28 => Kind::Aaaa,
            12 => Kind::Ptr,
            255 => Kind::Any,
            _ => Kind::Other,
        },
    })
}

/// A name written out, and where it ends. Questions have no reason to point elsewhere, so none may.
fn read_name(bytes: &[u8], start: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = start;
    loop {
        let length = usize::from(*bytes.get(at)?);
        if length == 0 {
            return Some((name, at + 1));
        }
        if length > 63 || at + length - start > 254 {
            return None;
        }
        let label = bytes.get(at + 1..at + 1 + length)?;
        if !name.is_empty() {
            name.push('.');
        }
        // Bytes that no host name has become one that none has either.
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        name.extend(
            label.iter().map(|byte| if plain(byte) { byte.to_ascii_lowercase() as char } else { '?' }),
        );
        at += 1 + length;
    }
}

/// The size of datagrams the asker takes, from the records after the question.
fn read_payload(bytes: &[u8], mut at: usize, count: u16) -> Result<Option<u16>, ()> {
    let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let mut payload = None;
    for _ in 0..count.min(8) {
        let (_, end) = read_name(bytes, at).ok_or(())?;
        let fields = (word(end), word(end + 2), word(end + 8));
        let (Some(kind), Some(class), Some(length)) = fields else { return Err(()) };
        if kind == OPT {
            payload = Some(class.max(512));
        }
        at = end + 10 + usize::from(length);
        if at > bytes.len() {
            return Err(());
        }
    }
    Ok(payload)
}

/// An answer without a question.
fn bare(id: u16, flags: u16, code: u16) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend((0x8000 | (flags & 0x7900) | code).to_be_bytes());
    out.extend([0; 8]);
    out
}

impl Question {
    /// The bytes of an answer, for a datagram.
    pub(crate) fn datagram(&self, answer: &Answer, ttl: u32) -> Vec<u8> {
        let bytes = self.stream(answer, ttl);
        if bytes.len() <= self.payload.map_or(PLAIN_DATAGRAM, usize::from) {
            return bytes;
        }
        let mut short = bare(self.id, if self.recursion { 0x0100 } else { 0 }, 0);
        short[2] |= 0x02;
        short
    }

    /// The bytes of an answer, whatever their length.
    pub(crate) fn stream(&self, answer: &Answer, ttl: u32) -> Vec<u8> {
        let code: u16 = match answer {
            Answer::V4(_) | Answer::V6(_) | Answer::Name(_) | Answer::Nothing => 0,
            Answer::Failed => 2,
            Answer::NoSuchName | Answer::Prohibited => 3,
        };
        let record: Option<(u16, Vec<u8>)> = match answer {
            Answer::V4(address) => Some((1, address.octets().to_vec())),
            Answer::V6(address) => Some((28, address.octets().to_vec())),
            Answer::Name(name) => Some((12, write_name(name))),
            Answer::Nothing | Answer::NoSuchName | Answer::Prohibited | Answer::Failed => None,
        };
        let mut out = self.id.to_be_bytes().to_vec();
        let recursion = if self.recursion { 0x0100 } else { 0 };
        out.extend((0x8080 | recursion | code).to_be_bytes());
        out.extend([0, 1, 0, u8::from(record.is_some()), 0, 0, 0, u8::from(self.payload.is_some())]);
        out.extend(&self.raw);
        if let Some((kind, data)) = record {
            // The name is the question's own, twelve bytes from the start.
            out.extend([0xc0, 12]);
            out.extend(kind.to_be_bytes());
            out.extend(INTERNET.to_be_bytes());
            out.extend(ttl.to_be_bytes());
            out.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
            out.extend(data);
        }
        if self.payload.is_some() {
            out.push(0);
            out.extend(OPT.to_be_bytes());
            out.extend([0x04, 0xd0, 0, 0, 0, 0]);
            if *answer == Answer::Prohibited {
                out.extend([0, 6]);
                out.extend(EXTENDED_ERROR.to_be_bytes());
                out.extend([0, 2]);
                out.extend(PROHIBITED.to_be_bytes());
            } else {
                out.extend([0, 0]);
            }
        }
        out
    }

    /// The IPv4 address whose name is asked.
    pub(crate) fn reverse(&self) -> Option<Ipv4Addr> {
        let digits = self.name.strip_suffix(".in-addr.arpa")?;
        let mut parts = digits.split('.').map(|part| part.parse::<u8>().ok());
        let octets = [parts.next()??, parts.next()??, parts.next()??, parts.next()??];
        let [d, c, b, a] = octets;
        parts.next().is_none().then(|| Ipv4Addr::new(a, b, c, d))
    }
}

fn write_name(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.').filter(|label| (1..=63).contains(&label.len())) {
        out.push(u8::try_from(label.len()).unwrap_or_default());
        out.extend(label.bytes());
    }
    out.push(0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(name: &str, kind: u16, edns: bool) -> Vec<u8> {
        let mut out = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)];
        out.extend(write_name(name));
        out.extend(kind.to_be_bytes());
        out.extend([0, 1]);
        if edns {
            out.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
        }
        out
    }

    #[test]
    fn a_question_is_read_and_answered() {
        let question = parse(&ask("API.Example.org", 1, true)).unwrap();
        assert_eq!((question.name.as_str(), question.kind), ("api.example.org", Kind::A));
        let bytes = question.datagram(&Answer::V4(Ipv4Addr::new(198, 18, 0, 7)), 30);
        assert_eq!(bytes[..4], [0x12, 0x34, 0x81, 0x80]);
        assert_eq!(bytes[4..12], [0, 1, 0, 1, 0, 0, 0, 1]);
        assert!(bytes.windows(4).any(|four| four == [198, 18, 0, 7]));
    }

    #[test]
    fn a_prohibited_name_says_so_to_those_who_understand() {
        let with = parse(&ask("evil.example", 1, true)).unwrap().stream(&Answer::Prohibited, 30);
        assert_eq!((with[3] & 0x0f, &with[with.len() - 6..]), (3, &[0, 15, 0, 2, 0, 18][..]));
        let without = parse(&ask("evil.example", 1, false)).unwrap().stream(&Answer::Prohibited, 30);
        assert_eq!((without[3] & 0x0f, without[11]), (3, 0));
    }

    #[test]
    fn an_address_is_read_backwards() {
        let question = parse(&ask("7.0.18.198.in-addr.arpa", 12, false)).unwrap();
        assert_eq!(question.reverse(), Some(Ipv4Addr::new(198, 18, 0, 7)));
        for odd in ["1.2.3.in-addr.arpa", "1.2.3.4.5.in-addr.arpa", "x.0.18.198.in-addr.arpa", "in-addr.arpa"]
        {
            assert_eq!(parse(&ask(odd, 12, false)).unwrap().reverse(), None, "{odd}");
        }
    }

    #[test]
    fn odd_bytes_never_spell_a_name() {
        let mut bytes = ask("aXb.example", 1, false);
        bytes[14] = 0;
        assert_eq!(parse(&bytes).unwrap().name, "a?b.example");
    }

    #[test]
    fn answers_and_odd_messages_are_refused() {
        let mut answer = ask("a.example", 1, false);
        answer[2] |= 0x80;
        assert_eq!(parse(&answer), Err(None));
        let mut two = ask("a.example", 1, false);
        two[5] = 2;
        assert_eq!(parse(&two).unwrap_err().unwrap()[3] & 0x0f, 1);
        let mut update = ask("a.example", 1, false);
        update[2] |= 0x28;
        assert_eq!(parse(&update).unwrap_err().unwrap()[3] & 0x0f, 4);
        let mut pointer = ask("a.example", 1, false);
        pointer[12] = 0xc0;
        assert!(parse(&pointer).is_err());
    }

    #[test]
    fn no_bytes_stop_the_reader() {
        let whole = ask("some.name.example", 1, true);
        for cut in 0..whole.len() {
            let _ = parse(&whole[..cut]);
        }
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..4 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = usize::try_from(state >> 33).unwrap() % bytes.len();
                bytes[at] = state.to_be_bytes()[0];
            }
            if let Ok(question) = parse(&bytes) {
                let _ = (question.datagram(&Answer::Nothing, 1), question.reverse());
            }
        }
    }
}
