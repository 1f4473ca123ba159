//! TLS for clients and towards masters: certificates and trusted authorities. rustls does everything else.
//!
//! * [`server`]: the certificate shown to clients, and the certificates required of them
//! * [`client`]: the certificate shown to masters, and the authorities trusted for theirs
//!
//! Certificates are reloaded together with the settings (`SIGHUP`). New ones apply to connections opened from then on.

pub mod client;
pub mod server;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, crypto};

/// Reason why certificate files cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Unusable {
    #[error("cannot read {}: {why}", path.display())]
    Unreadable { path: PathBuf, why: std::io::Error },
    #[error("{} holds no {what} in PEM format", path.display())]
    Missing { path: PathBuf, what: &'static str },
    #[error("{} is not valid PEM: {why}", path.display())]
    Malformed { path: PathBuf, why: pem::Error },
    #[error("the certificate in {} and the key in {} cannot be used: {why}", cert.display(), key.display())]
    Pair { cert: PathBuf, key: PathBuf, why: tokio_rustls::rustls::Error },
    #[error("the certificates in {} cannot be trusted: {why}", path.display())]
    Authority { path: PathBuf, why: String },
    #[error("the system has no certificate authorities: pass yours with {0}")]
    NoAuthority(&'static str),
}

/// Certificate files, and the handshakes that they allow.
pub trait Files: Clone {
    /// Configuration of handshakes, cheap to clone.
    type Handshakes: Clone;

    /// Reads the files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be used.
    fn handshakes(&self) -> Result<Self::Handshakes, Unusable>;
}

/// Content of the files when they were last read.
pub struct Current<F: Files> {
    files: F,
    handshakes: Mutex<F::Handshakes>,
}

impl<F: Files> Current<F> {
    /// Reads the files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be used.
    pub fn read(files: &F) -> Result<Self, Unusable> {
        Ok(Self { handshakes: Mutex::new(files.handshakes()?), files: files.clone() })
    }

    /// Reloads the files. If they cannot be used, the previous content stays in effect.
    ///
    /// # Errors
    /// Returns an error if a file cannot be used.
    pub fn read_again(&self) -> Result<(), Unusable> {
        let handshakes = self.files.handshakes()?;
        *self.handshakes.lock().unwrap_or_else(PoisonError::into_inner) = handshakes;
        Ok(())
    }

    /// Returns the configuration for one handshake.
    pub fn get(&self) -> F::Handshakes {
        self.handshakes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    /// Certificate and its chain to the authority.
    pub cert: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
}

type Chain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl PairFiles {
    fn read(&self) -> Result<Chain, Unusable> {
        let certificates = certificates(&self.cert)?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        Ok((certificates, key.map_err(|why| unusable(&self.key, "private key", why))?))
    }

    fn wrong(&self, why: tokio_rustls::rustls::Error) -> Unusable {
        Unusable::Pair { cert: self.cert.clone(), key: self.key.clone(), why }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|why| unusable(path, "certificate", why))?;
    match found.is_empty() {
        true => Err(Unusable::Missing { path: path.to_owned(), what: "certificate" }),
        false => Ok(found),
    }
}

fn unusable(path: &Path, what: &'static str, why: pem::Error) -> Unusable {
    let path = path.to_owned();
    match why {
        pem::Error::Io(why) => Unusable::Unreadable { path, why },
        pem::Error::NoItemsFound => Unusable::Missing { path, what },
        why => Unusable::Malformed { path, why },
    }
}

/// Reads the authorities in a file.
fn authorities(path: &Path) -> Result<RootCertStore, Unusable> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = authorities.add(certificate);
        added.map_err(|why| Unusable::Authority { path: path.to_owned(), why: why.to_string() })?;
    }
    Ok(authorities)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}
