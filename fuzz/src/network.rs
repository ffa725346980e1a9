//! Bytes that a program inside sends to the gateway.

use sbx::capability::Target;
use sbx::net::tried::{chunked, question, request_head, socks_target, tls_greeting};

/// Heads of requests: read whole or not at all, and nothing in them that could be read as a second one.
pub fn http_head(data: &[u8]) {
    let Ok(Some(head)) = request_head(data) else { return };
    assert!(head.length <= data.len() && data[..head.length].ends_with(b"\r\n\r\n"));
    assert_eq!(request_head(&data[..head.length]), Ok(Some(head.clone())));
    for cut in [1, 2, 3, head.length / 2] {
        assert_ne!(request_head(&data[..head.length - cut.min(head.length)]), Ok(Some(head.clone())));
    }
    let plain = |text: &str| text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    assert!(plain(&head.method) && plain(&head.path) && head.authority.as_deref().is_none_or(plain));
    for (name, value) in &head.headers {
        assert!(plain(name) && !name.eq_ignore_ascii_case("host"));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
}

/// Chunked bodies: the same however they come, and what is strict is never longer than what is not.
pub fn http_chunks(data: &[u8]) {
    for from_inside in [false, true] {
        let whole = chunked(data, data.len(), from_inside);
        for piece in [1, 2, 7] {
            assert_eq!(chunked(data, piece, from_inside), whole);
        }
        if let Some((taken, ended)) = whole {
            assert!(taken <= data.len() && (ended || taken == data.len()));
            assert!(!ended || data[..taken].ends_with(b"\n"));
        }
    }
    if let Some(strict) = chunked(data, data.len(), true) {
        assert_eq!(chunked(data, data.len(), false), Some(strict));
    }
}

/// Questions for names: answered within bounds, with the question repeated; an answer is never answered.
pub fn dns_question(data: &[u8]) {
    let Some((name, answers)) = question(data) else { return };
    assert!(name.len() <= 255 && name.bytes().all(|byte| !byte.is_ascii_uppercase() && byte > b' '));
    for answer in answers {
        assert!(answer.len() <= data.len() + 64 && answer[..2] == data[..2] && answer[2] & 0x80 != 0);
        assert_eq!(question(&answer), None);
    }
}

/// Targets of SOCKS clients: in the one spelling that grants are compared with.
pub fn socks(data: &[u8]) {
    let Some(target) = socks_target(data) else { return };
    assert_eq!(Target::parse(&target).map(|target| target.to_string()).as_deref(), Ok(target.as_str()));
}

/// Greetings of TLS: a name in small letters, whatever follows.
pub fn tls_hello(data: &[u8]) {
    let Some((name, protocols)) = tls_greeting(data) else { return };
    assert!(name.is_none_or(|name| name == name.to_ascii_lowercase() && name.len() < 256));
    assert!(protocols.iter().map(Vec::len).sum::<usize>() <= data.len());
}
