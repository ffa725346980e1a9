//! The user's own tools: definitions that are wrong, and programs that are not there.

use super::finding::{Finding, Level};
use crate::manifest::read_source;
use crate::plan::{Host, usual_path};
use crate::run::{Live, Setting};
use crate::tool::{Action, Layer, Tool, read_definitions};
use std::path::Path;

/// Findings about the user's files of tools.
#[must_use]
pub fn tools(setting: &Setting) -> Vec<Finding> {
    setting.tool_files().iter().flat_map(|file| one(file)).collect()
}

fn one(file: &Path) -> Vec<Finding> {
    let finding = |code, message: String| Finding::new("files", code, Level::Warning, message);
    let source = match read_source(file) {
        Ok(source) => source,
        Err(error) => return vec![finding("tool-broken", error.to_string())],
    };
    let read = read_definitions(&source, Layer::User);
    let mut found: Vec<Finding> = Vec::new();
    for problem in read.faults.iter().map(crate::tool::Fault::to_problem) {
        let message = format!("a tool is defined wrongly: {}", problem.message);
        let mut broken = finding("tool-broken", message);
        broken.fix.extend(problem.help.clone());
        broken.place = problem.place(&source);
        found.push(broken);
    }
    for (tool, binary) in read.tools.iter().filter_map(|tool| Some((tool, missing(tool)?))) {
        let message = format!("the tool {} runs {binary}, which is not there", tool.name);
        let mut missing =
            finding("tool-missing", message).fix(format!("install {binary}, or disable the tool"));
        missing.place.clone_from(&tool.place);
        found.push(missing);
    }
    found
}

/// The program of a tool that can be found, when it is not there.
fn missing(tool: &Tool) -> Option<&str> {
    let binary = match &tool.action {
        Action::Template { binary, .. } | Action::Free { binary, .. } => binary,
        Action::Shell(_) | Action::Internal(_) | Action::Off => return None,
    };
    (tool.enabled && !is_there(binary)).then_some(binary)
}

/// Whether a program is found: by its path, on the caller's search path, or on the one that is used inside.
pub(super) fn is_there(program: &str) -> bool {
    if program.contains('/') {
        // One that is not absolute belongs to wherever it will be started.
        return !Path::new(program).is_absolute() || Live.is_program(Path::new(program));
    }
    let own = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&own).chain(std::env::split_paths(usual_path(Live.system())));
    dirs.map(|dir| dir.join(program)).any(|file| Live.is_program(&file))
}
