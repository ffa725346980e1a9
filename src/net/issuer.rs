//! The authority of one launch, which signs what is shown inside in place of an inspected host's certificate.
//!
//! Answers for keys and certificates. It leaves when to inspect to the flow.
//! Invariant: its key exists in memory only, for one launch, and nothing outside trusts it.

use super::bounds;
use crate::capability::Host;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Signs certificates for inspected hosts.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    made: Mutex<Made>,
}

/// What is made when the first host is answered for.
#[derive(Default)]
struct Made {
    /// One key for all hosts: it never leaves this process either.
    leaf: Option<KeyPair>,
    configs: HashMap<(Host, bool), Arc<ServerConfig>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(…)")
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl Authority {
    /// Makes a key and a certificate of its own.
    pub(crate) fn new() -> io::Result<Self> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "sbx, for one launch");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_dates(&mut params);
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Self {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            made: Mutex::default(),
        })
    }

    /// What programs inside are told to trust.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// How to answer for a host with one protocol.
    pub(crate) fn answer_for(&self, host: &Host, http2: bool) -> io::Result<Arc<ServerConfig>> {
        let key = (host.clone(), http2);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = made.configs.get(&key) {
            return Ok(config.clone());
        }
        if made.configs.len() >= bounds::CERTIFICATES {
            made.configs.clear();
        }
        let leaf = match made.leaf.take() {
            Some(leaf) => leaf,
            None => KeyPair::generate().map_err(failed)?,
        };
        let config = Arc::new(self.make(host, http2, made.leaf.insert(leaf))?);
        made.configs.insert(key, config.clone());
        Ok(config)
    }

    fn make(&self, host: &Host, http2: bool, own: &KeyPair) -> io::Result<ServerConfig> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![match host {
            Host::Name(name) => SanType::DnsName((&**name).try_into().map_err(failed)?),
            Host::Ip(ip) => SanType::IpAddress(*ip),
        }];
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_dates(&mut params);
        let leaf = params.signed_by(own, &self.issuer).map_err(failed)?;
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(failed)?;
        config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        Ok(config)
    }
}

fn set_dates(params: &mut CertificateParams) {
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + 30 * DAY).into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once_for_a_host() {
        let authority = Authority::new().unwrap();
        assert!(authority.pem().starts_with("-----BEGIN CERTIFICATE-----"));
        let host = Host::parse("api.example").unwrap();
        let first = authority.answer_for(&host, true).unwrap();
        assert!(Arc::ptr_eq(&first, &authority.answer_for(&host, true).unwrap()));
        assert!(!Arc::ptr_eq(&first, &authority.answer_for(&host, false).unwrap()));
        assert!(authority.answer_for(&Host::parse("127.0.0.1").unwrap(), false).is_ok());
        assert!(!format!("{authority:?}").contains("KEY"));
    }
}
