//! The tools that ship with sbx, from `profiles/tools/`.
//!
//! They are the lowest layer: names for commands, offered to whoever holds what they need, and replaced or switched off
//! by any definition of the same name.
//! Invariant: every file is whole, and its tool is called as the file is; a test says so.

use super::definition::Layer;
use super::read::{Definitions, read_definitions};
use crate::profile::BUILTIN_TOOLS;
use crate::text::Source;

/// Every shipped file of tools, with what was read from it.
pub fn shipped() -> impl Iterator<Item = (Source, Definitions)> {
    BUILTIN_TOOLS.iter().map(|(path, text)| {
        let source = Source::new(format!("built-in:{path}"), *text);
        let read = read_definitions(&source, Layer::Builtin);
        (source, read)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::decide;
    use crate::manifest::{Config, Facts, Manifest};
    use crate::policy::Policy;
    use crate::profile::{agent, tool_names};
    use crate::tool::{Bound, Given, Net, Surroundings, Tool};
    use serde_json::{Value, json};
    use std::path::Path;

    /// A call of each tool: who it is meant for, what is given, and the command it comes to.
    const CALLS: &[(&str, &[&str], &str, &str)] = &[
        ("disk_usage", &["scout", "builder"], r#"{"depth": 2}"#, "du -k -d 2 -- /home/u/app"),
        (
            "git_blame",
            &["scout", "builder"],
            r#"{"file": "src/a.rs", "lines": "3,9"}"#,
            "git blame --no-textconv --date=short -L 3,9 -- /home/u/app/src/a.rs",
        ),
        (
            "git_diff",
            &["scout", "builder"],
            r#"{"since": "main..HEAD~2", "form": "stat", "path": "src"}"#,
            "git diff --no-color --no-ext-diff --no-textconv --stat main..HEAD~2 -- /home/u/app/src",
        ),
        (
            "git_files",
            &["scout", "builder"],
            "{}",
            "git ls-files --cached --others --exclude-standard -- /home/u/app",
        ),
        (
            "git_log",
            &["scout", "builder"],
            r#"{"count": 5}"#,
            "git log --no-color --no-ext-diff --no-textconv --date=short --pretty=format:%h%x09%ad%x09%an%x09%s \
             --max-count=5 --no-patch HEAD -- /home/u/app",
        ),
        (
            "git_show",
            &["scout", "builder"],
            r#"{"what": "v1.0:src/a.rs"}"#,
            "git show --no-color --no-ext-diff --no-textconv --patch v1.0:src/a.rs --",
        ),
        ("git_status", &["scout", "builder"], "{}", "git status --short --branch --untracked-files=normal"),
        ("sha256", &["builder"], r#"{"file": "a.bin"}"#, "sha256sum -- /home/u/app/a.bin"),
    ];

    fn facts() -> Facts {
        Facts::new("/home/u").at("/home/u/app").project(Some("/home/u/app".into()))
    }

    fn policy(id: &str) -> Policy {
        let (path, text) = agent(id).unwrap();
        let (manifest, problems) = Manifest::parse(Source::new(path, text), &facts());
        Policy::resolve(&manifest.unwrap_or_else(|| panic!("{problems:?}")), &Config::default(), &facts()).0
    }

    fn tools() -> Vec<Tool> {
        shipped().flat_map(|(_, read)| read.tools).collect()
    }

    fn bind(tool: &Tool, given: &Value) -> Result<Vec<String>, String> {
        let facts = facts();
        let resolve: &dyn Fn(&Path) -> std::path::PathBuf = &sbx_platform::path::normalize;
        let around =
            Surroundings { facts: &facts, session_dir: None, cwd: Path::new("/home/u/app"), resolve };
        let given = Given { values: given.as_object().cloned().unwrap_or_default(), args: Vec::new() };
        match tool.bind(&given, &around) {
            Ok(Bound::Exec(argv)) => Ok(argv),
            Ok(other) => panic!("{} is no command: {other:?}", tool.name),
            Err(fault) => Err(fault.label()),
        }
    }

    #[test]
    fn every_file_is_whole_says_what_it_is_and_is_called_as_its_tool() {
        for ((source, read), name) in shipped().zip(tool_names()) {
            assert!(read.faults.is_empty(), "{}: {:?}", source.name(), read.faults);
            let [tool] = read.tools.as_slice() else { panic!("{} has one tool", source.name()) };
            assert_eq!((tool.name.as_str(), tool.layer), (name, Layer::Builtin));
            assert!(tool.enabled && tool.read_only && !tool.persistent, "{name}");
            assert!(tool.net == Net::None && tool.env.is_empty(), "{name}");
            assert!(tool.description.as_ref().is_some_and(|about| about.len() > 20), "{name}");
            assert!(tool.params.iter().all(|param| param.description.is_some()), "{name}");
        }
        assert!(shipped().count() > 3);
    }

    #[test]
    fn every_tool_is_offered_to_whom_it_is_meant_for_and_to_nobody_else() {
        let named: Vec<&str> = CALLS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(named, tool_names().collect::<Vec<_>>(), "a call of each");
        for (tool, (name, meant, ..)) in tools().iter().zip(CALLS) {
            for id in ["scout", "builder", "fetcher"] {
                let withheld = tool.withheld(&policy(id));
                assert_eq!(withheld.is_none(), meant.contains(&id), "{name} and {id}: {withheld:?}");
            }
        }
    }

    #[test]
    fn every_call_is_one_that_its_agent_may_make_narrowed_to_the_tool() {
        for (tool, (name, meant, given, wanted)) in tools().iter().zip(CALLS) {
            let argv =
                bind(tool, &serde_json::from_str(given).unwrap()).unwrap_or_else(|f| panic!("{name}: {f}"));
            assert_eq!(argv.join(" "), *wanted);
            for id in *meant {
                let request = Bound::Exec(argv.clone()).request(name).unwrap().unwrap();
                let narrowed = policy(id).narrowed(&tool.narrowing());
                assert!(decide(&policy(id), &request).is_allowed(), "{name} by {id}");
                assert!(decide(&narrowed, &request).is_allowed(), "{name} by {id}, narrowed");
            }
        }
    }

    #[test]
    fn no_value_becomes_an_option_or_leads_out_of_the_project() {
        let tools = tools();
        let refused = |name: &str, given: Value| {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            bind(tool, &given).expect_err(name)
        };
        for text in ["--output=/home/u/app/x", "-p", "--", "a b", "", "HEAD\n--output=x", "$(id)"] {
            assert_eq!(refused("git_diff", json!({ "since": text })), "pattern:since", "{text:?}");
            assert_eq!(refused("git_log", json!({ "from": text })), "pattern:from", "{text:?}");
        }
        assert_eq!(refused("git_show", json!({ "what": "--output=x" })), "pattern:what");
        assert_eq!(refused("git_blame", json!({ "file": "a", "lines": ":evil" })), "pattern:lines");
        assert_eq!(refused("git_diff", json!({ "form": "output=x" })), "not_in_enum:form");
        assert_eq!(refused("sha256", json!({ "file": "/etc/passwd" })), "outside_prefix:file");
        assert_eq!(refused("git_files", json!({ "path": "../other" })), "traversal:path");
    }
}
