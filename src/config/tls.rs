//! TLS settings: for clients and masters, with their certificates.

use std::path::PathBuf;

use super::typed::{Typed, Word};
use super::{InvalidSetting, given, set_given, values};
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

/// TLS for masters with `rediss://`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MasterTls {
    /// The certificates.
    pub files: client::Files,
    /// The name that their certificates must have; `None`: the host of their address.
    pub server_name: Option<String>,
}

impl TlsListen {
    /// Returns the typed settings, if TLS was asked for.
    ///
    /// # Errors
    /// Returns an error if a setting that belongs to it is missing, or makes no sense without it.
    pub(super) fn from_typed(typed: &Typed) -> Result<Option<Self>, InvalidSetting> {
        let certificate =
            pair(("tls-cert-file", &typed.tls_cert_file), ("tls-key-file", &typed.tls_key_file))?;
        let authorities = path(&typed.tls_ca_cert_file);
        let mut auth_clients = match authorities {
            Some(_) => AuthClients::Yes,
            None => AuthClients::No,
        };
        set_given(
            &mut auth_clients,
            "tls-auth-clients",
            &typed.tls_auth_clients,
            |text| match text {
                "yes" => Ok(AuthClients::Yes),
                "optional" => Ok(AuthClients::Optional),
                "no" => Ok(AuthClients::No),
                _ => Err("must be yes, optional or no".to_owned()),
            },
        )?;
        if auth_clients != AuthClients::No && authorities.is_none() {
            return Err(InvalidSetting::new(
                "tls-auth-clients needs tls-ca-cert-file: who has signed the clients' certificates",
            ));
        }
        let mut listen = None;
        set_given(&mut listen, "tls-listen", &typed.tls_listen, |text| {
            values::listen_address(text).map(Some)
        })?;
        match (listen, certificate) {
            (Some(listen), Some(pair)) => {
                let files = server::Files { pair, authorities, auth_clients };
                Ok(Some(Self { listen, files }))
            }
            (Some(_), None) => Err(InvalidSetting::new(
                "tls-listen needs tls-cert-file and tls-key-file: the proxy's certificate and its key",
            )),
            (None, Some(_)) => Err(InvalidSetting::new(
                "tls-cert-file has no use without tls-listen: say where clients connect by TLS",
            )),
            (None, None) => Ok(None),
        }
    }
}

impl MasterTls {
    pub(super) fn from_typed(typed: &Typed) -> Result<Self, InvalidSetting> {
        let pair = pair(
            ("master-tls-cert-file", &typed.master_tls_cert_file),
            ("master-tls-key-file", &typed.master_tls_key_file),
        )?;
        let files = client::Files { authorities: path(&typed.master_tls_ca_cert_file), pair };
        let server_name = given(&typed.master_tls_server_name).map(str::to_owned);
        Ok(Self { files, server_name })
    }
}

fn pair(
    (cert_name, cert): (&str, &Option<Word>),
    (key_name, key): (&str, &Option<Word>),
) -> Result<Option<PairFiles>, InvalidSetting> {
    match (path(cert), path(key)) {
        (Some(cert), Some(key)) => Ok(Some(PairFiles { cert, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(InvalidSetting::new(format!("{cert_name} needs {key_name}"))),
        (None, Some(_)) => Err(InvalidSetting::new(format!("{key_name} needs {cert_name}"))),
    }
}

fn path(word: &Option<Word>) -> Option<PathBuf> {
    given(word).map(PathBuf::from)
}
