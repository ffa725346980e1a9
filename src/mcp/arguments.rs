//! Arguments that are paths, URLs or commands, as questions for `decide`.
//!
//! Answers for finding them in a call and for what is asked about each. It leaves the answer to
//! [`decide`](crate::decide), for shell text also to the risk layer, and everything the kernel holds to the fence.
//! Invariant: an argument that is ruled and cannot be understood is a denial, never a pass.

use super::protocol::{Json, lookalike};
use crate::capability::{Capability, Family, HostError, Target};
use crate::decide::{Decision, Denial, DenialCode, Permit, Request, decide};
use crate::manifest::{ArgumentRule, Step};
use crate::policy::Policy;
use crate::run::risk_denial;
use sbx_platform::path::{normalize, resolve};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Who calls what, and where a relative path would lead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'c> {
    /// Whose authority.
    pub(crate) policy: &'c Policy,
    /// The tool's name.
    pub(crate) tool: &'c str,
    /// The server's working directory.
    pub(crate) cwd: &'c Path,
}

impl<'c> Caller<'c> {
    /// Puts the arguments that a rule names before `decide`.
    pub(crate) fn judge(&self, rule: &ArgumentRule, arguments: &Json<'_>) -> Result<(), Box<Denial>> {
        for request in self.requests(rule, arguments)? {
            self.decide(&request)?;
        }
        Ok(())
    }

    /// What the arguments that a rule names ask for.
    pub(crate) fn requests(
        &self,
        rule: &ArgumentRule,
        arguments: &Json<'_>,
    ) -> Result<Vec<Request>, Box<Denial>> {
        let mut found = Vec::new();
        self.find(&rule.argument.0, arguments, &mut found).map_err(|what| self.invalid(rule, &what))?;
        let asked =
            found.iter().flat_map(|value| rule.capabilities.iter().map(move |asked| (*asked, *value)));
        asked
            .map(|(capability, value)| {
                self.request(capability, value).map_err(|what| self.invalid(rule, &what))
            })
            .collect()
    }

    /// The answer to a request, the risk layer's included; what cannot be loaded is a no.
    pub(crate) fn decide<'r>(&self, request: &'r Request) -> Result<Permit<'r>, Box<Denial>>
    where
        'c: 'r,
    {
        let permit = match decide(self.policy, request) {
            Decision::Deny(denial) => return Err(denial),
            Decision::Allow(permit) => permit,
        };
        match risk_denial(self.policy, self.cwd, request) {
            Ok(None) => Ok(permit),
            Ok(Some(denial)) => Err(Box::new(denial)),
            Err(error) => Err(self.refuse(error.to_string())),
        }
    }

    /// A no to the whole call.
    pub(crate) fn refuse(&self, message: impl Into<String>) -> Box<Denial> {
        Box::new(Denial::of_tool(DenialCode::InvalidParams, self.policy.agent(), self.tool, message))
    }

    fn invalid(&self, rule: &ArgumentRule, what: &str) -> Box<Denial> {
        let mut denial = self.refuse(format!("the argument {} of {}: {what}", rule.argument, self.tool));
        denial.request = json!({ "tool": self.tool, "argument": rule.argument.to_string() });
        denial
    }

    /// Follows the steps of a rule; what is not there asks for nothing.
    fn find<'j, 'l>(
        &self,
        steps: &[Step],
        value: &'j Json<'l>,
        found: &mut Vec<&'j Json<'l>>,
    ) -> Result<(), String> {
        let Some((step, rest)) = steps.split_first() else {
            // Nothing was given.
            found.extend(Some(value).filter(|value| !matches!(value, Json::Null)));
            return Ok(());
        };
        match (step, value) {
            (_, Json::Null) => Ok(()),
            (Step::Key(key), Json::Map(members)) => {
                if let Some(other) = lookalike(members, key) {
                    return Err(format!("some readers take `{other}` for `{key}`"));
                }
                match value.get(key) {
                    Some(value) => self.find(rest, value, found),
                    None => Ok(()),
                }
            }
            (Step::Items, Json::List(items)) => {
                items.iter().try_for_each(|item| self.find(rest, item, found))
            }
            (Step::Key(key), _) => Err(format!("there is no `{key}` in what is not an object")),
            (Step::Items, _) => Err("it is not a list".to_owned()),
        }
    }

    fn request(&self, capability: Capability, value: &Json<'_>) -> Result<Request, String> {
        let request = match (capability.family(), value) {
            (_, Json::Text(text)) if text.contains('\0') => return Err("it holds a NUL".to_owned()),
            (Family::Fs, Json::Text(text)) => {
                let asked = self.path(text)?;
                let target = resolve(&asked).unwrap_or_else(|_| normalize(&asked));
                Request::resolved_path(capability, normalize(&asked), target)
            }
            (Family::Net, Json::Text(text)) => Request::target(
                capability,
                if text.contains("://") { Target::from_url(text) } else { bare_target(text)? },
            ),
            (Family::Proc, Json::Text(text)) if capability == Capability::ProcEval => {
                Request::eval(text.as_ref()).map_err(|error| error.to_string())?.in_dir(self.cwd)
            }
            (Family::Proc, Json::Text(text)) => {
                Request::exec([OsString::from(text.as_ref())]).in_dir(self.cwd)
            }
            (Family::Proc, Json::List(words)) if capability == Capability::ProcExec => {
                let words: Option<Vec<OsString>> =
                    words.iter().map(|word| word.text().map(OsString::from)).collect();
                Request::exec(words.ok_or("it is not a list of words")?).in_dir(self.cwd)
            }
            _ => return Err("it is not a string".to_owned()),
        };
        Ok(request.by_tool(self.tool))
    }

    /// Where a path leads that a server is given.
    fn path(&self, text: &str) -> Result<PathBuf, String> {
        if is_read_differently(text) {
            return Err(
                "some read it as another path than it says; with `./` before it, it is one of this directory"
                    .into(),
            );
        }
        let text = match text.get(..5) {
            Some(scheme) if scheme.eq_ignore_ascii_case("file:") => {
                let rest = &text[5..];
                if rest.contains(['?', '#', '\\']) {
                    return Err(
                        "some end a file's URL at `?` or `#`, or take `\\` for `/`; write %3F, %23, %5C"
                            .into(),
                    );
                }
                let rest = rest.strip_prefix("//localhost").or(rest.strip_prefix("//")).unwrap_or(rest);
                percent_decoded(rest).filter(|path| path.starts_with('/')).ok_or("it is not a local file")?
            }
            _ => text.to_owned(),
        };
        let home = &self.policy.facts().home;
        Ok(match text.strip_prefix('~') {
            Some("") => home.clone(),
            Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            _ => self.cwd.join(text),
        })
    }
}

/// Schemes that browsers and servers know without slashes behind them.
const SLASHLESS: [&str; 6] = ["http", "https", "ws", "wss", "ftp", "file"];

/// A host without a scheme, perhaps with a port. What some reader would take for a URL is none.
fn bare_target(text: &str) -> Result<Result<Target, HostError>, String> {
    let Some((scheme, rest)) = text.split_once(':') else { return Ok(Target::parse(text)) };
    let is_port = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let known = SLASHLESS.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if is_scheme(scheme) && (known || !is_port) {
        return Err("some read it as a URL, which has `://`".to_owned());
    }
    Ok(Target::parse(text))
}

/// Whether a text can be a URL's scheme.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-'))
}

/// Whether some trim, expand or decode such a path before they open it, and others do not.
fn is_read_differently(text: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control();
    let home = text.strip_prefix('~').is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let scheme =
        text.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| scheme.len() > 1 && is_scheme(scheme));
    text.starts_with(odd)
        || text.ends_with(odd)
        || text.contains(char::is_control)
        || text.starts_with(['$', '%'])
        || home
        || scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case("file"))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let hex = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(hex, 16).ok().filter(|byte| *byte != 0)?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use crate::capability::Spec;
    use crate::manifest::ArgumentPath;

    fn judged(rule: &str, capability: &str, arguments: &str) -> String {
        let specs = ["fs.read{in=/w}", "net.get{hosts=[a.example]}", "proc.exec{in=/w,cmds=[git]}"];
        let specs = specs.map(|spec| Spec::parse(spec).unwrap());
        let policy = Policy::from_specs("me", &specs, &Facts::new("/home/u")).unwrap();
        let rule = ArgumentRule {
            tool: "t".to_owned(),
            argument: ArgumentPath::parse(rule).unwrap(),
            capabilities: vec![Capability::from_name(capability).unwrap()],
        };
        let caller = Caller { policy: &policy, tool: "t", cwd: Path::new("/w") };
        let arguments = Json::read(arguments).unwrap();
        caller
            .judge(&rule, &arguments)
            .map_or_else(|denial| denial.code.name().to_owned(), |()| "fine".into())
    }

    #[test]
    fn paths_are_followed_to_where_they_lead() {
        for (arguments, answer) in [
            (r#"{"p":"a.txt"}"#, "fine"),
            (r#"{"p":"/w/a"}"#, "fine"),
            (r#"{"p":"file:///w/a%20b"}"#, "fine"),
            (r#"{}"#, "fine"),
            (r#"{"p":null}"#, "fine"),
            (r#"{"p":"../etc/passwd"}"#, "scope_violation"),
            (r#"{"p":"/w/../etc/passwd"}"#, "scope_violation"),
            (r#"{"p":"file:///w/%2e%2e/etc"}"#, "scope_violation"),
            (r#"{"p":"~/x"}"#, "scope_violation"),
            (r#"{"p":"file://host/w/a"}"#, "invalid_params"),
            (r#"{"p":"file:///w/a%3Fb%23c"}"#, "fine"),
            (r#"{"p":"file:///etc/passwd#/../../w/x"}"#, "invalid_params"),
            (r#"{"p":"file:/etc/passwd?/../../w/x"}"#, "invalid_params"),
            (r#"{"p":"file:/w\\..\\..\\etc"}"#, "invalid_params"),
            (r#"{"p":"file://localhost/etc/passwd?/../../w/x"}"#, "invalid_params"),
            (r#"{"p":["/w/a"]}"#, "invalid_params"),
            (r#"{"p":7}"#, "invalid_params"),
            (r#"{"p":"/w/a\u0000"}"#, "invalid_params"),
            (r#"{"P":"/etc/passwd"}"#, "invalid_params"),
        ] {
            assert_eq!(judged("p", "fs.read", arguments), answer, "{arguments}");
        }
    }

    #[test]
    fn an_odd_path_is_odd_whether_or_not_there_is_such_a_file() {
        let dir = std::env::temp_dir().join(format!("sbx-odd-{}", std::process::id()));
        let policy =
            Policy::from_specs("me", &[Spec::parse("fs.read{in=/}").unwrap()], &Facts::new("/home/u"));
        let (policy, odd) = (policy.unwrap(), ["~root/.ssh/id", " /etc/passwd", "$HOME/x", "%2fetc"]);
        let caller = Caller { policy: &policy, tool: "t", cwd: &dir };
        for text in odd {
            std::fs::create_dir_all(dir.join(text)).unwrap();
            assert!(caller.path(text).is_err(), "{text}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn every_item_of_a_list_counts() {
        assert_eq!(judged("f[].p", "fs.read", r#"{"f":[{"p":"a"},{"p":"b"}]}"#), "fine");
        assert_eq!(judged("f[].p", "fs.read", r#"{"f":[{"p":"a"},{"p":"/etc"}]}"#), "scope_violation");
        assert_eq!(judged("f[].p", "fs.read", r#"{"f":{"p":"/etc"}}"#), "invalid_params");
        assert_eq!(judged("f[]", "fs.write", r#"{"f":["a"]}"#), "capability_absent");
    }

    #[test]
    fn hosts_and_commands_are_asked_about_too() {
        assert_eq!(judged("u", "net.get", r#"{"u":"https://a.example/x"}"#), "fine");
        assert_eq!(judged("u", "net.get", r#"{"u":"https://a.example@b.example/"}"#), "scope_violation");
        assert_eq!(judged("u", "net.get", r#"{"u":"http://0x7f000001/"}"#), "scope_violation");
        for text in ["a.example", "a.example:443", "user@a.example"] {
            assert_eq!(judged("u", "net.get", &json!({ "u": text }).to_string()), "fine", "{text}");
        }
        for text in [
            "https:evil.com?@a.example",
            "https:/evil.com/@a.example",
            "https:evil.com#@a.example",
            "https:evil.com@a.example",
            "https:\\\\evil.com?@a.example",
            "https:443",
            "//evil.com?@a.example",
            "//a.example",
            "evil.com/@a.example",
            "evil.com:443?@a.example",
            "evil.com:443@a.example",
            "mailto:a@a.example",
        ] {
            let answer = judged("u", "net.get", &json!({ "u": text }).to_string());
            assert!(["invalid_params", "scope_violation"].contains(&answer.as_str()), "{text}: {answer}");
        }
        assert_eq!(judged("c", "proc.exec", r#"{"c":["git","log"]}"#), "fine");
        assert_eq!(judged("c", "proc.exec", r#"{"c":"rm"}"#), "scope_violation");
        assert_eq!(judged("c", "proc.eval", r#"{"c":"git log"}"#), "capability_absent");
    }

    #[test]
    fn shell_text_is_looked_at_for_danger() {
        let specs = [Spec::parse("proc.eval{in=/w}").unwrap()];
        let policy = Policy::from_specs("me", &specs, &Facts::new("/home/u")).unwrap();
        let rule = ArgumentRule {
            tool: "t".to_owned(),
            argument: ArgumentPath::parse("c").unwrap(),
            capabilities: vec![Capability::ProcEval],
        };
        let caller = Caller { policy: &policy, tool: "t", cwd: Path::new("/w") };
        let judged = |text: &str| caller.judge(&rule, &Json::read(text).unwrap());
        judged(r#"{"c":"git log; echo reboot"}"#).unwrap();
        let denial = judged(r#"{"c":"cd / && sudo rm -rf ."}"#).unwrap_err();
        assert_eq!(denial.code, DenialCode::RiskDenied);
        assert_eq!(denial.tool.as_deref(), Some("t"));
        assert_eq!(denial.assessment.unwrap()["matched_rules"][0]["id"], "fs:recursively_delete");
        assert_eq!(judged(r#"{"c":"echo 'open"}"#).unwrap_err().code, DenialCode::CommandNotUnderstood);
    }
}
