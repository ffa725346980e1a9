//! Answers programs inside that ask for names: granted names and nothing else.
//!
//! Answers for what a question gets. It leaves the bytes to `packet` and looking up to the resolver.
//! Invariant: no question leaves the machine unless its name is granted.

use super::datagrams::Datagrams;
use super::packet::{Answer, Kind, Question, parse};
use super::{Resolver, Table, Trouble, is_synthetic};
use crate::capability::{Address, Host, Target};
use crate::net::authority::Authority;
use crate::net::bounds;
use crate::net::report::{Asked, Report};
use sbx_platform::plan::HOSTNAME;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// The stub of one launch.
#[derive(Clone, Debug)]
pub(crate) struct Stub {
    authority: Authority,
    report: Report,
    resolver: Arc<Resolver>,
    table: Arc<Mutex<Table>>,
    waiting: Arc<Semaphore>,
    /// Whether names are looked up by somebody further out.
    looked_up_elsewhere: bool,
}

impl Stub {
    pub(crate) fn new(
        authority: Authority,
        report: Report,
        resolver: Arc<Resolver>,
        table: Arc<Mutex<Table>>,
        looked_up_elsewhere: bool,
    ) -> Self {
        let waiting = Arc::new(Semaphore::new(bounds::QUESTIONS));
        Self { authority, report, resolver, table, waiting, looked_up_elsewhere }
    }

    /// Serves datagrams until the socket is gone.
    pub(crate) async fn serve(self, socket: Datagrams) {
        let socket = Arc::new(socket);
        let mut room = [0; 1500];
        loop {
            let Ok((length, asker)) = socket.next(&mut room).await else {
                // A port that was unreachable is told on the next call; it is no reason to stop.
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                continue;
            };
            let question = match parse(&room[..length]) {
                Ok(question) => question,
                Err(reply) => {
                    if let Some(reply) = reply {
                        socket.answer(&reply, &asker);
                    }
                    continue;
                }
            };
            if let Some(answer) = self.at_once(&question) {
                socket.answer(&question.datagram(&answer, bounds::TTL), &asker);
                continue;
            }
            // What is asked again later loses nothing; what waits takes room.
            let Ok(permit) = self.waiting.clone().try_acquire_owned() else { continue };
            let (stub, socket) = (self.clone(), socket.clone());
            let mut answering = Box::pin(async move {
                let answer = stub.look_up(&question).await;
                socket.answer(&question.datagram(&answer, bounds::TTL), &asker);
                drop(permit);
            });
            // What is known already is answered here: many ask for one name at once, and none of them waits.
            tokio::select! {
                biased;
                () = &mut answering => {}
                () = std::future::ready(()) => drop(tokio::spawn(answering)),
            }
        }
    }

    /// Serves one stream of questions.
    pub(crate) async fn serve_stream(self, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        loop {
            let next = tokio::time::timeout(bounds::NAME_STREAM_IDLE, read_message(&mut stream)).await;
            let Ok(Ok(message)) = next else { return };
            let reply = match parse(&message) {
                Ok(question) => {
                    let answer = match self.at_once(&question) {
                        Some(answer) => answer,
                        None => self.look_up(&question).await,
                    };
                    question.stream(&answer, bounds::TTL)
                }
                Err(Some(reply)) => reply,
                Err(None) => return,
            };
            let mut bytes = u16::try_from(reply.len()).unwrap_or_default().to_be_bytes().to_vec();
            bytes.extend(reply);
            // Who does not take an answer keeps no place.
            match tokio::time::timeout(bounds::NAME_STREAM_IDLE, stream.write_all(&bytes)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// The answer where nothing has to be looked up for it.
    fn at_once(&self, question: &Question) -> Option<Answer> {
        if question.kind == Kind::Ptr {
            let answer = self.name_of(question);
            let asked = match answer {
                Answer::Prohibited => Asked::Denied("prohibited"),
                _ => Asked::Allowed("allowed"),
            };
            self.tell(question, asked, Duration::ZERO);
            return Some(answer);
        }
        if self.is_this_machine(&question.name) {
            self.tell(question, Asked::Allowed("this machine"), Duration::ZERO);
            return Some(match question.kind {
                Kind::A | Kind::Any => Answer::V4(Ipv4Addr::LOCALHOST),
                Kind::Aaaa => Answer::V6(Ipv6Addr::LOCALHOST),
                Kind::Ptr | Kind::Other => Answer::Nothing,
            });
        }
        let host = Host::parse(&question.name).ok();
        let knows = |host: &Host| matches!(host, Host::Name(_)) && self.authority.knows(host);
        let granted = host.as_ref().is_some_and(knows);
        // Services of a granted name, `_imap._tcp.example.org`: there are none, and the name itself is asked next.
        let of = service_of(&question.name).filter(|_| question.kind == Kind::Other);
        if of.and_then(|name| Host::parse(name).ok()).is_some_and(|host| knows(&host)) {
            self.tell(question, Asked::Allowed("nothing of this type"), Duration::ZERO);
            return Some(Answer::Nothing);
        }
        if !granted {
            let asked = host.map(|host| self.authority.hold(&Target { host, port: None }, None));
            match asked {
                Some(Err(denial)) => self.report.refused("name", &denial),
                Some(Ok(_)) | None => self.tell(question, Asked::Denied("prohibited"), Duration::ZERO),
            }
            return Some(Answer::Prohibited);
        }
        self.looked_up_elsewhere.then(|| self.found(question, Duration::ZERO))
    }

    /// Whether the name is that of the machine inside, for whoever does not look into its list of hosts first. A host
    /// that is granted by that very name is meant by it.
    fn is_this_machine(&self, name: &str) -> bool {
        let named = || Host::parse(name).is_ok_and(|host| self.authority.names(&host));
        name == "localhost" || name.ends_with(".localhost") || name == HOSTNAME && !named()
    }

    fn name_of(&self, question: &Question) -> Answer {
        match question.reverse() {
            Some(address) if is_synthetic(address) => {
                let name = self.table.lock().unwrap_or_else(PoisonError::into_inner).name_of(address);
                name.map_or(Answer::NoSuchName, |name| Answer::Name(name.into()))
            }
            Some(address) if address.is_loopback() => Answer::Name("localhost".to_owned()),
            Some(_) | None => Answer::Prohibited,
        }
    }

    /// Looks a granted name up; one that leads inside only, and is not named literally, is not for this asker.
    async fn look_up(&self, question: &Question) -> Answer {
        let Ok(host) = Host::parse(&question.name) else { return Answer::NoSuchName };
        let (begun, mut waiting) = (Instant::now(), Waiting(Some((self, question))));
        let found = self.resolver.find(&host).await;
        waiting.0 = None;
        let tell = |asked: Asked| self.tell(question, asked, begun.elapsed());
        match found {
            Ok(found) => {
                let public = found.iter().any(|found| found.reach == Address::Public);
                if !public && !self.authority.names(&host) {
                    tell(Asked::Denied("leads inside"));
                    return Answer::Prohibited;
                }
                self.found(question, begun.elapsed())
            }
            Err(Trouble::NoSuchName) => {
                tell(Asked::Allowed("no such name"));
                Answer::NoSuchName
            }
            Err(Trouble::Failed) => {
                tell(Asked::Allowed("could not be looked up"));
                Answer::Failed
            }
        }
    }

    fn found(&self, question: &Question, took: Duration) -> Answer {
        match question.kind {
            Kind::A | Kind::Any => {
                self.tell(question, Asked::Allowed("allowed"), took);
                let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                Answer::V4(table.address_of(&question.name))
            }
            Kind::Aaaa | Kind::Ptr | Kind::Other => {
                self.tell(question, Asked::Allowed("nothing of this type"), took);
                Answer::Nothing
            }
        }
    }

    fn tell(&self, question: &Question, asked: Asked, took: Duration) {
        self.report.name(&question.name, question.kind.name(), asked, took);
    }
}

/// A question that waits for its answer, told of when none comes any more.
struct Waiting<'a>(Option<(&'a Stub, &'a Question)>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some((stub, question)) = self.0 {
            stub.tell(question, Asked::Allowed(stub.report.cut()), Duration::ZERO);
        }
    }
}

/// The name whose service is asked for.
fn service_of(name: &str) -> Option<&str> {
    let (service, rest) = name.split_once('.')?;
    let (transport, of) = rest.split_once('.')?;
    (service.starts_with('_') && transport.starts_with('_')).then_some(of)
}

async fn read_message(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length.min(1500))];
    stream.read_exact(&mut message).await?;
    if length > 1500 {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    Ok(message)
}
