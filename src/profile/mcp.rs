//! Ready maps for known MCP servers, and programs that start servers.

use super::table::{count, rows};
use crate::capability::Capability;
use crate::manifest::{ArgumentPath, ArgumentRule};

/// What is known about a server's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpPreset {
    /// Its name.
    pub name: &'static str,
}

/// Where a tool's action stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpAction {
    /// Which tool.
    pub tool: &'static str,
    /// Which of its arguments.
    pub argument: &'static str,
}

/// A program that fetches a server and starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpLauncher {
    /// The words it starts with.
    pub words: Vec<&'static str>,
    /// What it starts servers with; none when sbx cannot take it apart.
    pub runtime: Option<&'static str>,
    /// What it does, or what to use instead.
    pub why: &'static str,
}

const SERVERS: &str = include_str!("../../profiles/mcp/servers.txt");
static SERVER_ROWS: [[&str; 2]; count(SERVERS)] = rows(SERVERS);
const ACTIONS: &str = include_str!("../../profiles/mcp/actions.txt");
static ACTION_ROWS: [[&str; 3]; count(ACTIONS)] = rows(ACTIONS);
const ARGUMENTS: &str = include_str!("../../profiles/mcp/arguments.txt");
static ARGUMENT_ROWS: [[&str; 4]; count(ARGUMENTS)] = rows(ARGUMENTS);
const LAUNCHERS: &str = include_str!("../../profiles/mcp/launchers.txt");
static LAUNCHER_ROWS: [[&str; 3]; count(LAUNCHERS)] = rows(LAUNCHERS);
const RUNTIMES: &str = include_str!("../../profiles/mcp/runtimes.txt");
static RUNTIME_ROWS: [[&str; 2]; count(RUNTIMES)] = rows(RUNTIMES);

const STATE: &str = include_str!("../../profiles/mcp/state.txt");
static STATE_ROWS: [[&str; 3]; count(STATE)] = rows(STATE);
const CLIENTS: &str = include_str!("../../profiles/mcp/clients.txt");
static CLIENT_ROWS: [[&str; 6]; count(CLIENTS)] = rows(CLIENTS);

/// Where a client keeps its list of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpClient {
    /// The client.
    pub name: &'static str,
    /// Whether it is the list of one project.
    pub project: bool,
    /// The file: below home when it starts with `~/`, else below the project.
    pub file: &'static str,
    /// Whether it is TOML; else it is JSON, perhaps with comments.
    pub toml: bool,
    /// The key of the list.
    pub key: &'static str,
}

/// Where the clients of this system keep their lists of servers.
pub fn mcp_clients() -> impl Iterator<Item = McpClient> {
    let here = |[_, _, system, ..]: &&[&str; 6]| *system == "any" || *system == std::env::consts::OS;
    CLIENT_ROWS.iter().filter(here).map(|[name, which, _, file, format, key]| McpClient {
        name,
        project: *which == "project",
        file,
        toml: *format == "toml",
        key,
    })
}

/// Programs that fetch servers and start them.
pub fn mcp_launchers() -> impl Iterator<Item = McpLauncher> {
    LAUNCHER_ROWS.iter().map(|[words, runtime, why]| McpLauncher {
        words: words.split(' ').collect(),
        runtime: (*runtime != "none").then_some(*runtime),
        why,
    })
}

/// The variable that names where a server keeps something that else lies in its own package, and what that is.
#[must_use]
pub fn mcp_state(known_as: &[String]) -> Option<(&'static str, &'static str)> {
    let own = STATE_ROWS.iter().find(|[name, ..]| known_as.iter().any(|known| known == name));
    own.map(|[_, variable, what]| (*variable, *what))
}

/// Whether a runtime's `interpreter` must be seen to run an entry point, beside its package.
#[must_use]
pub fn mcp_needs(runtime: &str, what: &str) -> bool {
    RUNTIME_ROWS.iter().any(|[of, needed]| *of == runtime && *needed == what)
}

impl McpPreset {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let [name, _] = SERVER_ROWS.iter().find(|[preset, _]| *preset == name)?;
        Some(Self { name })
    }

    /// The one that is known by one of these: `npm:PACKAGE`, `pypi:PACKAGE`, `bin:PROGRAM`.
    #[must_use]
    pub fn recognise(names: &[String]) -> Option<Self> {
        let [name, _] = SERVER_ROWS.iter().find(|[_, known]| names.iter().any(|name| name == known))?;
        Some(Self { name })
    }

    /// Where the actions of its tools stand.
    pub fn actions(self) -> impl Iterator<Item = McpAction> {
        let own = ACTION_ROWS.iter().filter(move |[preset, ..]| *preset == self.name);
        own.map(|[_, tool, argument]| McpAction { tool, argument })
    }

    /// Which arguments of its tools are more than text.
    pub fn arguments(self) -> impl Iterator<Item = ArgumentRule> {
        let own = ARGUMENT_ROWS.iter().filter(move |[preset, ..]| *preset == self.name);
        own.filter_map(|[_, tool, argument, capability]| {
            Some(ArgumentRule {
                tool: (*tool).to_owned(),
                argument: ArgumentPath::parse(argument)?,
                capabilities: vec![Capability::from_name(capability)?],
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_means_something() {
        let named = |name: &str| McpPreset::named(name).unwrap();
        for [preset, _, argument, _] in &ARGUMENT_ROWS {
            assert!(
                named(preset).arguments().any(|rule| rule.argument.to_string() == *argument),
                "{argument}"
            );
        }
        let rules: usize = ["filesystem", "git", "fetch", "everything"]
            .map(|preset| named(preset).arguments().count())
            .iter()
            .sum();
        assert_eq!(rules, ARGUMENT_ROWS.len());
        assert!(ACTION_ROWS.iter().all(|[preset, ..]| McpPreset::named(preset).is_some()));
        assert_eq!(McpPreset::recognise(&["pypi:mcp-server-git".to_owned()]).unwrap().name, "git");
    }
}
