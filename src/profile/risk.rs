//! What the risk layer is told about programs and places: line tables from `profiles/risk/`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// How a program starts another, or runs text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// The rest is a command.
    Prefix,
    /// The rest is shell text.
    Text,
    /// It is a shell.
    Shell,
    /// An option's value is shell text.
    Option,
    /// An option's value is a program in another language.
    Code,
    /// The first operand is a program in another language.
    First,
    /// A command follows one of its words.
    Until,
    /// What it reads is run later.
    Input,
}

/// A program that starts another.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wrapper {
    /// Subcommands that must follow its name.
    pub subcommands: Vec<&'static str>,
    /// How it does it.
    pub wrapping: Wrapping,
    /// Options, by the meaning of `wrapping`.
    pub options: Vec<&'static str>,
    /// Operands that stand before the command.
    pub skip: usize,
}

/// Programs that start others, by name, read from `profiles/risk/wrappers.txt`.
pub static WRAPPERS: LazyLock<HashMap<&'static str, Vec<Wrapper>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Wrapper>> = HashMap::new();
    for mut cells in rows(include_str!("../../profiles/risk/wrappers.txt")) {
        let Some((names, wrapping, options, skip)) = row(&mut cells) else { continue };
        // Subcommands are told from further names by what wraps them: only prefix-like rows with words
        // after a known program have them.
        let words: Vec<&'static str> = names.split(' ').collect();
        let (programs, subcommands) = match words.split_first() {
            Some((first, rest)) if SUBCOMMANDED.contains(first) && !rest.is_empty() => {
                (vec![*first], rest.to_vec())
            }
            _ => (words, Vec::new()),
        };
        for program in programs {
            let wrapper =
                Wrapper { subcommands: subcommands.clone(), wrapping, options: options.clone(), skip };
            table.entry(program).or_default().push(wrapper);
        }
    }
    table
});

/// Programs whose rows name subcommands after them.
const SUBCOMMANDED: &[&str] = &[
    "docker",
    "podman",
    "nerdctl",
    "docker-compose",
    "lxc",
    "kubectl",
    "k",
    "oc",
    "ip",
    "git",
    "npm",
    "pnpm",
    "yarn",
    "pipx",
    "uv",
    "poetry",
    "pipenv",
    "hatch",
    "conda",
    "mamba",
    "bundle",
    "direnv",
    "mise",
    "asdf",
    "nix",
    "aws-vault",
    "op",
    "doppler",
    "vault",
    "tmux",
    "perf",
    "rr",
    "gcloud",
    "az",
];

type Row = (&'static str, Wrapping, Vec<&'static str>, usize);

fn row(cells: &mut impl Iterator<Item = &'static str>) -> Option<Row> {
    let names = cells.next()?;
    let wrapping = match cells.next()? {
        "prefix" => Wrapping::Prefix,
        "text" => Wrapping::Text,
        "shell" => Wrapping::Shell,
        "option" => Wrapping::Option,
        "code" => Wrapping::Code,
        "first" => Wrapping::First,
        "until" => Wrapping::Until,
        "input" => Wrapping::Input,
        _ => return None,
    };
    let options = cells.next()?.split_whitespace().collect();
    Some((names, wrapping, options, cells.next()?.parse().ok()?))
}

/// Kinds of places with their patterns, read from `profiles/risk/places.txt`.
pub static PLACES: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let row = |mut cells: std::vec::IntoIter<&'static str>| Some((cells.next()?, cells.next()?));
    rows(include_str!("../../profiles/risk/places.txt"))
        .filter_map(|cells| row(cells.collect::<Vec<_>>().into_iter()))
        .collect()
});

/// Programs that take words as text and start nothing, read from `profiles/risk/readers.txt`.
pub static READERS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let names = rows(include_str!("../../profiles/risk/readers.txt")).filter_map(|mut cells| cells.next());
    names.flat_map(str::split_whitespace).collect()
});

/// The cells of each line that is not a comment. These tables are read when shell text is first looked at, not
/// at every launch, so they are split then.
fn rows(text: &'static str) -> impl Iterator<Item = impl Iterator<Item = &'static str>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('|').map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_and_has_a_reason() {
        for text in [
            include_str!("../../profiles/risk/wrappers.txt"),
            include_str!("../../profiles/risk/places.txt"),
            include_str!("../../profiles/risk/readers.txt"),
        ] {
            for cells in rows(text) {
                let cells: Vec<&str> = cells.collect();
                assert!(
                    cells.len() >= 2 && cells.iter().rev().take(1).all(|why| !why.is_empty()),
                    "{cells:?}"
                );
            }
        }
        for cells in rows(include_str!("../../profiles/risk/wrappers.txt")) {
            let cells: Vec<&'static str> = cells.collect();
            assert!(cells.len() == 5 && row(&mut cells.clone().into_iter()).is_some(), "{cells:?}");
        }
        assert!(WRAPPERS["git"].iter().any(|wrapper| wrapper.subcommands == ["bisect", "run"]));
        assert!(WRAPPERS["doas"].iter().any(|wrapper| wrapper.wrapping == Wrapping::Prefix));
    }
}
