//! The operators' view: an HTTP port, or socket file, of its own. It runs on a thread of its own, so that it answers even
//! when a worker does not.
//!
//! | path | answers |
//! | --- | --- |
//! | `/` | the [`status`] page |
//! | `/status.json` | the data that the page shows |
//! | `/metrics` | [`metrics`] for Prometheus |
//! | `/live` | 200 while the process runs |
//! | `/ready` | 200 while a quorum votes, else 503 and the reason |
//! | `/log-level` | the filter of the log; `PUT` changes it |
//! | `/members` | the [`members`] of each cluster; `POST` changes them |

pub mod events;
pub mod members;
pub mod metrics;
pub(crate) mod names;
pub(crate) mod port;
pub mod status;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use tokio::sync::watch;

use crate::context::shared::Shared;
use crate::handover::Phase;
use crate::net::admin_socket::AdminSocket;
use events::Events;
use names::Names;

/// Maximum length of a request body, in bytes: a filter of the log, or an order about the members.
const LONGEST_BODY: usize = 4 << 10;

/// Maximum time to receive the body. It fits into one packet, and this leaves time for an answer.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The filter of the log, which can be changed.
pub trait LogLevel: Send + Sync {
    /// Returns the filter, as in `RUST_LOG`.
    fn current(&self) -> String;

    /// Replaces the filter.
    ///
    /// # Errors
    /// Returns one sentence about the problem with `filter`.
    fn replace(&self, filter: &str) -> Result<(), String>;
}

/// Everything that the port shows, and the two things that it can change.
pub struct Admin {
    shared: Shared,
    names: Names,
    events: Events,
    log_level: Arc<dyn LogLevel>,
}

pub(crate) type Answer = Response<Full<Bytes>>;

impl Admin {
    /// Returns the handler for the workers that share `shared`.
    pub fn new(shared: Shared, events: Events, log_level: Arc<dyn LogLevel>) -> Self {
        let names = Names::of(&shared.settings);
        Self { shared, names, events, log_level }
    }

    /// Answers on `socket`, on a thread of its own, as long as the process lives and no other takes over.
    ///
    /// # Errors
    /// Returns an error if the system refuses a thread or the socket.
    pub fn serve(self, socket: AdminSocket, phase: watch::Receiver<Phase>) -> io::Result<()> {
        port::serve(socket, phase, self)
    }

    async fn answer_one(&self, request: Request<Incoming>, is_local: bool) -> Answer {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let knows_us = self.names.know(&request);
        match request.uri().path() {
            // Probes may use any name: these answers reveal nothing of use to a stranger.
            "/live" if is_read => plain(StatusCode::OK, "the process runs"),
            "/ready" if is_read => self.ready(knows_us),
            _ if !knows_us => plain(
                StatusCode::MISDIRECTED_REQUEST,
                "unknown host name: use an IP address, or add the name to --admin-host",
            ),
            _ if !is_read && names::is_from_another_site(request.headers()) => plain(
                StatusCode::FORBIDDEN,
                "requests from another site may not change anything here",
            ),
            "/log-level" if !is_read && !is_local => {
                plain(StatusCode::FORBIDDEN, "the log level can only be changed from this host")
            }
            "/log-level" if !is_read => self.set_log_level(request).await,
            "/members" if !is_read && !is_local => {
                plain(StatusCode::FORBIDDEN, "the members can only be changed from this host")
            }
            "/members" if !is_read => self.change_members(request).await,
            _ if !is_read => not_allowed("GET"),
            "/" => html(include_str!("page.html")),
            "/status.json" => json(&status::Status::of(&self.shared, &self.events)),
            "/metrics" => match metrics::text(&self.shared) {
                Ok(text) => typed(StatusCode::OK, metrics::CONTENT_TYPE, text),
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot be written"),
            },
            "/log-level" => plain(StatusCode::OK, &self.log_level.current()),
            "/members" => json(&members::all(&self.shared)),
            _ => plain(
                StatusCode::NOT_FOUND,
                "there is /, /metrics, /live, /ready, /log-level, /members and /status.json",
            ),
        }
    }

    /// Answers a readiness probe: ready if any shard can serve, because clients of the others gain nothing from another
    /// proxy. Only callers that `may_know` it learn which masters do not vote.
    fn ready(&self, may_know: bool) -> Answer {
        let has_quorum =
            |cluster: &Shared| status::quorum(cluster).reached_by(status::voters(cluster));
        let is_ready = self.shared.clusters().any(has_quorum);
        if !is_ready && !may_know {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too few masters vote");
        }
        let told: Vec<String> = self.shared.clusters().map(|it| votes_of(it, may_know)).collect();
        let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        plain(status, &told.join("\n"))
    }

    async fn set_log_level(&self, request: Request<Incoming>) -> Answer {
        if *request.method() != Method::PUT {
            return not_allowed("GET, PUT");
        }
        let body = match body_of(request, "filter").await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        let filter = String::from_utf8_lossy(&body);
        match self.log_level.replace(filter.trim()) {
            Ok(()) => plain(StatusCode::OK, filter.trim()),
            Err(why) => plain(StatusCode::BAD_REQUEST, &why),
        }
    }

    async fn change_members(&self, request: Request<Incoming>) -> Answer {
        if *request.method() != Method::POST {
            return not_allowed("GET, POST");
        }
        let body = match body_of(request, "order").await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        match members::order(&self.shared, &body).await {
            Ok(done) => json(&done),
            Err((status, why)) => plain(status, &why),
        }
    }
}

/// Receives the body of a request: a `thing`. Returns the answer if it cannot be had.
async fn body_of(request: Request<Incoming>, thing: &str) -> Result<Bytes, Answer> {
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect();
    match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => {
            let why = format!("the {thing} is longer than 4 KiB");
            Err(plain(StatusCode::PAYLOAD_TOO_LARGE, &why))
        }
        Err(_) => {
            let why = format!("the {thing} did not arrive in time");
            Err(plain(StatusCode::REQUEST_TIMEOUT, &why))
        }
    }
}

impl port::Answers for Admin {
    async fn answer(&self, request: Request<Incoming>, is_local: bool) -> Answer {
        self.answer_one(request, is_local).await
    }
}

/// Describes how many masters of a cluster vote.
fn votes_of(cluster: &Shared, may_know: bool) -> String {
    let (quorum, voters) = (status::quorum(cluster), status::voters(cluster));
    let (voting, all) = (voters.len(), quorum.masters());
    let of_shard = cluster.settings.shard_name().map(|name| format!("shard {name}: "));
    let votes = format!("{}{voting} of {all} masters vote", of_shard.unwrap_or_default());
    if quorum.reached_by(voters) {
        let lost = cluster.electorate.may_have_lost_data();
        let lost = if lost { "; a quorum had forgotten: data may have been lost" } else { "" };
        return format!("{votes}{lost}");
    }
    let needed = format!("{votes} and {} are needed", quorum.needed());
    if !may_know {
        return needed;
    }
    let others = cluster.electorate.why_not(quorum.everybody().without(voters));
    let waits = cluster.electorate.why_it_waits();
    let waits = waits.map(|obstacle| format!("; {}", obstacle.why)).unwrap_or_default();
    format!("{needed}{others}{waits}")
}

pub(crate) fn html(page: &str) -> Answer {
    typed(StatusCode::OK, "text/html; charset=utf-8", page.to_owned())
}

pub(crate) fn json(status: &impl Serialize) -> Answer {
    match serde_json::to_string(status) {
        Ok(text) => typed(StatusCode::OK, "application/json", text),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot be written"),
    }
}

pub(crate) fn not_allowed(allowed: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, allowed);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

pub(crate) fn plain(status: StatusCode, text: &str) -> Answer {
    typed(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn typed(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
