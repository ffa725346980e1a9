//! Tools on the provider's side, and what narrows them.

use super::system::rows;
use std::sync::LazyLock;

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

/// The shipped list.
pub static PROVIDER_TOOLS: LazyLock<Vec<ProviderTool>> = LazyLock::new(|| {
    rows(include_str!("../../profiles/providers/tools.txt"))
        .filter_map(|mut cells| {
            let (provider, tool) = (cells.next()?, cells.next()?);
            let narrowing = if cells.next()? == "net.get" { Narrowing::NetGet } else { Narrowing::Explicit };
            Some(ProviderTool { provider, tool, narrowing, why: cells.next()? })
        })
        .collect()
});
