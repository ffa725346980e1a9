//! `http_request`: one request, and the redirects that lead on from it, each asked for anew.
//!
//! Invariant: a redirect is a new request to whoever it names; nothing that was allowed for one host holds for another.

use super::Reply;
use super::arguments::{Arguments, encoded, invalid};
use super::cancel::Cancel;
use super::context::Context;
use super::fault::{Fault, FaultCode};
use super::judge::judge;
use crate::capability::Target;
use crate::decide::Request;
use crate::net::{Fetch, FetchError, Fetched, Fetcher};
use crate::profile::verb_of;
use crate::run::fetcher;
use serde_json::{Map, Value, json};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The most bytes of a body, either way.
const MOST: u64 = 8 << 20;
/// How much of an answer is told by default.
const USUAL: u64 = 1 << 20;
/// The most redirects that are followed.
const REDIRECTS: u64 = 10;
/// The most header lines, and bytes in them.
const HEADERS: (usize, usize) = (64, 16 << 10);
/// The longest URL.
const URL: usize = 8192;
/// Headers that carry the message, and are written by whoever sends it.
const CARRYING: &[&str] = &[
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "keep-alive",
    "accept-encoding",
    "http2-settings",
];
/// Headers that are for one host and are not taken to another.
const PERSONAL: &[&str] = &["authorization", "cookie", "x-api-key"];

/// A URL in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    secure: bool,
    target: Target,
    /// Host and port as written.
    authority: String,
    path: String,
}

/// Makes a request.
pub(super) fn request(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let method = arguments.text("method")?.unwrap_or("GET").to_ascii_uppercase();
    let url = arguments.needed("url")?;
    let follow = arguments.number("redirects", 0, REDIRECTS)?.unwrap_or(5);
    let most = arguments.number("max_bytes", 0, MOST)?.unwrap_or(USUAL);
    let millis = arguments.number("timeout_ms", 1, 120_000)?.unwrap_or(30_000);
    let wanted = arguments.text("response_encoding")?;
    let body = arguments.has("body").then(|| arguments.content("body")).transpose()?;
    if body.as_ref().is_some_and(|body| body.len() as u64 > MOST) {
        let message = format!("the body is larger than {} MiB", MOST >> 20);
        return Err(Fault::new(FaultCode::TooLarge, message).into());
    }
    if body.is_some() && matches!(method.as_str(), "GET" | "HEAD") {
        return Err(invalid(format!("{method} takes no body")).into());
    }
    // What cannot be read as a URL is for `decide` to refuse, as everywhere.
    let place = match Place::parse(url) {
        Ok(place) => place,
        Err(fault) => {
            judge(context, &Request::url(&method, url).by_tool("http_request"))?;
            return Err(fault.into());
        }
    };
    judge(context, &place.request(&method))?;
    let until = Instant::now() + Duration::from_millis(millis);
    let fetch = Fetch {
        method,
        secure: place.secure,
        target: place.target.clone(),
        path: place.path.clone(),
        headers: headers(arguments)?,
        body,
        most: usize::try_from(most).unwrap_or(usize::MAX),
        time: Duration::from_millis(millis),
    };
    let (fetched, last, hops) = follow_on(fetch, place, follow, until, context, cancel)?;
    told(fetched, &last, hops, wanted).map_err(Reply::Failed)
}

/// Asks, and asks on where the answer says so.
fn follow_on(
    mut fetch: Fetch,
    mut place: Place,
    follow: u64,
    until: Instant,
    context: &Context,
    cancel: &Cancel,
) -> Result<(Fetched, Place, Vec<String>), Reply> {
    let fetcher = fetcher_of(context)?;
    let mut hops = Vec::new();
    loop {
        fetch.time = until.saturating_duration_since(Instant::now());
        let fetched =
            fetcher.fetch(&fetch, &|| cancel.is_cancelled()).map_err(|error| failed(error, &place))?;
        let next = location(&fetched).filter(|_| (hops.len() as u64) < follow);
        let Some(next) = next.map(|next| place.leads_to(&next)).transpose()? else {
            return Ok((fetched, place, hops));
        };
        hops.push(place.to_string());
        let becomes_get = match fetched.status {
            303 => fetch.method != "HEAD",
            301 | 302 => fetch.method == "POST",
            _ => false,
        };
        if becomes_get {
            fetch.method = "GET".to_owned();
            fetch.body = None;
            fetch.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
        }
        judge(context, &next.request(&fetch.method))?;
        if (next.secure, &next.target) != (place.secure, &place.target) {
            fetch.headers.retain(|(name, _)| !PERSONAL.contains(&name.to_ascii_lowercase().as_str()));
        }
        (fetch.secure, fetch.target, fetch.path) = (next.secure, next.target.clone(), next.path.clone());
        place = next;
    }
}

/// What makes requests for this agent, made when it is first needed.
fn fetcher_of(context: &Context) -> Result<Arc<Fetcher>, Fault> {
    let mut kept = context.fetcher.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(fetcher) = kept.as_ref() {
        return Ok(fetcher.clone());
    }
    let made = fetcher(&context.policy, context.audit()).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
        Fault::new(FaultCode::Failed, format!("{error}{cause}"))
    })?;
    Ok(kept.insert(Arc::new(made)).clone())
}

fn failed(error: FetchError, place: &Place) -> Reply {
    Reply::Failed(match error {
        FetchError::Denied(denial) => return Reply::Denied(Box::new((*denial).by("http_request"))),
        FetchError::Cancelled => Fault::new(FaultCode::Cancelled, "the operation was called off"),
        FetchError::TimedOut => Fault::new(FaultCode::TimedOut, format!("{place} took too long")),
        FetchError::Failed(error) => {
            Fault::new(FaultCode::Unreachable, format!("cannot get an answer from {place}: {error}"))
        }
    })
}

/// Where an answer leads on to.
fn location(fetched: &Fetched) -> Option<String> {
    if !matches!(fetched.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let (_, value) = fetched.headers.iter().find(|(name, _)| name == "location")?;
    String::from_utf8(value.clone()).ok()
}

impl Place {
    fn parse(url: &str) -> Result<Self, Fault> {
        let not = |why: &str| invalid(format!("`{}` {why}", url.chars().take(200).collect::<String>()));
        if url.len() > URL {
            return Err(not("is too long"));
        }
        let target = Target::from_url(url).map_err(|error| invalid(error.to_string()))?;
        let (scheme, rest) = url.split_once("://").ok_or_else(|| not("is not a URL"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(not("is neither http nor https")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(not("carries credentials; give a header instead"));
        }
        if !path.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
            return Err(not("has characters that belong encoded"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { secure, target, authority: authority.to_owned(), path })
    }

    /// What a `Location` means from here.
    fn leads_to(&self, location: &str) -> Result<Self, Fault> {
        let scheme = if self.secure { "https" } else { "http" };
        let here = format!("{scheme}://{}", self.authority);
        let plain = self.path.split('?').next().unwrap_or("/");
        let url = match location {
            absolute if absolute.contains("://") && !absolute.starts_with(['/', '?', '#']) => {
                absolute.to_owned()
            }
            other if other.starts_with("//") => format!("{scheme}:{other}"),
            path if path.starts_with('/') => format!("{here}{path}"),
            query if query.starts_with('?') => format!("{here}{plain}{query}"),
            name => {
                let above = plain.rsplit_once('/').map_or("", |(above, _)| above);
                format!("{here}{above}/{name}")
            }
        };
        Self::parse(&url).map_err(|fault| {
            Fault::new(FaultCode::Unreachable, format!("{self} leads on to nowhere: {}", fault.message))
        })
    }

    fn request(&self, method: &str) -> Request {
        let request = match verb_of(method, &self.path) {
            None => Request::net(method, Ok(self.target.clone())),
            Some(verb) => Request::target(verb, Ok(self.target.clone())),
        };
        request.by_tool("http_request")
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// The headers a caller gives, with those that are usual.
fn headers(arguments: &Arguments<'_>) -> Result<Vec<(String, String)>, Fault> {
    let empty = Map::new();
    let given = match arguments.value("headers") {
        None => &empty,
        Some(value) => value.as_object().ok_or_else(|| invalid("`headers` is not an object"))?,
    };
    let mut lines = Vec::new();
    for (name, value) in given {
        let value = value.as_str().ok_or_else(|| invalid(format!("the header `{name}` is not a string")))?;
        let lower = name.to_ascii_lowercase();
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(invalid(format!("`{name}` is not the name of a header")));
        }
        if CARRYING.contains(&lower.as_str()) || lower.starts_with("proxy-") || lower.starts_with("x-sbx") {
            return Err(invalid(format!("the header `{name}` is written by sbx")));
        }
        if !value.bytes().all(|byte| byte == b'\t' || (0x20..=0x7e).contains(&byte)) {
            return Err(invalid(format!("the header `{name}` holds something that is not plain text")));
        }
        lines.push((name.clone(), value.to_owned()));
    }
    let usual = [
        ("Accept", "*/*"),
        ("Accept-Encoding", "identity"),
        ("User-Agent", concat!("sbx/", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in usual {
        if !lines.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            lines.push((name.to_owned(), value.to_owned()));
        }
    }
    let size: usize = lines.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if lines.len() > HEADERS.0 || size > HEADERS.1 {
        return Err(invalid("there are too many headers, or too much in them"));
    }
    Ok(lines)
}

fn told(fetched: Fetched, last: &Place, hops: Vec<String>, wanted: Option<&str>) -> Result<Value, Fault> {
    let mut headers = Map::new();
    for (name, value) in &fetched.headers {
        let value = String::from_utf8_lossy(value);
        let joined = match headers.get(name).and_then(Value::as_str) {
            Some(before) => format!("{before}, {value}"),
            None => value.into_owned(),
        };
        headers.insert(name.clone(), json!(joined));
    }
    let mut body = fetched.body;
    if fetched.truncated
        && let Err(error) = std::str::from_utf8(&body)
        && error.error_len().is_none()
    {
        // A character that was cut in half is no reason to take text for something else.
        body.truncate(error.valid_up_to());
    }
    let (encoding, content) = encoded(body, wanted)?;
    Ok(json!({
        "status": fetched.status,
        "url": last.to_string(),
        "redirected_from": hops,
        "headers": headers,
        "body": content,
        "encoding": encoding,
        "truncated": fetched.truncated,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_understood_from_where_it_was_given() {
        let here = Place::parse("https://a.example:8443/x/y?z").unwrap();
        for (location, meant) in [
            ("/other", "https://a.example:8443/other"),
            ("w", "https://a.example:8443/x/w"),
            ("?q", "https://a.example:8443/x/y?q"),
            ("//b.example/p", "https://b.example/p"),
            ("http://b.example", "http://b.example/"),
            ("HTTP://b.example/#f", "http://b.example/"),
        ] {
            assert_eq!(here.leads_to(location).unwrap().to_string(), meant, "{location}");
        }
        for bad in
            ["ftp://b.example/", "http://u:p@b.example/", "http://b.example/\r\nx", "file:///etc/passwd"]
        {
            assert!(here.leads_to(bad).is_err(), "{bad}");
        }
    }
}
