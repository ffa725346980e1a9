//! The options of programs that start others: which take a value, and where the command after them begins.

use super::command::{Arg, COMPUTED, Command};
use crate::profile::Wrapper;

/// The words of a command that xargs starts, with what it reads where `-I` says.
pub(super) fn replaced(words: &[Arg], inner: &[Arg], stdin: Option<&str>) -> Vec<Arg> {
    let own = words.get(..words.len() - inner.len()).unwrap_or_default();
    let bare = own.iter().any(|arg| matches!(arg.text.as_str(), "-i" | "--replace"));
    let attached = option_values(own, &["-I", "--replace"]).into_iter().next().map(|(mark, _)| mark);
    let attached = attached.or_else(|| {
        own.iter()
            .find_map(|arg| arg.text.strip_prefix("-i").filter(|mark| !mark.is_empty()).map(str::to_owned))
    });
    let Some(mark) = (if bare { Some("{}".to_owned()) } else { attached }) else {
        return inner.to_vec();
    };
    let value =
        stdin.map_or_else(|| COMPUTED.to_string(), |text| text.lines().next().unwrap_or_default().to_owned());
    let fill = |arg: &Arg| match arg.text.contains(&mark) {
        true => Arg::unsure(arg.text.replace(&mark, &value), arg.span),
        false => arg.clone(),
    };
    inner.iter().map(fill).collect()
}

/// Where the words after the subcommands start; none when other subcommands stand there.
pub(super) fn after_subcommands(command: &Command, wrapper: &Wrapper) -> Option<usize> {
    let mut wanted = wrapper.subcommands.iter();
    let mut next = wanted.next();
    let mut at = 1;
    let mut may_be_value = false;
    while let Some(name) = next {
        let word = command.argv.get(at)?.text.as_str();
        if word == *name {
            next = wanted.next();
            may_be_value = false;
        } else if word.starts_with('-') {
            may_be_value = !word.contains('=');
        } else if may_be_value {
            may_be_value = false;
        } else {
            return None;
        }
        at += 1;
    }
    Some(at)
}

/// The command after a wrapper's own options, assignments and operands.
pub(super) fn operands<'a>(words: &'a [Arg], wrapper: &Wrapper, name: &str) -> &'a [Arg] {
    let assigns = matches!(name, "env" | "genv" | "sudo" | "doas");
    let mut at = 0;
    while let Some(arg) = words.get(at) {
        let text = arg.text.as_str();
        if text == "--" {
            at += 1;
            break;
        }
        if text.starts_with('-') && text.len() > 1
            || text.starts_with('/') && text.len() == 2 && name.starts_with("cmd")
        {
            at += if takes_next(wrapper, text) && !name.starts_with("cmd") { 2 } else { 1 };
        } else if assigns && is_assignment(text) {
            at += 1;
        } else {
            break;
        }
    }
    let mut at = at + wrapper.skip;
    // ssh takes options after the host as well.
    if wrapper.skip > 0 && matches!(name, "ssh" | "autossh" | "slogin") {
        while let Some(arg) = words.get(at).filter(|arg| arg.text.starts_with('-')) {
            at += if takes_next(wrapper, &arg.text) { 2 } else { 1 };
        }
    }
    words.get(at..).unwrap_or_default()
}

/// Whether an option takes the next word: by itself, or as the last letter of a cluster. The first letter of a
/// cluster that takes a value has the rest of it for one.
fn takes_next(wrapper: &Wrapper, text: &str) -> bool {
    if wrapper.options.contains(&text) {
        return true;
    }
    let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else {
        return false;
    };
    let takes = |letter: char| {
        wrapper
            .options
            .iter()
            .any(|option| option.strip_prefix('-').is_some_and(|own| own.chars().eq([letter])))
    };
    letters
        .char_indices()
        .find(|(_, letter)| takes(*letter))
        .is_some_and(|(at, letter)| at + letter.len_utf8() == letters.len())
}

/// Where a wrapper's own option says that the command runs.
pub(super) fn moved(name: &str, words: &[Arg]) -> Option<String> {
    let options: &[&str] = match name {
        "env" | "genv" => &["-C", "--chdir"],
        "sudo" => &["-D", "--chdir"],
        "systemd-run" => &["--working-directory"],
        "uv" => &["--directory"],
        _ => return None,
    };
    option_values(words, options).into_iter().next().map(|(to, _)| to)
}

/// Shells whose language is another one.
pub(super) fn other_grammar(name: &str) -> bool {
    matches!(
        name,
        "pwsh" | "powershell" | "cmd" | "cmd.exe" | "fish" | "csh" | "tcsh" | "elvish" | "nu" | "xonsh"
    )
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The values of options: `-c text`, `-ctext`, `--eval=text`, and for prefixes `--checkpoint-action=exec=text`.
pub(super) fn option_values(words: &[Arg], options: &[&str]) -> Vec<(String, bool)> {
    let mut values = Vec::new();
    let mut at = 0;
    while let Some(arg) = words.get(at) {
        at += 1;
        let text = arg.text.as_str();
        if text == "--" {
            break;
        }
        let attached = options.iter().find_map(|option| {
            let rest = text.strip_prefix(option)?;
            match (rest, option.ends_with('=') || *option == "+") {
                ("", true) => None,
                (rest, true) => Some(rest),
                (rest, false) if option.starts_with("--") => rest.strip_prefix('='),
                (rest, false) if option.len() == 2 && !rest.is_empty() && !text.starts_with("--") => {
                    Some(rest.trim_start_matches('='))
                }
                _ => None,
            }
        });
        // A cluster such as `-Bc` ends in an option that takes the next word.
        let clustered = options.iter().any(|option| {
            option.len() == 2
                && text.len() > 2
                && text.starts_with('-')
                && !text.starts_with("--")
                && text.ends_with(&option[1..])
                && text[1..].bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if (options.contains(&text) && !text.ends_with('=') && text != "+") || clustered {
            if let Some(value) = words.get(at) {
                values.push((value.text.clone(), value.known));
                at += 1;
            }
        } else if let Some(value) = attached {
            values.push((value.to_owned(), arg.known));
        }
    }
    values
}
