//! Where git is led from a working tree: its repository, and the files that the repository's settings name.
//!
//! Answers for what git would run or obey that lies elsewhere than in `.git`: the directory that a `.git` file names,
//! the one it shares, the hooks and settings that its configuration points to. git itself is not asked; the
//! configuration is protected, so it can be believed.

use super::host::{Host, Kind};
use crate::profile::PROTECTED;
use sbx_platform::path::normalize;
use std::path::{Path, PathBuf};

/// The most worktrees and submodules of a repository that are looked at.
const MOST: usize = 256;

/// The repository of a working tree, and the one it shares.
fn repository(place: &Path, host: &dyn Host) -> Option<(PathBuf, Option<PathBuf>)> {
    let entry = place.join(".git");
    let repository = match host.kind(&entry)? {
        Kind::Directory => entry,
        Kind::Link(_) => host.real(&entry)?,
        Kind::File => named(&entry, "gitdir:", place, host)?,
    };
    let shared = named(&repository.join("commondir"), "", &repository, host);
    Some((repository, shared))
}

/// Where git finds what a working tree is made of; none where it is none.
#[must_use]
pub fn repositories(place: &Path, host: &dyn Host) -> Vec<PathBuf> {
    let found = repository(place, host);
    found.into_iter().flat_map(|(repository, shared)| [Some(repository), shared]).flatten().collect()
}

/// What stays as it is because git is led there from `place`, whether or not it exists.
pub(super) fn led_to(place: &Path, home: &Path, host: &dyn Host) -> Vec<PathBuf> {
    let Some((repository, shared)) = repository(place, host) else { return Vec::new() };
    let own = repository == place.join(".git");
    let mut kept = Vec::new();
    for part in [Some(&repository).filter(|_| !own), shared.as_ref()].into_iter().flatten() {
        kept.extend(parts(part, host));
    }
    let parts = [Some(&repository), shared.as_ref()].into_iter().flatten();
    let mut settings: Vec<PathBuf> =
        parts.flat_map(|part| ["config", "config.worktree"].map(|name| part.join(name))).collect();
    // The user's own settings, which hold in every repository.
    settings.extend([".gitconfig", ".config/git/config"].map(|name| home.join(name)));
    settings.push(PathBuf::from("/etc/gitconfig"));
    let mut read = 0;
    while let Some(file) = settings.get(read).filter(|_| read < MOST_SETTINGS).cloned() {
        read += 1;
        let text = host.text(&file).unwrap_or_default();
        for (path, leads) in pointed_to(&text, place, file.parent().unwrap_or(place), home) {
            match leads {
                Leads::ToSettings if !settings.contains(&path) => settings.push(path.clone()),
                Leads::Perhaps if !host.is_program(&path) => continue,
                Leads::ToSettings | Leads::Elsewhere | Leads::Perhaps => {}
            }
            kept.push(path);
        }
    }
    kept
}

/// The most files of settings that are read, those that others include among them.
const MOST_SETTINGS: usize = 32;

/// What a setting names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    /// More settings.
    ToSettings,
    /// Hooks, attributes, a program.
    Elsewhere,
    /// A program, if one is there: filters, editors and helpers are commands, and there are many of their kind.
    Perhaps,
}

/// The most words of a setting that are looked at for programs.
const MOST_WORDS: usize = 16;

/// Where a small file leads that holds nothing but a path.
fn named(file: &Path, word: &str, from: &Path, host: &dyn Host) -> Option<PathBuf> {
    let text = host.text(file)?;
    let path = text.trim().strip_prefix(word)?.trim();
    let path = normalize(&from.join(path));
    Some(host.real(&path).unwrap_or(path))
}

/// The protected parts of a repository that is called otherwise than `.git`.
fn parts(repository: &Path, host: &dyn Host) -> Vec<PathBuf> {
    let below = PROTECTED.iter().filter_map(|protected| protected.name.strip_prefix(".git/"));
    let (plain, other): (Vec<&str>, Vec<&str>) = below.partition(|name| !name.contains('*'));
    let mut found: Vec<PathBuf> = plain.into_iter().map(|name| repository.join(name)).collect();
    let below = |start: &str| other.iter().filter_map(|name| name.strip_prefix(start)).collect::<Vec<_>>();
    let of_modules = |dir: &Path, ends: &[&str]| {
        let modules = modules(&dir.join("modules"), host);
        modules.iter().flat_map(|module| ends.iter().map(|end| module.join(end))).collect::<Vec<_>>()
    };
    let worktrees = repository.join("worktrees");
    let (ends, modules) = (below("worktrees/*/"), below("worktrees/*/modules/**/"));
    for name in host.names(&worktrees).into_iter().take(MOST) {
        let worktree = worktrees.join(name);
        found.extend(ends.iter().filter(|end| !end.contains('*')).map(|end| worktree.join(end)));
        found.extend(of_modules(&worktree, &modules));
    }
    found.extend(of_modules(repository, &below("modules/**/")));
    found
}

/// The repositories of submodules, whose names may have parts.
fn modules(dir: &Path, host: &dyn Host) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![dir.to_path_buf()]);
    for _ in 0..MOST {
        let Some(dir) = pending.pop() else { break };
        let below = host.names(&dir).into_iter().take(MOST).map(|name| dir.join(name));
        for below in below.filter(|below| host.kind(below) == Some(Kind::Directory)) {
            match host.kind(&below.join("HEAD")) {
                Some(_) => found.push(below),
                None => pending.push(below),
            }
        }
    }
    found
}

/// A setting of git: its section, without what is quoted there, its name and its value.
#[derive(Debug)]
#[non_exhaustive]
pub struct GitSetting {
    /// In small letters.
    pub section: String,
    /// In small letters.
    pub key: String,
    /// Without quotes.
    pub value: String,
}

/// What a configuration of git sets; names without a value are left out.
#[must_use]
pub fn git_settings(config: &str) -> Vec<GitSetting> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in config.replace("\\\n", "").lines().map(str::trim) {
        let mut line = line;
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, after)) = rest.split_once(']') else { continue };
            section = name.split([' ', '\t', '.', '"']).next().unwrap_or_default().to_ascii_lowercase();
            line = after.trim();
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = key.trim().to_ascii_lowercase();
        found.push(GitSetting { section: section.clone(), key, value: unquoted(value) });
    }
    found
}

/// The hooks, settings and attributes that a configuration names, which lies in `dir`.
fn pointed_to(config: &str, tree: &Path, dir: &Path, home: &Path) -> Vec<(PathBuf, Leads)> {
    let mut found = Vec::new();
    for GitSetting { section, key, value } in git_settings(config) {
        let placed = |start: &Path, text: &str| {
            let path = text.strip_prefix("~/").map_or_else(|| start.join(text), |below| home.join(below));
            Some(normalize(&path)).filter(|path| path != tree && !text.is_empty())
        };
        let exactly = |start, leads| placed(start, &value).map(|path| (path, leads));
        match (section.as_str(), key.as_str()) {
            ("core", "hookspath" | "attributesfile" | "fsmonitor") => {
                found.extend(exactly(tree, Leads::Elsewhere))
            }
            ("include" | "includeif", "path") => found.extend(exactly(dir, Leads::ToSettings)),
            _ => {
                let words =
                    value.split([' ', '\t', '!', ';', '|', '&', '\'', '"']).filter(|word| word.contains('/'));
                let programs = words.take(MOST_WORDS).filter_map(|word| placed(tree, word));
                found.extend(programs.map(|path| (path, Leads::Perhaps)));
            }
        }
    }
    found
}

/// A value without quotes, escapes and what follows it.
fn unquoted(value: &str) -> String {
    let (mut plain, mut quoted) = (String::new(), false);
    let mut letters = value.trim().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => plain.extend(letters.next()),
            '#' | ';' if !quoted => break,
            _ => plain.push(letter),
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_lead_elsewhere_are_followed() {
        let config = "[core]\n\tbare = false\n\thooksPath = .githooks ; ours\n[Core] attributesFile = \"a b\"\n\
                      [includeIf \"gitdir:~/x/\"]\n\tpath = ../shared.cfg\n[include]\npath = ~/own\n\
                      [submodule \"s\"]\n\tpath = s\n[core]\n\thooks\\\nPath = twice\n";
        let found = pointed_to(config, Path::new("/w"), Path::new("/w/.git"), Path::new("/h"));
        let wanted = ["/w/.githooks", "/w/a b", "/w/shared.cfg", "/h/own", "/w/twice"];
        assert_eq!(found.iter().map(|(path, _)| path.as_path()).collect::<Vec<_>>(), wanted.map(Path::new));
        let settings = found.iter().filter(|(_, leads)| *leads == Leads::ToSettings);
        assert_eq!(settings.count(), 2);
    }

    #[test]
    fn programs_are_found_in_any_setting() {
        let config = "[filter \"f\"]\n\tclean = tools/clean %f\n[alias]\n\tgo = \"!./go; sub/other\"\n[user]\n\tname = a b\n";
        let found = pointed_to(config, Path::new("/w"), Path::new("/w/.git"), Path::new("/h"));
        let wanted =
            ["/w/tools/clean", "/w/go", "/w/sub/other"].map(|path| (PathBuf::from(path), Leads::Perhaps));
        assert_eq!(found, wanted);
    }
}
