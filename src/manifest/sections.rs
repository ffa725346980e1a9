//! The sections that sbx owns: limits, environment, ports, accepted gaps, tools, MCP, risk.
//!
//! Invariant: an unknown key here is an error, so that a misspelt restriction never goes unnoticed.

use super::mcp::{self, Mcp};
use super::risk::{RISK_KEYS, RiskSettings};
use super::yaml::{Node, NodeKind};
use crate::capability::Target;
use crate::text::{Code, Problem, Span, closest};
use sbx_platform::Guarantee;
use std::time::Duration;

/// Every section sbx owns, with the keys it takes; none where the keys are the user's names.
pub const SECTIONS: &[(&str, Option<&[&str]>)] = &[
    ("tools", None),
    ("mcp", Some(mcp::KEYS)),
    ("risk", Some(RISK_KEYS)),
    ("limits", Some(Limits::KEYS)),
    ("env", None),
    ("listen", None),
    ("accept_degraded", None),
    ("provider_tools", None),
];

/// Whether writing a key of a record changes what its agent may do.
#[must_use]
pub fn bears_authority(key: &str) -> bool {
    matches!(key, "capabilities" | "access" | "sandbox")
        || SECTIONS.iter().any(|(section, _)| *section == key)
}

/// Resource limits; what is absent is not limited beyond the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Wall clock.
    pub wall: Option<Duration>,
    /// Processor time.
    pub cpu: Option<Duration>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Processes.
    pub pids: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// Size of one file in bytes.
    pub file_size: Option<u64>,
    /// Size of private scratch in bytes.
    pub tmp: Option<u64>,
    /// Captured output in bytes.
    pub output: Option<u64>,
}

impl Limits {
    pub(crate) const KEYS: &'static [&'static str] =
        &["wall", "cpu", "memory", "pids", "files", "file_size", "tmp", "output"];

    /// Names and values of what is limited, as plain numbers (seconds or bytes or a count).
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let seconds = |limit: Option<Duration>| limit.map(|limit| format!("{}s", limit.as_secs_f64()));
        let number = |limit: Option<u64>| limit.map(|limit| limit.to_string());
        let values = [
            seconds(self.wall),
            seconds(self.cpu),
            number(self.memory),
            number(self.pids),
            number(self.files),
            number(self.file_size),
            number(self.tmp),
            number(self.output),
        ];
        Self::KEYS.iter().zip(values).filter_map(|(key, value)| Some((*key, value?))).collect()
    }
}

impl Limits {
    /// How much is allowed of each that is limited, in the order of [`Limits::entries`]: nanoseconds, bytes or a count.
    #[must_use]
    pub fn amounts(&self) -> Vec<u128> {
        let time = |limit: Option<Duration>| limit.map(|limit| limit.as_nanos());
        let times = [self.wall, self.cpu].map(time);
        let numbers = [self.memory, self.pids, self.files, self.file_size, self.tmp, self.output];
        times.into_iter().chain(numbers.map(|limit| limit.map(u128::from))).flatten().collect()
    }
}

/// A variable of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvRule {
    /// Its name.
    pub name: String,
    /// How its value is kept out of the sandbox; none when the value is passed in.
    pub inject: Option<Injection>,
}

/// A secret that the gateway adds to requests and the process never sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// The only host that receives it.
    pub host: String,
    /// The header it goes into.
    pub header: String,
    /// How the header's value is put together where the program wrote none, `{}` being the secret.
    pub format: Option<String>,
    /// Where the value comes from.
    pub from: SecretSource,
}

/// Where the value of a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the caller's; the one of the same name when none is named.
    Environment(Option<String>),
    /// A file; `~/` is the caller's home.
    File(String),
    /// What a command prints.
    Command(Vec<String>),
}

/// The sections of a record, read.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Sections {
    /// `limits`.
    pub limits: Limits,
    /// `env`.
    pub env: Vec<EnvRule>,
    /// `listen`: ports published on the host's loopback.
    pub listen: Vec<u16>,
    /// `accept_degraded`: guarantees the user can do without.
    pub accept_degraded: Vec<String>,
    /// `provider_tools`: tools on the provider's side that no scope can narrow.
    pub provider_tools: Vec<String>,
    /// `tools`, unread.
    pub tools: Option<Node>,
    /// `mcp`.
    pub mcp: Option<Mcp>,
    /// `risk`; none when nothing is written, which means the defaults.
    pub risk: Option<RiskSettings>,
}

impl Sections {
    /// Reads one section; the name is one of [`SECTIONS`].
    pub(super) fn read(&mut self, name: &str, node: &Node, problems: &mut Vec<Problem>) {
        let keys = SECTIONS.iter().find(|(section, _)| *section == name).and_then(|(_, keys)| *keys);
        if let Some(keys) = keys {
            check_keys(name, keys, node, problems);
        }
        match name {
            "limits" => self.limits = limits(node, problems),
            "env" => self.env = env(node, problems),
            "listen" => self.listen = listen(node, problems),
            "accept_degraded" => self.accept_degraded = guarantees(name, node, problems),
            "provider_tools" => self.provider_tools = names(name, node, problems),
            "tools" => self.tools = Some(node.clone()),
            "mcp" => self.mcp = Some(Mcp::read(node, problems)),
            "risk" => self.risk = Some(RiskSettings::read(node, problems)),
            _ => {}
        }
    }
}

pub(super) fn check_keys(section: &str, keys: &[&str], node: &Node, problems: &mut Vec<Problem>) {
    let Some(pairs) = node.map() else {
        if node.kind != NodeKind::Null {
            problems.push(bad(section, format!("`{section}` is {}, not a map", node.describe()), node.span));
        }
        return;
    };
    for (key, _) in pairs {
        let name = key.text().unwrap_or_default();
        if !keys.contains(&name) {
            let problem = Problem::error(Code::UnknownKey, format!("`{section}` has no key `{name}`"))
                .at(key.span)
                .key(name)
                .suggest(closest(name, keys.iter().copied()))
                .help(format!("`{section}` takes {}", keys.join(", ")));
            problems.push(problem);
        }
    }
}

pub(super) fn bad(section: &str, message: String, span: Span) -> Problem {
    Problem::error(Code::BadSection, message).at(span).key(section)
}

fn limits(node: &Node, problems: &mut Vec<Problem>) -> Limits {
    let mut limits = Limits::default();
    for (key, value) in node.map().unwrap_or_default() {
        let name = key.text().unwrap_or_default();
        let text = value.scalar().unwrap_or_default();
        let known = match name {
            "wall" => duration(text).map(|limit| limits.wall = Some(limit)),
            "cpu" => duration(text).map(|limit| limits.cpu = Some(limit)),
            "memory" => size(text).map(|limit| limits.memory = Some(limit)),
            "file_size" => size(text).map(|limit| limits.file_size = Some(limit)),
            "tmp" => size(text).map(|limit| limits.tmp = Some(limit)),
            "output" => size(text).map(|limit| limits.output = Some(limit)),
            "pids" => count(text).map(|limit| limits.pids = Some(limit)),
            "files" => count(text).map(|limit| limits.files = Some(limit)),
            _ => Some(()),
        };
        if known.is_none() {
            let problem = bad("limits", format!("`{name}` does not take `{text}`"), value.span);
            problems.push(
                problem.help("times are like `90s` or `5m`, sizes like `512M`, counts whole numbers above 0"),
            );
        }
    }
    limits
}

/// Seconds, or a number with `ms`, `s`, `m` or `h`; more than nothing, and finite.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * factor;
    (seconds > 0.0 && seconds <= 1e9).then(|| Duration::from_secs_f64(seconds))
}

/// Bytes, or a number with `k`, `M`, `G` or `T` (powers of 1024).
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let shift = match unit {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    count(number)?.checked_mul(1 << shift)
}

pub(super) fn count(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

fn split_unit(text: &str) -> (&str, &str) {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..at].trim(), &text[at..])
}

/// A list of names, or a map from names to rules.
fn env(node: &Node, problems: &mut Vec<Problem>) -> Vec<EnvRule> {
    let mut rules = Vec::new();
    let mut add = |name: &Node, rule: Option<&Node>, problems: &mut Vec<Problem>| {
        let text = name.text().unwrap_or_default();
        if !is_variable(text) {
            problems.push(bad("env", "a variable is letters, digits and `_`".to_owned(), name.span));
            return;
        }
        let inject = match rule.map(|rule| (rule, &rule.kind)) {
            None | Some((_, NodeKind::Null)) => None,
            Some((rule, _)) => match injection(rule, problems) {
                Some(injection) => Some(injection),
                None => return,
            },
        };
        rules.push(EnvRule { name: text.to_owned(), inject });
    };
    match &node.kind {
        NodeKind::Null => {}
        NodeKind::List(items) => {
            for item in items {
                match item.map() {
                    Some([(name, rule)]) => add(name, Some(rule), problems),
                    _ => add(item, None, problems),
                }
            }
        }
        NodeKind::Map(pairs) => {
            for (name, rule) in pairs {
                add(name, Some(rule), problems);
            }
        }
        NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) => {
            problems.push(bad(
                "env",
                format!("`env` is {}, not a list of names", node.describe()),
                node.span,
            ));
        }
    }
    rules
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn injection(rule: &Node, problems: &mut Vec<Problem>) -> Option<Injection> {
    check_keys("env", &["inject", "from"], rule, problems);
    let inject = rule.get("inject");
    if let Some(inject) = inject {
        check_keys("env.inject", &["host", "header", "format"], inject, problems);
    }
    let node = |name| inject.and_then(|inject| inject.get(name));
    let Some((host, header)) = node("host").zip(node("header")) else {
        let problem = bad("env", "a rule of `env` is `{inject: {host: …, header: …}}`".to_owned(), rule.span);
        problems.push(problem.help("leave the rule off to pass the variable's value in"));
        return None;
    };
    let count = problems.len();
    let host_text = host.text().unwrap_or_default();
    if Target::parse(host_text).is_err() || host_text.contains('@') {
        problems.push(bad("env", "`host` is one host, with or without a port".to_owned(), host.span));
    }
    let header_text = header.text().unwrap_or_default();
    if !is_header(header_text) {
        let problem = bad("env", "`header` is a header that a secret may go into".to_owned(), header.span);
        problems.push(problem.help("such as `Authorization` or `X-Api-Key`"));
    }
    let format = node("format");
    if let Some(format) = format.filter(|format| !is_format(format.text().unwrap_or_default())) {
        let problem =
            bad("env", "`format` is text with `{}` once, where the secret goes".to_owned(), format.span);
        problems.push(problem.help("such as `Bearer {}`"));
    }
    let from = secret_source(rule.get("from"), problems)?;
    (problems.len() == count).then(|| Injection {
        host: host_text.to_owned(),
        header: header_text.to_owned(),
        format: format.and_then(Node::text).map(str::to_owned),
        from,
    })
}

/// Headers that say how a message is read are not for secrets.
fn is_header(name: &str) -> bool {
    const FRAMING: &[&str] =
        &["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"];
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
    (1..=64).contains(&name.len())
        && name.bytes().all(token)
        && !FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing))
}

fn is_format(text: &str) -> bool {
    text.matches("{}").count() == 1 && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

fn secret_source(node: Option<&Node>, problems: &mut Vec<Problem>) -> Option<SecretSource> {
    let Some(node) = node else { return Some(SecretSource::Environment(None)) };
    check_keys("env.from", &["env", "file", "command"], node, problems);
    let text = |name| node.get(name).and_then(Node::text).filter(|text| !text.is_empty()).map(str::to_owned);
    let words = |node: &Node| -> Option<Vec<String>> {
        node.list()?.iter().map(|word| word.text().map(str::to_owned)).collect()
    };
    let command = node.get("command").and_then(words).filter(|argv| !argv.is_empty());
    let path = text("file").filter(|path| path.starts_with('/') || path.starts_with("~/"));
    let found = match (text("env").filter(|name| is_variable(name)), path, command) {
        (Some(name), None, None) => Some(SecretSource::Environment(Some(name))),
        (None, Some(path), None) => Some(SecretSource::File(path)),
        (None, None, Some(argv)) => Some(SecretSource::Command(argv)),
        _ => None,
    };
    if found.is_none() {
        let problem = bad("env", "`from` says where the value comes from, in one way".to_owned(), node.span);
        problems.push(problem.help("`{env: NAME}`, `{file: ~/path}` or `{command: [program, argument]}`"));
    }
    found
}

fn listen(node: &Node, problems: &mut Vec<Problem>) -> Vec<u16> {
    let port = |item: &Node| match &item.kind {
        NodeKind::Number(text) => text.parse::<u16>().ok().filter(|port| *port > 0),
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Text(_) | NodeKind::List(_) | NodeKind::Map(_) => None,
    };
    let ports: Option<Vec<u16>> = node.list().and_then(|items| items.iter().map(port).collect());
    ports.unwrap_or_else(|| {
        problems.push(bad("listen", "`listen` is a list of ports, 1 to 65535".to_owned(), node.span));
        Vec::new()
    })
}

/// Names of guarantees. One that does not exist is accepted in vain, which is worth hearing of.
fn guarantees(section: &str, node: &Node, problems: &mut Vec<Problem>) -> Vec<String> {
    let known = || Guarantee::ALL.iter().map(|guarantee| guarantee.name());
    let named = names(section, node, problems);
    for name in named.iter().filter(|name| Guarantee::from_name(name).is_none()) {
        let item = node.list().unwrap_or_default().iter().find(|item| item.text() == Some(name));
        problems.push(
            Problem::warning(Code::BadSection, format!("there is no guarantee `{name}` to do without"))
                .at(item.map_or(node.span, |item| item.span))
                .key(section)
                .suggest(closest(name, known()))
                .help(format!("they are {}", known().collect::<Vec<_>>().join(", "))),
        );
    }
    named
}

pub(super) fn names(section: &str, node: &Node, problems: &mut Vec<Problem>) -> Vec<String> {
    let texts: Option<Vec<String>> =
        node.list().and_then(|items| items.iter().map(|item| item.text().map(str::to_owned)).collect());
    texts.unwrap_or_else(|| {
        problems.push(bad(section, format!("`{section}` is a list of names"), node.span));
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(duration("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(size("512M"), Some(512 << 20));
        for odd in ["", "0", "-1", "inf", "nan", "1e400", "5x", "1.5"] {
            assert_eq!(size(odd), None, "{odd}");
        }
        for odd in ["", "0", "-1", "inf", "nan", "5x"] {
            assert_eq!(duration(odd), None, "{odd}");
        }
        assert_eq!(size("99999999999T"), None);
    }
}
