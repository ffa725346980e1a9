//! The network of every backend tried: a fence with doors, a gateway that serves them, and attacks from inside.
//!
//! Answers for which way connections come to the gateway here, and which of the promises about it were seen to hold.
//! It leaves files and processes to [`super::trial`].
//! Invariant: nothing is dialled but a listener of the trial itself, and nothing leaves this machine.

use super::trial::Fares;
use crate::net::{Gateway, Settings};
use crate::policy::Policy;
use crate::run::{Act, Tried};
use sbx_platform::door::{Doors, Porter, Way};
use sbx_platform::{Enforcement, Guarantee};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// An address for documentation, which leads nowhere in the world.
const NOWHERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
/// How long between two looks.
const STEP: Duration = Duration::from_millis(5);

/// What was found out about the network behind one backend.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) way: Way,
    pub(super) guarantees: Vec<(Guarantee, Fares, &'static str)>,
}

impl Found {
    /// How one guarantee fares, and what was tried.
    pub(super) fn of(&self, guarantee: Guarantee) -> Option<(Fares, &'static str)> {
        let found = self.guarantees.iter().find(|(name, _, _)| *name == guarantee);
        found.map(|(_, fares, tells)| (*fares, *tells))
    }
}

/// The word for a way, for machines.
pub(super) fn word(way: Way) -> &'static str {
    match way {
        Way::Redirected => "redirected",
        Way::PerPort => "per-port",
        Way::OnBehalf => "on-behalf",
    }
}

/// A way and what it cannot do, for people.
pub(super) fn sentence(way: Way) -> &'static str {
    match way {
        Way::Redirected => "every connection and every question for a name is led to the gateway",
        Way::PerPort => {
            "the packet filter has no rules here, so each granted port has a listener of its own: other ports are refused \
             without a word in the audit, and the command cannot listen on granted ports itself (net-ports)"
        }
        Way::OnBehalf => {
            "connections are made on the command's behalf: programs that look names up by datagram (dig, static programs in \
             Go or built with musl) reach nothing but through $SBX_PROXY (net-names), and what the command listens on can \
             be reached by other users of this machine (net-listen)"
        }
    }
}

/// One attack, and whether its guarantee wants it to go through.
struct Attack {
    guarantee: Guarantee,
    act: Act,
    succeeds: bool,
    tells: &'static str,
}

/// Serves the trial: a gateway for its policy, a service to be reached, and somebody who looks for its listener.
pub(super) struct Serving {
    attacks: Vec<Attack>,
    granted: TcpListener,
    /// Not granted, and only there to be found by mistake.
    _other: TcpListener,
    inner: SocketAddr,
    gateway: Option<Gateway>,
    way: Option<Way>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub(super) fn new() -> io::Result<Self> {
        let listener = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (granted, other) = (listener()?, listener()?);
        let inner = listener()?.local_addr()?;
        granted.set_nonblocking(true)?;
        let attacks = attacks(granted.local_addr()?, other.local_addr()?, inner);
        let stop = Arc::default();
        Ok(Self { attacks, granted, _other: other, inner, gateway: None, way: None, stop, thread: None })
    }

    /// What the trial may reach, as grants.
    pub(super) fn specs(&self) -> io::Result<Vec<String>> {
        let granted = self.granted.local_addr()?;
        let verbs = ["get", "post", "put", "delete"];
        Ok(verbs.map(|verb| format!("net.{verb}{{hosts=[\"{granted}\"]}}")).to_vec())
    }

    pub(super) fn acts(&self) -> Vec<Act> {
        self.attacks.iter().map(|attack| attack.act.clone()).collect()
    }

    /// Makes the gateway for a policy.
    pub(super) fn prepare(&mut self, policy: &Policy) -> io::Result<()> {
        self.gateway = Some(Gateway::new(policy, Settings::default())?);
        Ok(())
    }

    /// What came of it, by what was told from inside.
    pub(super) fn found(&self, told: &[Tried], enforcement: &Enforcement) -> Option<Found> {
        let way = self.way?;
        let fares = |guarantee: Guarantee| {
            let tried = || self.attacks.iter().zip(told).filter(|(attack, _)| attack.guarantee == guarantee);
            let held = tried().all(|(attack, tried)| attack.succeeds == tried.error.is_none());
            let fares = match (enforcement.has(guarantee), held) {
                (false, _) => Fares::Missing,
                (true, true) => Fares::Held,
                (true, false) => Fares::Broken,
            };
            tried().next().map(|(attack, _)| (guarantee, fares, attack.tells))
        };
        let names = [Guarantee::NetHosts, Guarantee::NetPorts, Guarantee::NetNames, Guarantee::NetListen];
        Some(Found { way, guarantees: names.into_iter().filter_map(fares).collect() })
    }
}

impl Porter for Serving {
    fn open(&mut self, doors: Doors) -> io::Result<()> {
        self.way = Some(doors.way);
        let (granted, inner, stop) = (self.granted.try_clone()?, self.inner, self.stop.clone());
        self.thread = Some(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Ok((mut stream, _)) = granted.accept() {
                    let _ = stream.set_nonblocking(false);
                    let _ = stream.read(&mut [0; 512]);
                    let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
                }
                // Whoever listens inside is looked for from outside.
                let _ = TcpStream::connect_timeout(&inner, STEP);
                std::thread::sleep(STEP);
            }
        }));
        self.gateway.as_mut().map_or(Ok(()), |gateway| gateway.open(doors))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn attacks(granted: SocketAddr, other: SocketAddr, inner: SocketAddr) -> Vec<Attack> {
    let attack = |guarantee, name, at: SocketAddr, succeeds, tells| {
        let act = Act::new(name, at.to_string());
        Attack { guarantee, act, succeeds, tells }
    };
    let nowhere = |port: u16| SocketAddr::from((NOWHERE, port));
    vec![
        attack(
            Guarantee::NetHosts,
            "reach",
            granted,
            true,
            "reach a granted service of the host, and no other host or port",
        ),
        attack(Guarantee::NetHosts, "reach", other, false, "reach a service of the host that is not granted"),
        attack(
            Guarantee::NetHosts,
            "reach",
            nowhere(granted.port()),
            false,
            "reach an address that is not granted",
        ),
        attack(
            Guarantee::NetPorts,
            "arrive",
            nowhere(9),
            true,
            "have a connection to any port come to the gateway",
        ),
        attack(Guarantee::NetNames, "ask", nowhere(53), true, "ask any name server by datagram"),
        attack(Guarantee::NetListen, "be-found", inner, false, "be found by others where it listens"),
    ]
}
