//! The process that stays beside the command: it reaps, forwards signals and answers the broker's line.
//!
//! Answers for the end: when the command ends, or the supervisor is gone, this process leaves, and in a pid
//! namespace the kernel then kills all others. It leaves time and output to the supervisor.
//! Invariant: it holds no descriptor of the host but the line to the supervisor.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libc::{c_int, pid_t};

use crate::linux::bare::Children;
use crate::linux::broker::{Broker, Protected};
use crate::linux::message::{MESSAGE_MAX, Message};
use crate::linux::net::{Behalf, inward};
use crate::linux::sys::{fd, process, signal, socket};
use crate::linux::telling::{Audience, Telling};
use crate::linux::trace::{self, Tracer};

/// Exit status of a stage that could not start the command; the report says why.
pub(crate) const FAILED: c_int = 125;

/// A number up to this is had only in a pid namespace of one's own, beside bubblewrap in the second place; -1 stands for
/// all others in it.
const OWN: pid_t = 2;

/// What the keeper watches.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// To the supervisor.
    pub(crate) line: OwnedFd,
    /// The command.
    pub(crate) command: pid_t,
    /// Watched calls, if any are watched.
    pub(crate) listener: Option<OwnedFd>,
    /// What the broker guards.
    pub(crate) protected: Option<Protected>,
    /// What it connects on the command's behalf.
    pub(crate) behalf: Option<Behalf>,
    /// Where sockets of this network are asked for.
    pub(crate) inward: Option<OwnedFd>,
    /// Whom to end with the command, where the kernel does not.
    pub(crate) brood: Option<Children>,
    /// Whether there is a private terminal, from which the command can be stopped.
    pub(crate) terminal: bool,
    /// What follows the launch from call to call, if it is to be told what is asked for.
    pub(crate) tracer: Option<Tracer>,
    /// Whether refusals are told as they happen.
    pub(crate) tells: bool,
}

impl Keeper {
    /// Stays until the command has ended, after passing on what came `early`. Never returns.
    pub(crate) fn run(mut self, early: &[u8]) -> ! {
        let Ok(children) = signal::Collected::take(&[libc::SIGCHLD]) else { process::leave(FAILED) };
        self.let_go(&children);
        let (behalf, tracer) = (self.behalf.take(), self.tracer.take());
        let audience = match (&tracer, self.tells) {
            (Some(_), true) => Audience::AllNow,
            (Some(_), false) => Audience::All,
            (None, true) => Audience::Now,
            (None, false) => Audience::Later,
        };
        let mut broker = self.listener.as_ref().map(|listener| {
            let telling = Telling::new(self.line.as_fd(), audience);
            match Broker::new(listener.as_fd(), self.protected.as_ref(), behalf, telling) {
                Ok(broker) => broker,
                Err(_) => process::leave(FAILED),
            }
        });
        let mut set = [
            watch(self.line.as_raw_fd()),
            watch(children.raw()),
            watch(self.listener.as_ref().map_or(-1, AsRawFd::as_raw_fd)),
            watch(self.inward.as_ref().map_or(-1, AsRawFd::as_raw_fd)),
        ];
        for number in early {
            self.pass_on(*number);
        }
        let mut telling = Telling::new(self.line.as_fd(), audience);
        let mut tracer = tracer.map(|tracer| (tracer, &mut telling));
        self.reap(&children, tracer.as_mut());
        loop {
            if fd::poll(&mut set, -1).is_err() {
                process::leave(FAILED);
            }
            if set[0].revents != 0 {
                self.obey();
            }
            if set[1].revents != 0 {
                self.reap(&children, tracer.as_mut());
            }
            if set[2].revents & libc::POLLIN != 0 {
                if let Some(broker) = &mut broker {
                    broker.answer();
                }
            } else if set[2].revents != 0 {
                set[2].fd = -1;
            }
            if set[3].revents != 0
                && let Some(line) = &self.inward
                && inward::answer(line, |six, port| serves(broker.as_ref(), six, port)).is_err()
            {
                set[3].fd = -1;
            }
        }
    }

    /// Closes everything but the lines it listens on.
    fn let_go(&self, children: &signal::Collected) {
        let listener = self.listener.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let brood = self.brood.as_ref().map_or(-1, Children::raw);
        let inward = self.inward.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut kept = vec![self.line.as_raw_fd(), listener, children.raw(), brood, inward];
        kept.extend(self.behalf.iter().flat_map(Behalf::raw));
        kept.sort_unstable();
        let mut from = 0;
        for keep in kept.into_iter().filter(|keep| *keep >= 0) {
            if keep > from {
                let _ = fd::close_range(from, (keep - 1) as u32);
            }
            from = keep + 1;
        }
        let _ = fd::close_range(from, u32::MAX);
    }

    fn tell(&self, message: &Message) {
        let _ = socket::send(self.line.as_fd(), &message.encode(), None);
    }

    /// A signal to pass on, or the end of the line: the supervisor is gone.
    fn obey(&self) {
        let mut buffer = [0; MESSAGE_MAX];
        match socket::receive(self.line.as_fd(), &mut buffer, libc::MSG_DONTWAIT) {
            Ok((2, _)) if buffer[0] == b'S' => self.pass_on(buffer[1]),
            Ok((0, _)) => self.depart(FAILED),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => self.depart(FAILED),
        }
    }

    fn pass_on(&self, signal: u8) {
        let _ = process::kill(-self.command, c_int::from(signal));
    }

    /// Leaves, and takes every other process of the launch along.
    fn depart(&self, status: c_int) -> ! {
        match &self.brood {
            Some(brood) => brood.kill(&[]),
            // The kernel would end them in a moment, but after the calls that are answered here had failed.
            None if process::own_pid() <= OWN => drop(process::kill(-1, libc::SIGKILL)),
            None => {}
        }
        process::leave(status)
    }

    /// Collects ended children, and looks at threads that have stopped for it; with the command's end, this
    /// process ends too.
    fn reap(&self, children: &signal::Collected, mut tracer: Option<&mut (Tracer, &mut Telling<'_>)>) {
        while children.next().is_some() {}
        let flags = match (&tracer, self.terminal) {
            (Some(_), _) => libc::WNOHANG | trace::ALL,
            (None, true) => libc::WNOHANG | libc::WUNTRACED,
            (None, false) => libc::WNOHANG,
        };
        while let Ok(Some((pid, status))) = process::reap(-1, flags) {
            if let Some((tracer, telling)) = &mut tracer {
                if libc::WIFSTOPPED(status) {
                    tracer.stopped(pid, status);
                } else {
                    tracer.ended(pid);
                }
                tracer.take().into_iter().for_each(|act| telling.tell(act));
            }
            if pid == self.command && tracer.is_none() && libc::WIFSTOPPED(status) {
                self.tell(&Message::Stopped);
            }
            if pid == self.command && !libc::WIFSTOPPED(status) {
                self.tell(&Message::Ended(status));
                self.depart(0);
            }
        }
    }
}

/// The port that is reached from outside: any in a network of one's own, else only those of the launch itself.
fn serves(broker: Option<&Broker<'_>>, six: bool, port: u16) -> Option<u16> {
    match broker.and_then(Broker::behalf) {
        Some(behalf) => behalf.serves(six, port),
        None => Some(port),
    }
}

fn watch(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}
