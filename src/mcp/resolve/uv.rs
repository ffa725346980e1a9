//! Packages of Python: the environment uv keeps for one, and the program in it.

use super::words::Launcher;
use super::{ResolveError, Resolved, World, last_line, run_tool, script};
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Tells where an environment is, and which version of a package is in it.
const WHERE: &str = "import sys, importlib.metadata as m\nprint(sys.prefix)\ntry: print(m.version(sys.argv[1]))\nexcept Exception: print('unknown')";

/// What uvx was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    /// What is installed, when it is named apart from the program.
    from: Option<String>,
    /// Options that choose what is installed.
    options: Vec<String>,
    program: String,
    args: Vec<OsString>,
}

pub(super) fn resolve(args: &[OsString], world: &World) -> Result<Resolved, ResolveError> {
    let asked = parse(args)?;
    let spec = asked.from.clone().unwrap_or_else(|| asked.program.clone());
    let package = package_name(&spec).unwrap_or_default().to_owned();
    let program =
        asked.program.split(['@', '=', '[', '<', '>', '~', '!']).next().unwrap_or_default().to_owned();
    let key = format!("uvx {} {spec}", asked.options.join(" "));
    let kept = if world.refresh { None } else { remembered(&key, world) };
    let (prefix, version) = match kept {
        Some(found) => found,
        None => environment(&asked, &spec, &package, world)?,
    };
    remember(&key, &prefix, &version, world);
    let file = prefix.join("bin").join(&program);
    if program.contains('/') || !file.is_file() {
        return Err(ResolveError::NoProgram { package, name: Some(program) });
    }
    let mut resolved = script::entry(&file, &asked.args, world)?;
    resolved.known_as.insert(0, format!("pypi:{package}"));
    resolved.package = Some((package, version));
    Ok(resolved)
}

/// A package's name, without its version and its extras.
pub(super) fn package_name(spec: &str) -> Option<&str> {
    let end = spec.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(spec.len());
    (end > 0).then(|| &spec[..end])
}

const UVX: Launcher = Launcher {
    name: "uvx",
    idle: &["-q", "--quiet", "--offline", "--no-progress", "--isolated"],
    valued: &["--from", "--with", "-w", "--python", "-p"],
};

fn parse(args: &[OsString]) -> Result<Asked, ResolveError> {
    let words = UVX.read(args)?;
    let mut asked = Asked {
        program: words.first.ok_or(ResolveError::NoPackage("uvx"))?,
        args: words.args,
        ..Asked::default()
    };
    for (option, value) in words.options {
        match option {
            "--from" => asked.from = Some(value),
            option => asked.options.extend([option.to_owned(), value]),
        }
    }
    Ok(asked)
}

/// Has uv make the environment, or say where it is; first without asking anyone.
fn environment(
    asked: &Asked,
    spec: &str,
    package: &str,
    world: &World,
) -> Result<(PathBuf, String), ResolveError> {
    let uv = world.tool("uv")?;
    let failed = |said: String| ResolveError::Fetch { tool: "uv", package: spec.to_owned(), said };
    let mut said = String::new();
    for offline in [true, false] {
        if offline && world.refresh {
            continue;
        }
        let mut words: Vec<&OsStr> = ["tool", "run"].map(OsStr::new).to_vec();
        if offline {
            words.push(OsStr::new("--offline"));
        }
        if world.refresh {
            words.push(OsStr::new("--refresh"));
        }
        words.extend(asked.options.iter().map(OsStr::new));
        words.extend([OsStr::new("--from"), OsStr::new(spec)]);
        words.extend(["python", "-I", "-c", WHERE, package].map(OsStr::new));
        let (done, out, err) = run_tool(&uv, &words, world).map_err(|error| failed(error.to_string()))?;
        let mut lines = out.lines();
        match (done, lines.next(), lines.next()) {
            (true, Some(prefix), Some(version)) if Path::new(prefix).is_absolute() => {
                return Ok((PathBuf::from(prefix), version.to_owned()));
            }
            _ => said = last_line(&err),
        }
    }
    Err(failed(said))
}

fn memory(world: &World) -> PathBuf {
    world.state_dir.join("mcp-environments.json")
}

/// Where an environment was found before, if it is still there.
fn remembered(key: &str, world: &World) -> Option<(PathBuf, String)> {
    let text = std::fs::read_to_string(memory(world)).ok()?;
    let all: Value = serde_json::from_str(&text).ok()?;
    let prefix = PathBuf::from(all[key]["prefix"].as_str()?);
    let version = all[key]["version"].as_str()?.to_owned();
    let whole = prefix.join("pyvenv.cfg").is_file() && prefix.join("bin/python").is_file();
    whole.then_some((prefix, version))
}

/// Keeps where an environment is; that it cannot be kept costs only time.
fn remember(key: &str, prefix: &Path, version: &str, world: &World) {
    let file = memory(world);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let mut all: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
    let Some(prefix) = prefix.to_str() else { return };
    let entry = json!({ "prefix": prefix, "version": version });
    if all[key] == entry || !all.is_object() {
        return;
    }
    all[key] = entry;
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    let written =
        std::fs::create_dir_all(&world.state_dir).and_then(|()| std::fs::write(&beside, all.to_string()));
    if written.is_ok() {
        let _ = std::fs::rename(&beside, &file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_where_the_program_is_named() {
        let words: Vec<OsString> =
            ["--from", "x==1", "--python", "3.12", "prog", "--offline", "a"].map(Into::into).into();
        let asked = parse(&words).unwrap();
        assert_eq!((asked.from.as_deref(), asked.program.as_str()), (Some("x==1"), "prog"));
        assert_eq!(asked.args, ["--offline", "a"].map(OsString::from));
        assert!(parse(&["--index-url".into(), "x".into(), "y".into()]).is_err());
        assert!(parse(&[]).is_err());
    }
}
