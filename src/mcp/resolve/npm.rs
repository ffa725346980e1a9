//! Packages of npm: where npx keeps them, and which of their programs it would start.

use super::words::Launcher;
use super::{ResolveError, Resolved, World, last_line, read, run_tool, script};
use serde_json::Value;
use sha2::{Digest, Sha512};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What npx was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    packages: Vec<String>,
    /// The program, when it is named apart from the package.
    program: Option<String>,
    args: Vec<OsString>,
}

pub(super) fn resolve(args: &[OsString], world: &World) -> Result<Resolved, ResolveError> {
    let asked = parse(args)?;
    let spec = asked.packages.first().ok_or(ResolveError::NoPackage("npx"))?.clone();
    let modules = local(&asked, world).map_or_else(|| cached(&asked, world), Ok)?;
    let package = package_name(&spec, &modules)?;
    let manifest_file = modules.join(&package).join("package.json");
    let manifest: Value = serde_json::from_str(&read(&manifest_file)?).unwrap_or_default();
    let program = program(&asked, &package, &manifest, &modules)?;
    let version = manifest["version"].as_str().unwrap_or("unknown").to_owned();
    let mut resolved = script::entry(&program, &asked.args, world)?;
    resolved.known_as.insert(0, format!("npm:{package}"));
    resolved.package = Some((package, version));
    Ok(resolved)
}

const NPX: Launcher = Launcher {
    name: "npx",
    idle: &["-y", "--yes", "-q", "--quiet", "--prefer-offline", "--offline", "--ignore-scripts"],
    valued: &["-p", "--package"],
};

fn parse(args: &[OsString]) -> Result<Asked, ResolveError> {
    let words = NPX.read(args)?;
    let packages: Vec<String> = words.options.into_iter().map(|(_, package)| package).collect();
    // Without packages of its own, the first word is the package.
    Ok(if packages.is_empty() {
        Asked { packages: words.first.into_iter().collect(), program: None, args: words.args }
    } else {
        Asked { packages, program: words.first, args: words.args }
    })
}

/// The directory of modules in the project that npx would prefer.
fn local(asked: &Asked, world: &World) -> Option<PathBuf> {
    let [spec] = asked.packages.as_slice() else { return None };
    let plain = named(spec).is_some_and(|(_, version)| version.is_none());
    let dirs = world.cwd.ancestors().map(|dir| dir.join("node_modules"));
    dirs.filter(|_| plain).find(|modules| modules.join(spec).join("package.json").is_file())
}

/// The directory of modules that npx keeps for these packages; fetched when there is none yet.
fn cached(asked: &Asked, world: &World) -> Result<PathBuf, ResolveError> {
    let mut sorted = asked.packages.clone();
    sorted.sort();
    let mut name = String::new();
    for byte in Sha512::digest(sorted.join("\n")).iter().take(8) {
        let _ = write!(name, "{byte:02x}");
    }
    let modules = cache(world).join("_npx").join(name).join("node_modules");
    if is_whole(&modules) && !world.refresh {
        return Ok(modules);
    }
    let npx = world.tool("npx")?;
    let mut words: Vec<&OsStr> = ["--yes", "--ignore-scripts"].map(OsStr::new).to_vec();
    for package in &asked.packages {
        words.extend([OsStr::new("--package"), OsStr::new(package)]);
    }
    words.extend(["-c", "true"].map(OsStr::new));
    let failed = |said: String| ResolveError::Fetch { tool: "npx", package: asked.packages.join(" "), said };
    let (done, _, said) = run_tool(&npx, &words, world).map_err(|error| failed(error.to_string()))?;
    if done && is_whole(&modules) { Ok(modules) } else { Err(failed(last_line(&said))) }
}

/// Whether everything was fetched: npm writes this list last, so that what it was stopped at has none.
fn is_whole(modules: &Path) -> bool {
    modules.join(".package-lock.json").is_file()
}

/// Where npm keeps its cache.
fn cache(world: &World) -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let settings = std::fs::read_to_string(world.home.join(".npmrc")).unwrap_or_default();
    let written = setting(&settings, "cache").map(PathBuf::from);
    variable("npm_config_cache")
        .or_else(|| variable("NPM_CONFIG_CACHE"))
        .or(written.filter(|path| path.is_absolute()))
        .unwrap_or_else(|| world.home.join(".npm"))
}

/// What npm's settings say of a key; what is said last holds.
fn setting<'s>(settings: &'s str, wanted: &str) -> Option<&'s str> {
    let pairs = settings.lines().filter_map(|line| line.split_once('='));
    let (_, value) = pairs.rev().find(|(key, _)| key.trim() == wanted)?;
    let value = value.trim();
    let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    Some(quoted.unwrap_or(value))
}

/// A package's name and version, when it is one of the registry's.
pub(super) fn named(spec: &str) -> Option<(&str, Option<&str>)> {
    let (scope, rest) = match spec.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').map(|(scope, rest)| (scope.len() + 2, rest))?,
        None => (0, spec),
    };
    let (name, version) = match rest.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (rest, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = !name.is_empty() && !name.starts_with('.') && name.chars().all(plain);
    fits.then(|| (&spec[..scope + name.len()], version))
}

/// The name of the package; for one that is not the registry's, the one that was installed.
fn package_name(spec: &str, modules: &Path) -> Result<String, ResolveError> {
    if let Some((name, _)) = named(spec) {
        return Ok(name.to_owned());
    }
    let installed = modules.with_file_name("package.json");
    let manifest: Value = serde_json::from_str(&read(&installed)?).unwrap_or_default();
    let only =
        manifest["dependencies"].as_object().filter(|all| all.len() == 1).and_then(|all| all.keys().next());
    only.cloned().ok_or_else(|| ResolveError::NoProgram { package: spec.to_owned(), name: None })
}

/// The file npx would start.
fn program(asked: &Asked, package: &str, manifest: &Value, modules: &Path) -> Result<PathBuf, ResolveError> {
    let missing = || ResolveError::NoProgram { package: package.to_owned(), name: asked.program.clone() };
    if let Some(name) = asked.program.as_deref() {
        let file = modules.join(".bin").join(name);
        return if name.contains('/') || !file.exists() { Err(missing()) } else { Ok(file) };
    }
    let own = package.rsplit('/').next().unwrap_or(package);
    let file = match &manifest["bin"] {
        Value::String(file) => Some(file.as_str()),
        Value::Object(files) => {
            let same = files.values().all(|file| Some(file) == files.values().next());
            let chosen = files.get(own).or_else(|| files.values().next().filter(|_| same));
            chosen.and_then(Value::as_str)
        }
        _ => None,
    };
    Ok(modules.join(package).join(file.ok_or_else(missing)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options_end_where_the_servers_words_begin() {
        let asked = parse(&words("-y @scope/pkg@1.2 --verbose /w -y")).unwrap();
        assert_eq!(asked.packages, ["@scope/pkg@1.2"]);
        assert_eq!(asked.args, words("--verbose /w -y"));
        let asked = parse(&words("--package=a -p b tool x")).unwrap();
        assert_eq!((asked.packages, asked.program), (vec!["a".into(), "b".into()], Some("tool".into())));
        assert!(parse(&words("-c evil")).is_err() && parse(&words("--node-options=x pkg")).is_err());
    }

    #[test]
    fn settings_are_read_as_npm_reads_them() {
        for text in ["cache=/c", "  cache = /c ", "x=1\ncache = \"/c\"\n", "cache=/old\ncache = '/c'"] {
            assert_eq!(setting(text, "cache"), Some("/c"), "{text}");
        }
        assert_eq!(setting("; cache=/c\n#cache=/c\ncaches=/c\n", "cache"), None);
    }

    #[test]
    fn a_package_is_told_from_its_version() {
        assert_eq!(named("@a/b@1"), Some(("@a/b", Some("1"))));
        assert_eq!(named("b@latest"), Some(("b", Some("latest"))));
        assert_eq!(named("b"), Some(("b", None)));
        for odd in ["", "@a", "git+ssh://x/y", "../x", "./x", "a/b", "https://x/y.tgz"] {
            assert_eq!(named(odd), None, "{odd}");
        }
    }
}
