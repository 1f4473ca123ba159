//! TLS for clients: the proxy's own certificate, and the certificates it requires.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::{Current, PairFiles, Unusable, authorities, provider};

/// Paths of the certificate files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The proxy's own certificate (`tls-cert-file`, `tls-key-file`).
    pub pair: PairFiles,
    /// Authorities that sign client certificates (`tls-ca-cert-file`).
    pub authorities: Option<PathBuf>,
    /// Whether clients must show a certificate (`tls-auth-clients`).
    pub auth_clients: AuthClients,
}

/// Whether clients must show a certificate (`tls-auth-clients` in redis.conf).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthClients {
    /// No certificate is requested.
    No,
    /// A certificate is optional, but must be valid if shown.
    Optional,
    /// A valid certificate is required.
    Yes,
}

impl fmt::Display for AuthClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "no",
            Self::Optional => "optional",
            Self::Yes => "yes",
        })
    }
}

/// Accepts TLS connections from clients.
pub type Server = Current<Files>;

impl super::Files for Files {
    type Handshakes = TlsAcceptor;

    fn handshakes(&self) -> Result<TlsAcceptor, Unusable> {
        let (chain, key) = self.pair.read()?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|why| self.pair.wrong(why))?
            .with_client_cert_verifier(self.verifier()?)
            .with_single_cert(chain, key)
            .map_err(|why| self.pair.wrong(why))?;
        Ok(Arc::new(config).into())
    }
}

impl Files {
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
