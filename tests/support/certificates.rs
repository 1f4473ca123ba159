//! A certificate authority and the certificates it signs, as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::Raw;

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

/// Paths of a certificate and its key.
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = named(format!("authority {}", fastrand::u64(..)), Vec::new());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("written");
        Authority { issuer, directory }
    }

    /// Path of the authority's own certificate.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Signs a certificate for these names and addresses.
    pub fn sign(&self, names: &[&str]) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = named("somebody".to_owned(), names);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |kind, text: String| {
            let path = self.directory.path().join(format!("{}.{kind}", fastrand::u64(..)));
            std::fs::write(&path, text).expect("written");
            path
        };
        Pair { cert: file("crt", certificate.pem()), key: file("key", key.serialize_pem()) }
    }

    /// Connects as a client that trusts this authority and presents `pair`.
    ///
    /// # Errors
    /// Returns an error if the handshake fails. A rejected client certificate shows up later: TLS
    /// 1.3 clients learn of it when they read.
    pub async fn connect(&self, address: &str, pair: Option<&Pair>) -> std::io::Result<Raw> {
        let mut trusted = RootCertStore::empty();
        for certificate in certificates(&self.path()) {
            trusted.add(certificate).expect("an authority");
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_root_certificates(trusted);
        let config = match pair {
            Some(pair) => {
                let key = PrivateKeyDer::from_pem_file(&pair.key).expect("a key");
                builder.with_client_auth_cert(certificates(&pair.cert), key).expect("a pair")
            }
            None => builder.with_no_client_auth(),
        };
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        Ok(Raw::over(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
    }
}

impl Pair {
    /// Overwrites these files with the contents of `newer`.
    pub fn replace_by(&self, newer: &Pair) {
        std::fs::copy(&newer.cert, &self.cert).expect("copied");
        std::fs::copy(&newer.key, &self.key).expect("copied");
    }
}

/// Gives each certificate its own name: OpenSSL mistakes a certificate for its own authority when
/// both have the same name.
fn named(name: String, addresses: Vec<String>) -> CertificateParams {
    let mut params = CertificateParams::new(addresses).expect("parameters");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    let found = CertificateDer::pem_file_iter(path).expect("a file");
    found.collect::<Result<_, _>>().expect("certificates")
}
