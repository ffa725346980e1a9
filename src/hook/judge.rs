//! What a call would do, decided.
//!
//! Invariant: silence only for a call every part of which was understood and allowed, or that touches nothing. A server's
//! tool is held by the fence of its server; here it passes by what the record says of tools, and is recorded.

use super::call::Call;
use super::clients::Client;
use super::fence::Fence;
use super::{glob, patch, plain, tree};
use crate::audit::Event;
use crate::capability::{Capability, Spec, is_cut_by_some};
use crate::decide::{Denial, DenialCode, Request};
use crate::manifest::{ArgumentPath, ArgumentRule};
use crate::mcp::protocol::{Json, lookalike};
use crate::mcp::{Caller, action};
use crate::policy::Policy;
use crate::profile::{HookTool, hook_tool};
use crate::run::{allowed, denied};
use crate::tool::{Allowlist, offers};
use sbx_platform::path::resolve;
use serde_json::json;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// What becomes of a call.
#[derive(Debug)]
pub(super) enum Verdict<'j> {
    /// Nothing speaks against it; nothing is said for it either.
    Silent,
    /// It is made with these arguments instead.
    Rewrite(Json<'j>),
    /// It is not made.
    Deny(Box<Denial>),
}

/// A verdict, and what is to be recorded before it is told.
#[derive(Debug)]
pub(super) struct Judged<'j> {
    pub(super) verdict: Verdict<'j>,
    pub(super) events: Vec<Event>,
}

/// Who judges calls.
#[derive(Debug)]
pub(super) struct Judge<'h> {
    pub(super) client: Client,
    pub(super) policy: &'h Policy,
    /// Where the client works.
    pub(super) dir: &'h Path,
    pub(super) fence: &'h Fence,
    /// Unknown tools that pass.
    pub(super) pass: &'h [String],
}

impl Judge<'_> {
    /// Judges a call.
    pub(super) fn judge<'j>(&self, call: &Call<'j>) -> Judged<'j> {
        let mut events = Vec::new();
        let verdict = self.verdict(call, &mut events).unwrap_or_else(|denial| {
            events.push(denied(&denial));
            Verdict::Deny(denial)
        });
        for event in &mut events {
            event.body.insert("client".to_owned(), self.client.name().into());
            event.body.insert("tool".to_owned(), call.tool.as_ref().into());
        }
        Judged { verdict, events }
    }

    fn verdict<'j>(&self, call: &Call<'j>, events: &mut Vec<Event>) -> Result<Verdict<'j>, Box<Denial>> {
        let caller = Caller { policy: self.policy, tool: &call.tool, cwd: self.dir };
        if let Some(tool) = call.served.first() {
            events.push(self.served(tool, &call.served, &call.input)?);
            return Ok(Verdict::Silent);
        }
        let known: Vec<HookTool> = hook_tool(self.client.name(), &call.tool).collect();
        if known.is_empty() {
            return if self.passes(&call.tool) { Ok(Verdict::Silent) } else { Err(self.unknown(&call.tool)) };
        }
        if let Some(shell) = known.iter().find(|row| row.meaning == "shell") {
            return self.shell(call, shell.argument, &known, events);
        }
        let (mut asked, mut placed) = (Vec::new(), false);
        for row in &known {
            let more = self.requests(caller, row, call)?;
            placed |= row.meaning != "glob" && !more.is_empty();
            asked.extend(more);
        }
        let nothing = known.iter().all(|row| row.meaning == "none" || row.meaning.starts_with("provider "));
        // A search that is told no place starts where the client works, whatever else its patterns name.
        if !placed && known.iter().any(|row| row.argument == ".") && self.stays(caller, &known, call)? {
            asked.push(at(Capability::FsRead, self.dir));
        }
        if asked.is_empty() && !nothing {
            let names: Vec<&str> = known.iter().map(|row| row.argument).collect();
            return Err(caller.refuse(format!(
                "{} has none of the arguments {}",
                call.tool,
                names.join(", ")
            )));
        }
        let searches = known.iter().any(|row| row.meaning == "tree");
        for request in &asked {
            events.push(allowed(&caller.decide(request)?));
            if searches {
                tree::readable(self.policy, &call.tool, request)?;
            }
        }
        Ok(Verdict::Silent)
    }

    /// Whether some pattern of a call does not say where it looks, or there is none.
    fn stays(&self, caller: Caller<'_>, known: &[HookTool], call: &Call<'_>) -> Result<bool, Box<Denial>> {
        let mut patterns = Vec::new();
        for row in known.iter().filter(|row| row.meaning == "glob") {
            patterns.extend(self.texts(caller, row.argument, &call.input)?);
        }
        Ok(patterns.is_empty() || patterns.iter().any(|pattern| glob::place(pattern).is_none()))
    }

    /// What an argument asks for.
    fn requests(
        &self,
        caller: Caller<'_>,
        row: &HookTool,
        call: &Call<'_>,
    ) -> Result<Vec<Request>, Box<Denial>> {
        if row.argument == "." {
            return Ok(Vec::new());
        }
        let texts = || self.texts(caller, row.argument, &call.input);
        Ok(match row.meaning {
            "none" | "dir" => Vec::new(),
            "glob" => texts()?
                .iter()
                .filter_map(|text| glob::place(text))
                .map(|place| at(Capability::FsRead, &place))
                .collect(),
            "patch" => {
                let mut asked = Vec::new();
                for text in texts()? {
                    let files =
                        patch::named(&text).ok_or_else(|| caller.refuse("this patch is not understood"))?;
                    asked.extend(files.into_iter().map(|(verb, file)| at(verb, &self.dir.join(file))));
                }
                asked
            }
            "urls" => {
                let texts = texts()?;
                let urls = texts.iter().flat_map(|text| urls(text));
                urls.map(|url| Request::url("GET", url)).collect()
            }
            meaning => match meaning.strip_prefix("provider ") {
                Some(tool) => return self.provided(tool, call).map(|()| Vec::new()),
                None => {
                    let capability = if meaning == "tree" { "fs.read" } else { meaning };
                    caller.requests(&rule(row.argument, capability, &call.tool), &call.input)?
                }
            },
        })
    }

    /// Every string that an argument holds.
    fn texts(
        &self,
        caller: Caller<'_>,
        argument: &str,
        input: &Json<'_>,
    ) -> Result<Vec<String>, Box<Denial>> {
        // Asked about as commands only to have them found and checked in the same way.
        let found = caller.requests(&rule(argument, "proc.exec", caller.tool), input)?;
        let text = |request: &Request| match request.subject() {
            crate::decide::Subject::Command { argv, .. } => {
                argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
            }
            _ => Vec::new(),
        };
        Ok(found.iter().flat_map(text).collect())
    }

    /// Shell text: decided, and led through the fence unless it is there already.
    fn shell<'j>(
        &self,
        call: &Call<'j>,
        argument: &str,
        known: &[HookTool],
        events: &mut Vec<Event>,
    ) -> Result<Verdict<'j>, Box<Denial>> {
        let dir = self.shell_dir(call, known)?;
        let caller = Caller { policy: self.policy, tool: &call.tool, cwd: &dir };
        let command = one_text(caller, argument, &call.input)?;
        if let Some(argv) = self.fence.inside_exec(&command) {
            let request = Request::exec(argv).in_dir(&dir).by_tool(call.tool.as_ref());
            events.push(allowed(&caller.decide(&request)?));
            return Ok(Verdict::Silent);
        }
        let inside = self.fence.inside(&command);
        let text = inside.as_deref().unwrap_or(&command);
        let request = Request::eval(text).map_err(|error| caller.refuse(error.to_string()))?;
        let request = request.in_dir(&dir).by_tool(call.tool.as_ref());
        let fenced = match caller.decide(&request) {
            Ok(permit) => {
                events.push(allowed(&permit));
                self.fence.eval(text)
            }
            // A command of nothing but words needs no shell.
            Err(denial) => {
                let argv = plain::words(text).filter(|_| is_scope(&denial)).ok_or(denial)?;
                let request = Request::exec(&argv).in_dir(&dir).by_tool(call.tool.as_ref());
                events.push(allowed(&caller.decide(&request)?));
                self.fence.exec(&argv)
            }
        };
        if inside.is_some() {
            return Ok(Verdict::Silent);
        }
        if !call.changeable {
            events.clear();
            let message = format!("{} runs this command outside of the fence", self.client);
            let mut denial =
                Denial::of_tool(DenialCode::ToolNotAllowed, self.policy.agent(), &call.tool, message);
            denial.hint = Some(format!("run this instead: {fenced}"));
            return Err(Box::new(denial));
        }
        Ok(Verdict::Rewrite(call.with(argument, fenced)))
    }

    /// Where the client would run shell text.
    fn shell_dir(&self, call: &Call<'_>, known: &[HookTool]) -> Result<PathBuf, Box<Denial>> {
        let caller = Caller { policy: self.policy, tool: &call.tool, cwd: self.dir };
        let mut dir = self.dir.to_path_buf();
        for row in known.iter().filter(|row| row.meaning == "dir") {
            for text in self.texts(caller, row.argument, &call.input)?.iter().filter(|text| !text.is_empty())
            {
                dir = self.dir.join(text);
            }
        }
        Ok(resolve(&dir).unwrap_or(dir))
    }

    /// A tool of a server: the record's allowlist and argument rules speak of it too. Where the client does not say
    /// where the server's name ends, the list must have the longest name, and every name's rules hold.
    fn served(&self, tool: &str, names: &[Cow<'_, str>], input: &Json<'_>) -> Result<Event, Box<Denial>> {
        let section = self.policy.sections().mcp.as_ref();
        let caller = Caller { policy: self.policy, tool, cwd: self.dir };
        if is_cut_by_some(tool) {
            return Err(caller.refuse("some readers would take its name for another"));
        }
        let list = section.map(|section| Allowlist::new(section, &[])).unwrap_or_default();
        let named = list.action_argument(tool).map(|argument| action(Some(input), argument));
        let action = named.transpose().map_err(|what| caller.refuse(what))?.flatten();
        if !list.allows(tool, action) {
            return Err(Box::new(list.denial(self.policy.agent(), tool, action)));
        }
        let rules = section.into_iter().flat_map(|section| &section.arguments);
        for rule in rules.filter(|rule| names.iter().any(|name| rule.is_about(name))) {
            caller.judge(rule, input)?;
        }
        let body = json!({ "decision": "allow", "served": tool, "action": action });
        Ok(Event::new("mcp", self.policy.agent(), body))
    }

    /// A tool that runs on the provider's side.
    fn provided(&self, named: &str, call: &Call<'_>) -> Result<(), Box<Denial>> {
        let (provider, tool) = named.split_once('/').unwrap_or((named, ""));
        let offer =
            offers(self.policy).into_iter().find(|offer| offer.provider == provider && offer.tool == tool);
        match offer {
            // What is narrowed to domains cannot be narrowed from here.
            Some(offer) if offer.offered && offer.allowed_domains.is_none() => Ok(()),
            offer => {
                let held = offer.as_ref().is_some_and(|offer| offer.offered);
                let code = if held { DenialCode::ScopeViolation } else { DenialCode::CapabilityAbsent };
                let agent = self.policy.agent();
                let message = format!("{agent} may not use {}, which runs on the provider's side", call.tool);
                let mut denial = Denial::of_tool(code, agent, &call.tool, message);
                denial.hint = offer.and_then(|offer| offer.notes.last().cloned());
                if provider != "gemini" {
                    denial.suggested_grant = Spec::parse("net.get{hosts=[*]}").ok();
                }
                Err(Box::new(denial))
            }
        }
    }

    fn passes(&self, tool: &str) -> bool {
        self.pass.iter().any(|name| name == "*" || name == tool)
    }

    fn unknown(&self, tool: &str) -> Box<Denial> {
        let message = format!("sbx does not know what the tool {tool} of {} does", self.client);
        let mut denial = Denial::of_tool(DenialCode::UnknownTool, self.policy.agent(), tool, message);
        denial.hint =
            Some(format!("if it is harmless, let it pass: sbx hook {} … --pass {tool}", self.client));
        Box::new(denial)
    }
}

/// Whether a denial is for want of a grant, and not for what the text does.
fn is_scope(denial: &Denial) -> bool {
    matches!(denial.code, DenialCode::CapabilityAbsent | DenialCode::ScopeViolation)
}

fn rule(argument: &str, capability: &str, tool: &str) -> ArgumentRule {
    ArgumentRule {
        tool: tool.to_owned(),
        argument: ArgumentPath::parse(argument).unwrap_or(ArgumentPath(Vec::new())),
        capabilities: Capability::from_name(capability).into_iter().collect(),
    }
}

/// A request for a path, links followed.
fn at(capability: Capability, path: &Path) -> Request {
    let target = resolve(path).unwrap_or_else(|_| path.to_path_buf());
    Request::resolved_path(capability, path.to_path_buf(), target)
}

/// The one string of an argument.
fn one_text(caller: Caller<'_>, argument: &str, input: &Json<'_>) -> Result<String, Box<Denial>> {
    if let Some(other) = input.members().and_then(|members| lookalike(members, argument)) {
        return Err(caller.refuse(format!("some readers take `{other}` for `{argument}`")));
    }
    match input.get(argument) {
        Some(Json::Text(text)) if !text.contains('\0') => Ok(text.clone().into_owned()),
        _ => Err(caller.refuse(format!("{} has no text `{argument}`", caller.tool))),
    }
}

/// The URLs in a text.
fn urls(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("://").map(|(at, _)| {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        text[..at]
            .rfind(|c| !word(c))
            .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8))
    });
    starts.map(|start| {
        let rest = &text[start..];
        &rest[..rest
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`'))
            .unwrap_or(rest.len())]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_found_in_text() {
        let text = "sum up https://a.example/x?y=1, and <http://b.example> and file:///etc/passwd (HTTPS://C.example)";
        let found: Vec<&str> = urls(text).collect();
        assert_eq!(
            found,
            ["https://a.example/x?y=1,", "http://b.example", "file:///etc/passwd", "HTTPS://C.example)"]
        );
    }
}
