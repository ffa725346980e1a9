//! The risk layer against a corpus: dangerous lines in many disguises, and harmless ones that look alike.
//!
//! Prints recall and the rate of false alarms; every line that is missed or wrongly denied is named.
#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on says so; the rates are its answer"
)]

use sbx::manifest::{RiskSettings, Severity};
use sbx::risk::{Assessment, Context, MAX_BYTES, RuleSet, Scene, assess};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

fn corpus(name: &str) -> Vec<(String, Option<String>)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/risk").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !is_comment(line));
    lines
        .map(|line| {
            let (text, expected) =
                line.split_once('\t').map_or((line, None), |(text, rest)| (text, Some(rest)));
            (text.replace("\\n", "\n"), expected.filter(|rest| !rest.is_empty()).map(str::to_owned))
        })
        .collect()
}

/// A comment of the corpus; one that is itself a line to be looked at names a command.
fn is_comment(line: &str) -> bool {
    line.starts_with("# ") && !line.starts_with("# rm")
}

fn look<'r>(text: &str, rules: &'r RuleSet) -> Assessment<'r> {
    let scene = Scene::new("/home/u").at("/home/u/app");
    assess(text, &scene, rules, &RiskSettings::default(), &Context::default())
}

fn ids(assessment: &Assessment<'_>) -> Vec<String> {
    assessment.matched().iter().map(|matched| matched.rule.id.clone()).collect()
}

#[test]
fn danger_is_found_in_every_disguise() {
    let rules = RuleSet::builtin();
    let lines = corpus("dangerous.txt");
    let mut missed = Vec::new();
    for (text, rule) in &lines {
        let found = look(text, &rules);
        let named = rule.as_ref().is_none_or(|rule| ids(&found).contains(rule));
        if found.allowed() || !named {
            missed.push(format!("{text:?}: wanted {rule:?}, found {:?} {:?}", ids(&found), found.denial()));
        }
    }
    let share = (lines.len() - missed.len()) as f64 / lines.len() as f64;
    println!("recall: {} of {} lines, {:.1} %", lines.len() - missed.len(), lines.len(), share * 100.0);
    assert!(lines.len() >= 300, "the corpus has shrunk to {}", lines.len());
    assert!(missed.is_empty(), "\n{}\n", missed.join("\n"));
}

#[test]
fn look_alikes_are_left_alone() {
    let rules = RuleSet::builtin();
    let lines = corpus("harmless.txt");
    let (mut denied, mut noisy) = (Vec::new(), Vec::new());
    for (text, most) in &lines {
        let found = look(text, &rules);
        let most = most.as_deref().map(|most| Severity::from_name(most).unwrap_or_else(|| panic!("{most}")));
        if !found.allowed() {
            denied.push(format!("{text:?}: {:?} {:?}", ids(&found), found.denial()));
        } else if found.severity() > most {
            noisy.push(format!("{text:?}: {:?}", ids(&found)));
        }
    }
    let share = denied.len() as f64 / lines.len() as f64;
    println!("false alarms: {} of {} lines, {:.1} %", denied.len(), lines.len(), share * 100.0);
    assert!(lines.len() >= 200, "the corpus has shrunk to {}", lines.len());
    assert!(
        denied.is_empty() && noisy.is_empty(),
        "\ndenied:\n{}\nfound more than expected:\n{}\n",
        denied.join("\n"),
        noisy.join("\n")
    );
}
