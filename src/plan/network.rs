//! What of a network a launch has, and what programs inside are told of it.
//!
//! Answers for ports, services, variables and files. It leaves serving them to whoever takes the doors.
//! Invariant: without a `net.*` grant or a published port there is no network, and nothing is told of one.

use super::host::Host;
use crate::capability::{Host as Name, HostPattern};
use crate::policy::{PlacedScope, Policy};
use crate::profile::{self, Trusted};
use sbx_platform::plan::{Access, Code, Gateway, HOSTNAME, MountOp, Network};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The port of 127.0.0.1 inside where a proxy is offered: above those the system hands out by itself.
pub const PROXY_PORT: u16 = 61080;
/// Where the bundle of certificates appears inside.
const BUNDLE: &str = "/run/sbx/ca.pem";
/// Ports that get listeners for hosts that are granted with any port, where connections cannot be redirected.
const USUAL_PORTS: &[u16] = &[22, 80, 443, 8080, 8443, 9418];

/// What whoever serves the network has prepared for a launch.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outlet {
    /// A file of the host with the certificates that programs are to trust; none where nothing is inspected.
    pub bundle: Option<PathBuf>,
    /// Variables with what stands for a secret in each.
    pub placeholders: Vec<(String, String)>,
}

impl Outlet {
    /// An outlet with a bundle and placeholders.
    #[must_use]
    pub fn new(bundle: Option<PathBuf>, placeholders: Vec<(String, String)>) -> Self {
        Self { bundle, placeholders }
    }
}

/// The network of a launch.
pub(super) fn network(policy: &Policy, outlet: Option<&Outlet>) -> Network {
    if outlet.is_none() {
        return Network::None;
    }
    let mut ports = BTreeSet::new();
    let mut services = BTreeSet::new();
    for grant in policy.grants() {
        let PlacedScope::Net { hosts } = &grant.scope else { continue };
        for (pattern, port) in hosts {
            match (loopback(pattern), port) {
                (own, Some(port)) if !own.is_empty() => {
                    services.extend(own.into_iter().map(|ip| SocketAddr::new(ip, *port)));
                }
                (own, _) if !own.is_empty() => {}
                (_, Some(port)) => drop(ports.insert(*port)),
                (_, None) => ports.extend(USUAL_PORTS),
            }
        }
    }
    Network::Gateway(Gateway {
        ports: ports.into_iter().collect(),
        published: policy.sections().listen.clone(),
        services: services.into_iter().collect(),
        proxy: Some(PROXY_PORT),
    })
}

/// Whether some host is granted with any port.
pub(super) fn is_any_port(policy: &Policy) -> bool {
    let open = |(pattern, port): &(HostPattern, Option<u16>)| port.is_none() && loopback(pattern).is_empty();
    policy
        .grants()
        .iter()
        .any(|grant| matches!(&grant.scope, PlacedScope::Net { hosts } if hosts.iter().any(open)))
}

/// The loopback addresses a pattern names literally.
fn loopback(pattern: &HostPattern) -> Vec<IpAddr> {
    match pattern {
        HostPattern::Exact(Name::Ip(ip)) if ip.is_loopback() => vec![*ip],
        HostPattern::Exact(Name::Name(name)) if &**name == "localhost" => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        HostPattern::Exact(_) | HostPattern::Outside(_) | HostPattern::Below(_) | HostPattern::Any => {
            Vec::new()
        }
    }
}

/// What a variable that a record names is inside, when it is about proxies.
pub(super) fn proxy_variable(name: &str) -> Option<String> {
    match name.to_ascii_lowercase().as_str() {
        "http_proxy" | "https_proxy" => Some(format!("http://127.0.0.1:{PROXY_PORT}")),
        "all_proxy" => Some(format!("socks5h://127.0.0.1:{PROXY_PORT}")),
        "no_proxy" => Some(format!("localhost,{HOSTNAME},127.0.0.1,::1")),
        _ => None,
    }
}

/// The variables that tell of the network.
pub(super) fn variables(outlet: &Outlet) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> =
        vec![("SBX_PROXY".into(), format!("http://127.0.0.1:{PROXY_PORT}").into())];
    if outlet.bundle.is_some() {
        let names = profile::trust().filter_map(|trusted| match trusted {
            Trusted::Variable(name) => Some(name),
            Trusted::File(_) => None,
        });
        variables.extend(names.map(|name| (name.into(), BUNDLE.into())));
    }
    variables.extend(outlet.placeholders.iter().map(|(name, value)| (name.into(), value.into())));
    variables
}

/// The bundle, at its own place and over those that are there.
pub(super) fn trust(outlet: &Outlet, host: &dyn Host) -> Vec<MountOp> {
    let Some(bundle) = &outlet.bundle else { return Vec::new() };
    let bind = |dest: PathBuf| MountOp::Bind {
        source: bundle.clone(),
        dest,
        access: Access::ReadOnly,
        code: Code::Refused,
    };
    let mut found: BTreeSet<PathBuf> = BTreeSet::new();
    for trusted in profile::trust() {
        if let Trusted::File(path) = trusted {
            // A bundle elsewhere than in what is shown of the system is not seen anyway.
            found.extend(host.real(Path::new(path)).filter(|real| real.starts_with("/etc")));
        }
    }
    std::iter::once(PathBuf::from(BUNDLE)).chain(found).map(bind).collect()
}
