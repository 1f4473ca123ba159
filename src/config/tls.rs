//! TLS for clients and masters, with the certificates.

use std::path::PathBuf;

use super::typed::Typed;
use super::{InvalidSetting, values};
use crate::net::tls::server::{self, AuthClients};
use crate::net::tls::{PairFiles, client};

/// TLS for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsListen {
    /// `host:port`; port 0 lets the system choose.
    pub listen: String,
    /// The certificates.
    pub files: server::Files,
}

/// The certificates for masters with `rediss://`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MasterTls {
    /// The certificates.
    pub files: client::Files,
    /// Required name in their certificates; `None`: the host of their address.
    pub server_name: Option<String>,
}

impl TlsListen {
    /// Returns the TLS settings for clients, if configured.
    ///
    /// # Errors
    /// Returns an error if a setting that belongs to it is missing, or makes no sense without it.
    pub(super) fn from_typed(typed: &Typed) -> Result<Option<Self>, InvalidSetting> {
        let certificate = pair(typed, "tls-cert-file", "tls-key-file")?;
        let authorities = typed.given("tls-ca-cert-file").map(PathBuf::from);
        let auth_clients = typed.read("tls-auth-clients", auth_clients)?;
        let auth_clients = auth_clients.unwrap_or(match authorities {
            Some(_) => AuthClients::Yes,
            None => AuthClients::No,
        });
        if auth_clients != AuthClients::No && authorities.is_none() {
            return Err(InvalidSetting::new(
                "tls-auth-clients needs tls-ca-cert-file: the authorities that sign the clients' certificates",
            ));
        }
        match (typed.read("tls-listen", values::listen_address)?, certificate) {
            (Some(listen), Some(pair)) => {
                let files = server::Files { pair, authorities, auth_clients };
                Ok(Some(Self { listen, files }))
            }
            (Some(_), None) => Err(InvalidSetting::new(
                "tls-listen needs tls-cert-file and tls-key-file: the proxy's certificate and its key",
            )),
            (None, Some(_)) => Err(InvalidSetting::new(
                "tls-cert-file has no effect without tls-listen: set the address for TLS clients",
            )),
            (None, None) => Ok(None),
        }
    }
}

impl MasterTls {
    pub(super) fn from_typed(typed: &Typed) -> Result<Self, InvalidSetting> {
        let pair = pair(typed, "master-tls-cert-file", "master-tls-key-file")?;
        let authorities = typed.given("master-tls-ca-cert-file").map(PathBuf::from);
        let files = client::Files { authorities, pair };
        let server_name = typed.given("master-tls-server-name").map(str::to_owned);
        Ok(Self { files, server_name })
    }
}

fn auth_clients(text: &str) -> Result<AuthClients, String> {
    match text {
        "yes" => Ok(AuthClients::Yes),
        "optional" => Ok(AuthClients::Optional),
        "no" => Ok(AuthClients::No),
        _ => Err("must be yes, optional or no".to_owned()),
    }
}

/// Returns the files of a certificate and its key, both of which are needed.
fn pair(
    typed: &Typed,
    cert_name: &str,
    key_name: &str,
) -> Result<Option<PairFiles>, InvalidSetting> {
    match (typed.given(cert_name), typed.given(key_name)) {
        (Some(cert), Some(key)) => Ok(Some(PairFiles { cert: cert.into(), key: key.into() })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(InvalidSetting::new(format!("{cert_name} needs {key_name}"))),
        (None, Some(_)) => Err(InvalidSetting::new(format!("{key_name} needs {cert_name}"))),
    }
}
