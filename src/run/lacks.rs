//! What a command that failed had to do without, where no refusal tells: a repository that lies elsewhere, the user's own
//! settings of git, a network.
//!
//! Answers for one remark about each, with the grants that would help. It is asked only after a failure, and looks at
//! words: whether that was the reason nobody knows.
//! Invariant: what is named was found by sbx itself, and a repository looks like one.

use super::explain::is_traced;
use super::live::Live;
use crate::capability::{Capability, Family, Scope, ScopeKey, Spec};
use crate::decide::{Permit, Request, Subject, decide, grant_command, one_line};
use crate::plan::repositories;
use crate::profile::needs_network;
use sbx_platform::path::within;
use sbx_platform::report::Act;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Options of git that take the next word.
const GIT_TAKES: &[&str] = &["-C", "-c", "--git-dir", "--work-tree"];
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
    lacks.remarks.extend(settings.then(|| own_settings(permit)).flatten());
    lacks.remarks.extend(no_network(permit, &commands));
    lacks
}

/// The repositories that the working tree leads git to and that the agent may not read.
fn out_of_reach(permit: &Permit<'_>) -> Vec<PathBuf> {
    let cwd = match permit.request().subject() {
        Subject::Command { cwd: Some(cwd), .. } | Subject::Shell { cwd: Some(cwd), .. } => cwd,
        _ => return Vec::new(),
    };
    let tree = cwd.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok());
    let mut found = tree.map(|tree| repositories(tree, &Live)).unwrap_or_default();
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
fn own_settings(permit: &Permit<'_>) -> Option<String> {
    let policy = permit.policy();
    let files = OWN_SETTINGS.iter().map(|name| policy.facts().home.join(name));
    let (file, spec) = files.filter(|file| file.is_file()).find_map(|file| {
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

fn no_network(permit: &Permit<'_>, commands: &[Simple]) -> Option<String> {
    let policy = permit.policy();
    let holds = policy.grants().iter().any(|grant| grant.capability().family() == Family::Net);
    let needs = |command: &Simple| needs_network(&command.program, command.first.as_deref());
    let agent = policy.agent();
    (!holds && commands.iter().any(needs))
        .then(|| format!("{agent} holds no net.*: the command had no network"))
}

/// A program and the first argument that is no option.
#[derive(Debug, PartialEq, Eq)]
struct Simple {
    program: String,
    first: Option<String>,
}

impl Simple {
    fn of(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let program = words.find(|word| !word.contains('='))?;
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        let mut first = None;
        while let Some(word) = words.next() {
            if program == "git" && GIT_TAKES.contains(&word.as_str()) {
                words.next();
            } else if !word.starts_with('-') {
                first = Some(word);
                break;
            }
        }
        Some(Self { program, first })
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
        };
        let found = in_text("cd x && GIT_DIR=y /usr/bin/git -C z fetch -q; (curl --fail 'http://x')");
        assert_eq!(
            found,
            [simple("cd", Some("x")), simple("git", Some("fetch")), simple("curl", Some("http://x"))]
        );
        let request = Request::exec(["bash", "-c", "git push"]);
        assert_eq!(commands(request.subject())[1], simple("git", Some("push")));
        assert!(in_text(" ;; ").is_empty());
    }
}
