//! Looks names up outside, once, and keeps what was found for those who connect.
//!
//! Answers for where a name leads. It leaves to the authority whether that may be reached.
//! Invariant: an address that is dialled was looked up here, and is the one that was judged.

use crate::capability::{Address, Host, classify};
use crate::net::bounds;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::{OnceCell, Semaphore};

/// An address a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The address.
    pub(crate) ip: IpAddr,
    /// Whether it is on the public internet.
    pub(crate) reach: Address,
}

impl Found {
    pub(crate) fn new(ip: IpAddr) -> Self {
        Self { ip, reach: classify(ip) }
    }

    /// What is judged where it cannot be told where a name leads: as if it led inside.
    pub(crate) fn unknown() -> Self {
        Self { ip: Ipv4Addr::UNSPECIFIED.into(), reach: Address::Inside }
    }

    /// What to judge: an address that is certainly inside, or none when it is public.
    pub(crate) fn judged(self) -> Option<IpAddr> {
        match self.reach {
            Address::Public => None,
            Address::Inside if classify(self.ip) == Address::Inside => Some(self.ip),
            Address::Inside => Some(Ipv4Addr::LOCALHOST.into()),
        }
    }
}

/// Why a name leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There is no such name.
    NoSuchName,
    /// It could not be found out.
    Failed,
}

type Answer = Result<Arc<[Found]>, Trouble>;

/// Looks names up.
#[derive(Debug)]
pub(crate) struct Resolver {
    source: Source,
    /// Bounds how many threads ask the system.
    asking: Arc<Semaphore>,
    pinned: Mutex<HashMap<Box<str>, Pinned>>,
}

#[derive(Clone, Debug)]
struct Pinned {
    answer: Arc<OnceCell<Answer>>,
    since: Instant,
}

#[derive(Debug)]
enum Source {
    /// The system's resolver.
    System,
    /// Names written down by a test: `name ip public|private`, one a line; a name alone never gets an answer.
    #[cfg(feature = "test-hooks")]
    Table(HashMap<Box<str>, Vec<Found>>),
}

impl Resolver {
    /// The system's resolver; in builds for tests the file that `SBX_TEST_RESOLVER` names, when set.
    pub(crate) fn new() -> Self {
        Self {
            source: source(),
            asking: Arc::new(Semaphore::new(bounds::RESOLVING_THREADS)),
            pinned: Mutex::new(HashMap::new()),
        }
    }

    /// Where a host leads.
    pub(crate) async fn find(&self, host: &Host) -> Answer {
        match host {
            Host::Ip(ip) => Ok(Arc::from([Found::new(*ip)])),
            // What this machine calls itself is not asked of others.
            Host::Name(name) if host.is_inside() && !self.is_written(name) => {
                Ok([IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].map(Found::new).into())
            }
            Host::Name(name) => {
                let cell = self.pinned(name);
                cell.get_or_init(|| self.ask(name)).await.clone()
            }
        }
    }

    /// Whether a test has written down where a name leads.
    fn is_written(&self, _name: &str) -> bool {
        match &self.source {
            Source::System => false,
            #[cfg(feature = "test-hooks")]
            Source::Table(table) => table.contains_key(_name),
        }
    }

    /// The cell for a name's addresses; one that is old or failed is replaced.
    fn pinned(&self, name: &str) -> Arc<OnceCell<Answer>> {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(held) = pinned.get(name) {
            let failed = held.answer.get().is_some_and(Result::is_err);
            let keep = if failed { bounds::PINNED / 20 } else { bounds::PINNED };
            if now.duration_since(held.since) < keep {
                return held.answer.clone();
            }
        }
        if pinned.len() >= bounds::NAMES {
            pinned.retain(|_, held| now.duration_since(held.since) < bounds::PINNED);
        }
        if pinned.len() >= bounds::NAMES {
            pinned.clear();
        }
        let answer = Arc::new(OnceCell::new());
        pinned.insert(name.into(), Pinned { answer: answer.clone(), since: now });
        answer
    }

    async fn ask(&self, name: &str) -> Answer {
        match &self.source {
            Source::System => self.ask_system(name).await,
            #[cfg(feature = "test-hooks")]
            Source::Table(table) => match table.get(name).map(Vec::as_slice) {
                Some([]) => std::future::pending().await,
                Some(found) => Ok(found.into()),
                None => Err(Trouble::NoSuchName),
            },
        }
    }

    async fn ask_system(&self, name: &str) -> Answer {
        let Ok(permit) = self.asking.clone().acquire_owned().await else { return Err(Trouble::Failed) };
        let asked = format!("{name}.");
        let plain = name.to_owned();
        let asking = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // The final dot keeps search lists out. The file of hosts knows no such names, so that what stands in it is
            // asked for as it is written there.
            let hosts = || std::fs::read_to_string("/etc/hosts").unwrap_or_default();
            look_up(&asked).or_else(|error| match is_absent(&error) && stands_in(&hosts(), &plain) {
                true => look_up(&plain),
                false => Err(error),
            })
        });
        match tokio::time::timeout(bounds::RESOLVING, asking).await {
            Ok(Ok(Ok(found))) if !found.is_empty() => Ok(found.into()),
            Ok(Ok(Ok(_))) => Err(Trouble::NoSuchName),
            Ok(Ok(Err(error))) if is_absent(&error) => Err(Trouble::NoSuchName),
            Ok(_) | Err(_) => Err(Trouble::Failed),
        }
    }
}

fn look_up(name: &str) -> std::io::Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    for address in (name, 0).to_socket_addrs()?.map(|address: SocketAddr| address.ip().to_canonical()) {
        if !found.iter().any(|seen| seen.ip == address) {
            found.push(Found::new(address));
        }
    }
    Ok(found)
}

/// Whether a file of hosts has a name.
fn stands_in(hosts: &str, name: &str) -> bool {
    let names = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        line.split_whitespace().skip(1).any(|word| word.eq_ignore_ascii_case(name))
    };
    hosts.lines().any(names)
}

/// Whether the system says that there is no such name, and not merely that it cannot tell.
fn is_absent(error: &std::io::Error) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    !["temporary", "try again", "system error", "memory"].iter().any(|passing| text.contains(passing))
}

#[cfg(not(feature = "test-hooks"))]
fn source() -> Source {
    Source::System
}

#[cfg(feature = "test-hooks")]
fn source() -> Source {
    let Some(file) = std::env::var_os("SBX_TEST_RESOLVER") else { return Source::System };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut table: HashMap<Box<str>, Vec<Found>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let found = table.entry(name.into()).or_default();
        if let Some(ip) = words.next().and_then(|ip| ip.parse().ok()) {
            let reach = if words.next() == Some("public") { Address::Public } else { Address::Inside };
            found.push(Found { ip, reach });
        }
    }
    Source::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_is_not_absence() {
        let said = |text: &str| is_absent(&std::io::Error::other(text.to_owned()));
        assert!(said("failed to lookup address information: Name or service not known"));
        assert!(!said("failed to lookup address information: Temporary failure in name resolution"));
        assert!(!said("failed to lookup address information: Try again"));
    }

    #[test]
    fn only_names_in_the_file_of_hosts_are_asked_without_a_dot() {
        let hosts = "127.0.0.1 localhost\n10.0.0.5\tDB.corp db # spare\n";
        assert!(stands_in(hosts, "db.corp") && stands_in(hosts, "db"));
        assert!(!stands_in(hosts, "spare") && !stands_in(hosts, "10.0.0.5") && !stands_in(hosts, "d"));
    }

    #[test]
    fn an_address_that_is_said_to_be_inside_is_judged_as_such() {
        let ip = IpAddr::from([203, 0, 113, 1]);
        let inside = Found { ip, reach: Address::Inside };
        assert_eq!(inside.judged().map(classify), Some(Address::Inside));
        assert_eq!(Found { ip, reach: Address::Public }.judged(), None);
        assert_eq!(Found::new([10, 0, 0, 1].into()).judged(), Some([10, 0, 0, 1].into()));
    }
}
