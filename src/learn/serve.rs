//! Listener for clients, which watches them until it is stopped or its time is over.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::observer::Observer;
use super::opening::{open, require_no_mark};
use super::page::Page;
use super::pump::{lock, pass};
use super::report::Report;
use super::text;
use crate::client::registry::Peer;
use crate::config::{DataAddr, DataPlace, Settings};
use crate::data::connection::Lost;
use crate::data::upstream::Upstream;
use crate::data::watch::{Onlooker, follow};
use crate::net::admin_socket::AdminSocket;
use crate::net::socket_file::SocketFile;
use crate::net::sockets::Inherited;
use crate::net::tls::server::Server;
use crate::session::listener::{
    CannotListen, Doorkeeper, HANDSHAKE_TIMEOUT, Listeners, TOO_MANY_CLIENTS,
};
use crate::time::clock::{self, Instant};

/// Reason why nothing can be learned.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CannotLearn {
    #[error(transparent)]
    Listen(#[from] CannotListen),
    #[error(
        "cannot use the data Redis {address} ({why}): --data names the Redis whose clients are watched"
    )]
    Data { address: String, why: Lost },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Settings of a watch, and its duration.
pub struct LearnWatch {
    /// Addresses to listen on, and the limits for clients.
    pub settings: Settings,
    /// The way to the data Redis.
    pub upstream: Upstream,
    /// TLS for clients that use it.
    pub server: Option<Arc<Server>>,
    /// Listener for the status page.
    pub admin: Option<AdminSocket>,
    /// Duration; `None`: until `shutdown`.
    pub span: Option<Duration>,
    /// Becomes `true` when the watch must end.
    pub shutdown: watch::Receiver<bool>,
}

/// State that all clients of this process share.
#[derive(Clone)]
struct Door {
    upstream: Upstream,
    observer: Arc<Mutex<Observer>>,
    clients: Rc<Cell<usize>>,
    most_clients: usize,
    keep_alive: Duration,
}

impl LearnWatch {
    /// Serves clients, and returns the report at the end. Passes the listeners to `ready` once they are bound.
    ///
    /// # Errors
    /// Returns an error if the data Redis cannot be used at the start, or if an address cannot be listened on.
    pub async fn run(
        mut self,
        ready: impl FnOnce(&Listeners) -> io::Result<()>,
    ) -> Result<String, CannotLearn> {
        let address = self.upstream.settings().address.clone();
        let cannot = |why| CannotLearn::Data { address: address.to_string(), why };
        tokio::task::spawn_local(follow(self.upstream.clone()));
        look(&self.upstream).await.map_err(cannot)?;
        watch_over(&self.upstream);
        let settings = Settings { workers: 1, ..self.settings.clone() };
        let listeners = Listeners::bind(&settings, self.server.take(), &mut Inherited::default())?;
        let observer = Arc::new(Mutex::new(Observer::default()));
        let began = clock::now();
        if let Some(admin) = self.admin.take() {
            Page::new(&settings, Arc::clone(&observer), began, url(&address)).serve(admin)?;
        }
        let door = Door {
            upstream: self.upstream.clone(),
            observer: Arc::clone(&observer),
            clients: Rc::default(),
            most_clients: settings.live.max_clients,
            keep_alive: settings.live.tcp_keepalive,
        };
        let accepting: Vec<_> =
            listeners.iter().map(|it| it.accept(&door)).collect::<io::Result<_>>()?;
        if let Some(first) = listeners.first() {
            ready(first)?;
        }
        self.end().await;
        drop(accepting);
        remove_sockets(&settings);
        let report = report_since(&observer, began);
        Ok(text::of(&report, &url(&address)))
    }

    async fn end(&mut self) {
        let stopped = async {
            // If the sender is gone, only time ends the watch.
            if self.shutdown.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        match self.span {
            Some(span) => {
                let _ = tokio::time::timeout(span, stopped).await;
            }
            None => stopped.await,
        }
    }
}

/// Returns the report on everything since `began`. Copies the observations first, so that clients do not wait for the
/// patterns.
pub(super) fn report_since(observer: &Mutex<Observer>, began: Instant) -> Report {
    let seen = lock(observer).clone();
    Report::of(&seen, clock::now().saturating_duration_since(began))
}

/// Returns the data Redis as written in settings, without user and password.
fn url(address: &DataAddr) -> String {
    match &address.place {
        DataPlace::Tcp(tcp) => {
            format!("{}://{tcp}/{}", if tcp.is_tls { "rediss" } else { "redis" }, address.db)
        }
        DataPlace::Unix(_) | DataPlace::Sentinel(_) => address.to_string(),
    }
}

/// Checks that the data Redis is reachable, accepts the login of the URL, and is not a master of locks. Without a login
/// in the URL, clients log in themselves.
async fn look(upstream: &Upstream) -> Result<(), Lost> {
    require_no_mark(&mut open(upstream).await?.stream).await
}

/// Starts to probe a master that sentinels name. It may become a replica before the sentinels know, which ends the
/// connections to it. A Redis with a fixed address needs no probe besides its clients.
fn watch_over(upstream: &Upstream) {
    if matches!(upstream.settings().address.place, DataPlace::Sentinel(_)) {
        let onlooker = Onlooker { upstream: upstream.clone(), locks_go_on: false };
        tokio::task::spawn_local(async move { onlooker.look_for_ever().await });
    }
}

fn remove_sockets(settings: &Settings) {
    settings.socket_files().filter_map(SocketFile::at).for_each(|file| file.remove());
}

impl Door {
    fn let_in<S: AsyncRead + AsyncWrite + Unpin + 'static>(&self, stream: S, from: &Peer) {
        let from = from.clone();
        self.seat(async move |door: &Self| {
            if let Err(why) = pass(stream, &door.upstream, &door.observer).await {
                tracing::debug!(client = %from, %why, "a client has gone");
            }
        });
    }

    /// Serves a client, which counts as connected until `stay` ends.
    fn seat(&self, stay: impl AsyncFnOnce(&Self) + 'static) {
        let door = self.clone();
        door.clients.set(door.clients.get() + 1);
        tokio::task::spawn_local(async move {
            stay(&door).await;
            door.clients.set(door.clients.get() - 1);
        });
    }

    fn is_full(&self) -> bool {
        self.clients.get() >= self.most_clients
    }
}

impl Doorkeeper for Door {
    fn keep_alive(&self) -> Duration {
        self.keep_alive
    }

    fn tcp(&self, stream: TcpStream, (from, _): (Peer, Peer)) {
        if self.is_full() {
            turn_away(stream);
        } else {
            self.let_in(stream, &from);
        }
    }

    fn tls(&self, stream: TcpStream, _: (Peer, Peer), server: &Server) {
        if self.is_full() {
            return;
        }
        let handshake = server.get().accept(stream);
        self.seat(async move |door: &Self| {
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
                let _ = pass(stream, &door.upstream, &door.observer).await;
            }
        });
    }

    fn unix(&self, stream: UnixStream, (from, _): (Peer, Peer)) {
        if self.is_full() {
            turn_away(stream);
        } else {
            self.let_in(stream, &from);
        }
    }
}

fn turn_away(mut stream: impl AsyncWrite + Unpin + 'static) {
    tokio::task::spawn_local(async move {
        let _ = stream.write_all(TOO_MANY_CLIENTS).await;
    });
}
