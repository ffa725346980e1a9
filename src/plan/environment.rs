//! The environment inside: rebuilt from nothing, plus the variables the record names.

use super::host::Host;
use crate::policy::Policy;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The whole environment of a launch.
pub(super) fn environment(
    policy: &Policy,
    host: &dyn Host,
    home: &Path,
    search: &OsStr,
) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), search.to_owned()),
        ("HOME".into(), home.as_os_str().to_owned()),
        ("TMPDIR".into(), "/tmp".into()),
        ("LANG".into(), plain(host.variable("LANG")).unwrap_or_else(|| "C.UTF-8".into())),
        ("TERM".into(), plain(host.variable("TERM")).unwrap_or_else(|| "dumb".into())),
    ];
    let own: Vec<OsString> = variables.iter().map(|(name, _)| name.clone()).collect();
    for rule in policy.sections().env.iter().filter(|rule| rule.inject.is_none()) {
        let name = OsString::from(&rule.name);
        if let Some(value) = host.variable(&rule.name).filter(|_| !own.contains(&name)) {
            variables.push((name, value));
        }
    }
    variables
}

/// A value that is a word, such as a locale or a terminal's name.
fn plain(value: Option<OsString>) -> Option<OsString> {
    let word = |value: &OsString| {
        let bytes = value.as_encoded_bytes();
        (1..=64).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-@+".contains(byte))
    };
    value.filter(word)
}
