//! A socket on which names are asked for by datagram, waited for with everything else.

use sbx_platform::door::Asker;
use std::io;
use std::os::fd::AsFd;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The socket, whose datagrams are read and answered by the platform.
#[derive(Debug)]
pub(crate) struct Datagrams(UdpSocket);

impl Datagrams {
    pub(crate) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket).map(Self)
    }

    /// The next question.
    pub(crate) async fn next(&self, room: &mut [u8]) -> io::Result<(usize, Asker)> {
        self.0.async_io(Interest::READABLE, || Asker::next(self.0.as_fd(), room)).await
    }

    /// Answers; what cannot be sent now is asked again.
    pub(crate) fn answer(&self, bytes: &[u8], to: &Asker) {
        let _ = to.answer(self.0.as_fd(), bytes);
    }
}
