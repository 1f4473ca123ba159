//! What operators see: a port of its own, by HTTP, served by a thread of its own, so that it answers also when a
//! worker does not.
//!
//! | path | answers |
//! | --- | --- |
//! | `/` | the [`status`] page |
//! | `/status.json` | what the page shows |
//! | `/metrics` | [`metrics`] for Prometheus |
//! | `/live` | 200 while the process runs |
//! | `/ready` | 200 while a quorum votes, else 503 and why |
//! | `/log-level` | what is logged; `PUT` changes it |

pub mod events;
pub mod metrics;
pub mod status;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::handover::Phase;
use crate::quorum::Quorum;
use crate::worker::Shared;
use events::Events;

/// How long somebody may take to ask.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest body that is read, in bytes: a filter of the log.
const LONGEST_BODY: usize = 4 << 10;

/// The first pause after `accept` failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is logged, and how to change it.
pub trait LogLevel: Send + Sync {
    /// The filter, as in `RUST_LOG`.
    fn current(&self) -> String;

    /// Replaces it.
    ///
    /// # Errors
    /// One sentence about what is wrong with `filter`.
    fn replace(&self, filter: &str) -> Result<(), String>;
}

/// All that is shown, and the one thing that can be changed.
pub struct Admin {
    shared: Shared,
    events: Events,
    log_level: Arc<dyn LogLevel>,
}

type Answer = Response<Full<Bytes>>;

impl Admin {
    /// Of the workers that share this.
    pub fn new(shared: Shared, events: Events, log_level: Arc<dyn LogLevel>) -> Self {
        Self { shared, events, log_level }
    }

    /// Answers on `listener`, on a thread of its own, as long as the process lives and no other takes over.
    ///
    /// # Errors
    /// When the system refuses a thread or the socket.
    pub fn serve(
        self,
        listener: std::net::TcpListener,
        phase: watch::Receiver<Phase>,
    ) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
            runtime.block_on(accept(listener, phase, Arc::new(self)));
        })?;
        Ok(())
    }

    async fn answer(&self, request: Request<Incoming>, is_local: bool) -> Answer {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/log-level" if !is_read && !is_local => {
                plain(StatusCode::FORBIDDEN, "the log is changed from this host only")
            }
            "/log-level" if !is_read => self.set_log_level(request).await,
            _ if !is_read => not_allowed("GET"),
            "/" => page(),
            "/status.json" => json(&status::Status::of(&self.shared, &self.events)),
            "/metrics" => match metrics::text(&self.shared) {
                Ok(text) => typed(StatusCode::OK, metrics::CONTENT_TYPE, text),
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot be written"),
            },
            "/live" => plain(StatusCode::OK, "the process runs"),
            "/ready" => self.ready(),
            "/log-level" => plain(StatusCode::OK, &self.log_level.current()),
            _ => plain(
                StatusCode::NOT_FOUND,
                "there is /, /metrics, /live, /ready, /log-level and /status.json",
            ),
        }
    }

    fn ready(&self) -> Answer {
        let quorum = Quorum::of(self.shared.settings.masters.len());
        let voters = status::voters(&self.shared);
        let (voting, all) = (voters.len(), quorum.masters());
        if quorum.reached_by(voters) {
            return plain(StatusCode::OK, &format!("{voting} of {all} masters vote"));
        }
        let others = self.shared.electorate.why_not(quorum.everybody().without(voters));
        let why =
            format!("{voting} of {all} masters vote and {} are needed{others}", quorum.needed());
        plain(StatusCode::SERVICE_UNAVAILABLE, &why)
    }

    async fn set_log_level(&self, request: Request<Incoming>) -> Answer {
        if *request.method() != Method::PUT {
            return not_allowed("GET, PUT");
        }
        let Ok(body) = Limited::new(request.into_body(), LONGEST_BODY).collect().await else {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "a filter is at most 4 KiB long");
        };
        let body = body.to_bytes();
        let filter = String::from_utf8_lossy(&body);
        match self.log_level.replace(filter.trim()) {
            Ok(()) => plain(StatusCode::OK, filter.trim()),
            Err(why) => plain(StatusCode::BAD_REQUEST, &why),
        }
    }
}

async fn accept(listener: TcpListener, mut phase: watch::Receiver<Phase>, admin: Arc<Admin>) {
    loop {
        let is_ours = |phase: &Phase| matches!(phase, Phase::Starting | Phase::Serving);
        if phase.wait_for(is_ours).await.is_err() {
            // A successor answers for good.
            return;
        }
        let accepted = tokio::select! {
            biased;
            Ok(_) = phase.wait_for(|phase| !is_ours(phase)) => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let is_local = from.ip().is_loopback();
                tokio::spawn(converse(stream, is_local, Arc::clone(&admin)));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an operator");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, is_local: bool, admin: Arc<Admin>) {
    let answer = service_fn(move |request| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(admin.answer(request, is_local).await) }
    });
    let conversation = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer);
    // Whoever hangs up in the middle does not want the rest.
    let _ = conversation.await;
}

fn page() -> Answer {
    typed(StatusCode::OK, "text/html; charset=utf-8", include_str!("page.html").to_owned())
}

fn json(status: &status::Status) -> Answer {
    match serde_json::to_string(status) {
        Ok(text) => typed(StatusCode::OK, "application/json", text),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot be written"),
    }
}

fn not_allowed(allowed: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, allowed);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    typed(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn typed(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
