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

/// Definitions of the built-in tools, one file a tool, called as it is.
pub const BUILTIN_TOOLS: &[File] = files! { tools:
    "tools/disk_usage.toml",
    "tools/git_blame.toml",
    "tools/git_diff.toml",
    "tools/git_files.toml",
    "tools/git_log.toml",
    "tools/git_show.toml",
    "tools/git_status.toml",
    "tools/sha256.toml",
};

/// Every other shipped file.
pub const FILES: &[File] = files! { base:
    "audit/redact.txt",
    "base/inert-git-keys.txt",
    "base/linux.txt",
    "base/macos.txt",
    "base/protected.txt",
    "base/shared-hosts.txt",
    "base/tried-anyway.txt",
    "commands/helpers.txt",
    "doctor/install.txt",
    "hook/clients.txt",
    "hook/tools.txt",
    "learn/places.txt",
    "mcp/actions.txt",
    "mcp/arguments.txt",
    "mcp/clients.txt",
    "mcp/launchers.txt",
    "mcp/runtimes.txt",
    "mcp/servers.txt",
    "mcp/state.txt",
    "net/programs.txt",
    "net/reads.txt",
    "net/trust.txt",
    "providers/tools.txt",
    "risk/places.txt",
    "risk/readers.txt",
    "risk/wrappers.txt",
    "seatbelt/base.txt",
    "seatbelt/repository.txt",
    "tools/evaluators.txt",
};

/// The rules of the risk layer, one file a group.
pub const RISK_RULES: &[File] = files! { risk:
    "risk/aws.yml",
    "risk/azure.yml",
    "risk/base.yml",
    "risk/cloud.yml",
    "risk/database.yml",
    "risk/docker.yml",
    "risk/flyio.yml",
    "risk/fs.yml",
    "risk/gcp.yml",
    "risk/git.yml",
    "risk/github.yml",
    "risk/heroku.yml",
    "risk/kubernetes.yml",
    "risk/mongodb.yml",
    "risk/mysql.yml",
    "risk/netlify.yml",
    "risk/network.yml",
    "risk/npm.yml",
    "risk/persistence.yml",
    "risk/psql.yml",
    "risk/publish.yml",
    "risk/redis.yml",
    "risk/secrets.yml",
    "risk/shell.yml",
    "risk/terraform.yml",
    "risk/vercel.yml",
};

/// The names of the built-in tools.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    BUILTIN_TOOLS.iter().filter_map(|(path, _)| path.strip_prefix("tools/")?.strip_suffix(".toml"))
}

/// The text of a built-in agent's record.
#[must_use]
pub fn agent(id: &str) -> Option<File> {
    BUILTIN_AGENTS.iter().copied().find(|(path, _)| path.strip_prefix("agents/") == Some(&format!("{id}.md")))
}
