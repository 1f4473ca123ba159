//! TLS towards masters: the proxy's own certificate, and the authorities it trusts.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{Current, PairFiles, Unusable, authorities, provider};

/// Paths of the certificate files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Authorities that have signed the masters' certificates; `None` for the system's trust store.
    pub authorities: Option<PathBuf>,
    /// Certificate shown to masters with `tls-auth-clients`.
    pub pair: Option<PairFiles>,
}

/// Opens TLS connections to masters.
pub type TlsClient = Current<Files>;

impl super::Files for Files {
    type Handshakes = TlsConnector;

    fn handshakes(&self) -> Result<TlsConnector, Unusable> {
        let authorities = match &self.authorities {
            Some(path) => authorities(path)?,
            None => of_the_system()?,
        };
        let wrong = |why| match (&self.pair, &self.authorities) {
            (Some(pair), _) => pair.wrong(why),
            (None, path) => {
                let path = path.clone().unwrap_or_default();
                Unusable::Authority { path, why: why.to_string() }
            }
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_root_certificates(authorities);
        let config = match &self.pair {
            Some(pair) => {
                let (chain, key) = pair.read()?;
                builder.with_client_auth_cert(chain, key).map_err(wrong)?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Arc::new(config).into())
    }
}

fn of_the_system() -> Result<RootCertStore, Unusable> {
    let mut authorities = RootCertStore::empty();
    // A few unparsable certificates are no reason to trust none.
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match authorities.is_empty() {
        true => Err(Unusable::NoAuthority("master-tls-ca-cert-file")),
        false => Ok(authorities),
    }
}
