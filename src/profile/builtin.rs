//! The registry of shipped files.

/// A shipped file: its path below `profiles/` and its text.
pub type File = (&'static str, &'static str);

macro_rules! files {
    ($name:ident: $($path:literal,)*) => {
        &[$(($path, include_str!(concat!("../../profiles/", $path))),)*]
    };
}

/// Records of the built-in agents.
pub const BUILTIN_AGENTS: &[File] = files! { agents:
    "agents/builder.md",
    "agents/fetcher.md",
    "agents/scout.md",
};

/// Every other shipped file.
pub const FILES: &[File] = files! { base:
    "audit/redact.txt",
    "base/inert-git-keys.txt",
    "base/linux.txt",
    "base/protected.txt",
    "base/shared-hosts.txt",
    "commands/helpers.txt",
    "doctor/install.txt",
    "mcp/actions.txt",
    "mcp/arguments.txt",
    "mcp/clients.txt",
    "mcp/launchers.txt",
    "mcp/runtimes.txt",
    "mcp/servers.txt",
    "net/reads.txt",
    "net/trust.txt",
    "providers/tools.txt",
    "tools/evaluators.txt",
};

/// The text of a built-in agent's record.
#[must_use]
pub fn agent(id: &str) -> Option<File> {
    BUILTIN_AGENTS.iter().copied().find(|(path, _)| path.strip_prefix("agents/") == Some(&format!("{id}.md")))
}
