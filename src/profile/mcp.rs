//! Ready maps for known MCP servers, and programs that start servers.

use super::system::rows;
use crate::capability::Capability;
use crate::manifest::{ArgumentPath, ArgumentRule};
use std::sync::LazyLock;

/// What is known about a server's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpPreset {
    /// Its name.
    pub name: &'static str,
    known_as: Vec<&'static str>,
    actions: Vec<McpAction>,
    arguments: Vec<ArgumentRule>,
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

static PRESETS: LazyLock<Vec<McpPreset>> = LazyLock::new(|| {
    let mut presets: Vec<McpPreset> = Vec::new();
    for mut cells in rows(include_str!("../../profiles/mcp/servers.txt")) {
        let (Some(name), Some(known)) = (cells.next(), cells.next()) else { continue };
        match presets.iter_mut().find(|preset| preset.name == name) {
            Some(preset) => preset.known_as.push(known),
            None => presets.push(McpPreset {
                name,
                known_as: vec![known],
                actions: Vec::new(),
                arguments: Vec::new(),
            }),
        }
    }
    for mut cells in rows(include_str!("../../profiles/mcp/actions.txt")) {
        let (Some(name), Some(tool), Some(argument)) = (cells.next(), cells.next(), cells.next()) else {
            continue;
        };
        let presets = presets.iter_mut().filter(|preset| preset.name == name);
        presets.for_each(|preset| preset.actions.push(McpAction { tool, argument }));
    }
    for mut cells in rows(include_str!("../../profiles/mcp/arguments.txt")) {
        let cells = (cells.next(), cells.next(), cells.next(), cells.next());
        let (Some(name), Some(tool), Some(argument), Some(capability)) = cells else { continue };
        let parts = ArgumentPath::parse(argument).zip(Capability::from_name(capability));
        let Some((argument, capability)) = parts else { continue };
        let rule = ArgumentRule { tool: tool.to_owned(), argument, capabilities: vec![capability] };
        let presets = presets.iter_mut().filter(|preset| preset.name == name);
        presets.for_each(|preset| preset.arguments.push(rule.clone()));
    }
    presets
});

/// Programs that fetch servers and start them.
pub static MCP_LAUNCHERS: LazyLock<Vec<McpLauncher>> = LazyLock::new(|| {
    rows(include_str!("../../profiles/mcp/launchers.txt"))
        .filter_map(|mut cells| {
            let words = cells.next()?.split(' ').collect();
            let runtime = cells.next().filter(|runtime| *runtime != "none");
            Some(McpLauncher { words, runtime, why: cells.next()? })
        })
        .collect()
});

/// What must be seen to run an entry point: by runtime, `package` and `interpreter`.
pub static MCP_RUNTIMES: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    rows(include_str!("../../profiles/mcp/runtimes.txt"))
        .filter_map(|mut cells| Some((cells.next()?, cells.next()?)))
        .collect()
});

impl McpPreset {
    /// All of them.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &PRESETS
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The one that is known by one of these: `npm:PACKAGE`, `pypi:PACKAGE`, `bin:PROGRAM`.
    #[must_use]
    pub fn recognise(names: &[String]) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| names.iter().any(|name| preset.known_as.contains(&name.as_str())))
    }

    /// Where the actions of its tools stand.
    #[must_use]
    pub fn actions(&self) -> &[McpAction] {
        &self.actions
    }

    /// Which arguments of its tools are more than text.
    #[must_use]
    pub fn arguments(&self) -> Vec<ArgumentRule> {
        self.arguments.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> usize {
        text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).count()
    }

    #[test]
    fn every_row_is_read() {
        let count = |of: fn(&McpPreset) -> usize| PRESETS.iter().map(of).sum::<usize>();
        assert_eq!(
            count(|preset| preset.known_as.len()),
            lines(include_str!("../../profiles/mcp/servers.txt"))
        );
        assert_eq!(
            count(|preset| preset.actions.len()),
            lines(include_str!("../../profiles/mcp/actions.txt"))
        );
        assert_eq!(
            count(|preset| preset.arguments.len()),
            lines(include_str!("../../profiles/mcp/arguments.txt"))
        );
        assert_eq!(MCP_LAUNCHERS.len(), lines(include_str!("../../profiles/mcp/launchers.txt")));
        assert_eq!(MCP_RUNTIMES.len(), lines(include_str!("../../profiles/mcp/runtimes.txt")));
    }
}
