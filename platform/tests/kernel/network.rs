//! A network whose only ways out are doors, served here by a porter that tells where a connection was meant to go.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sbx_platform::door::{Asker, Destinations, Doors, Porter, Way};
use sbx_platform::plan::{Gateway, Network, Pipe, Plan, Stdio, UnixSockets};
use sbx_platform::{Backend, End, Guarantee as G, Outcome, PlatformError};

use crate::attacks;
use crate::support::Verdict::{self, Failed, Passed, Withheld};
use crate::support::{World, same};

type Case = fn(&World) -> Verdict;

/// Every case with the sentence it checks.
pub(crate) const ALL: &[(&str, Case)] = &[
    ("doors: a network with doors needs somebody who serves them", unserved),
    ("doors: a connection to any address arrives with its destination", any_address),
    ("doors: names are asked of any name server", any_name_server),
    ("doors: names are asked for by stream", names_by_stream),
    ("doors: the launch's own listeners are reached", own_listener),
    ("doors: listeners of the host are out of reach", host_listener),
    ("doors: a service of the host has a door of its own", service),
    ("doors: the proxy is where the plan says", proxy),
    ("doors: a published port is reached from outside", published),
    ("doors: many connections at once", many),
    ("doors: many names at once", many_names),
    ("doors: sockets of other kinds are refused", kinds),
    ("doors: no trick leads past the doors", tricks),
    ("doors: listening stays on loopback, or in a network of its own", listening),
    ("doors: strangers of the host are not served", strangers),
    ("doors: a launcher's missing promise keeps the doors shut", missing),
    ("doors: a porter that gives up ends the launch", given_up),
    ("doors: the doors come out to the program that spawned", spawned),
    ("doors: a launch costs little more", cost),
    ("doors: a launcher that is killed leaves nothing", killed),
];

/// The port every plan here may ask for.
const PORT: u16 = 4430;
/// Nothing else has this address; nobody is ever asked there.
const FOUR: &str = "203.0.113.7:4430";
const SIX: &str = "[2001:db8::7]:4430";

/// Serves doors from threads that end with it.
#[derive(Default)]
struct Teller {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    way: Option<Way>,
    served: Arc<AtomicUsize>,
    strangers: Arc<AtomicUsize>,
    /// A port inside to be asked, and what was said there.
    publish: Option<u16>,
    heard: Arc<Mutex<String>>,
    /// Whether somebody who is not of the launch comes first.
    stranger: bool,
    /// Whether to give up.
    refuse: bool,
}

impl Porter for Teller {
    fn open(&mut self, doors: Doors) -> std::io::Result<()> {
        if self.refuse {
            return Err(std::io::Error::from_raw_os_error(libc::ENOTCONN));
        }
        self.way = Some(doors.way);
        if self.stranger {
            let doors = doors.streams.iter().chain(&doors.name_streams).chain(&doors.proxy);
            for door in doors.filter_map(|door| door.local_addr().ok()) {
                let heard = Arc::clone(&self.heard);
                self.threads.push(std::thread::spawn(move || {
                    let Ok(mut stream) = TcpStream::connect_timeout(&door, Duration::from_secs(1)) else {
                        return;
                    };
                    let _ = stream.read_to_string(&mut heard.lock().unwrap());
                }));
            }
        }
        let destinations: Arc<dyn Destinations> = Arc::from(doors.destinations);
        for listener in doors.streams {
            self.accept(listener, &destinations, "");
        }
        for listener in doors.name_streams {
            self.accept(listener, &destinations, "names");
        }
        if let Some(listener) = doors.proxy {
            self.accept(listener, &destinations, "proxy");
        }
        for socket in doors.names {
            self.answer(socket);
        }
        if let (Some(port), Some(inward)) = (self.publish, doors.inward) {
            let (heard, stop) = (Arc::clone(&self.heard), Arc::clone(&self.stop));
            self.threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(mut stream) = inward.connect(port) {
                        let _ = stream.read_to_string(&mut heard.lock().unwrap());
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }));
        }
        Ok(())
    }
}

impl Teller {
    fn accept(&mut self, listener: TcpListener, to: &Arc<dyn Destinations>, word: &'static str) {
        let to = Arc::clone(to);
        let (stop, served, strangers) =
            (Arc::clone(&self.stop), Arc::clone(&self.served), Arc::clone(&self.strangers));
        listener.set_nonblocking(true).unwrap();
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let Ok((mut stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                match to.of(stream.as_fd()) {
                    Some(meant) => {
                        let answer = if word.is_empty() { meant.to_string() } else { word.to_owned() };
                        served.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.write_all(answer.as_bytes());
                    }
                    None => drop(strangers.fetch_add(1, Ordering::Relaxed)),
                }
            }
        }));
    }

    fn answer(&mut self, socket: UdpSocket) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while !stop.load(Ordering::Relaxed) {
                match Asker::next(socket.as_fd(), &mut buffer) {
                    Ok((length, asker)) => {
                        let _ = asker.answer(socket.as_fd(), &[b"name ", &buffer[..length]].concat());
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }));
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        // A thread that has been waited for is still counted for a moment.
        while std::fs::read_dir("/proc/self/task").unwrap().count() > 1 {
            std::thread::yield_now();
        }
    }
}

fn plan(world: &World, act: &[&str]) -> Plan {
    let mut plan = world.plan(act);
    plan.network = Network::Gateway(Gateway { ports: vec![PORT], ..Gateway::default() });
    plan
}

fn with(mut plan: Plan, change: impl FnOnce(&mut Gateway)) -> Plan {
    if let Network::Gateway(gateway) = &mut plan.network {
        change(gateway);
    }
    plan
}

fn launch(world: &World, plan: &Plan, teller: &mut Teller) -> Result<Outcome, PlatformError> {
    let outcome = sbx_platform::launch(plan, Some(world.backend), Some(teller));
    teller.end();
    outcome
}

fn says(world: &World, plan: &Plan, teller: &mut Teller) -> String {
    match launch(world, plan, teller) {
        Ok(outcome) if matches!(outcome.end, End::Exited(0)) => {
            String::from_utf8_lossy(&outcome.stdout).trim_end().to_owned()
        }
        Ok(outcome) => format!("{:?} {}", outcome.end, String::from_utf8_lossy(&outcome.stderr).trim_end()),
        Err(error) => error.to_string(),
    }
}

/// The first of `guarantees` that is not given with doors.
fn lacks(world: &World, guarantees: &[G]) -> Option<G> {
    let outcome = launch(world, &plan(world, &["nothing"]), &mut Teller::default()).unwrap();
    guarantees.iter().copied().find(|guarantee| !outcome.enforcement.has(*guarantee))
}

fn unserved(world: &World) -> Verdict {
    match sbx_platform::launch(&plan(world, &["nothing"]), Some(world.backend), None) {
        Err(PlatformError::BadPlan { .. }) => Passed,
        other => Failed(format!("{other:?}")),
    }
}

fn any_address(world: &World) -> Verdict {
    for address in [FOUR, SIX, "169.254.169.254:4430", "10.0.0.1:4430"] {
        let mut teller = Teller::default();
        same!(address, says(world, &plan(world, &["tcp", address]), &mut teller), address);
    }
    same!("later", says(world, &plan(world, &["tcp-later", FOUR]), &mut Teller::default()), FOUR);
    if lacks(world, &[G::NetPorts]).is_some() {
        same!(
            "port",
            says(world, &plan(world, &["tcp", "203.0.113.7:81"]), &mut Teller::default()),
            "errno 111"
        );
        return Withheld(G::NetPorts);
    }
    for address in ["203.0.113.7:81", "[2001:db8::7]:22", "1.1.1.1:65535"] {
        let mut teller = Teller::default();
        same!(address, says(world, &plan(world, &["tcp", address]), &mut teller), address);
    }
    Passed
}

fn any_name_server(world: &World) -> Verdict {
    if let Some(lacking) = lacks(world, &[G::NetNames]) {
        same!(
            "udp",
            says(world, &plan(world, &["udp", "127.0.0.1:53", "x"]), &mut Teller::default()),
            "errno 1"
        );
        return Withheld(lacking);
    }
    for server in ["127.0.0.1:53", "[::1]:53"] {
        let asked = says(world, &plan(world, &["udp", server, "example"]), &mut Teller::default());
        same!(server, asked, format!("name example from {server}"));
    }
    for server in ["127.0.0.53:53", "8.8.8.8:53", "10.255.255.53:53", "[fd00::1]:53"] {
        let asked = says(world, &plan(world, &["udp", server, "example"]), &mut Teller::default());
        same!(server, asked, format!("name example from {server}"));
    }
    let other = says(world, &plan(world, &["udp", "8.8.8.8:443", "example"]), &mut Teller::default());
    same!("another port", other, "errno 111");
    Passed
}

fn names_by_stream(world: &World) -> Verdict {
    for server in ["127.0.0.1:53", "8.8.8.8:53", "[fd00::1]:53"] {
        same!(server, says(world, &plan(world, &["tcp", server]), &mut Teller::default()), "names");
    }
    Passed
}

fn own_listener(world: &World) -> Verdict {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", &free] {
        let mut teller = Teller::default();
        same!(address, says(world, &plan(world, &["own", address]), &mut teller), "own");
        same!("served", teller.served.load(Ordering::Relaxed), 0);
    }
    Passed
}

fn host_listener(world: &World) -> Verdict {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let said = says(world, &plan(world, &["tcp", &address.to_string()]), &mut Teller::default());
    if said != "errno 111" && said != "errno 13" && said != "errno 1" {
        return Failed(said);
    }
    listener.set_nonblocking(true).unwrap();
    same!("reached", listener.accept().is_err(), true);
    Passed
}

fn service(world: &World) -> Verdict {
    let addresses: [SocketAddr; 2] = ["127.0.0.1:5432".parse().unwrap(), "[::1]:5432".parse().unwrap()];
    for address in addresses {
        let wanted = with(plan(world, &["tcp", &address.to_string()]), |gateway| {
            gateway.services = addresses.iter().chain(&addresses).copied().collect();
            gateway.ports = vec![PORT, PORT];
        });
        same!("service", says(world, &wanted, &mut Teller::default()), address.to_string());
    }
    Passed
}

fn proxy(world: &World) -> Verdict {
    let wanted = with(plan(world, &["tcp", "127.0.0.1:17128"]), |gateway| gateway.proxy = Some(17128));
    same!("proxy", says(world, &wanted, &mut Teller::default()), "proxy");
    Passed
}

fn published(world: &World) -> Verdict {
    for host in ["127.0.0.1", "[::1]", "0.0.0.0"] {
        // Whoever publishes it listens there on the host.
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let act = ["serve", &format!("{host}:{port}"), "hello"];
        let wanted = with(plan(world, &act), |gateway| gateway.published = vec![port]);
        let mut teller = Teller { publish: Some(port), ..Teller::default() };
        same!(host, says(world, &wanted, &mut teller), "served");
        same!("heard", *teller.heard.lock().unwrap(), "hello");
    }
    Passed
}

fn many(world: &World) -> Verdict {
    let mut teller = Teller::default();
    same!("answers", says(world, &plan(world, &["many", FOUR, "400"]), &mut teller), "400");
    same!("served", teller.served.load(Ordering::Relaxed), 400);
    Passed
}

fn many_names(world: &World) -> Verdict {
    if let Some(lacking) = lacks(world, &[G::NetNames]) {
        return Withheld(lacking);
    }
    let wanted = plan(world, &["many-names", "127.0.0.1:53", "400"]);
    same!("answers", says(world, &wanted, &mut Teller::default()), "400");
    Passed
}

fn kinds(world: &World) -> Verdict {
    // Family, kind and protocol: MPTCP, raw, ping, packet, vsock, alg, netlink of the packet filter.
    let refused = ["2 1 262", "2 3 1", "2 2 1", "17 3 0", "40 1 0", "38 5 0", "16 3 12", "10 3 58"];
    for kind in refused {
        let said = says(world, &plan(world, &["socket", kind]), &mut Teller::default());
        if !["errno 1", "errno 97", "errno 93"].contains(&said.as_str()) {
            return Failed(format!("{kind}: {said}"));
        }
    }
    Passed
}

fn tricks(world: &World) -> Verdict {
    let listener = attacks::sharing_listener().unwrap();
    listener.set_nonblocking(true).unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let (stream, datagram) =
        (listener.local_addr().unwrap().to_string(), datagrams.local_addr().unwrap().to_string());
    let tricks: [&[&str]; 9] = [
        &["share", &stream],
        &["fast-open", &stream],
        &["fast-open-later", &stream],
        &["multipath", &stream],
        &["send-unconnected", &stream],
        &["mapped", &stream],
        &["tcp", &stream.replace("127.0.0.1", "0.0.0.0")],
        &["exchange", &stream, "20000"],
        &["datagram", &datagram],
    ];
    for trick in tricks {
        let mut wanted = plan(world, trick);
        wanted.unix_sockets = UnixSockets::Allowed;
        let said = says(world, &wanted, &mut Teller::default());
        let arrived = listener.accept().is_ok() || datagrams.recv_from(&mut [0; 8]).is_ok();
        // Whatever it is told, a trick that was cut short by something else proves nothing.
        if arrived || !(said.starts_with("errno ") || said == "ok" || said == "0 connected") {
            return Failed(format!("{trick:?}: {said}, arrived {arrived}"));
        }
    }
    Passed
}

fn listening(world: &World) -> Verdict {
    let said = says(world, &plan(world, &["unbound"]), &mut Teller::default());
    let own = lacks(world, &[G::NetListen]).is_none();
    same!("unbound", said, if own { "0.0.0.0" } else { "127.0.0.1" });
    Passed
}

fn strangers(world: &World) -> Verdict {
    let wanted = with(plan(world, &["tcp", FOUR]), |gateway| gateway.proxy = Some(17128));
    let mut teller = Teller { stranger: true, ..Teller::default() };
    same!("served", says(world, &wanted, &mut teller), FOUR);
    same!("a stranger heard", *teller.heard.lock().unwrap(), "");
    if teller.way == Some(Way::OnBehalf) {
        same!("strangers", teller.strangers.load(Ordering::Relaxed), 3);
    }
    Passed
}

fn missing(world: &World) -> Verdict {
    let mut wanted = plan(world, &["nothing"]);
    let outcome = launch(world, &wanted, &mut Teller::default()).unwrap();
    let lacking: Vec<G> = outcome.enforcement.missing().collect();
    let names = [G::NetHosts, G::NetPorts, G::NetNames, G::NetListen];
    for guarantee in names.into_iter().filter(|guarantee| lacking.contains(guarantee)) {
        wanted.required = vec![guarantee];
        let mut teller = Teller::default();
        match launch(world, &wanted, &mut teller) {
            Err(PlatformError::Missing { missing, .. }) => same!("missing", missing, vec![guarantee]),
            other => return Failed(format!("{guarantee}: {other:?}")),
        }
        same!("opened", teller.way, None);
    }
    wanted.required = names.into_iter().filter(|guarantee| !lacking.contains(guarantee)).collect();
    same!("end", launch(world, &wanted, &mut Teller::default()).unwrap().end, End::Exited(0));
    Passed
}

fn given_up(world: &World) -> Verdict {
    let mut teller = Teller { refuse: true, ..Teller::default() };
    let mark = world.work("ran");
    let wanted = plan(world, &["write", mark.to_str().unwrap()]);
    match launch(world, &wanted, &mut teller) {
        Err(PlatformError::Operation { op, .. }) => same!("operation", op, "serve the network of"),
        other => return Failed(format!("{other:?}")),
    }
    same!("ran", mark.exists(), false);
    Passed
}

fn spawned(world: &World) -> Verdict {
    let mut plan = plan(world, &["tcp", FOUR]);
    plan.stdio = Stdio::Inherit;
    let mut teller = Teller::default();
    let pipes = [Pipe::New; 3];
    let mut child = sbx_platform::spawn(&plan, Some(world.backend), pipes, Some(&mut teller)).unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let outcome = child.wait().unwrap();
    teller.end();
    same!("said", said.trim_end(), FOUR);
    same!("end", outcome.end, End::Exited(0));
    same!("hosts", outcome.enforcement.has(G::NetHosts), true);
    let mut teller = Teller { refuse: true, ..Teller::default() };
    match sbx_platform::spawn(&plan, Some(world.backend), [Pipe::New; 3], Some(&mut teller)) {
        Err(PlatformError::Operation { op, .. }) => same!("operation", op, "serve the network of"),
        other => return Failed(format!("{other:?}")),
    }
    Passed
}

/// Holds the doors and serves nobody.
struct Holder(Option<Doors>);

impl Porter for Holder {
    fn open(&mut self, doors: Doors) -> std::io::Result<()> {
        self.0 = Some(doors);
        Ok(())
    }
}

/// The least of several launches, in turns, since other things run on this machine too.
fn cost(world: &World) -> Verdict {
    const MOST: Duration = Duration::from_micros(2_500);
    // Asking for rules that do not exist makes the kernel look for a module, which is what takes its time then.
    if let Some(lacking) = lacks(world, &[G::NetPorts]) {
        return Withheld(lacking);
    }
    let (without, with) = (world.plan(&["nothing"]), plan(world, &["nothing"]));
    let mut least = [Duration::MAX; 2];
    for round in 1..=120 {
        for (at, plan) in [&without, &with].into_iter().enumerate() {
            let begun = Instant::now();
            sbx_platform::launch(plan, Some(world.backend), Some(&mut Holder(None))).unwrap();
            least[at] = least[at].min(begun.elapsed());
        }
        // On a busy machine everything takes longer, and what cannot be done beside the rest most of all.
        if round >= 15 && least[1].saturating_sub(least[0]) <= MOST.max(least[0]) {
            return Passed;
        }
    }
    Failed(format!("without and with doors: {least:?}"))
}

/// Launches with doors and waits, to be killed.
pub(crate) fn launch_and_serve(words: &[String]) -> ExitCode {
    let plan = sbx_platform::text::parse(&std::fs::read_to_string(&words[1]).unwrap()).unwrap();
    let _ = sbx_platform::launch(&plan, Backend::from_name(&words[0]), Some(&mut Teller::default()));
    ExitCode::SUCCESS
}

fn killed(world: &World) -> Verdict {
    if let Some(lacking) = lacks(world, &[G::TeardownKilled]) {
        return Withheld(lacking);
    }
    let marker = format!("net-killed-{}-{}", std::process::id(), world.backend);
    let file = world.secret("plan");
    let wanted = with(plan(world, &["sleep", &marker]), |gateway| gateway.published = vec![1]);
    std::fs::write(&file, sbx_platform::text::write(&wanted)).unwrap();
    for round in 0..40_u32 {
        let mut child = std::process::Command::new("/proc/self/exe")
            .args(["launch-and-serve", world.backend.name(), file.to_str().unwrap()])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(u64::from(round * 7919 % 16_000)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    same!("processes left", crate::endings::gone(&marker), true);
    Passed
}

/// What the probe does inside.
pub(crate) fn act(words: &[&str]) -> Option<String> {
    let said = |result: std::io::Result<String>| match result {
        Ok(text) => text,
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(-1)),
    };
    Some(match words {
        ["tcp", address] => said(ask(address)),
        ["tcp-later", address] => said(ask_later(address)),
        ["udp", address, text] => said(ask_by_datagram(address, text)),
        ["own", address] => said(talk_to_self(address)),
        ["serve", address, text] => said(serve(address, text)),
        ["many-names", address, count] => many_questions(address, count.parse().ok()?).to_string(),
        ["many", address, count] => many_at_once(address, count.parse().ok()?).to_string(),
        _ => return attacks::act(words),
    })
}

fn ask(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// As programs do that have other things to do meanwhile.
fn ask_later(address: &str) -> std::io::Result<String> {
    let to: SocketAddr = address.parse().map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn ask_by_datagram(address: &str, text: &str) -> std::io::Result<String> {
    let six = address.starts_with('[');
    let socket = UdpSocket::bind(if six { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(3)))?;
    socket.send(text.as_bytes())?;
    let mut buffer = [0; 512];
    let (length, from) = socket.recv_from(&mut buffer)?;
    Ok(format!("{} from {from}", String::from_utf8_lossy(&buffer[..length])))
}

fn talk_to_self(address: &str) -> std::io::Result<String> {
    let listener = TcpListener::bind(address)?;
    let mut to = listener.local_addr()?;
    if to.ip().is_unspecified() {
        to.set_ip([127, 0, 0, 1].into());
    }
    let thread = std::thread::spawn(move || listener.accept()?.0.write_all(b"own"));
    let answer = ask(&to.to_string())?;
    thread.join().unwrap()?;
    Ok(answer)
}

fn serve(address: &str, text: &str) -> std::io::Result<String> {
    let listener = TcpListener::bind(address)?;
    let begun = Instant::now();
    listener.set_nonblocking(true)?;
    while begun.elapsed() < Duration::from_secs(10) {
        if let Ok((mut stream, _)) = listener.accept() {
            stream.write_all(text.as_bytes())?;
            return Ok(String::from("served"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(String::from("nobody came"))
}

/// All questions first, then all answers.
fn many_questions(address: &str, count: usize) -> usize {
    let sockets: Vec<UdpSocket> = (0..count)
        .filter_map(|_| {
            let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
            socket.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
            socket.connect(address).ok()?;
            socket.send(&[b'x'; 60]).ok()?;
            Some(socket)
        })
        .collect();
    sockets.iter().filter(|socket| socket.recv(&mut [0; 128]).is_ok()).count()
}

fn many_at_once(address: &str, count: usize) -> usize {
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let address = address.to_owned();
            std::thread::spawn(move || ask(&address).is_ok_and(|answer| answer == address))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap_or(false)).filter(|right| *right).count()
}
