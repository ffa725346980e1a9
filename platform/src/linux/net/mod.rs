//! A network whose only ways out are sockets that somebody outside serves.
//!
//! Answers for making those sockets where the command's network is, for leading the command's connections to
//! them and for handing them out. It leaves serving them, and every decision about names, to the porter.
//! Invariant: the command starts only after somebody has taken the sockets.

mod apart;
mod behalf;
mod book;
mod destinations;
mod inside;
pub(crate) mod inward;
pub(crate) mod kit;
mod netlink;
mod route;
mod rules;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

pub(crate) use apart::Apart;
pub(crate) use behalf::{Behalf, prepare};
pub(crate) use inside::arrange;
pub(crate) use kit::{Arriving, Kit};

use crate::door::Porter;
use crate::linux::sys::{errno, socket};

/// The word that lets a waiting stage go on.
pub(crate) const GO: &[u8] = b"G";

/// Whoever is handed the sockets of a launch.
pub(crate) trait Host {
    /// Takes them; the command starts when this has succeeded.
    fn take(&mut self, kit: Kit) -> io::Result<()>;

    /// Hears that the fence is being built; the command starts when this has succeeded.
    fn begun(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A porter in this process.
pub(crate) struct Here<'p>(pub(crate) &'p mut dyn Porter);

impl Host for Here<'_> {
    fn take(&mut self, kit: Kit) -> io::Result<()> {
        self.0.open(kit.into_doors()?)
    }

    fn begun(&mut self) -> io::Result<()> {
        self.0.begun()
    }
}

/// A porter in the program that started this launcher.
#[derive(Debug)]
pub(crate) struct Over(pub(crate) OwnedFd);

impl Host for Over {
    fn take(&mut self, kit: Kit) -> io::Result<()> {
        kit.send(self.0.as_fd())?;
        drop(kit);
        let mut answer = [0; 5];
        match socket::receive(self.0.as_fd(), &mut answer, 0)? {
            (1, _) if answer[..1] == *GO => Ok(()),
            (5, _) => {
                let [_, number @ ..] = answer;
                Err(errno(i32::from_le_bytes(number)))
            }
            _ => Err(errno(libc::EPIPE)),
        }
    }
}

/// The other side of [`Over`]: hands the sockets to `porter` when they come. The error is the porter's.
pub(crate) fn receive_for(porter: &mut dyn Porter, line: &OwnedFd) -> io::Result<()> {
    let mut arriving = Arriving::default();
    let kit = loop {
        let mut buffer = [0; kit::CHUNK];
        // Whatever goes wrong before they have come is for the launcher to tell.
        let Ok((length @ 1.., fds)) = socket::receive_many(line.as_fd(), &mut buffer, 0) else {
            return Ok(());
        };
        if let Some(kit) = arriving.add(&buffer[..length], fds) {
            break kit;
        }
    };
    let taken = kit.into_doors().and_then(|doors| porter.open(doors));
    let answer = match &taken {
        Ok(()) => GO.to_vec(),
        Err(error) => [b"N".as_slice(), &crate::linux::sys::number(error).to_le_bytes()].concat(),
    };
    let _ = socket::send(line.as_fd(), &answer, None);
    taken
}
