//! Requests as JSON: what `sbx check` reads, one object a line.

use super::{AskError, Request};
use crate::capability::{Capability, Family, Target};
use crate::manifest::{Facts, bears_authority, spec_from_json};
use crate::policy::Proposal;
use sbx_platform::path::normalize;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The keys a request may have; anything else is a mistake worth telling.
pub(crate) const KEYS: &[&str] = &[
    "cap",
    "capability",
    "path",
    "target",
    "host",
    "port",
    "url",
    "method",
    "address",
    "argv",
    "cmd",
    "cwd",
    "id",
    "class",
    "granted",
    "root",
    "keys",
    "tool",
];

impl Request {
    /// Reads a request. `resolve` answers what a path is once links are followed.
    ///
    /// # Errors
    /// When a key is unknown, missing or of the wrong kind.
    pub fn from_json(
        value: &Value,
        facts: &Facts,
        resolve: impl Fn(&Path) -> PathBuf,
    ) -> Result<Self, AskError> {
        let object = value.as_object().ok_or_else(|| AskError::shape("a request is a JSON object"))?;
        if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(AskError::Key(key.clone()));
        }
        let fields = Fields { object, facts };
        let request = fields.request(&resolve)?;
        let request = match fields.text("cwd")? {
            Some(cwd) => request.in_dir(resolve(&fields.absolute(cwd))),
            None => request,
        };
        Ok(match fields.text("tool")? {
            Some(tool) => request.by_tool(tool),
            None => request,
        })
    }
}

struct Fields<'a> {
    object: &'a Map<String, Value>,
    facts: &'a Facts,
}

impl<'a> Fields<'a> {
    fn text(&self, key: &'static str) -> Result<Option<&'a str>, AskError> {
        match self.object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(AskError::Kind(key, "a string")),
        }
    }

    fn needed(&self, key: &'static str) -> Result<&'a str, AskError> {
        self.text(key)?.ok_or(AskError::Missing(key))
    }

    fn absolute(&self, path: &str) -> PathBuf {
        let expanded = match path.strip_prefix('~') {
            Some("") => self.facts.home.clone(),
            Some(rest) if rest.starts_with('/') => self.facts.home.join(rest.trim_start_matches('/')),
            _ => self.facts.cwd.join(path),
        };
        normalize_keeping_links(&expanded)
    }

    fn capability(&self) -> Result<Option<Capability>, AskError> {
        let Some(name) = self.text("cap")?.or(self.text("capability")?) else { return Ok(None) };
        Capability::from_name(name).map(Some).ok_or_else(|| AskError::Capability {
            name: name.to_owned(),
            suggestion: Capability::closest_name(name),
        })
    }

    fn request(&self, resolve: &impl Fn(&Path) -> PathBuf) -> Result<Request, AskError> {
        let Some(capability) = self.capability()? else {
            let url = self.text("url")?.ok_or(AskError::Missing("cap"))?;
            return self.addressed(Request::url(&self.method()?, url));
        };
        match capability.family() {
            Family::Fs => {
                let asked = self.absolute(self.needed("path")?);
                let target = match self.text("target")? {
                    Some(target) => normalize(Path::new(target)),
                    None => resolve(&asked),
                };
                Ok(Request::resolved_path(capability, normalize(&asked), target))
            }
            Family::Net => self.net(capability).and_then(|request| self.addressed(request)),
            Family::Proc if capability == Capability::ProcEval => Request::eval(self.needed("cmd")?),
            Family::Proc => Ok(Request::exec(self.argv()?)),
            Family::Records => Ok(Request::record(capability, self.text("id")?, self.text("class")?)),
            Family::Agent => self.agent(capability),
        }
    }

    fn method(&self) -> Result<String, AskError> {
        Ok(self.text("method")?.unwrap_or("GET").to_ascii_uppercase())
    }

    fn net(&self, capability: Capability) -> Result<Request, AskError> {
        if let Some(url) = self.text("url")? {
            return Ok(Request::target(capability, Target::from_url(url)));
        }
        let host = self.needed("host")?;
        let port = match self.object.get("port") {
            None | Some(Value::Null) => None,
            Some(port) => {
                let port = port.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
                Some(port.ok_or(AskError::Kind("port", "a number from 1 to 65535"))?)
            }
        };
        let target = Target::parse(host).map(|target| Target { port: port.or(target.port), ..target });
        Ok(Request::target(capability, target))
    }

    fn addressed(&self, request: Request) -> Result<Request, AskError> {
        Ok(match self.text("address")? {
            Some(ip) => {
                request.resolved_to(ip.parse().map_err(|_| AskError::Kind("address", "an IP address"))?)
            }
            None => request,
        })
    }

    fn argv(&self) -> Result<Vec<OsString>, AskError> {
        let wanted = AskError::Kind("argv", "a list of strings");
        let items =
            self.object.get("argv").ok_or(AskError::Missing("argv"))?.as_array().ok_or(wanted.clone())?;
        items.iter().map(|item| item.as_str().map(OsString::from).ok_or(wanted.clone())).collect()
    }

    /// Whether one of the record's keys that are written says what the agent may do.
    fn writes_authority(&self) -> Result<bool, AskError> {
        let wanted = AskError::Kind("keys", "a list of a record's keys");
        let keys = match self.object.get("keys").filter(|keys| !keys.is_null()) {
            None => return Ok(false),
            Some(keys) => keys.as_array().ok_or(wanted.clone())?,
        };
        let names: Option<Vec<&str>> = keys.iter().map(Value::as_str).collect();
        Ok(names.ok_or(wanted)?.into_iter().any(bears_authority))
    }

    fn agent(&self, capability: Capability) -> Result<Request, AskError> {
        let request = Request::agent(capability, self.needed("id")?);
        let request = if self.writes_authority()? { request.proposing(Proposal::default()) } else { request };
        let Some(granted) = self.object.get("granted").filter(|granted| !granted.is_null()) else {
            return Ok(request);
        };
        let list = granted.as_array().ok_or(AskError::Kind("granted", "a list of grants"))?;
        let specs: Result<Vec<_>, _> = list.iter().map(|grant| spec_from_json(grant, self.facts)).collect();
        let specs = specs
            .map_err(|error| AskError::Grant(error.problems().iter().map(|p| p.message.clone()).collect()))?;
        let root = self.text("root")?.map(|root| self.absolute(root));
        Ok(request.proposing(Proposal::new(specs).root(root)))
    }
}

/// Absolute, without `.` and doubled separators; `..` stays, because it must follow links.
fn normalize_keeping_links(path: &Path) -> PathBuf {
    path.components().collect()
}
