//! Programs that are scripts of an interpreter: what runs them, and what they are made of.

use super::{ResolveError, Resolved, World};
use crate::plan::{Entry, Host};
use crate::profile::{mcp_needs, system_view};
use crate::run::Live;
use sbx_platform::path::within;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A command as it was typed: a script of an environment, `node FILE`, or a program of its own.
pub(super) fn installed(argv: &[OsString], world: &World) -> Result<Resolved, ResolveError> {
    let Some(name) = argv.first() else { return Ok(Resolved::default()) };
    let text = name.to_str().unwrap_or_default();
    // By its name it is what the record means by that name: the file that is found inside.
    let inside = || {
        let dirs = std::env::split_paths(&world.search).map(|dir| dir.join(text));
        dirs.into_iter().find(|file| Live.is_program(file))
    };
    let (file, meant) = match text.contains('/') {
        true => (Some(world.cwd.join(text)), true),
        false => inside().map_or_else(|| (world.find(text), false), |file| (Some(file), true)),
    };
    let known = vec![format!("bin:{}", text.rsplit('/').next().unwrap_or(text))];
    let plain = || Resolved { known_as: known.clone(), ..Resolved::default() };
    let Some(file) = file.filter(|file| file.exists()) else { return Ok(plain()) };
    let decided = Some(file.clone()).filter(|_| !meant);
    if interpreter_line(&file).is_some() {
        // A script that the system owns is found inside as it is outside.
        if is_system(&real(&file)) {
            return Ok(plain());
        }
        let resolved = entry(&file, &argv[1..], world)?;
        return Ok(Resolved { known_as: known, file: decided, ..resolved });
    }
    let runs_file = matches!(text.rsplit('/').next(), Some("node" | "nodejs"));
    let script = argv.get(1).filter(|_| runs_file).map(|script| world.cwd.join(script));
    match script.filter(|script| script.is_file()) {
        Some(script) => {
            let target = real(&script);
            let mut parts = world.shown(node_parts(&target), &[&script]);
            world.see(&target, &[&script], &mut parts)?;
            world.see(&real(&file), &[&file], &mut parts)?;
            let argv = argv.to_vec();
            let package = node_package(&target);
            let known_as = package.iter().map(|(name, _)| format!("npm:{name}")).collect();
            let entry = Some(Entry { program: file, argv, parts });
            Ok(Resolved { entry, known_as, package, file: decided })
        }
        None if is_system(&real(&file)) => Ok(plain()),
        None => {
            let mut parts = Vec::new();
            world.see(&real(&file), &[&file], &mut parts)?;
            let entry = Entry { program: file, argv: argv.to_vec(), parts };
            Ok(Resolved { entry: Some(entry), file: decided, ..plain() })
        }
    }
}

/// What a script comes to.
pub(super) fn entry(script: &Path, args: &[OsString], world: &World) -> Result<Resolved, ResolveError> {
    let target = real(script);
    let name = script.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let known_as = vec![format!("bin:{name}")];
    let line = interpreter_line(script).unwrap_or_else(|| "/usr/bin/env node".to_owned());
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let named = first.ends_with("/env");
    let interpreter = if named {
        let name = words.find(|word| *word != "-S").unwrap_or("node");
        world.find(name).ok_or_else(|| ResolveError::NoProgram { package: name.to_owned(), name: None })?
    } else {
        PathBuf::from(first)
    };
    let kind = interpreter.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let runtime = if kind.starts_with("python") { "python" } else { "node" };
    // A common interpreter that is asked for by name is the user's choice, not the script's.
    let common = named && (kind == "node" || runtime == "python");
    let chosen_by = if common { vec![interpreter.as_path()] } else { vec![script, interpreter.as_path()] };
    let mut parts = match runtime {
        "python" => world.shown(python_parts(&interpreter), &chosen_by),
        _ => world.shown(node_parts(&target), &[script]),
    };
    parts.extend(world.shown(interpreter_parts(runtime, &real(&interpreter)), &chosen_by));
    world.see(&real(&interpreter), &chosen_by, &mut parts)?;
    world.see(&target, &[script], &mut parts)?;
    let argv = [interpreter.clone().into(), target.into()].into_iter().chain(args.iter().cloned()).collect();
    let package = if runtime == "node" { node_package(&real(script)) } else { None };
    let known_as = package.iter().map(|(name, _)| format!("npm:{name}")).chain(known_as).collect();
    Ok(Resolved { entry: Some(Entry { program: interpreter, argv, parts }), package, known_as, file: None })
}

/// The package that a file belongs to, and its version.
fn node_package(file: &Path) -> Option<(String, String)> {
    let manifest =
        file.ancestors().skip(1).map(|dir| dir.join("package.json")).find(|file| file.is_file())?;
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(manifest).ok()?).ok()?;
    Some((
        manifest["name"].as_str()?.to_owned(),
        manifest["version"].as_str().unwrap_or("unknown").to_owned(),
    ))
}

/// What stands after `#!`; for scripts of environments with long names, what their second line executes.
fn interpreter_line(file: &Path) -> Option<String> {
    let mut head = [0; 1024];
    let length = File::open(file).ok()?.read(&mut head).ok()?;
    let text = String::from_utf8_lossy(&head[..length]).into_owned();
    let mut lines = text.lines();
    let first = lines.next()?.strip_prefix("#!")?.trim().to_owned();
    let second = lines.next().and_then(|line| line.strip_prefix("'''exec' "));
    match second.filter(|_| first == "/bin/sh") {
        Some(line) => executed(line, file),
        None => Some(first),
    }
}

/// The interpreter that the second line of such a script executes: by its own path, or as a neighbour of the script.
fn executed(line: &str, script: &Path) -> Option<String> {
    if let Some((_, rest)) = line.split_once("\"$(dirname -- \"$(realpath -- \"$0\")\")\"/") {
        let name = rest.split_whitespace().next()?.trim_matches('\'');
        return Some(real(script).parent()?.join(name).to_string_lossy().into_owned());
    }
    let quote = line.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let path = match quote {
        Some(quote) => line[1..].split(quote).next(),
        None => line.split_whitespace().next(),
    };
    path.filter(|path| path.starts_with('/')).map(str::to_owned)
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

pub(super) fn is_system(path: &Path) -> bool {
    system_view().any(|(system, _)| within(path, Path::new(system)))
}

/// The outermost directory of modules a file lies in, or else the directory of its package.
fn node_parts(file: &Path) -> Vec<PathBuf> {
    let modules =
        file.ancestors().filter(|dir| dir.file_name().is_some_and(|name| name == "node_modules")).last();
    let package = || file.ancestors().skip(1).find(|dir| dir.join("package.json").is_file());
    let part = modules.or_else(package).unwrap_or(file);
    vec![part.to_path_buf()]
}

/// The environment an interpreter belongs to.
fn python_parts(interpreter: &Path) -> Vec<PathBuf> {
    let environment =
        interpreter.parent().and_then(Path::parent).filter(|dir| dir.join("pyvenv.cfg").is_file());
    environment.map(real).into_iter().collect()
}

/// The installation of an interpreter that is not the system's.
fn interpreter_parts(runtime: &str, interpreter: &Path) -> Vec<PathBuf> {
    if !mcp_needs(runtime, "interpreter") || is_system(interpreter) {
        return Vec::new();
    }
    match runtime {
        // Its library stands beside it.
        "python" => {
            let prefix = interpreter.parent().and_then(Path::parent);
            prefix.filter(|prefix| has_library(prefix)).map(Path::to_path_buf).into_iter().collect()
        }
        _ => vec![interpreter.to_path_buf()],
    }
}

/// Whether a directory is an installation of Python.
fn has_library(prefix: &Path) -> bool {
    let names = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    names.into_iter().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_environments_name_their_interpreter_in_several_ways() {
        let script = Path::new("/e/bin/tool");
        for (line, found) in [
            (r#""$(dirname -- "$(realpath -- "$0")")"/'python' "$0" "$@""#, Some("/e/bin/python")),
            (r#""/a b/bin/python3" "$0" "$@""#, Some("/a b/bin/python3")),
            (r#"'/a/bin/python3' "$0" "$@""#, Some("/a/bin/python3")),
            (r#"/a/bin/python3 "$0" "$@""#, Some("/a/bin/python3")),
            ("python", None),
        ] {
            assert_eq!(executed(line, script).as_deref(), found, "{line}");
        }
    }
}
