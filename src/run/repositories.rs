//! Repositories that a launch made, and what git would run in them later, outside the fence.

use crate::profile::INERT_GIT_KEYS;
use sbx_platform::report::{Act, Verb};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The largest `config` that is read.
const MAX_CONFIG: u64 = 256 << 10;

/// What is worth knowing before using git in repositories that the launch made. git itself is not asked.
#[must_use]
pub fn armed_repositories(acts: &[Act]) -> Vec<String> {
    let made = acts.iter().filter(|act| act.verb == Verb::Made && act.path.ends_with(".git"));
    made.flat_map(|act| active_hooks(&act.path).into_iter().chain(running_settings(&act.path))).collect()
}

fn active_hooks(git: &Path) -> Vec<String> {
    let entries = fs::read_dir(git.join("hooks")).into_iter().flatten().filter_map(Result::ok);
    let active = entries.map(|entry| entry.path()).filter(is_active);
    active.map(|path| format!("the new repository's hook {} would be run by git", path.display())).collect()
}

fn is_active(hook: &PathBuf) -> bool {
    let sample = hook.extension().is_some_and(|extension| extension == "sample");
    !sample && fs::metadata(hook).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn running_settings(git: &Path) -> Vec<String> {
    let config = git.join("config");
    let small = fs::metadata(&config).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_CONFIG);
    let text = if small { fs::read_to_string(&config).unwrap_or_default() } else { String::new() };
    let odd = keys(&text).into_iter().filter(|key| !is_harmless(key));
    odd.map(|key| format!("the new repository's {} sets {key}, which may run code", config.display()))
        .collect()
}

/// `section.key` of every setting, subsections left out.
fn keys(text: &str) -> Vec<String> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.split([']', ' ', '.']).next().unwrap_or_default().to_ascii_lowercase();
        } else if !line.is_empty() && !line.starts_with(['#', ';']) {
            let key = line.split(['=', ' ', '\t']).next().unwrap_or_default().to_ascii_lowercase();
            found.push(format!("{section}.{key}"));
        }
    }
    found
}

/// Whether a setting names no program; where a remote lies is not a program either.
fn is_harmless(key: &str) -> bool {
    let inert = |known: &&str| {
        known.replace(".*.", ".") == key || known.strip_suffix('*').is_some_and(|s| key.starts_with(s))
    };
    ["submodule.url", "submodule.active"].contains(&key) || INERT_GIT_KEYS.iter().any(inert)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_run_code_are_told_apart() {
        let text = "[core]\n\tbare = false\n\tfsmonitor = ./x\n[remote \"o\"]\n\turl = y\n[alias]\n\tx = !sh\n[color]\nui=1\n";
        let odd: Vec<String> = keys(text).into_iter().filter(|key| !is_harmless(key)).collect();
        assert_eq!(odd, ["core.fsmonitor", "alias.x"]);
    }
}
