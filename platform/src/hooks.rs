//! What only tests may switch: a lower Landlock level, closed namespaces, no packet filter, no broker.
//!
//! Answers for the one place where a test can make this machine look weaker than it is. Compiled only with
//! the feature `test-hooks`.
//! Invariant: a switch can take a promise away, never add one.

/// The Landlock level to pretend, from `SBX_TEST_LANDLOCK`; never above the real one.
pub(crate) fn landlock_level() -> Option<u32> {
    std::env::var("SBX_TEST_LANDLOCK").ok()?.parse().ok()
}

/// Whether to pretend that namespaces are closed, from `SBX_TEST_NO_NAMESPACES`.
pub(crate) fn namespaces_closed() -> bool {
    std::env::var_os("SBX_TEST_NO_NAMESPACES").is_some()
}

/// Whether to pretend that the packet filter has no rules, from `SBX_TEST_NO_RULES`.
pub(crate) fn rules_missing() -> bool {
    std::env::var_os("SBX_TEST_NO_RULES").is_some()
}

/// Whether to pretend that there is no bubblewrap, from `SBX_TEST_NO_BWRAP`.
pub(crate) fn bwrap_missing() -> bool {
    std::env::var_os("SBX_TEST_NO_BWRAP").is_some()
}

/// Whether to pretend that somebody watches this process already, from `SBX_TEST_NO_NOTIFY`.
pub(crate) fn notify_missing() -> bool {
    std::env::var_os("SBX_TEST_NO_NOTIFY").is_some()
}

/// Whether to pretend that Landlock has a number without the scopes that belong to it, from `SBX_TEST_NO_SCOPES`.
pub(crate) fn scopes_missing() -> bool {
    std::env::var_os("SBX_TEST_NO_SCOPES").is_some()
}

/// These switches as an environment, for parts of ourselves that are started with an empty one.
pub(crate) fn environment() -> Vec<std::ffi::CString> {
    use std::os::unix::ffi::OsStrExt;
    let switches = std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"SBX_TEST_"));
    let words = switches.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    words.filter_map(|word| std::ffi::CString::new(word).ok()).collect()
}
