//! Bringing a link up and keeping it up: dial, probe, say hello, and check that the master is compatible with the
//! others.

use std::io;
use std::rc::Rc;

use bytes::BytesMut;

use super::{Expected, Link, REPLACED, State};
use crate::config::MasterAddr;
use crate::engine::Engine;
use crate::engine::connection::{self, Connection, Unwelcome};
use crate::masters::dial::{CONNECT_TIMEOUT, Dial, Pauses};
use crate::masters::facts::Facts;
use crate::masters::probe::{Predecessor, ProbeError, probe};
use crate::resp::flat::Malformed;

/// Reasons for a link to go down.
#[derive(Debug, thiserror::Error)]
pub(super) enum Down {
    #[error("no answer within {}", humantime::format_duration(CONNECT_TIMEOUT))]
    ConnectTimeout,
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    Unwelcome(#[from] Unwelcome),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("it has {0} databases and others have {1}: give all masters the same `databases`")]
    FewerDatabases(u32, u32),
    #[error(
        "it is the same instance as {0}, which would then have two votes: name each master once"
    )]
    SameInstance(String),
    #[error("{0}")]
    Broken(&'static str),
}

impl Down {
    /// Whether the master is there, but is incompatible with the others or has refused service.
    fn is_reached(&self) -> bool {
        match self {
            Self::SameInstance(_) | Self::FewerDatabases(..) => true,
            Self::Unwelcome(Unwelcome::Refused(_)) => true,
            Self::Probe(ProbeError::WrongPassword | ProbeError::NotRedis) => true,
            Self::Probe(ProbeError::Refused(error)) => error.code().is_some(),
            _ => false,
        }
    }
}

impl Link {
    /// Keeps the link up forever.
    pub async fn run(self: Rc<Self>, dial: impl Dial, engine: Rc<Engine>) {
        let mut predecessor = None;
        loop {
            let mut pauses = Pauses::default();
            loop {
                let address = self.somebody().await;
                let connected = self.connect(&dial, &address, &mut predecessor, &engine);
                match tokio::time::timeout(CONNECT_TIMEOUT, connected).await {
                    Ok(Ok(connection)) => {
                        self.came_up();
                        let down = self.serve(connection, &engine).await;
                        self.went_down(&down, &engine);
                        break;
                    }
                    Ok(Err(down)) => self.not_up(&down),
                    Err(_) => self.not_up(&Down::ConnectTimeout),
                }
                tokio::time::sleep(pauses.another()).await;
            }
            // A connection lost at once must not be retried in a busy loop.
            tokio::time::sleep(Pauses::default().another()).await;
        }
    }

    /// Returns a connection ready to carry votes, after cutting off its predecessor.
    async fn connect<D: Dial>(
        &self,
        dial: &D,
        address: &MasterAddr,
        predecessor: &mut Option<Predecessor>,
        engine: &Engine,
    ) -> Result<Connection<D::Stream>, Down> {
        self.state.borrow_mut().dialled = Some(address.clone());
        let facts = probe(dial, address, predecessor.as_ref()).await?;
        let opened = connection::open(dial, address, &facts.run_id).await?;
        let (connection, client_id) = opened;
        if self.has_moved() {
            return Err(Down::Broken(REPLACED));
        }
        self.require_distinct(&facts, engine)?;
        require_databases(&facts, engine)?;
        *predecessor = Some(Predecessor { run_id: facts.run_id.clone(), client_id });
        self.state.borrow_mut().facts = Some(facts.clone());
        engine.electorate().observe(self.master, facts);
        Ok(connection)
    }

    /// Checks that no other link leads to the same process: a vote cast twice would break everything. Nothing is
    /// awaited between this and [`Link::came_up`], so two links cannot both find the other one down.
    fn require_distinct(&self, facts: &Facts, engine: &Engine) -> Result<(), Down> {
        let same = |link: &&Rc<Link>| {
            let known = link.facts();
            link.is_up() && known.is_some_and(|known| known.run_id == facts.run_id)
        };
        let mut others = engine.links().iter().filter(|link| link.master != self.master);
        match others.find(|link| !facts.run_id.is_empty() && same(link)) {
            Some(link) => Err(Down::SameInstance(link.name())),
            None => Ok(()),
        }
    }

    /// Marks the link as up. The first requests on a new link are those that the master has missed.
    fn came_up(&self) {
        {
            let mut state = self.state.borrow_mut();
            *state = State {
                deferred: std::mem::take(&mut state.deferred),
                facts: state.facts.take(),
                dialled: state.dialled.take(),
                waker: state.waker.take(),
                tried: true,
                ..State::default()
            };
        }
        let deferred = self.send_all_deferred();
        self.keep_in_step();
        tracing::info!(master = %self.name(), deferred, "the master is up");
        self.up.set(self.state.borrow().broken.is_none());
    }

    fn not_up(&self, down: &Down) {
        let mut state = self.state.borrow_mut();
        let why = down.to_string();
        if state.last_error.as_ref() != Some(&why) {
            let dialled = state.dialled.as_ref().map(ToString::to_string);
            let master = dialled.unwrap_or_else(|| self.name());
            tracing::warn!(%master, "the master is down: {why}");
        }
        state.tried = true;
        state.is_reached = down.is_reached();
        state.last_error = Some(why);
    }

    /// Marks the link as down. All requests in flight are lost, and it is unknown whether they took effect.
    fn went_down(&self, down: &Down, engine: &Rc<Engine>) {
        self.up.set(false);
        self.not_up(down);
        let lost = {
            let state = &mut *self.state.borrow_mut();
            self.end_gathering(state);
            (state.out, state.open, state.passed) = (BytesMut::new(), None, 0);
            std::mem::take(&mut state.expected)
        };
        for expected in lost {
            match expected {
                Expected::Operation { waiting, .. } => engine.lost(self.master, waiting),
                Expected::Together { waiting, .. } => {
                    waiting.iter().for_each(|waiting| engine.lost(self.master, *waiting));
                }
                Expected::Deferred(debt) => self.defer(*debt),
                Expected::Flush => self.residents.flush_lost(self.master),
                Expected::Load | Expected::Select | Expected::Ping | Expected::Part => {}
                Expected::Time(_) | Expected::Mark(..) => {}
            }
        }
    }
}

/// Checks the number of databases. If one master refused a `SELECT`, later requests would go to another database there.
fn require_databases(facts: &Facts, engine: &Engine) -> Result<(), Down> {
    let voters = engine.links().iter().filter(|link| link.is_up());
    let promised = voters.filter_map(|link| Some(link.facts()?.databases)).min();
    match promised {
        Some(promised) if facts.databases < promised => {
            Err(Down::FewerDatabases(facts.databases, promised))
        }
        _ => Ok(()),
    }
}
