//! Reads a profile: the subset of the language that we write, and an error for anything else.

use super::regex::Regex;
use std::collections::BTreeMap;

/// The longest string the system's own reader takes is somewhat above this; we stay below 900.
const LONGEST: usize = 900;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Word(String),
    Text(String),
    Raw(String),
    List(Vec<Node>),
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) allow: bool,
    pub(crate) operations: Vec<String>,
    pub(crate) filters: Vec<Filter>,
}

#[derive(Debug)]
pub(crate) enum Filter {
    Literal(String),
    Subpath(String),
    Regex(Regex),
    /// A named thing of this kind, exactly, by prefix or by expression.
    Named(&'static str, String),
    Prefix(&'static str, String),
    Matching(&'static str, Regex),
    Extension,
    SameSandbox,
    RemoteIp {
        host: String,
        port: String,
    },
    Socket {
        end: String,
        below: String,
    },
    UnixDomain,
    All(Vec<Filter>),
    AnyOf(Vec<Filter>),
    Not(Box<Filter>),
}

#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) tag: String,
    pub(crate) rules: Vec<Rule>,
}

/// Operations that profiles of ours may speak of; a word that is none stops the system's own reader too.
pub(crate) const OPERATIONS: &[&str] = &[
    "file-read*",
    "file-read-data",
    "file-read-metadata",
    "file-read-xattr",
    "file-write*",
    "file-write-create",
    "file-write-data",
    "file-write-flags",
    "file-write-mode",
    "file-write-owner",
    "file-write-setugid",
    "file-write-times",
    "file-write-unlink",
    "file-write-xattr",
    "file-ioctl",
    "file-link",
    "file-clone",
    "file-map-executable",
    "process-fork",
    "process-exec",
    "process-info*",
    "signal",
    "mach-priv-task-port",
    "mach-lookup",
    "mach-register",
    "sysctl-read",
    "sysctl-write",
    "ipc-posix-sem",
    "ipc-posix-shm-read-data",
    "ipc-posix-shm-read-metadata",
    "ipc-posix-shm-write-create",
    "ipc-posix-shm-write-data",
    "ipc-posix-shm-write-unlink",
    "ipc-sysv-shm",
    "iokit-open",
    "pseudo-tty",
    "system-socket",
    "network*",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "appleevent-send",
    "lsopen",
];

pub(crate) fn read(text: &str, parameters: &[(String, String)]) -> Result<Profile, String> {
    let parameters: BTreeMap<&str, &str> =
        parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (name, value) in &parameters {
        if value.chars().any(char::is_control) || value.len() > LONGEST {
            return Err(format!("the parameter {name} is {value:?}"));
        }
    }
    let nodes = parse(text)?;
    let [version, default, rest @ ..] = nodes.as_slice() else { return Err("too short".to_owned()) };
    if *version != Node::List(vec![word("version"), word("1")]) {
        return Err("the first form is not the version".to_owned());
    }
    let tag = match default {
        Node::List(parts) => match parts.as_slice() {
            [deny, default, Node::List(with)] if *deny == word("deny") && *default == word("default") => {
                match with.as_slice() {
                    [with, message, Node::Text(tag)]
                        if *with == word("with") && *message == word("message") =>
                    {
                        tag.clone()
                    }
                    _ => return Err("the default has an odd modifier".to_owned()),
                }
            }
            _ => return Err("the second form does not deny by default".to_owned()),
        },
        _ => return Err("the second form is no form".to_owned()),
    };
    let rules = rest.iter().map(|node| rule(node, &parameters)).collect::<Result<_, _>>()?;
    Ok(Profile { tag, rules })
}

fn word(text: &str) -> Node {
    Node::Word(text.to_owned())
}

fn rule(node: &Node, parameters: &BTreeMap<&str, &str>) -> Result<Rule, String> {
    let Node::List(parts) = node else { return Err(format!("{node:?} is no form")) };
    let allow = match parts.first() {
        Some(Node::Word(verb)) if verb == "allow" => true,
        Some(Node::Word(verb)) if verb == "deny" => false,
        other => return Err(format!("{other:?} is neither allow nor deny")),
    };
    let is_operation = |node: &&Node| matches!(node, Node::Word(_));
    let mut operations = Vec::new();
    for node in parts[1..].iter().take_while(is_operation) {
        let Node::Word(name) = node else { continue };
        if !OPERATIONS.contains(&name.as_str()) {
            return Err(format!("{name} is no operation we know"));
        }
        operations.push(name.clone());
    }
    if operations.is_empty() {
        return Err("a rule without an operation".to_owned());
    }
    let filters = parts[1 + operations.len()..].iter().map(|node| filter(node, parameters));
    Ok(Rule { allow, operations, filters: filters.collect::<Result<_, _>>()? })
}

fn filter(node: &Node, parameters: &BTreeMap<&str, &str>) -> Result<Filter, String> {
    let Node::List(parts) = node else { return Err(format!("{node:?} is no filter")) };
    let Some((Node::Word(name), arguments)) = parts.split_first() else {
        return Err(format!("{parts:?} is no filter"));
    };
    let inner = || arguments.iter().map(|node| filter(node, parameters)).collect::<Result<Vec<_>, _>>();
    let path = |node: &Node| match node {
        Node::Text(path) => Ok(path.clone()),
        Node::List(parts) => match parts.as_slice() {
            [param, Node::Text(name)] if *param == word("param") => {
                let value = parameters.get(name.as_str()).ok_or(format!("no parameter {name}"))?;
                Ok((*value).to_owned())
            }
            _ => Err(format!("{parts:?} is no path")),
        },
        Node::Word(_) | Node::Raw(_) => Err(format!("{node:?} is no path")),
    };
    match (name.as_str(), arguments) {
        ("literal", [one]) => Ok(Filter::Literal(path(one)?)),
        ("subpath", [one]) => Ok(Filter::Subpath(path(one)?)),
        ("regex", [Node::Raw(regex)]) => Ok(Filter::Regex(Regex::new(regex)?)),
        ("require-all", [_, ..]) => Ok(Filter::All(inner()?)),
        ("require-any", [_, ..]) => Ok(Filter::AnyOf(inner()?)),
        ("require-not", [one]) => Ok(Filter::Not(Box::new(filter(one, parameters)?))),
        ("target", [Node::Word(target)]) if target == "same-sandbox" => Ok(Filter::SameSandbox),
        ("extension", [Node::Text(_)]) => Ok(Filter::Extension),
        ("sysctl-name", [Node::Text(value)]) => Ok(Filter::Named("sysctl", value.clone())),
        ("sysctl-name-prefix", [Node::Text(value)]) => Ok(Filter::Prefix("sysctl", value.clone())),
        ("global-name", [Node::Text(value)]) => Ok(Filter::Named("mach", value.clone())),
        ("ipc-posix-name", [Node::Text(value)]) => Ok(Filter::Named("ipc", value.clone())),
        ("ipc-posix-name-regex", [Node::Raw(value)]) => Ok(Filter::Matching("ipc", Regex::new(value)?)),
        ("iokit-registry-entry-class", [Node::Text(value)]) => Ok(Filter::Named("iokit", value.clone())),
        ("remote", [Node::Word(ip), Node::Text(value)]) if ip == "ip" => {
            let (host, port) = value.split_once(':').ok_or("no port")?;
            // Anything but these two stops the system's own reader; see `address` in `evaluate`.
            if !matches!(host, "localhost" | "*") || (port != "*" && port.parse::<u16>().is_err()) {
                return Err(format!("{value} is no address for a profile"));
            }
            Ok(Filter::RemoteIp { host: host.to_owned(), port: port.to_owned() })
        }
        ("local" | "remote", [Node::Word(kind), Node::List(place)]) if kind == "unix-socket" => {
            match place.as_slice() {
                [subpath, one] if *subpath == word("subpath") => {
                    Ok(Filter::Socket { end: name.clone(), below: path(one)? })
                }
                _ => Err("an odd socket".to_owned()),
            }
        }
        ("socket-domain", [Node::Word(domain)]) if domain == "AF_UNIX" => Ok(Filter::UnixDomain),
        _ => Err(format!("the filter {name} with {arguments:?} is not known")),
    }
}

fn parse(text: &str) -> Result<Vec<Node>, String> {
    let mut stack: Vec<Vec<Node>> = vec![Vec::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let node = match c {
            ' ' | '\n' => continue,
            ';' => {
                while chars.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            '(' => {
                stack.push(Vec::new());
                continue;
            }
            ')' => Node::List(stack.pop().filter(|_| !stack.is_empty()).ok_or("too many brackets")?),
            '"' => Node::Text(string(&mut chars, true)?),
            '#' if chars.next_if_eq(&'"').is_some() => Node::Raw(string(&mut chars, false)?),
            c if c.is_ascii_alphanumeric() => {
                let mut word = String::from(c);
                while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || "-*_".contains(*c)) {
                    word.push(c);
                }
                Node::Word(word)
            }
            c => return Err(format!("{c:?} has no place in a profile")),
        };
        stack.last_mut().ok_or("too many brackets")?.push(node);
    }
    match stack.as_slice() {
        [_] => Ok(stack.remove(0)),
        _ => Err("a bracket is not closed".to_owned()),
    }
}

fn string(chars: &mut impl Iterator<Item = char>, escapes: bool) -> Result<String, String> {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        match c {
            '"' if text.len() <= LONGEST => return Ok(text),
            '"' => return Err("a string is too long".to_owned()),
            '\\' if escapes => match chars.next() {
                Some(c @ ('"' | '\\')) => text.push(c),
                other => return Err(format!("the escape {other:?}")),
            },
            c if c.is_control() => return Err("a control character in a string".to_owned()),
            c => text.push(c),
        }
    }
    Err("a string is not closed".to_owned())
}

#[test]
fn what_is_not_known_is_an_error() {
    let head = "(version 1)\n(deny default (with message \"t\"))\n";
    let good = read(
        &format!("{head}(allow file-read-data (subpath (param \"P0\")))"),
        &[("P0".into(), "/w".into())],
    );
    assert_eq!(good.unwrap().rules.len(), 1);
    for bad in [
        "(allow file-read-datum)",
        "(allow file-read-data (subpath (param \"P1\")))",
        "(allow file-read-data (glob \"x\"))",
        "(allow network-outbound (remote ip \"example.org:80\"))",
        "(allow network-outbound (local ip \"*:*\"))",
        "(allow file-read-data (literal \"a\nb\"))",
        "(permit file-read-data)",
        "(allow file-read-data",
        "(import \"system.sb\")",
    ] {
        assert!(read(&format!("{head}{bad}"), &[]).is_err(), "{bad}");
    }
    assert!(read("(version 1)\n(allow default)", &[]).is_err());
}
