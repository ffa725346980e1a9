//! Secrets that never enter: a placeholder inside, the value only in requests to one host.
//!
//! Answers for making placeholders and putting values in their place. It leaves reading the values to whoever
//! launches.
//! Invariant: a value is written to a verified connection to its host, and shown nowhere else.

use crate::capability::Target;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fmt;
use zeroize::Zeroizing;

/// A value that is overwritten when it is dropped and shown by nothing.
#[derive(Clone)]
pub struct Value(Zeroizing<Vec<u8>>);

impl Value {
    /// Takes a value; line ends at its end are no part of it. None when it cannot stand in a header.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let bytes = Zeroizing::new(bytes);
        let end = bytes.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |at| at + 1);
        let clean = end > 0 && bytes[..end].iter().all(|byte| *byte == b'\t' || (0x20..0x7f).contains(byte));
        clean.then(|| Self(Zeroizing::new(bytes[..end].to_vec())))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(…)")
    }
}

/// A secret of one launch.
#[derive(Clone, Debug)]
pub struct Secret {
    /// What stands for it inside.
    pub placeholder: String,
    target: Target,
    header: String,
    format: Option<String>,
    value: Value,
}

impl Secret {
    /// A secret for a host (any port when it names none) and a header.
    #[must_use]
    pub fn new(name: &str, target: Target, header: &str, format: Option<&str>, value: Value) -> Self {
        Self {
            placeholder: placeholder(name),
            target,
            header: header.to_owned(),
            format: format.map(str::to_owned),
            value,
        }
    }

    fn is_for(&self, target: &Target) -> bool {
        self.target.host == target.host && (self.target.port.is_none() || self.target.port == target.port)
    }

    /// The header's value as it is sent, given what the program wrote there.
    fn fill(&self, written: Option<&[u8]>) -> Option<Zeroizing<Vec<u8>>> {
        match written {
            None => Some(self.whole()),
            Some(written) => self.replaced(written).or_else(|| self.replaced_in_basic(written)),
        }
    }

    /// The value in the form of its header.
    fn whole(&self) -> Zeroizing<Vec<u8>> {
        let value = self.value.0.as_slice();
        let bare = self.header.eq_ignore_ascii_case("authorization") && !value.contains(&b' ');
        let format = self.format.as_deref().unwrap_or(if bare { "Bearer {}" } else { "{}" });
        let (before, after) = format.split_once("{}").unwrap_or((format, ""));
        Zeroizing::new([before.as_bytes(), value, after.as_bytes()].concat())
    }

    fn replaced(&self, written: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let at = find(written, self.placeholder.as_bytes())?;
        let rest = &written[at + self.placeholder.len()..];
        Some(Zeroizing::new([&written[..at], self.value.0.as_slice(), rest].concat()))
    }

    /// `Basic` hides what it carries, so it is opened and closed again.
    fn replaced_in_basic(&self, written: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let encoded = written.get(..6).filter(|scheme| scheme.eq_ignore_ascii_case(b"basic "))?;
        let _ = encoded;
        let plain = Zeroizing::new(STANDARD.decode(written[6..].trim_ascii()).ok()?);
        let filled = self.replaced(&plain)?;
        Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(filled.as_slice())).into_bytes()))
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// A word that cannot be taken for anything else, and tells nothing of the value.
fn placeholder(name: &str) -> String {
    use std::hash::{BuildHasher, Hasher};
    let mut hash = Sha256::new();
    for _ in 0..4 {
        // Keyed by the system's random numbers, anew each time.
        let state = std::collections::hash_map::RandomState::new().build_hasher().finish();
        hash.update(state.to_le_bytes());
    }
    let digest = hash.finalize();
    let hex: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("sbx-{}-{hex}", name.to_ascii_lowercase().replace('_', "-"))
}

/// The secrets of one launch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(pub(crate) Vec<Secret>);

impl Secrets {
    /// Whether any is for a host's port, so that its connections must be opened.
    pub(crate) fn concern(&self, target: &Target) -> bool {
        self.0.iter().any(|secret| secret.is_for(target))
    }

    /// The headers that take the place of what the program wrote; none unless the connection is verified.
    pub(crate) fn apply(
        &self,
        target: &Target,
        secure: bool,
        headers: &[(String, Vec<u8>)],
    ) -> Vec<(String, Zeroizing<Vec<u8>>)> {
        let mine = self.0.iter().filter(|secret| secure && secret.is_for(target));
        let mut filled: Vec<(String, Zeroizing<Vec<u8>>)> = Vec::new();
        let fill = |secret: &Secret| {
            let mut written = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(&secret.header));
            let first = written.next().map(|(_, value)| value.as_slice());
            // A header that is there twice is nobody's placeholder.
            if written.next().is_some() {
                return None;
            }
            Some((secret.header.clone(), secret.fill(first)?))
        };
        // Several secrets may be for one header; it is sent once, with the one whose placeholder stands there, or the
        // first where none does.
        for (name, value) in mine.filter_map(fill) {
            if !filled.iter().any(|(held, _)| held.eq_ignore_ascii_case(&name)) {
                filled.push((name, value));
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(header: &str, format: Option<&str>) -> Secret {
        let value = Value::new(b"s3cr3t\n".to_vec()).unwrap();
        Secret::new("API_TOKEN", Target::parse("api.example").unwrap(), header, format, value)
    }

    fn sent(secret: &Secret, host: &str, secure: bool, written: Option<&str>) -> Option<String> {
        let headers: Vec<(String, Vec<u8>)> =
            written.iter().map(|value| (secret.header.to_lowercase(), value.as_bytes().to_vec())).collect();
        let secrets = Secrets(vec![secret.clone()]);
        let filled = secrets.apply(&Target::parse(host).unwrap(), secure, &headers);
        filled.first().map(|(_, value)| String::from_utf8(value.to_vec()).unwrap())
    }

    #[test]
    fn a_placeholder_gives_way_to_the_value_for_its_host_only() {
        let token = secret("Authorization", None);
        let written = format!("token {}", token.placeholder);
        assert_eq!(sent(&token, "api.example:443", true, Some(&written)).as_deref(), Some("token s3cr3t"));
        assert_eq!(sent(&token, "api.example:443", false, Some(&written)), None);
        assert_eq!(sent(&token, "other.example:443", true, Some(&written)), None);
        assert_eq!(sent(&token, "api.example:443", true, Some("Bearer own")), None);
    }

    #[test]
    fn a_header_that_is_not_there_is_added() {
        let sent = |secret: &Secret| sent(secret, "api.example:443", true, None);
        assert_eq!(sent(&secret("Authorization", None)).as_deref(), Some("Bearer s3cr3t"));
        assert_eq!(sent(&secret("X-Key", None)).as_deref(), Some("s3cr3t"));
        assert_eq!(sent(&secret("X-Key", Some("k={};"))).as_deref(), Some("k=s3cr3t;"));
    }

    #[test]
    fn a_header_is_filled_once_by_the_secret_that_stands_there() {
        let of = |name: &str, value: &str, header: &str| {
            let value = Value::new(value.as_bytes().to_vec()).unwrap();
            Secret::new(name, Target::parse("api.example").unwrap(), header, None, value)
        };
        let secrets = Secrets(vec![of("A", "one", "Authorization"), of("B", "two", "authorization")]);
        let sent = |written: &[(String, Vec<u8>)]| -> Vec<String> {
            let filled = secrets.apply(&Target::parse("api.example:443").unwrap(), true, written);
            filled.iter().map(|(_, value)| String::from_utf8(value.to_vec()).unwrap()).collect()
        };
        assert_eq!(sent(&[]), ["Bearer one"]);
        let second = secrets.0[1].placeholder.clone().into_bytes();
        assert_eq!(sent(&[("Authorization".to_owned(), second)]), ["two"]);
        assert!(sent(&[("Authorization".to_owned(), b"own".to_vec())]).is_empty());
    }

    #[test]
    fn basic_credentials_are_opened() {
        let token = secret("Authorization", None);
        let written = format!("Basic {}", STANDARD.encode(format!("x:{}", token.placeholder)));
        let filled = sent(&token, "api.example:443", true, Some(&written)).unwrap();
        assert_eq!(STANDARD.decode(&filled[6..]).unwrap(), b"x:s3cr3t");
    }

    #[test]
    fn nothing_shows_the_value_and_odd_values_are_none() {
        let token = secret("Authorization", None);
        assert!(!format!("{token:?} {:?}", Secrets(vec![token.clone()])).contains("s3cr3t"));
        assert_ne!(token.placeholder, secret("Authorization", None).placeholder);
        for odd in [&b""[..], b"\n", b"a\nb", b"a\0", "ü".as_bytes()] {
            assert!(Value::new(odd.to_vec()).is_none(), "{odd:?}");
        }
    }
}
