//! The way to the data Redis.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisConnectionInfo;
use tokio::net::UnixStream;

use super::advice::Notes;
use super::health::Health;
use super::sentinels::Inquiry;
use super::whereabouts::{Tenure, Whereabouts};
use crate::config::{Data, DataPlace, MasterTls};
use crate::masters::dial::{Dial as _, DialledStream, Network};
use crate::masters::probe::login;
use crate::net::tls::Unusable;

/// The data Redis, as every client's connection needs to know it.
#[derive(Clone)]
pub struct Upstream {
    settings: Arc<Data>,
    network: Network,
    health: Arc<Health>,
    notes: Arc<Notes>,
    /// Its current address, if sentinels choose it.
    whereabouts: Option<Arc<Whereabouts>>,
}

/// Maximum time to connect, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that has been opened.
pub struct Dialled {
    /// Stream to the data Redis.
    pub stream: DialledStream,
    /// Time for which it may be used, if sentinels decide that.
    pub tenure: Option<Tenure>,
}

impl Upstream {
    /// Reads certificates if the address asks for TLS. They are those for masters, except for the server name, which
    /// only masters have.
    ///
    /// # Errors
    /// Returns an error if the certificates cannot be used.
    pub fn of(settings: &Data, masters: &MasterTls) -> Result<Self, Unusable> {
        let tls = MasterTls { server_name: None, ..masters.clone() };
        let network = match &settings.address.place {
            DataPlace::Tcp(address) => Network::of(std::slice::from_ref(address), &tls)?,
            DataPlace::Unix(_) => Network::default(),
            DataPlace::Sentinel(sentinel) => Network::of(&sentinel.sentinels, &tls)?,
        };
        let is_followed = matches!(settings.address.place, DataPlace::Sentinel(_));
        Ok(Self {
            settings: Arc::new(settings.clone()),
            network,
            health: Arc::default(),
            notes: Arc::new(Notes::new(&settings.locks, settings.warn_unmatched_after)),
            whereabouts: is_followed.then(Arc::default),
        })
    }

    /// Returns the configured settings.
    pub fn settings(&self) -> &Data {
        &self.settings
    }

    /// Returns its health.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Returns what the traffic says about the patterns.
    #[inline]
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Reads the certificates again.
    ///
    /// # Errors
    /// Returns an error if they cannot be used. The previous ones stay in use then.
    pub fn read_again(&self) -> Result<(), Unusable> {
        self.network.read_again()
    }

    /// Whether the data Redis is reached over TLS, so that there are certificates.
    pub fn has_tls(&self) -> bool {
        self.network.has_tls()
    }

    /// Returns the proxy's own login.
    pub fn login(&self) -> RedisConnectionInfo {
        let address = &self.settings.address;
        let password = address.password.as_ref();
        login(password.and(address.user.as_deref()), password)
    }

    /// Returns its current address, without a login; `None`: no sentinel has named one yet.
    pub fn address(&self) -> Option<String> {
        let address = &self.settings.address;
        match &self.whereabouts {
            None => Some(address.to_string()),
            Some(it) => it.master().map(|master| format!("{master}/{}", address.db)),
        }
    }

    /// Returns its current whereabouts, if sentinels choose it.
    pub(super) fn whereabouts(&self) -> Option<&Whereabouts> {
        self.whereabouts.as_deref()
    }

    /// Returns the client that asks the sentinels, if there are some.
    pub(super) fn inquiry(&self) -> Option<Inquiry<'_>> {
        match (&self.settings.address.place, self.whereabouts()) {
            (DataPlace::Sentinel(address), Some(whereabouts)) => {
                Some(Inquiry { address, network: &self.network, whereabouts })
            }
            _ => None,
        }
    }

    /// Opens a connection, and resolves the host name anew.
    ///
    /// # Errors
    /// Returns an error if the data Redis cannot be reached in time, or if no sentinel knows its address.
    pub async fn dial(&self) -> io::Result<Dialled> {
        let dialled = tokio::time::timeout(CONNECT_TIMEOUT, self.dial_patiently()).await;
        dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn dial_patiently(&self) -> io::Result<Dialled> {
        let stream = match (&self.settings.address.place, self.whereabouts()) {
            (_, Some(whereabouts)) => return self.dial_master(whereabouts).await,
            (DataPlace::Tcp(address), None) => self.network.dial(address).await?,
            (DataPlace::Unix(path), None) => DialledStream::Unix(UnixStream::connect(path).await?),
            (DataPlace::Sentinel(_), None) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Dialled { stream, tenure: None })
    }

    /// Dials the master, and the next one if it is replaced meanwhile: nothing has been sent to it yet.
    async fn dial_master(&self, whereabouts: &Whereabouts) -> io::Result<Dialled> {
        loop {
            let mut tenure = whereabouts.tenure().await.map_err(io::Error::other)?;
            let master = tenure.master().clone();
            tokio::select! {
                biased;
                () = tenure.ended() => {}
                stream = self.network.dial(&master) => {
                    return Ok(Dialled { stream: stream?, tenure: Some(tenure) });
                }
            }
        }
    }
}
