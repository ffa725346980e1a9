//! The house rules that a compiler does not check. Each failure is a sentence that says what to do.
//!
//! Every check is a pure function over texts, tried on a small bad example before it is trusted.
#![expect(clippy::panic, reason = "a test that cannot go on should say so and stop")]

#[path = "architecture/checks.rs"]
mod checks;
#[path = "architecture/code.rs"]
mod code;

use checks::{
    bare_paths_in_json, long_files, printing, profile_not_registered, said_in_platform, unsafe_code, upward,
    verb_not_in_docs,
};
use sbx::capability::CATALOG;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a directory, with its path from the top of the tree, in order.
fn files(dir: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut pending = vec![root().join(dir)];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if let Ok(name) = path.strip_prefix(root()) {
                found.push((name.display().to_string(), path));
            }
        }
    }
    found.sort();
    found
}

fn sources(dir: &str) -> Vec<(String, String)> {
    let rust = files(dir).into_iter().filter(|(name, _)| name.ends_with(".rs"));
    rust.map(|(name, path)| (name, read(&path))).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn holds(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn modules_import_only_downward() {
    let lib = read(&root().join("src/lib.rs"));
    let files = sources("src");
    assert!(files.len() > 30, "the sources were not found");
    holds(files.iter().flat_map(|(name, text)| upward(name, text, &lib)).collect());
}

#[test]
fn the_platform_knows_nothing_of_policy() {
    let files = sources("platform/src");
    assert!(!files.is_empty(), "the platform's sources were not found");
    holds(files.iter().flat_map(|(name, text)| said_in_platform(name, text)).collect());
}

#[test]
fn every_profile_is_registered() {
    let registry = read(&root().join("src/profile/builtin.rs"));
    let names: Vec<String> = files("profiles").into_iter().map(|(name, _)| name).collect();
    assert!(names.len() > 3, "the profiles were not found");
    holds(names.iter().filter_map(|name| profile_not_registered(name, &registry)).collect());
}

#[test]
fn every_verb_is_in_the_guide() {
    let guide = read(&root().join("docs/guide/capabilities.md"));
    holds(CATALOG.iter().filter_map(|entry| verb_not_in_docs(entry.name, &guide)).collect());
}

#[test]
fn files_can_be_held_in_the_head() {
    let dirs = ["src", "platform/src", "tests", "benches", "fuzz/src"];
    let all = dirs.iter().flat_map(|dir| sources(dir));
    holds(all.filter_map(|(name, text)| long_files(&name, &text)).collect());
}

#[test]
fn output_goes_through_one_place() {
    holds(sources("src").iter().flat_map(|(name, text)| printing(name, text)).collect());
}

#[test]
fn no_path_is_taken_for_text_in_answers() {
    holds(sources("src").iter().flat_map(|(name, text)| bare_paths_in_json(name, text)).collect());
}

#[test]
fn the_root_package_has_no_unsafe_code() {
    holds(sources("src").iter().flat_map(|(name, text)| unsafe_code(name, text)).collect());
}
