//! The environment inside: rebuilt from nothing, plus the variables the record names.

use super::host::Host;
use super::network::{self, Outlet};
use super::view::Scratch;
use crate::policy::Policy;
use std::ffi::{OsStr, OsString};

/// The whole environment of a launch.
pub(super) fn environment(
    policy: &Policy,
    host: &dyn Host,
    scratch: &Scratch,
    search: &OsStr,
    outlet: Option<&Outlet>,
) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), search.to_owned()),
        ("HOME".into(), scratch.home.as_os_str().to_owned()),
        ("TMPDIR".into(), scratch.tmp.as_os_str().to_owned()),
        ("LANG".into(), plain(host.variable("LANG")).unwrap_or_else(|| "C.UTF-8".into())),
        ("TERM".into(), plain(host.variable("TERM")).unwrap_or_else(|| "dumb".into())),
    ];
    variables.extend(outlet.map(network::variables).unwrap_or_default());
    let own: Vec<OsString> = variables.iter().map(|(name, _)| name.clone()).collect();
    for rule in policy.sections().env.iter().filter(|rule| rule.inject.is_none()) {
        let name = OsString::from(&rule.name);
        // The caller's own proxy cannot be reached from inside; the gateway's can.
        let proxy = outlet.and_then(|_| network::proxy_variable(&rule.name)).map(OsString::from);
        let value = proxy.or_else(|| host.variable(&rule.name));
        if let Some(value) = value.filter(|_| !own.contains(&name)) {
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
