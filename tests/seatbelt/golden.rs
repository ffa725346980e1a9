//! The profiles of the built-in agents, word for word; `docs/macos.md` goes through them rule by rule.
//!
//! `UPDATE_EXPECT=1 cargo test --test seatbelt` writes what they are now, for review.

use super::mac::{Mac, policy, profile};
use std::path::{Path, PathBuf};

const PROJECT: &str = "/Users/u/work";
const FETCHING: &str = "id: agents/fetching\nclass: agent\ncapabilities:\n  - fs.read: {in: $PROJECT}\n  - fs.write: {in: $PROJECT, paths: [out]}\n  - net.get: {hosts: [api.example.org]}\n  - proc.exec: {in: $PROJECT, cmds: [cat]}\n";

fn expect(name: &str, record: &str, argv: &[&str]) {
    let mac = Mac::new(&["/Users/u/work/.git", "/Users/u/work/out"], &[]);
    let (written, _) = profile(&policy(record, name, PROJECT), &mac, argv, PROJECT);
    let mut text = written.text;
    for (name, value) in written.parameters {
        text.push_str(&format!("; {name} = {value}\n"));
    }
    let source = std::env::var_os("SBX_TEST_SOURCE")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let file = source.join("tests/seatbelt/golden").join(Path::new(name).with_extension("sb"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &text).expect("the golden text is written");
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        golden == text,
        "{} is not what is written now; run with UPDATE_EXPECT=1 and review",
        file.display()
    );
}

fn builtin(id: &str) -> &'static str {
    sbx::profile::agent(id).expect("a built-in agent").1
}

#[test]
fn the_builders_profile_is_as_reviewed() {
    expect("builder.md", builtin("builder"), &["git", "status"]);
}

#[test]
fn the_scouts_profile_is_as_reviewed() {
    expect("scout.md", builtin("scout"), &["rg", "x"]);
}

#[test]
fn a_profile_with_network_is_as_reviewed() {
    expect("fetching.yml", FETCHING, &["cat", "x"]);
}

#[test]
fn no_golden_profile_denies_anything_but_by_default() {
    let source = std::env::var_os("SBX_TEST_SOURCE")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    for name in ["builder", "scout", "fetching"] {
        let file = source.join("tests/seatbelt/golden").join(name).with_extension("sb");
        let text = std::fs::read_to_string(&file).expect("a golden profile");
        assert_eq!(text.matches("(deny ").count(), 1, "{name}");
        assert!(
            !text.contains('*')
                || text.lines().filter(|line| line.contains("-data*") || line.contains("write*")).count()
                    == 0
        );
    }
}
