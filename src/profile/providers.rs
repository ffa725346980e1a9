//! Tools on the provider's side, and what narrows them.

use super::table::{count, rows};

/// What narrows a provider's tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowing {
    /// The hosts of `net.get`, as allowed domains.
    NetGet,
    /// Nothing: the record's `provider_tools` must name it.
    Explicit,
}

/// One tool that a provider runs on its own side.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderTool {
    /// Whose it is.
    pub provider: &'static str,
    /// Its name there.
    pub tool: &'static str,
    /// What narrows it.
    pub narrowing: Narrowing,
    /// What it does.
    pub why: &'static str,
}

const TEXT: &str = include_str!("../../profiles/providers/tools.txt");
static ROWS: [[&str; 4]; count(TEXT)] = rows(TEXT);

/// The shipped list.
pub fn provider_tools() -> impl Iterator<Item = ProviderTool> {
    ROWS.iter().map(|[provider, tool, narrowing, why]| {
        let narrowing = if *narrowing == "net.get" { Narrowing::NetGet } else { Narrowing::Explicit };
        ProviderTool { provider, tool, narrowing, why }
    })
}
