//! A slow matcher, written from the guide and not from the code: every grant in turn, texts as typed.
//!
//! No index, no compiled patterns, no placed scopes; only which grants are held is taken from sbx.

use crate::world::{AGENT, Ask, HOME, Levels, PROJECT};
use sbx::capability::{Capability, ScopeKey, Spec};
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

/// Whether any single grant allows the request.
pub(crate) fn allows(held: &[Spec], levels: &Levels, ask: &Ask) -> bool {
    held.iter().any(|spec| allows_one(spec, &placed(spec, levels), ask))
}

/// Where a grant holds, and where its relative entries start.
struct Placed {
    root: Option<PathBuf>,
    asked: Option<PathBuf>,
}

fn placed(spec: &Spec, levels: &Levels) -> Placed {
    let narrow = |outer: Option<PathBuf>, deeper: PathBuf| match outer {
        Some(outer) if !deeper.starts_with(&outer) => outer,
        _ => deeper,
    };
    let level = [&levels.config, &levels.project, &levels.agent]
        .into_iter()
        .flatten()
        .fold(None, |outer, level| Some(narrow(outer, absolute(level, Path::new("/")))));
    match spec.scope.text(ScopeKey::In) {
        None => Placed { root: level.clone(), asked: level },
        Some(own) => {
            let own = absolute(own, Path::new("/"));
            Placed { root: Some(narrow(level, own.clone())), asked: Some(own) }
        }
    }
}

fn absolute(text: &str, below: &Path) -> PathBuf {
    let full = match text.split('/').next() {
        Some("~") => Path::new(HOME).join(text[1..].trim_start_matches('/')),
        Some("$PROJECT") => Path::new(PROJECT).join(text["$PROJECT".len()..].trim_start_matches('/')),
        _ => below.join(text),
    };
    let mut clean = PathBuf::from("/");
    for part in full.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => drop(clean.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

fn allows_one(spec: &Spec, placed: &Placed, ask: &Ask) -> bool {
    let list = |key| spec.scope.list(key);
    let works_in = |cwd: &Option<String>| {
        placed
            .root
            .as_ref()
            .is_some_and(|root| cwd.as_ref().is_none_or(|cwd| Path::new(cwd).starts_with(root)))
    };
    match ask {
        Ask::Path { capability, path } if spec.capability == *capability => path_allowed(spec, placed, path),
        Ask::Host { capability, host, port, address } if spec.capability == *capability => {
            list(ScopeKey::Hosts)
                .unwrap_or_default()
                .iter()
                .any(|item| host_fits(item, host, *port, *address))
        }
        Ask::Exec { argv, cwd, found } if spec.capability == Capability::ProcExec => {
            works_in(cwd) && command_fits(spec, placed, argv, cwd.as_deref(), found.as_deref())
        }
        Ask::Eval { cwd } if spec.capability == Capability::ProcEval => works_in(cwd),
        Ask::Record { capability, id, class } => record_allowed(spec, *capability, id.as_deref(), class),
        Ask::Agent { capability, id } if spec.capability == *capability => agent_allowed(spec, id),
        Ask::Path { .. } | Ask::Host { .. } | Ask::Exec { .. } | Ask::Eval { .. } | Ask::Agent { .. } => {
            false
        }
    }
}

fn path_allowed(spec: &Spec, placed: &Placed, path: &str) -> bool {
    let (Some(root), Some(asked)) = (&placed.root, &placed.asked) else { return false };
    let target = Path::new(path);
    let entries = spec.scope.list(ScopeKey::Paths);
    let fits = entries.is_none_or(|entries| entries.iter().any(|entry| entry_fits(entry, asked, target)));
    let guarded = spec.capability != Capability::FsRead
        && guards(target).into_iter().any(|(guard, named)| {
            let names = |entry: &String| {
                let place = absolute(entry, asked);
                !entry.contains(['*', '?']) && place.starts_with(&guard) && target.starts_with(&place)
            };
            !named || !entries.is_some_and(|entries| entries.iter().any(names))
        });
    target.starts_with(root) && fits && !guarded
}

/// Every protected path that the target is or lies below, and whether naming opens it.
fn guards(target: &Path) -> Vec<(PathBuf, bool)> {
    let rows =
        include_str!("../../profiles/base/protected.txt").lines().filter(|line| !line.starts_with('#'));
    let mut found = Vec::new();
    for (name, opening) in rows.filter_map(|line| {
        let mut cells = line.split('|').map(str::trim);
        Some((cells.next()?, cells.next()?))
    }) {
        found.extend(
            target
                .ancestors()
                .filter(|place| place.ends_with(name))
                .map(|place| (place.to_path_buf(), opening == "named")),
        );
    }
    let own = Path::new(HOME).join(".config/sbx");
    found.extend(target.starts_with(&own).then_some((own, false)));
    found
}

fn entry_fits(entry: &str, root: &Path, target: &Path) -> bool {
    if !entry.contains(['*', '?']) {
        return target.starts_with(absolute(entry, root));
    }
    let Ok(rest) = target.strip_prefix(root) else { return false };
    let text = rest.to_str().unwrap_or_default();
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
    let pattern: Vec<&str> = entry.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    components_fit(&pattern, &names)
}

/// `**` is any number of components, at least one where it stands last: `x/**` is below `x`.
fn components_fit(pattern: &[&str], names: &[&str]) -> bool {
    match (pattern, names) {
        ([], names) => names.is_empty(),
        (["**"], names) => !names.is_empty(),
        (["**", rest @ ..], names) => (0..=names.len()).any(|skip| components_fit(rest, &names[skip..])),
        ([first, rest @ ..], [name, names @ ..]) => {
            wild(&chars(first), &chars(name)) && components_fit(rest, names)
        }
        ([_, ..], []) => false,
    }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn wild(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        (['*', rest @ ..], text) => (0..=text.len()).any(|skip| wild(rest, &text[skip..])),
        (['?', rest @ ..], [_, text @ ..]) => wild(rest, text),
        ([c, rest @ ..], [d, text @ ..]) => c == d && wild(rest, text),
        ([_, ..], []) => false,
    }
}

fn host_fits(item: &str, host: &str, port: Option<u16>, address: Option<IpAddr>) -> bool {
    let (pattern, wanted) = match item.rsplit_once(':') {
        Some((pattern, number)) if !number.ends_with(']') => (pattern, number.parse::<u16>().ok()),
        _ => (item, None),
    };
    let plain = |text: &str| text.to_ascii_lowercase().trim_end_matches('.').to_owned();
    let (pattern, host) = (plain(pattern), plain(host));
    let literal = pattern == host;
    let local = |name: &str| ["localhost", "127.0.0.1", "10.0.0.1", "[::1]"].contains(&name);
    let inside = local(&host) || address.is_some_and(|address| local(&address.to_string()));
    let is_name = !host.starts_with('[') && !host.ends_with(|c: char| c.is_ascii_digit());
    let wide = match pattern.strip_prefix("*.") {
        Some(suffix) => is_name && (host == suffix || host.ends_with(&format!(".{suffix}"))),
        None => pattern == "*",
    };
    (literal || (wide && !inside)) && wanted.is_none_or(|wanted| port == Some(wanted))
}

fn command_fits(
    spec: &Spec,
    placed: &Placed,
    argv: &[String],
    cwd: Option<&str>,
    found: Option<&str>,
) -> bool {
    let (cmds, patterns) = (spec.scope.list(ScopeKey::Cmds), spec.scope.list(ScopeKey::Patterns));
    if cmds.is_none() && patterns.is_none() {
        return true;
    }
    let program = argv[0].as_str();
    let below_cwd = |cwd: &str| from_directory(cwd, program);
    let file = match found {
        Some(found) => Some(PathBuf::from(found)),
        None if program.starts_with('/') => Some(PathBuf::from(program)),
        None if program.contains('/') => cwd.map(below_cwd),
        None => None,
    };
    let root = placed.asked.as_deref().unwrap_or(Path::new("/"));
    let is_program = |word: &str| {
        if word.contains('/') { file == Some(absolute(word, root)) } else { word == program }
    };
    let pattern_fits = |pattern: &String| {
        let words: Vec<&str> = pattern.split_whitespace().collect();
        let (words, open) = match words.as_slice() {
            ["*"] => return true,
            [one] if one.ends_with(":*") => (vec![&one[..one.len() - 2]], true),
            [words @ .., "*"] => (words.to_vec(), true),
            words => (words.to_vec(), false),
        };
        let first = if words[0].contains(['*', '?']) {
            !program.contains('/') && wild(&chars(words[0]), &chars(program))
        } else {
            is_program(words[0])
        };
        let enough = if open { argv.len() >= words.len() } else { argv.len() == words.len() };
        let rest = words[1..].iter().zip(&argv[1..]).all(|(word, given)| wild(&chars(word), &chars(given)));
        first && enough && rest
    };
    cmds.is_some_and(|cmds| cmds.iter().any(|entry| is_program(entry)))
        || patterns.is_some_and(|patterns| patterns.iter().any(pattern_fits))
}

/// A program named as a file, found from the directory it runs in; `~` is not special there.
fn from_directory(cwd: &str, program: &str) -> PathBuf {
    absolute(&format!("{cwd}/{program}"), Path::new("/"))
}

/// What a record id leads to, and nothing when it climbs.
fn record_id(id: &str) -> Option<String> {
    let parts: Vec<&str> = id.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    (!parts.contains(&"..")).then(|| parts.join("/"))
}

fn record_allowed(spec: &Spec, asked: Capability, id: Option<&str>, class: &Option<String>) -> bool {
    let clean = match id.map(record_id) {
        Some(None) => return false,
        Some(clean) => clean,
        None => None,
    };
    let about_agent = clean.as_deref().and_then(|id| id.strip_prefix("agents/"));
    let as_agent = [
        (Capability::RecordsCreate, Capability::AgentCreate),
        (Capability::RecordsUpdate, Capability::AgentUpdate),
        (Capability::RecordsDelete, Capability::AgentDelete),
    ];
    let as_agent = as_agent.into_iter().find(|(records, _)| *records == asked).map(|(_, agent)| agent);
    if let (Some(agent), Some(capability)) = (about_agent, as_agent) {
        return spec.capability == capability && agent_allowed(spec, agent);
    }
    let fits_class = |classes: &[String]| class.as_ref().is_some_and(|class| classes.contains(class));
    let fits_path = |paths: &[String]| {
        clean.as_ref().is_some_and(|id| {
            paths.iter().any(|entry| entry_fits(entry, Path::new("/"), &Path::new("/").join(id)))
        })
    };
    spec.capability == asked
        && spec.scope.list(ScopeKey::Classes).is_none_or(fits_class)
        && spec.scope.list(ScopeKey::Paths).is_none_or(fits_path)
}

fn agent_allowed(spec: &Spec, id: &str) -> bool {
    let name = |id: &str| id.strip_prefix("agents/").unwrap_or(id).to_owned();
    let id = name(id);
    if id.split('/').any(|part| part.starts_with('.')) {
        return false;
    }
    let own = id == AGENT && matches!(spec.capability, Capability::AgentGrant | Capability::AgentDelete);
    let one = spec.scope.text(ScopeKey::Id).map(name);
    let many = spec.scope.list(ScopeKey::Ids);
    let listed = (one.is_none() && many.is_none())
        || one.as_ref() == Some(&id)
        || many.is_some_and(|many| many.iter().any(|held| name(held) == id));
    let fits_path = |paths: &[String]| {
        let full = Path::new("/agents").join(&id);
        paths.iter().any(|entry| {
            entry_fits(entry, Path::new("/"), &Path::new("/").join(&id))
                || entry_fits(entry, Path::new("/"), &full)
        })
    };
    !own && listed && spec.scope.list(ScopeKey::Paths).is_none_or(fits_path)
}
