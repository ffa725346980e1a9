//! Clients that ask a hook before a tool runs: their built-in tools, and where they are told of the hook.

use super::table::{count, rows};

const TOOLS: &str = include_str!("../../profiles/hook/tools.txt");
static TOOL_ROWS: [[&str; 4]; count(TOOLS)] = rows(TOOLS);
const CLIENTS: &str = include_str!("../../profiles/hook/clients.txt");
static CLIENT_ROWS: [[&str; 4]; count(CLIENTS)] = rows(CLIENTS);

/// What one argument of a built-in tool means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookTool {
    /// The argument; `.` for the working directory, `-` for none.
    pub argument: &'static str,
    /// A capability's name, or one of the words that the table explains.
    pub meaning: &'static str,
}

/// Where a client is told of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookClient {
    /// The client.
    pub name: &'static str,
    /// Whether it is the file of one project.
    pub project: bool,
    /// The file: below home when it starts with `~/`, else below the project.
    pub file: &'static str,
    /// What the client calls the moment before a tool runs, once for each kind of tool.
    pub events: &'static str,
}

/// What is known of a client's built-in tool; nothing for a tool that is not known.
pub fn hook_tool(client: &str, tool: &str) -> impl Iterator<Item = HookTool> {
    let own = TOOL_ROWS.iter().filter(move |[of, name, ..]| *of == client && *name == tool);
    own.map(|[_, _, argument, meaning]| HookTool { argument, meaning })
}

/// Where clients are told of hooks.
pub fn hook_clients() -> impl Iterator<Item = HookClient> {
    CLIENT_ROWS.iter().map(|[name, which, file, events]| HookClient {
        name,
        project: *which == "project",
        file,
        events,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability;
    use crate::manifest::ArgumentPath;

    #[test]
    fn every_row_means_something() {
        let words = ["shell", "dir", "tree", "glob", "patch", "urls", "none"];
        for [client, tool, argument, meaning] in &TOOL_ROWS {
            assert!(CLIENT_ROWS.iter().any(|[name, ..]| name == client), "{client}");
            let known = words.contains(meaning)
                || Capability::from_name(meaning).is_some()
                || meaning.strip_prefix("provider ").is_some_and(|tool| tool.contains('/'));
            assert!(known, "{client} {tool}: {meaning}");
            assert_eq!(*meaning == "none", *argument == "-", "{client} {tool}");
            assert!(matches!(*argument, "-" | ".") || ArgumentPath::parse(argument).is_some(), "{argument}");
        }
    }
}
