//! The usual command lines of a launch, read by hand.
//!
//! Answers for `exec`, `eval`, `shell` and `hook` with their common options, each written apart from its value and at
//! most once: building the whole definition of the command line takes longer than all else before the fence.
//! It leaves everything it does not know to that definition.
//! Invariant: what it reads, the definition reads the same; a test compares them.

use super::exec::{Eval, Exec, Fence, Launch, Shell};
use super::hook::{Asked, Hook};
use super::{Cli, Colour, Command, Style};
use std::ffi::OsString;

/// Reads `args`, the program's own name left out; `None` for anything unusual.
pub(super) fn read(args: impl Iterator<Item = OsString>) -> Option<Cli> {
    let mut args = args.peekable();
    let mut json = take_word(&mut args, "--json");
    let command = args.next()?;
    if command == "hook" && !json {
        return hook(args);
    }
    let mut fence = Fence::default();
    let mut agent = None;
    while let Some(option) = args.next_if(|arg| arg.as_encoded_bytes().starts_with(b"-") && arg != "--") {
        let flag = match option.to_str()? {
            "--agent" | "-a" => {
                set(&mut agent, plain(args.next())?)?;
                continue;
            }
            "--in" => {
                set(&mut fence.who.dir, plain(args.next())?.into())?;
                continue;
            }
            "--project" => {
                set(&mut fence.project, plain(args.next())?.into())?;
                continue;
            }
            "--backend" => {
                set(&mut fence.who.backend, plain(args.next())?)?;
                continue;
            }
            "--allow-degraded" if fence.who.allow_degraded.is_empty() => {
                let names = plain(args.next())?;
                fence.who.allow_degraded = names.split(',').map(str::to_owned).collect();
                continue;
            }
            "--explain" => &mut fence.explain,
            "--tty" | "-t" => &mut fence.tty,
            "--json" => &mut json,
            _ => return None,
        };
        if std::mem::replace(flag, true) {
            return None;
        }
    }
    fence.who.agent = agent?;
    let divided = take_word(&mut args, "--");
    let rest: Vec<OsString> = args.collect();
    let launch = match (command.to_str()?, rest.as_slice()) {
        ("exec", [_, ..]) => Launch::Exec(Exec { fence, argv: rest }),
        ("eval", [text]) => Launch::Eval(Eval { fence, text: text.to_str()?.to_owned() }),
        ("shell", []) if !divided => Launch::Shell(Shell { fence }),
        _ => return None,
    };
    Some(Cli { style: Style { json, color: Colour::default() }, command: Command::Launch(launch) })
}

/// A hook: the client, the agent, and nothing else.
fn hook(mut args: impl Iterator<Item = OsString>) -> Option<Cli> {
    let client = args.next()?;
    args.next().filter(|word| word == "--agent")?;
    let asked = Asked { agent: plain(args.next())?, ..Asked::default() };
    if args.next().is_some() {
        return None;
    }
    let hook = match client.to_str()? {
        "claude-code" => Hook::ClaudeCode(asked),
        "codex" => Hook::Codex(asked),
        "cursor" => Hook::Cursor(asked),
        "vscode" => Hook::Vscode(asked),
        "gemini" => Hook::Gemini(asked),
        _ => return None,
    };
    let style = Style { json: false, color: Colour::default() };
    Some(Cli { style, command: Command::Hook(hook) })
}

/// Takes `word` off the front, if it stands there.
fn take_word(args: &mut std::iter::Peekable<impl Iterator<Item = OsString>>, word: &str) -> bool {
    args.next_if(|arg| arg == word).is_some()
}

/// A value that cannot be mistaken for an option.
fn plain(value: Option<OsString>) -> Option<String> {
    value?.into_string().ok().filter(|value| !value.is_empty() && !value.starts_with('-'))
}

/// Sets what was not set before.
fn set<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use proptest::prelude::*;

    const WORDS: [&str; 25] = [
        "exec",
        "eval",
        "shell",
        "hook",
        "codex",
        "install",
        "--agent",
        "-a",
        "scout",
        "--in",
        "/w",
        "--project",
        "--backend",
        "native",
        "--allow-degraded",
        "terminals",
        "terminals,fs-hidden,",
        "--explain",
        "--tty",
        "-t",
        "--json",
        "--",
        "rg",
        "--color",
        "-x",
    ];

    const FRONTS: [&[&str]; 4] =
        [&["exec", "--agent", "a"], &["eval", "-a", "a"], &["hook", "gemini", "--agent", "a"], &[]];

    fn read_words(words: &[&str]) -> Option<Cli> {
        read(words.iter().map(OsString::from))
    }

    #[test]
    fn the_usual_command_lines_are_known() {
        for usual in [
            &["exec", "--agent", "scout", "--", "rg", "--pre", "x"][..],
            &["exec", "-a", "scout", "--backend", "native", "rg", "x"],
            &["exec", "-a", "scout", "--allow-degraded", "terminals,fs-hidden", "--", "rg"],
            &["--json", "exec", "--agent", "scout", "--in", "/w", "--", "rg"],
            &["eval", "--agent", "scout", "--explain", "ls | wc"],
            &["shell", "--agent", "scout", "-t"],
            &["hook", "claude-code", "--agent", "scout"],
        ] {
            assert!(read_words(usual).is_some(), "{usual:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn what_is_read_by_hand_the_definition_reads_the_same(
            words in proptest::collection::vec(proptest::sample::select(&WORDS[..]), 1..9),
            front in proptest::sample::select(&FRONTS[..]),
        ) {
            let words: Vec<&str> = front.iter().copied().chain(words).collect();
            if let Some(quick) = read_words(&words) {
                let whole = Cli::try_parse_from(std::iter::once("sbx").chain(words.iter().copied()));
                prop_assert_eq!(format!("{quick:?}"), format!("{:?}", whole.expect("the same")), "{:?}", words);
            }
        }
    }
}
