//! The broker: performs what would make or change a name, unless the name is protected.
//!
//! Answers for protected paths that do not exist yet, or that someone outside replaces while a command runs.
//! The kernel hands over every watched call; the broker reads the name once, resolves it to a directory it
//! holds, decides, and acts itself. It stands in the same namespaces, under the same Landlock rules and with
//! the same (lack of) privileges as the caller, so that it cannot do more than the caller could.
//! Invariant: one call at a time, and a call is performed or refused, never waved through, so that nothing can
//! be exchanged between looking and acting. If the broker dies, the watched calls fail.

mod caller;
mod leave;
mod listener;
mod mask;
mod mode;
mod network;
mod noted;
mod own;
mod perform;
mod places;
mod protect;
mod reach;
mod resolve;
mod settings;
mod times;
mod trace;
mod waiting;

use std::os::fd::BorrowedFd;

use libc::c_int;

pub(crate) use caller::Caller;
pub(crate) use places::has_unwritten;
pub(crate) use protect::Protected;

use crate::linux::net::Behalf;
use crate::linux::sys::{errno, number};
use crate::linux::telling::Telling;
use crate::report::Verb;
use listener::{Answer, Call, Listener};
use network::Network;
use perform::Hands;
use times::Times;

/// Answers watched calls.
#[derive(Debug)]
pub(crate) struct Broker<'k> {
    listener: Listener<'k>,
    hands: Option<Hands<'k>>,
    network: Option<Network>,
    telling: Telling<'k>,
}

impl<'k> Broker<'k> {
    /// A broker on this line for protected names, for connections on the command's behalf, or for both.
    pub(crate) fn new(
        line: BorrowedFd<'k>,
        protected: Option<&'k Protected>,
        behalf: Option<Behalf>,
        telling: Telling<'k>,
    ) -> std::io::Result<Self> {
        let listener = Listener::new(line);
        let hands = protected.map(Hands::new).transpose()?;
        Ok(Self { listener, hands, network: behalf.map(Network::new), telling })
    }

    /// What connects on the command's behalf, if anything does.
    pub(crate) fn behalf(&self) -> Option<&Behalf> {
        self.network.as_ref().map(Network::behalf)
    }

    /// Takes one call off the line and answers it.
    pub(crate) fn answer(&mut self) {
        let Ok(call) = self.listener.next() else { return };
        if let Some(answer) = self.decide(&call) {
            self.listener.reply(&call, answer);
        }
    }

    /// Performs `call`; `None` when someone else will answer.
    fn decide(&mut self, call: &Call) -> Option<Answer> {
        let caller = Caller::of(call.thread());
        let result = match (&mut self.network, &mut self.hands) {
            (Some(network), _) if network::is_network(call) => {
                network.perform(call, &caller, || self.listener.is_valid(call))
            }
            (_, Some(hands)) => {
                let result = dispatch(hands, call, &caller);
                let proc = hands.resolver().proc_path().to_owned();
                for (verb, path) in hands.news() {
                    self.telling.tell(trace::about(verb, path, call, 0));
                }
                let error = result.as_ref().err().map_or(0, number);
                if let Some(kept) = hands.kept() {
                    // What is in the way says more than the directory that it is in.
                    self.telling.tell(trace::about(Verb::Remove, kept, call, error));
                } else if self.telling.tells_all()
                    || matches!(error, libc::EACCES | libc::EPERM | libc::EROFS)
                {
                    trace::note(&mut self.telling, call, &caller, &proc, error);
                }
                result
            }
            (_, None) => Err(errno(libc::ENOSYS)),
        };
        Some(match result {
            Ok(Done::Nothing) => Answer::Value(0),
            Ok(Done::Open(file, flags)) => Answer::Descriptor(file, flags),
            Ok(Done::Waiting(wait)) => {
                self.listener.answer_later(call, wait)?;
                return None;
            }
            Ok(Done::Continue) => Answer::Continue,
            Err(error) => Answer::Error(number(&error)),
        })
    }
}

/// Performs a call about names.
fn dispatch(hands: &mut Hands<'_>, call: &Call, caller: &Caller) -> std::io::Result<Done> {
    let a = |index: usize| call.argument(index);
    let here = libc::AT_FDCWD;
    hands.heard_of(caller);
    match call.name() {
        "open" => hands.open(caller, here, a(0), a(1) as c_int, a(2) as u32),
        "openat" => hands.open(caller, a(0) as c_int, a(1), a(2) as c_int, a(3) as u32),
        "creat" => {
            hands.open(caller, here, a(0), libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, a(1) as u32)
        }
        "mkdir" => hands.mkdir(caller, here, a(0), a(1) as u32),
        "mkdirat" => hands.mkdir(caller, a(0) as c_int, a(1), a(2) as u32),
        "mknod" => hands.mknod(caller, here, a(0), a(1) as u32),
        "mknodat" => hands.mknod(caller, a(0) as c_int, a(1), a(2) as u32),
        "rename" => hands.rename(caller, (here, a(0)), (here, a(1)), 0),
        "renameat" => hands.rename(caller, (a(0) as c_int, a(1)), (a(2) as c_int, a(3)), 0),
        "renameat2" => hands.rename(caller, (a(0) as c_int, a(1)), (a(2) as c_int, a(3)), a(4) as u32),
        "link" => hands.link(caller, (here, a(0)), (here, a(1)), 0),
        "linkat" => hands.link(caller, (a(0) as c_int, a(1)), (a(2) as c_int, a(3)), a(4) as c_int),
        "symlink" => hands.symlink(caller, a(0), here, a(1)),
        "symlinkat" => hands.symlink(caller, a(0), a(1) as c_int, a(2)),
        "truncate" => hands.truncate(caller, a(0), a(1) as i64),
        "unlink" => hands.unlink(caller, here, a(0), 0),
        "unlinkat" => hands.unlink(caller, a(0) as c_int, a(1), a(2) as c_int),
        "rmdir" => hands.unlink(caller, here, a(0), libc::AT_REMOVEDIR),
        "chmod" => hands.chmod(caller, here, a(0), a(1) as u32, 0),
        "fchmodat" => hands.chmod(caller, a(0) as c_int, a(1), a(2) as u32, 0),
        "fchmodat2" => hands.chmod(caller, a(0) as c_int, a(1), a(2) as u32, a(3) as c_int),
        "fchmod" => hands.fchmod(caller, a(0) as c_int, a(1) as u32),
        "utime" => hands.set_times(caller, (here, a(0)), Times::Seconds(a(1)), 0),
        "utimes" => hands.set_times(caller, (here, a(0)), Times::Micros(a(1)), 0),
        "futimesat" => hands.set_times(caller, (a(0) as c_int, a(1)), Times::Micros(a(2)), 0),
        "utimensat" => hands.set_times(caller, (a(0) as c_int, a(1)), Times::Nanos(a(2)), a(3) as c_int),
        "umask" => hands.umask(caller, a(0)),
        _ => Err(errno(libc::ENOSYS)),
    }
}

/// What came of performing a call.
#[derive(Debug)]
enum Done {
    /// It was done and answers with 0.
    Nothing,
    /// A file was opened; the flags say whether it closes on exec.
    Open(std::os::fd::OwnedFd, c_int),
    /// A pipe without a reader, to be opened when there is one.
    Waiting(waiting::Waiting),
    /// Integer arguments only, nothing to decide: the kernel goes on.
    Continue,
}
