//! What a launch made that is run or obeyed later, outside the fence: repositories, and names that programs look for.

use crate::decide::one_line;
use crate::profile::inert_git_keys;
use sbx_platform::report::{Act, Verb};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The largest `config` that is read.
const MAX_CONFIG: u64 = 256 << 10;

/// How many paths a remark names.
const NAMED: usize = 5;

/// What is worth knowing before using what the launch made: repositories in which git would run something, and names
/// that other programs obey. git itself is not asked.
#[must_use]
pub fn armed_repositories(acts: &[Act]) -> Vec<String> {
    let made = acts.iter().filter(|act| act.verb == Verb::Made).map(|act| act.path.as_path());
    let about_git = made.flat_map(|path| {
        if path.as_os_str().is_empty() {
            return vec![UNFOLLOWED.to_owned()];
        }
        let mut found = active_hooks(path);
        found.extend(running_settings(path));
        found.extend(redirection(path));
        found.extend(straying(path));
        found
    });
    about_git.chain(obeyed(acts)).map(|remark| one_line(&remark).into_owned()).collect()
}

/// Stands for repositories that nobody has looked at.
const UNFOLLOWED: &str =
    "more repositories were made than could be followed; look at those that are new before using git there";

/// Stands for names in new directories that nobody has looked at.
const UNSEEN: &str = "more names that other programs obey without asking were made in new directories than could be \
    followed; look for them there before using such programs";

/// One remark about all names in new directories that programs obey without being asked.
fn obeyed(acts: &[Act]) -> Option<String> {
    let of_kind = || acts.iter().filter(|act| act.verb == Verb::Obeyed).map(|act| act.path.as_path());
    let standing: Vec<&Path> = of_kind().filter(|path| fs::symlink_metadata(path).is_ok()).collect();
    let unfollowed = of_kind().any(|path| path.as_os_str().is_empty());
    let shown: Vec<String> = standing.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let more = match standing.len().saturating_sub(NAMED) {
        _ if unfollowed => " and others".to_owned(),
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let paths = shown.join(", ");
    match (shown.is_empty(), unfollowed) {
        (false, _) => Some(format!("new, and obeyed by other programs without asking: {paths}{more}")),
        (true, true) => Some(UNSEEN.to_owned()),
        (true, false) => None,
    }
}

/// Files that lead git elsewhere, when that is not where git itself would have them lead.
fn redirection(file: &Path) -> Option<String> {
    if !fs::metadata(file).ok()?.is_file() {
        return None;
    }
    // What is too long or no text is not what git itself writes.
    let text = text_of(file).unwrap_or_default();
    let usual = if file.ends_with(".git") {
        repository_of(file).is_some_and(|repository| is_part_of_a_repository(&repository, file))
    } else if file.ends_with("commondir") {
        line(&text) == SHARED
    } else {
        true
    };
    (!usual).then(|| format!("the new {} leads git to settings of the command's own making", file.display()))
}

/// What the `commondir` of a worktree says: its settings are those of the repository.
const SHARED: &str = "../..";

/// What git reads of a file that leads elsewhere: everything but the end of the line. A blank is part of a name.
fn line(text: &str) -> &str {
    text.trim_end_matches(['\n', '\r'])
}

/// Where a `.git` file leads, if it does so without a detour.
fn repository_of(file: &Path) -> Option<PathBuf> {
    let text = text_of(file)?;
    straight(file.parent()?, line(&text).strip_prefix("gitdir: ")?)
}

/// Where `target` leads from the directory `base`, unless there is a link on the way or one would lead elsewhere later.
fn straight(base: &Path, target: &str) -> Option<PathBuf> {
    let lexical = sbx_platform::path::normalize(&fs::canonicalize(base).ok()?.join(target));
    let stays = sbx_platform::path::climbs_first(Path::new(target));
    (stays && fs::canonicalize(&lexical).ok()? == lexical).then_some(lexical)
}

/// `…/.git/worktrees/NAME`, if it has no settings of its own, or `…/.git/modules/…`, whose settings are watched and
/// whose files lie where `file` does.
fn is_part_of_a_repository(path: &Path, file: &Path) -> bool {
    let shares = || text_of(&path.join("commondir")).is_some_and(|text| line(&text) == SHARED);
    let is_worktree = path.parent().is_some_and(|above| above.ends_with(".git/worktrees"));
    let lies_here = || {
        let here = file.parent().and_then(|dir| fs::canonicalize(dir).ok());
        worktrees(path).iter().all(|files| here.is_some() && straight(path, files) == here)
    };
    is_worktree && shares() || is_module(path) && lies_here()
}

/// Whether this is the repository of a submodule.
fn is_module(repository: &Path) -> bool {
    repository.ancestors().skip(1).any(|above| above.ends_with(".git/modules"))
}

/// Where a repository says that its files lie, if it does.
fn worktrees(repository: &Path) -> Vec<String> {
    const BLANKS: [char; 2] = [' ', '\t'];
    let text = text_of(&repository.join("config")).unwrap_or_default();
    let said = text.lines().filter_map(|line| line.split_once('='));
    let said = said.filter(|(key, _)| key.trim_matches(BLANKS).eq_ignore_ascii_case("worktree"));
    said.map(|(_, value)| value.trim_matches(BLANKS).trim_matches('"').to_owned()).collect()
}

/// Settings of a submodule's repository by which git would write somewhere else than into its files: those are where
/// a `.git` file leads back to it, and no link leads there that could be turned later.
fn straying(config: &Path) -> Option<String> {
    let repository = config.parent().filter(|above| config.ends_with("config") && is_module(above))?;
    let repository = fs::canonicalize(repository).ok()?;
    let leads_back = |files: &str| {
        straight(&repository, files).and_then(|files| repository_of(&files.join(".git"))).as_ref()
            == Some(&repository)
    };
    let said = worktrees(&repository);
    let astray = said.iter().find(|files| !leads_back(files))?;
    let astray = sbx_platform::path::normalize(&repository.join(astray));
    let (config, astray) = (config.display(), astray.display());
    Some(format!("the new {config} has git write into {astray}, which is not where the submodule lies"))
}

/// What a small file says, if it is text.
fn text_of(file: &Path) -> Option<String> {
    let small = fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_CONFIG);
    small.then(|| fs::read_to_string(file).ok())?
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
    let Some(text) = text_of(&config) else {
        let unread = fs::metadata(&config).is_ok_and(|meta| meta.is_file());
        let told =
            || format!("the new repository's {} is too long or no text, and was not read", config.display());
        return unread.then(told).into_iter().collect();
    };
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
    let inert = |known: &str| {
        known.replace(".*.", ".") == key || known.strip_suffix('*').is_some_and(|s| key.starts_with(s))
    };
    key != "core.worktree" && inert_git_keys().any(inert)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_leads_git_astray_is_told_of() {
        let dir = std::env::temp_dir().join(format!("sbx-redirect-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join(".git");
        for (name, shared) in [("x", "../..\n"), ("y", "/prepared")] {
            fs::create_dir_all(dir.join("r/.git/worktrees").join(name)).unwrap();
            fs::write(dir.join("r/.git/worktrees").join(name).join("commondir"), shared).unwrap();
        }
        fs::create_dir_all(dir.join("r/.git/modules/a/b")).unwrap();
        std::os::unix::fs::symlink("r/.git", dir.join("l")).unwrap();
        let long = format!("gitdir: prepared{}", "\n".repeat(300 << 10));
        for (text, told) in [
            (b"gitdir: r/.git/worktrees/x\n".as_slice(), false),
            (b"gitdir: r/.git/worktrees/y\n", true),
            (b"gitdir: r/.git/worktrees/none\n", true),
            (b"gitdir: r/.git/worktrees/x/deeper\n", true),
            (b"gitdir: r/.git/modules/a/b\n", false),
            (b"gitdir: r/.git/modules/../modules/a/b\n", true),
            (b"gitdir: l/modules/a/b\n", true),
            (b"gitdir:  r/.git/modules/a/b\n", true),
            (b"gitdir: r/.git/modules/none\n", true),
            (b"gitdir: prepared\n", true),
            (b"gitdir: ev\xff\n", true),
            (long.as_bytes(), true),
            (b"x", true),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(
                redirection(&file).is_some(),
                told,
                "{}",
                String::from_utf8_lossy(&text[..text.len().min(40)])
            );
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn names_that_programs_obey_are_one_remark() {
        let dir = std::env::temp_dir().join(format!("sbx-obeyed-{}", std::process::id()));
        let act = |path: PathBuf| Act { verb: Verb::Obeyed, path, call: "", error: 0, words: Vec::new() };
        let mut acts: Vec<Act> = (0..7).map(|at| act(dir.join(format!("d{at}/.envrc")))).collect();
        assert_eq!(obeyed(&acts), None, "none of them is still there");
        for act in &acts {
            fs::create_dir_all(act.path.parent().unwrap()).unwrap();
            fs::write(&act.path, "").unwrap();
        }
        let told = obeyed(&acts).unwrap();
        assert!(told.contains("d4/.envrc and 2 more") && !told.contains("d5"), "{told}");
        acts.push(act(PathBuf::new()));
        assert!(obeyed(&acts).unwrap().ends_with(" and others"));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn settings_that_run_code_are_told_apart() {
        let text = "[core]\n\tbare = false\n\tfsmonitor = ./x\n[remote \"o\"]\n\turl = y\n[alias]\n\tx = !sh\n[color]\nui=1\n";
        let odd: Vec<String> = keys(text).into_iter().filter(|key| !is_harmless(key)).collect();
        assert_eq!(odd, ["core.fsmonitor", "alias.x"]);
    }
}
