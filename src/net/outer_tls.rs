//! TLS to the outside, verified against what this machine trusts.

use crate::capability::Host;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What the other side may be asked to speak.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Verified connections; what is trusted is read when the first is made.
#[derive(Debug, Default)]
pub(crate) struct OuterTls {
    base: OnceLock<Arc<RootCertStore>>,
}

impl OuterTls {
    /// Reads what this machine trusts, unless that was done.
    fn roots(&self) -> Arc<RootCertStore> {
        let read = || {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        };
        self.base.get_or_init(read).clone()
    }

    /// A verified connection over a stream, offering those protocols of a greeting that can be judged; also
    /// whether HTTP/2 was chosen.
    pub(crate) async fn connect(
        &self,
        host: &Host,
        stream: TcpStream,
        offered: &[Vec<u8>],
    ) -> io::Result<(TlsStream<TcpStream>, bool)> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(self.roots())
            .with_no_client_auth();
        let known = [HTTP2, HTTP1].into_iter().filter(|known| offered.iter().any(|offer| offer == known));
        config.alpn_protocols = known.map(<[u8]>::to_vec).collect();
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.to_string()).map_err(io::Error::other)?,
            Host::Ip(ip) => ServerName::from(*ip),
        };
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok((stream, http2))
    }
}
