//! Where requests go, and what names that.
//!
//! Answers for comparing a request's target and its `Host` with the connection they came on. It leaves whether the host
//! may be reached to the authority.
//! Invariant: what names another host than its connection is not passed on.

use super::head::{Form, Malformed, RequestHead};
use crate::capability::{Host, Target};
use std::net::IpAddr;

/// Where requests of a connection go.
pub(crate) struct Route {
    /// The host and port.
    pub(crate) target: Target,
    /// Other names under which the same host may be addressed.
    pub(crate) aliases: Vec<Host>,
    /// Whether this goes over verified TLS.
    pub(crate) secure: bool,
    /// The address that was dialled, when it is inside.
    pub(crate) judged: Option<IpAddr>,
}

/// Where a request goes, and the path it asks for there; `fixed` is where its connection goes, if that is one host.
pub(super) fn destination(head: &RequestHead, fixed: Option<&Route>) -> Result<(Target, String), Malformed> {
    let (authority, path) = match &head.form {
        Form::Origin(path) => (None, path.clone()),
        Form::Absolute { authority, path } => (Some(authority.as_str()), path.clone()),
        Form::Authority(_) => return Err(Malformed("CONNECT is for proxies, once")),
    };
    let target = match (fixed, authority) {
        (Some(route), None) => route.target.clone(),
        (Some(route), Some(authority)) => {
            route.same(authority)?;
            route.target.clone()
        }
        (None, Some(authority)) => Target { port: parse(authority)?.port.or(Some(80)), ..parse(authority)? },
        (None, None) => return Err(Malformed("the target does not name a host")),
    };
    match (&head.host, fixed) {
        (None, _) => {}
        (Some(host), Some(route)) => route.same(host)?,
        (Some(host), None) => {
            let named = parse(host)?;
            if named.host != target.host || named.port.is_some_and(|port| Some(port) != target.port) {
                return Err(Malformed("`Host` is not the host of the target"));
            }
        }
    }
    Ok((target, path))
}

impl Route {
    /// Whether a text names this route's host and port.
    pub(super) fn same(&self, authority: &str) -> Result<(), Malformed> {
        let named = parse(authority)?;
        let host = named.host == self.target.host || self.aliases.contains(&named.host);
        // A port that is left out says nothing; the connection's own stands.
        let port = named.port.is_none() || named.port == self.target.port;
        if host && port {
            Ok(())
        } else {
            Err(Malformed("the request is for another host than its connection"))
        }
    }
}

fn parse(authority: &str) -> Result<Target, Malformed> {
    if authority.contains('@') {
        return Err(Malformed("the host carries credentials"));
    }
    Target::parse(authority).map_err(|_| Malformed("the host is not one"))
}

/// What `Host` says of a target.
pub(crate) fn host_line(target: &Target, default: u16) -> String {
    match target.port {
        Some(port) if port != default => format!("{}:{port}", target.host),
        _ => target.host.to_string(),
    }
}
