//! The checks, each a function from names and texts to findings, each with an example that it refuses.

use crate::code::code_only;

/// Modules from the ground up; one may use its own level and those below. `text` stands below all.
const LEVELS: &[&[&str]] = &[
    &["text"],
    &["capability"],
    &["manifest", "profile"],
    &["policy"],
    &["decide", "tool", "risk"],
    &["plan", "audit"],
    &["run", "net", "learn", "doctor", "report"],
    &["hands"],
    &["mcp", "hook", "cli"],
];

/// Files that are one long table, by name.
const TABLES: &[&str] = &[];
const MAX_LINES: usize = 600;

/// Words that belong to policy. Linux has capabilities too, which one file may speak of.
const POLICY_WORDS: &[&str] = &["agent", "grant", "manifest", "capabilit"];
const LINUX_CAPABILITIES: &str = "caps.rs";

fn level(module: &str) -> Option<usize> {
    LEVELS.iter().position(|modules| modules.contains(&module))
}

/// Imports of a module from a higher level.
pub(crate) fn upward(name: &str, text: &str, lib: &str) -> Vec<String> {
    let inner = name.strip_prefix("src/").unwrap_or(name);
    let module = inner.split(['/', '.']).next().unwrap_or_default();
    if matches!(inner, "lib.rs" | "main.rs") {
        return Vec::new();
    }
    let Some(own) = level(module) else {
        return vec![format!("{name}: the module `{module}` has no level; give it one in LEVELS")];
    };
    let code = code_only(text);
    let climbs = code.contains("super::super::").then(|| {
        format!("{name}: `super::super::` hides what is imported; write `crate::` and the module's name")
    });
    let used = used_modules(&code, lib).into_iter().filter(|used| level(used).is_some_and(|used| used > own));
    let finding = |used: String| {
        format!("{name}: `{module}` may not use `{used}`, which stands above it; hand the value in instead")
    };
    used.map(finding).chain(climbs).collect()
}

/// The modules named after `crate::`, where a name that lib.rs re-exports stands for its module.
fn used_modules(code: &str, lib: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => top_level(group),
            None => vec![rest],
        };
        modules.extend(names.iter().map(|name| first_word(name)).map(|name| home_of(name, lib)));
    }
    modules.sort();
    modules.dedup();
    modules
}

/// The parts of a `{a, b::{c, d}}` group, without what is nested.
fn top_level(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

fn home_of(name: &str, lib: &str) -> String {
    let reexport = lib.lines().filter_map(|line| line.strip_prefix("pub use ")).find(|line| {
        let names = line.split_once("::").map_or("", |(_, names)| names);
        names.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    });
    let module = reexport.and_then(|line| line.split("::").next());
    module.filter(|_| level(name).is_none()).unwrap_or(name).to_owned()
}

#[test]
fn an_upward_import_is_found() {
    let lib = "pub use policy::{Policy, covers};\n";
    assert_eq!(upward("src/capability/x.rs", "use crate::manifest::Facts;", lib).len(), 1);
    assert_eq!(upward("src/text/x.rs", "use crate::capability::Spec;", lib).len(), 1);
    assert_eq!(upward("src/manifest/x.rs", "use crate::{text::{A, B}, Policy};", lib).len(), 1);
    assert_eq!(upward("src/policy/x.rs", "fn f() { crate::decide::decide() }", lib).len(), 1);
    assert_eq!(upward("src/policy/x.rs", "use super::super::decide;", lib).len(), 1);
    assert_eq!(upward("src/new/x.rs", "", lib).len(), 1);
    assert!(
        upward("src/decide/x.rs", "use crate::tool::A; use crate::text::B; // crate::cli", lib).is_empty()
    );
    assert!(upward("src/capability/x.rs", "use crate::text::{Code, decide};", lib).is_empty());
}

/// Words of policy in the platform, comments included.
pub(crate) fn said_in_platform(name: &str, text: &str) -> Vec<String> {
    let may_say = |word: &str| word == "capabilit" && name.ends_with(LINUX_CAPABILITIES);
    // The name of a variable of cargo's is not ours to choose.
    let lower = text.replace("CARGO_MANIFEST_DIR", "").to_lowercase();
    let said = POLICY_WORDS.iter().filter(|word| lower.contains(**word) && !may_say(word));
    let finding = |word: &&str| {
        format!("{name}: the platform says `{word}…`; it is handed plain values and knows no policy")
    };
    said.map(finding).collect()
}

#[test]
fn a_word_of_policy_is_found() {
    assert_eq!(said_in_platform("platform/src/x.rs", "/// The Agent's grants.").len(), 2);
    assert_eq!(said_in_platform("platform/src/x.rs", "let manifest_capability = 1;").len(), 2);
    assert!(said_in_platform("platform/src/caps.rs", "// Linux capabilities").is_empty());
    assert!(said_in_platform("platform/src/x.rs", "env!(\"CARGO_MANIFEST_DIR\")").is_empty());
    assert_eq!(said_in_platform("platform/src/caps.rs", "// an agent").len(), 1);
}

pub(crate) fn profile_not_registered(name: &str, registry: &str) -> Option<String> {
    let path = name.strip_prefix("profiles/").unwrap_or(name);
    let registered = registry.contains(&format!("\"{path}\""));
    (!registered).then(|| format!("{name} is not registered; add it to src/profile/builtin.rs"))
}

#[test]
fn an_unregistered_profile_is_found() {
    let registry = "\"agents/scout.md\",";
    assert!(profile_not_registered("profiles/agents/new.md", registry).is_some());
    assert!(profile_not_registered("profiles/agents/scout.md", registry).is_none());
}

pub(crate) fn verb_not_in_docs(verb: &str, guide: &str) -> Option<String> {
    let told = guide.contains(&format!("`{verb}`"));
    (!told).then(|| format!("docs/guide/capabilities.md does not tell of `{verb}`; give it an entry"))
}

#[test]
fn a_verb_without_an_entry_is_found() {
    assert!(verb_not_in_docs("fs.chown", "### `fs.read`").is_some());
    assert!(verb_not_in_docs("fs.read", "### `fs.read`").is_none());
}

pub(crate) fn long_files(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let long = lines > MAX_LINES && !TABLES.contains(&name);
    long.then(|| format!("{name} has {lines} lines; split it by subject (a table may be listed in TABLES)"))
}

#[test]
fn a_long_file_is_found() {
    assert!(long_files("src/x.rs", &"\n".repeat(601)).is_some());
    assert!(long_files("src/x.rs", &"\n".repeat(600)).is_none());
}

/// Prints that do not go through the one place for output.
pub(crate) fn printing(name: &str, text: &str) -> Vec<String> {
    if name == "src/cli/ui.rs" {
        return Vec::new();
    }
    let code = code_only(text);
    let used = ["print!", "println!", "eprint!", "eprintln!", "dbg!"].into_iter().filter(|word| {
        code.match_indices(word)
            .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    });
    used.map(|word| format!("{name} uses `{word}`; output goes through src/cli/ui.rs")).collect()
}

#[test]
fn a_stray_print_is_found() {
    assert_eq!(printing("src/decide/x.rs", "fn f() { println!(\"x\") }").len(), 1);
    assert_eq!(printing("src/cli/x.rs", "eprintln!(\"x\")").len(), 1);
    assert!(printing("src/cli/ui.rs", "println!(\"x\")").is_empty());
    assert!(printing("src/x.rs", "// println!\n\"println!\"").is_empty());
}

/// What is a path by its name and is handed to `json!` as it is: where it is no text, that panics.
pub(crate) fn bare_paths_in_json(name: &str, text: &str) -> Vec<String> {
    const PATHS: [&str; 4] = ["root", "cwd", "home", "project"];
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("\": ") {
            let value = &line[at + 3..];
            let end = value.find(|c: char| !c.is_alphanumeric() && !"_.&".contains(c)).unwrap_or(value.len());
            let bare = end == value.len() || value[end..].trim_start().starts_with([',', '}']);
            if bare && value[..end].rsplit(['.', '&']).next().is_some_and(|last| PATHS.contains(&last)) {
                found.push(format!(
                    "{name}:{}: `{}` may be no text; write `.to_string_lossy()`, or give what is text another name",
                    number + 1,
                    &value[..end]
                ));
            }
        }
    }
    found
}

#[test]
fn a_path_that_json_would_unwrap_is_found() {
    assert_eq!(bare_paths_in_json("src/x.rs", "json!({ \"root\": grant.root, \"x\": 1 })").len(), 1);
    assert_eq!(bare_paths_in_json("src/x.rs", "    \"cwd\": &cwd,\n\"in\": root }").len(), 2);
    assert!(
        bare_paths_in_json("src/x.rs", "json!({ \"root\": root.to_string_lossy(), \"a\": path })").is_empty()
    );
}

pub(crate) fn unsafe_code(name: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    let found = words.any(|word| word == "unsafe");
    found.then(|| format!("{name} has unsafe code; it belongs in platform/")).into_iter().collect()
}

#[test]
fn unsafe_code_is_found() {
    assert_eq!(unsafe_code("src/x.rs", "fn f() { unsafe { g() } }").len(), 1);
    assert!(unsafe_code("src/lib.rs", "#![forbid(unsafe_code)] // unsafe").is_empty());
}
