//! The way to the data Redis.

use std::io;
use std::sync::Arc;

use tokio::net::UnixStream;

use super::health::Health;
use crate::config::{Data, MasterTls, Place};
use crate::master::dial::{Connection, Dial as _, Network};
use crate::tls::Unusable;

/// The data Redis, as every client's connection needs to know it.
#[derive(Clone)]
pub struct Upstream {
    settings: Arc<Data>,
    network: Network,
    health: Arc<Health>,
}

impl Upstream {
    /// Reads certificates if the address asks for TLS: those for masters, but for the name that only masters have.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn of(settings: &Data, masters: &MasterTls) -> Result<Self, Unusable> {
        let tls = MasterTls { server_name: None, ..masters.clone() };
        let network = match &settings.address.place {
            Place::Tcp(address) => Network::of(std::slice::from_ref(address), &tls)?,
            Place::Unix(_) => Network::default(),
        };
        Ok(Self { settings: Arc::new(settings.clone()), network, health: Arc::default() })
    }

    /// What was configured.
    pub fn settings(&self) -> &Data {
        &self.settings
    }

    /// What is known of it.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Reads the certificates again.
    ///
    /// # Errors
    /// They cannot be used; the ones before go on to count.
    pub fn read_again(&self) -> Result<(), Unusable> {
        self.network.read_again()
    }

    /// Opens a connection, with the host name resolved anew.
    ///
    /// # Errors
    /// The data Redis cannot be reached.
    pub(crate) async fn dial(&self) -> io::Result<Connection> {
        match &self.settings.address.place {
            Place::Tcp(address) => self.network.dial(address).await,
            Place::Unix(path) => Ok(Connection::Unix(UnixStream::connect(path).await?)),
        }
    }
}
