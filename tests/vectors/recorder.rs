//! What the children of a shell line really receive: every command of it is stood in for by one that records its words.
//!
//! The line is run twice, once with marks for the values and once with the values. Where the marks arrived is
//! where the placeholders are, whatever else the line does.

use sbx::tool::{Action, Tool};
use std::collections::BTreeMap;
use std::process::Command;

/// A command that was started, and its words.
type Recorded = (String, Vec<String>);

/// The words of the shell's grammar, which start nothing, and those the recording itself is made of.
const KEPT: &[&str] = &[
    "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "for", "in", "case", "esac",
    "select", "function", "time", "coproc", "builtin", "return",
];

/// What the commands of a line were given for its placeholders, without what stands around those in a word.
pub(crate) fn child_words(tool: &Tool, script: &str, arguments: &[String]) -> Vec<String> {
    let Action::Shell(line) = &tool.action else { return Vec::new() };
    let marks: Vec<String> = (0..arguments.len()).map(|at| format!("mark-{at}-of-a-value")).collect();
    let mut words = Vec::new();
    // Commands that succeed lead into `&&`, those that fail into `||`.
    for status in [0, 1] {
        let marked = record(&line.text, script, &marks, status);
        let given = record(&line.text, script, arguments, status);
        words = received(&marked, &given, &marks);
        if !words.is_empty() {
            break;
        }
    }
    words
}

fn received(marked: &[Recorded], given: &[Recorded], marks: &[String]) -> Vec<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut words = Vec::new();
    for (name, wanted) in marked {
        let nth = seen.entry(name).or_default();
        let same = given.iter().filter(|(other, _)| other == name).nth(*nth);
        *nth += 1;
        let Some((_, real)) = same else { continue };
        for (at, word) in wanted.iter().enumerate() {
            let Some((before, after)) = marks.iter().find_map(|mark| word.split_once(mark.as_str())) else {
                continue;
            };
            let real = real.get(at).map_or("", String::as_str);
            let inner = real.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            words.push(inner.unwrap_or(real).to_owned());
        }
    }
    words
}

/// Runs the line with a recording function for every word of it that could name a command.
fn record(text: &str, script: &str, arguments: &[String], status: u8) -> Vec<Recorded> {
    let scratch = crate::tools::Scratch::new();
    let record = scratch.0.join("record");
    let plain = |word: &&str| {
        !word.is_empty()
            && !KEPT.contains(word)
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./+-[".contains(&byte))
            && !word.bytes().all(|byte| byte.is_ascii_digit())
    };
    let names = text.split(|c: char| c.is_whitespace() || ";&|(){}<>$\"'=".contains(c)).filter(plain);
    // Nothing but the recording can start.
    let mut telling = "PATH=\n".to_owned();
    for name in names {
        telling.push_str(&format!(
            "function {name} {{ builtin printf '%s\\0' '{name}' $# \"$@\" >>\"$SBX_RECORD\"; return {status}; }}\n"
        ));
    }
    telling.push_str(script);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-c", &telling, "sbx"]).args(arguments);
    shell.current_dir(&scratch.0).env("SBX_RECORD", &record);
    shell.output().expect("bash is needed to see what a child receives");
    let told = std::fs::read(&record).unwrap_or_default();
    let told = String::from_utf8_lossy(&told).into_owned();
    let mut parts = told.split_terminator('\0').map(str::to_owned);
    let mut found = Vec::new();
    while let (Some(name), Some(count)) = (parts.next(), parts.next()) {
        let count: usize = count.parse().expect("how many words");
        found.push((name, parts.by_ref().take(count).collect()));
    }
    // Commands of a pipeline start in any order; told is the order of the line.
    found.sort_by_key(|(name, _): &Recorded| text.find(name.as_str()));
    found
}
