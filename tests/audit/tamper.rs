//! What is done to a log by hand is found; what is not done is not found.

use crate::{State, add, names};
use sbx::audit::{Link, verify};
use sha2::{Digest, Sha256};

#[test]
fn an_untouched_log_is_whole() {
    let state = State::with(20);
    let verdict = state.verdict();
    assert_eq!((verdict.lines, verdict.files), (20, 1));
    assert!(verdict.problems.is_empty() && verdict.notes.is_empty(), "{verdict:?}");
    assert_eq!(verdict.end.map(|end| end.seq), Some(20));
}

#[test]
fn nothing_recorded_is_whole_too() {
    let state = State::new();
    assert!(state.codes().is_empty());
    std::fs::remove_dir_all(&state.0).unwrap();
    assert!(state.codes().is_empty());
}

#[test]
fn an_edited_line_is_found() {
    let state = State::with(9);
    let mut lines = state.lines();
    lines[4] = lines[4].replace("\"number\":5", "\"number\":6");
    state.write(&lines);
    assert_eq!(state.codes(), ["changed"]);
    assert_eq!(state.verdict().problems[0].line, 5);
}

#[test]
fn a_removed_line_is_found() {
    for at in 0..8 {
        let state = State::with(9);
        let mut lines = state.lines();
        lines.remove(at);
        state.write(&lines);
        assert_eq!(state.codes(), ["removed"], "line {at}");
        assert_eq!(state.verdict().problems[0].line, at + 1);
    }
}

#[test]
fn swapped_and_doubled_lines_are_found() {
    let state = State::with(9);
    let mut lines = state.lines();
    lines.swap(3, 5);
    state.write(&lines);
    assert!(state.codes().contains(&"order"), "{:?}", state.codes());
    let state = State::with(9);
    let mut lines = state.lines();
    lines.insert(4, lines[3].clone());
    state.write(&lines);
    assert_eq!(state.codes(), ["order"]);
}

#[test]
fn lines_cut_off_at_the_end_are_found() {
    for kept in 0..9 {
        let state = State::with(9);
        let lines = state.lines();
        state.write(&lines[..kept]);
        assert_eq!(state.codes(), ["truncated"], "{kept} lines kept");
    }
    let state = State::with(9);
    std::fs::remove_file(state.file()).unwrap();
    assert_eq!(state.codes(), ["truncated"]);
}

#[test]
fn half_a_line_cut_off_is_found() {
    let state = State::with(9);
    let text = state.text();
    for cut in 1..300 {
        std::fs::write(state.file(), &text[..text.len() - cut]).unwrap();
        let codes = state.codes();
        assert!(codes.contains(&"truncated"), "{cut} bytes: {codes:?}");
    }
}

#[test]
fn what_was_cut_off_is_still_told_after_more_was_written() {
    let state = State::with(9);
    state.write(&state.lines()[..5]);
    add(&state.log(), 10);
    add(&state.log(), 11);
    assert_eq!(state.codes(), ["truncated"]);
    assert_eq!(state.verdict().problems[0].message.split(" were").next(), Some("lines 6 to 9"));
    let text = state.text();
    assert!(text.contains("\"reason\":\"truncated\""), "{text}");
}

#[test]
fn added_bytes_are_found_before_and_after_more_was_written() {
    let state = State::with(3);
    std::fs::write(state.file(), state.text() + "{\"seq\":4}\n").unwrap();
    assert_eq!(state.codes(), ["foreign"]);
    add(&state.log(), 4);
    assert_eq!(state.codes(), ["foreign"]);
}

/// Lines whose seals all fit, but made by another hand: `change` edits, then every seal is computed anew.
fn forged(lines: &[String], change: impl Fn(&mut Vec<String>)) -> Vec<String> {
    let mut bodies: Vec<String> =
        lines.iter().map(|line| line[..line.find(",\"prev\":").expect("a seal")].to_owned()).collect();
    change(&mut bodies);
    let mut prev = "0".repeat(64);
    let mut forged = Vec::new();
    for (at, body) in bodies.iter().enumerate() {
        let rest = &body[body.find(",\"time\"").expect("a time")..];
        let line = format!("{{\"seq\":{}{rest},\"prev\":\"{prev}\"", at + 1);
        prev = Sha256::digest(line.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        forged.push(format!("{line},\"hash\":\"{prev}\"}}"));
    }
    forged
}

#[test]
fn a_chain_made_anew_is_found_by_the_head() {
    let state = State::with(9);
    let lines = state.lines();
    assert_eq!(forged(&lines, |_| {}), lines, "the forger knows how");
    state.write(&forged(&lines, |bodies| bodies[4] = bodies[4].replace("git", "ls ")));
    assert_eq!(state.codes(), ["rechained"]);
    state.write(&forged(&lines, |bodies| drop(bodies.remove(4))));
    assert_eq!(state.codes(), ["truncated"]);
    add(&state.log(), 10);
    assert!(!state.codes().is_empty(), "and stays found");
}

#[test]
fn a_forgery_with_its_head_is_found_by_a_head_kept_elsewhere() {
    let state = State::with(9);
    let kept: Link = state.verdict().end.unwrap().to_string().parse().unwrap();
    assert!(verify(&state.0, Some(kept)).unwrap().problems.is_empty());
    let other = State::new();
    (20..=28).for_each(|number| add(&other.log(), number));
    for name in ["audit.jsonl", "audit.head"] {
        std::fs::copy(other.0.join(name), state.0.join(name)).unwrap();
    }
    assert!(state.codes().is_empty());
    let found = verify(&state.0, Some(kept)).unwrap().problems;
    assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["rechained"]);
    std::fs::remove_dir_all(&state.0).unwrap();
    assert_eq!(verify(&state.0, Some(kept)).unwrap().problems[0].code, "truncated");
}

#[test]
fn a_lost_head_is_told_and_the_chain_goes_on() {
    for spoil in [
        |state: &State| std::fs::remove_file(state.head()),
        |state: &State| std::fs::write(state.head(), "x"),
    ] {
        let state = State::with(3);
        spoil(&state).unwrap();
        assert_eq!(state.codes(), ["headless"]);
        add(&state.log(), 4);
        add(&state.log(), 5);
        assert_eq!(state.codes(), ["headless"]);
        assert_eq!(state.lines().len(), 6, "one line tells of it");
    }
}

#[test]
fn the_chain_goes_on_across_files_and_old_ones_are_dropped_by_the_log_alone() {
    let state = State::new();
    let log = state.small(2000, 3);
    (1..=100).for_each(|number| add(&log, number));
    let verdict = state.verdict();
    assert!(verdict.problems.is_empty() && verdict.notes.is_empty(), "{verdict:?}");
    assert_eq!(verdict.files, 4);
    let full: Vec<String> = names(&state.0).into_iter().filter(|name| name.starts_with("audit.0")).collect();
    assert_eq!(full.len(), 3);
    let aside = state.0.join("aside");
    for (at, name) in full.iter().enumerate() {
        std::fs::rename(state.0.join(name), &aside).unwrap();
        let codes = state.codes();
        assert_eq!(codes, ["removed"], "file {at}");
        std::fs::rename(&aside, state.0.join(name)).unwrap();
    }
    assert!(state.codes().is_empty());
}
