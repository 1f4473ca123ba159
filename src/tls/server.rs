//! What the proxy shows to clients that connect by TLS, and what it asks of them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::{PairFiles, Unusable, authorities, provider};

/// Where the certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The proxy's own (`tls-cert-file`, `tls-key-file`).
    pub pair: PairFiles,
    /// Who has signed those of clients (`tls-ca-cert-file`).
    pub authorities: Option<PathBuf>,
    /// Whether clients must show one (`tls-auth-clients`).
    pub auth_clients: AuthClients,
}

/// Whether clients must show a certificate (`tls-auth-clients` of redis.conf).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthClients {
    /// None is asked for.
    No,
    /// One that is shown has to be valid.
    Optional,
    /// Nobody is served without one.
    Yes,
}

/// Accepts handshakes by what the files held when they were last read.
pub struct Server {
    files: Files,
    current: Mutex<TlsAcceptor>,
}

impl Server {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn read(files: &Files) -> Result<Self, Unusable> {
        Ok(Self { current: Mutex::new(files.acceptor()?), files: files.clone() })
    }

    /// Reads the files again. When they cannot be used, what they held before goes on to count.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn read_again(&self) -> Result<(), Unusable> {
        let acceptor = self.files.acceptor()?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    /// For one handshake.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Files {
    fn acceptor(&self) -> Result<TlsAcceptor, Unusable> {
        let (chain, key) = self.pair.read()?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|why| self.pair.wrong(why))?
            .with_client_cert_verifier(self.verifier()?)
            .with_single_cert(chain, key)
            .map_err(|why| self.pair.wrong(why))?;
        Ok(Arc::new(config).into())
    }

    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, Unusable> {
        let (Some(path), AuthClients::Optional | AuthClients::Yes) =
            (&self.authorities, self.auth_clients)
        else {
            return Ok(WebPkiClientVerifier::no_client_auth());
        };
        let authorities = Arc::new(authorities(path)?);
        let mut builder = WebPkiClientVerifier::builder_with_provider(authorities, provider());
        if self.auth_clients == AuthClients::Optional {
            builder = builder.allow_unauthenticated();
        }
        let verifier = builder.build();
        verifier.map_err(|why| Unusable::Authority { path: path.clone(), why: why.to_string() })
    }
}
