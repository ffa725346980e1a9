//! TLS to the outside, verified against what this machine trusts.

use super::ahead::Ahead;
use super::relay::Meter;
use crate::capability::Host;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What the other side may be asked to speak.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Where systems keep the certificates they trust, in one file.
pub(crate) const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Verified connections; what is trusted is read when the first is made.
#[derive(Debug, Default)]
pub(crate) struct OuterTls {
    base: OnceCell<Arc<RootCertStore>>,
    /// One for each choice of protocols. They remember sessions, so that a host is asked for its certificates once.
    configs: Mutex<HashMap<Vec<Vec<u8>>, Arc<ClientConfig>>>,
}

impl OuterTls {
    /// What this machine trusts, read beside everything else unless that was done.
    pub(crate) async fn roots(&self) -> Arc<RootCertStore> {
        let read = || async {
            tokio::task::spawn_blocking(read_roots).await.unwrap_or_else(|_| Arc::new(RootCertStore::empty()))
        };
        self.base.get_or_init(read).await.clone()
    }

    /// Whether that was done.
    pub(crate) fn is_ready(&self) -> bool {
        self.base.initialized()
    }

    /// A verified connection over a stream, offering those protocols of a greeting that can be judged; also
    /// whether HTTP/2 was chosen.
    pub(crate) async fn connect(
        &self,
        host: &Host,
        stream: TcpStream,
        offered: &[Vec<u8>],
        meter: &Meter,
    ) -> io::Result<(TlsStream<Ahead<TcpStream>>, bool)> {
        let known = [HTTP2, HTTP1].into_iter().filter(|known| offered.iter().any(|offer| offer == known));
        let config = self.config(known.map(<[u8]>::to_vec).collect()).await?;
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.to_string()).map_err(io::Error::other)?,
            Host::Ip(ip) => ServerName::from(*ip),
        };
        let stream = Ahead::new(Vec::new(), stream, meter);
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok((stream, http2))
    }

    /// How to ask for these protocols.
    async fn config(&self, protocols: Vec<Vec<u8>>) -> io::Result<Arc<ClientConfig>> {
        let roots = self.roots().await;
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = configs.get(&protocols) {
            return Ok(config.clone());
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols.clone_from(&protocols);
        let config = Arc::new(config);
        configs.insert(protocols, config.clone());
        Ok(config)
    }
}

/// Reads what this machine trusts. Beside their one file many systems keep a directory of some hundred files that say the
/// same; it is read only where there is no such file, or where somebody says what to read.
fn read_roots() -> Arc<RootCertStore> {
    let told = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| std::env::var_os(name).is_some());
    let file = BUNDLES.iter().map(Path::new).find(|path| path.exists());
    let found = match file.filter(|_| !told && cfg!(target_os = "linux")) {
        Some(file) => rustls_native_certs::load_certs_from_paths(Some(file), None),
        None => rustls_native_certs::load_native_certs(),
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    Arc::new(roots)
}
