//! What a command that failed had to do without, where no refusal tells: a repository that lies elsewhere, the user's own
//! settings of git, a network.
//!
//! Answers for one remark about each, with the grants that would help. It is asked only after a failure, and looks at
//! words and settings: whether that was the reason nobody knows, but where it cannot have been nothing is said.
//! Invariant: what is named was found by sbx itself, and a repository looks like one.

use super::explain::is_traced;
use super::live::Live;
use crate::capability::{Capability, Family, Scope, ScopeKey, Spec};
use crate::decide::{Permit, Request, Subject, decide, grant_command, one_line};
use crate::plan::{GitSetting, Host, git_settings, repositories};
use crate::profile::needs_network;
use sbx_platform::path::within;
use sbx_platform::report::Act;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Options of git that take the next word.
const GIT_TAKES: &[&str] = &["-C", "-c", "--git-dir", "--work-tree"];
/// Options of git that name another repository than that of the working directory.
const GIT_GOES: &[&str] = &["-C", "--git-dir", "--work-tree"];
/// Commands of git that write down who made something, and do nothing when nobody said who that is.
const GIT_SIGNS: &[&str] = &[
    "am",
    "cherry-pick",
    "commit",
    "commit-tree",
    "merge",
    "notes",
    "pull",
    "rebase",
    "revert",
    "stash",
    "tag",
];
/// Where the user's own settings of git are, below the home.
const OWN_SETTINGS: &[&str] = &[".gitconfig", ".config/git/config"];

/// What is worth saying, and the repositories that were out of reach.
#[derive(Debug, Default)]
pub(super) struct Lacks {
    pub(super) remarks: Vec<String>,
    pub(super) repositories: Vec<PathBuf>,
}

/// What a command that failed had to do without.
pub(super) fn lacks(permit: &Permit<'_>, acts: &[Act]) -> Lacks {
    let commands = commands(permit.request().subject());
    let runs_git = commands.iter().any(|command| command.program == "git");
    let mut lacks = Lacks::default();
    for dir in out_of_reach(permit) {
        if runs_git || acts.iter().any(|act| act.error != 0 && within(&act.path, &dir)) {
            lacks.remarks.extend(repository_remark(permit, &dir));
            lacks.repositories.push(dir);
        }
    }
    // Where everything is told, that is told too.
    let settings = runs_git && lacks.repositories.is_empty() && !is_traced(acts);
    let repository = if runs_git { repository_settings(permit, &commands) } else { None };
    let repository = repository.as_deref();
    lacks.remarks.extend(settings.then(|| own_settings(permit, &commands, repository)).flatten());
    lacks.remarks.extend(no_network(permit, &commands, repository));
    lacks
}

/// The working tree that a command begins in, if it begins in one.
fn working_tree<'a>(permit: &Permit<'a>) -> Option<&'a Path> {
    let cwd = match permit.request().subject() {
        Subject::Command { cwd: Some(cwd), .. } | Subject::Shell { cwd: Some(cwd), .. } => cwd,
        _ => return None,
    };
    cwd.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())
}

/// What the repository's own configuration sets; none where git may have been led to another one, or where this one
/// includes settings from elsewhere.
fn repository_settings(permit: &Permit<'_>, commands: &[Simple]) -> Option<Vec<GitSetting>> {
    if commands.iter().any(|command| command.goes || command.program == "cd") {
        return None;
    }
    let places = repositories(working_tree(permit)?, &Live);
    let files = places.iter().flat_map(|dir| ["config", "config.worktree"].map(|name| dir.join(name)));
    let found: Vec<GitSetting> =
        files.filter_map(|file| Live.text(&file)).flat_map(|text| git_settings(&text)).collect();
    let whole = !found.iter().any(|setting| setting.section.starts_with("include"));
    whole.then_some(found)
}

/// The repositories that the working tree leads git to and that the agent may not read.
fn out_of_reach(permit: &Permit<'_>) -> Vec<PathBuf> {
    let mut found = working_tree(permit).map(|tree| repositories(tree, &Live)).unwrap_or_default();
    let in_root = |dir: &Path| permit.grant().root.as_deref().is_some_and(|root| within(dir, root));
    found.retain(|dir| {
        !in_root(dir) && is_repository(dir) && suggested(permit, Capability::FsRead, dir).is_some()
    });
    let all = found.clone();
    found.retain(|dir| !all.iter().any(|other| other != dir && within(dir, other)));
    found.dedup();
    found
}

/// What a working tree leads to may be its author's choice: only what git keeps is proposed.
fn is_repository(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && (dir.join("objects").is_dir() || dir.join("commondir").is_file())
}

/// What lets the agent do this with all of a directory; none when it may already, or nothing would.
fn suggested(permit: &Permit<'_>, capability: Capability, path: &Path) -> Option<Spec> {
    let request = Request::resolved_path(capability, path.to_path_buf(), path.to_path_buf());
    decide(permit.policy(), &request).denial()?.suggested_grant.clone()
}

fn repository_remark(permit: &Permit<'_>, dir: &Path) -> Option<String> {
    let policy = permit.policy();
    let agent = policy.agent();
    let wanted = [Capability::FsRead, Capability::FsWrite, Capability::FsDelete];
    // Who only reads the project only reads its repository.
    let wanted = wanted
        .into_iter()
        .filter(|verb| *verb == Capability::FsRead || policy.held(*verb).any(|grant| !grant.is_inert()))
        .filter(|verb| suggested(permit, *verb, dir).is_some());
    let root = dir.to_str()?;
    let spec = |capability| Spec { capability, scope: Scope::bare().with_text(ScopeKey::In, root) };
    let commands = wanted.map(|verb| grant_command(agent, &spec(verb).to_string()));
    let lines: String = commands.map(|command| format!("\n  {}", one_line(&command))).collect();
    let place = one_line(root);
    Some(format!(
        "the repository of this working tree lies outside what {agent} may reach, in {place}; to open it:{lines}"
    ))
}

/// The user's name and address are often only there, and nothing is committed without.
fn own_settings(
    permit: &Permit<'_>,
    commands: &[Simple],
    repository: Option<&[GitSetting]>,
) -> Option<String> {
    let policy = permit.policy();
    let files = OWN_SETTINGS.iter().map(|name| policy.facts().home.join(name));
    let matters = |file: &PathBuf| {
        let own = git_settings(&Live.text(file).unwrap_or_default());
        commands.iter().any(|command| is_lacked(command, &own, repository.unwrap_or_default()))
    };
    let (file, spec) = files.filter(|file| file.is_file() && matters(file)).find_map(|file| {
        let spec = suggested(permit, Capability::FsRead, &file)?;
        Some((file, spec))
    })?;
    let command = grant_command(policy.agent(), &spec.to_string());
    let (file, agent) = (file.display().to_string(), policy.agent());
    Some(
        one_line(&format!(
            "{agent} does not see your settings of git in {file}, your name among them: {command}"
        ))
        .into_owned(),
    )
}

/// Whether a command of git may fail for want of these settings: it is named in them, or signs with a name that the
/// repository does not give.
fn is_lacked(command: &Simple, own: &[GitSetting], repository: &[GitSetting]) -> bool {
    let Some(first) = command.first.as_deref().filter(|_| command.program == "git") else { return false };
    let sets = |settings: &[GitSetting], section: &str, key: &str| {
        settings.iter().any(|setting| setting.section == section && setting.key == key)
    };
    let names = |key| sets(own, "user", key) && !sets(repository, "user", key);
    let includes = own.iter().any(|setting| setting.section.starts_with("include"));
    let unnamed = || includes && !["name", "email"].iter().all(|key| sets(repository, "user", key));
    sets(own, "alias", &first.to_ascii_lowercase())
        || GIT_SIGNS.contains(&first) && (names("name") || names("email") || unnamed())
}

fn no_network(permit: &Permit<'_>, commands: &[Simple], repository: Option<&[GitSetting]>) -> Option<String> {
    let policy = permit.policy();
    let holds = policy.grants().iter().any(|grant| grant.capability().family() == Family::Net);
    let needs = |command: &Simple| {
        needs_network(&command.program, command.first.as_deref()) && !is_local(command, repository)
    };
    let agent = policy.agent();
    (!holds && commands.iter().any(needs))
        .then(|| format!("{agent} holds no net.*: the command had no network"))
}

/// Whether a command of git is about repositories on this machine only: the one it names, or all that the repository
/// names where it names none.
fn is_local(command: &Simple, repository: Option<&[GitSetting]>) -> bool {
    if command.program != "git" {
        return false;
    }
    let mut words = command.rest.iter();
    if command.first.as_deref() == Some("clone") {
        return !words.any(|word| is_elsewhere(word));
    }
    // What follows the repository's name may hold colons and is no place.
    match words.next() {
        Some(word) if is_elsewhere(word) => false,
        Some(word) if word.starts_with(['/', '.']) || word.starts_with("file://") => true,
        _ => repository.is_some_and(|settings| {
            let mut places =
                settings.iter().filter(|setting| ["remote", "branch"].contains(&setting.section.as_str()));
            places.all(|place| {
                !["url", "pushurl", "remote", "pushremote"].contains(&place.key.as_str())
                    || !is_elsewhere(&place.value)
            })
        }),
    }
}

/// Whether git would look for a repository of this name on another machine: `https://host/x`, `host:x`.
fn is_elsewhere(place: &str) -> bool {
    match place.split_once(':') {
        Some((scheme, rest)) if rest.starts_with("//") => scheme != "file",
        Some((host, _)) => !host.is_empty() && !host.contains('/'),
        None => false,
    }
}

/// A program and its arguments that are no options.
#[derive(Debug, Default, PartialEq, Eq)]
struct Simple {
    program: String,
    first: Option<String>,
    rest: Vec<String>,
    /// Whether git is told to look elsewhere than where it stands.
    goes: bool,
}

impl Simple {
    fn of(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let mut goes = false;
        let program = words.find(|word| {
            goes |= word.starts_with("GIT_");
            !word.contains('=')
        })?;
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        let mut found = Self { program, goes, ..Self::default() };
        while let Some(word) = words.next() {
            let is_first = found.first.is_none();
            if is_first && found.program == "git" && GIT_TAKES.contains(&word.as_str()) {
                found.goes |= GIT_GOES.contains(&word.as_str());
                words.next();
            } else if word.starts_with('-') {
                found.goes |=
                    GIT_GOES.iter().any(|option| is_first && word.starts_with(&format!("{option}=")));
            } else if is_first {
                found.first = Some(word);
            } else {
                found.rest.push(word);
            }
        }
        Some(found)
    }
}

/// The programs a request names, as far as a look at its words tells.
fn commands(subject: &Subject) -> Vec<Simple> {
    let text = |words: &OsStr| words.to_string_lossy().into_owned();
    match subject {
        Subject::Command { argv, .. } => {
            let inner = argv.windows(2).find(|pair| pair[0] == "-c").map(|pair| text(&pair[1]));
            let shell = argv.first().is_some_and(|program| text(program).ends_with("sh"));
            let own = Simple::of(argv.iter().map(|word| text(word)));
            own.into_iter().chain(inner.filter(|_| shell).iter().flat_map(|inner| in_text(inner))).collect()
        }
        Subject::Shell { text, .. } => in_text(text),
        _ => Vec::new(),
    }
}

fn in_text(text: &str) -> Vec<Simple> {
    let parts = text.split([';', '&', '|', '\n', '(', ')', '{', '}', '`']);
    let word = |word: &str| word.trim_matches(['"', '\'']).to_owned();
    parts.filter_map(|part| Simple::of(part.split_whitespace().map(word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_words_and_in_shell_text() {
        let simple = |program: &str, first: Option<&str>| Simple {
            program: program.to_owned(),
            first: first.map(str::to_owned),
            ..Simple::default()
        };
        let found = in_text("cd x && GIT_DIR=y /usr/bin/git -C z fetch -q o; (curl --fail 'http://x')");
        let git = Simple { rest: vec!["o".to_owned()], goes: true, ..simple("git", Some("fetch")) };
        assert_eq!(found, [simple("cd", Some("x")), git, simple("curl", Some("http://x"))]);
        let request = Request::exec(["bash", "-c", "git push"]);
        assert_eq!(commands(request.subject())[1], simple("git", Some("push")));
        assert!(in_text(" ;; ").is_empty());
    }
    #[test]
    fn settings_are_lacked_only_by_what_would_read_them() {
        let own = git_settings("[user]\n\tname = a\n\temail = a@b\n[alias]\n\tCo = checkout\n");
        let named = git_settings("[user]\n\tname = b\n\temail = b@c\n");
        let lacked = |text: &str, repository: &[GitSetting]| is_lacked(&in_text(text)[0], &own, repository);
        assert!(lacked("git commit -m x", &[]) && lacked("git rebase main", &named[..1]));
        assert!(lacked("git co main", &named) && !lacked("git commit -m x", &named));
        assert!(
            !lacked("git diff --quiet", &[]) && !lacked("git nonsense", &[]) && !lacked("make commit", &[])
        );
        let included = git_settings("[include]\n\tpath = ~/mine\n");
        assert!(is_lacked(&in_text("git commit")[0], &included, &[]));
        assert!(!is_lacked(&in_text("git commit")[0], &included, &named));
    }

    #[test]
    fn repositories_on_this_machine_need_no_network() {
        let near = git_settings("[remote \"origin\"]\n\turl = ../bare.git\n");
        let far = git_settings("[remote \"origin\"]\n\turl = git@example.com:x/y\n");
        let local = |text: &str, repository| is_local(&in_text(text)[0], repository);
        for text in ["git clone . ../x", "git clone --depth 1 file:///w/x y", "git clone nothing"] {
            assert!(local(text, None), "{text}");
        }
        for text in ["git clone https://example.com/x", "git clone -q host:x y", "git clone git@host:x"] {
            assert!(!local(text, Some(&near)), "{text}");
        }
        for text in ["git push origin a:b", "git fetch", "git pull -q"] {
            assert!(local(text, Some(&near)) && !local(text, Some(&far)) && !local(text, None), "{text}");
        }
        assert!(local("git fetch ../x a:b", Some(&far)) && !local("git fetch host:x", Some(&near)));
        assert!(!local("curl .", None));
    }
}
