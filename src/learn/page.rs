//! The status page while `learn` runs.
//!
//! | path | answers |
//! | --- | --- |
//! | `/` | the page |
//! | `/status.json` | the report so far |
//! | `/settings` | the lines for the settings file so far |
//! | `/live`, `/ready` | 200 while the process runs |

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use tokio::sync::watch;

use super::observer::Observer;
use super::report::Report;
use super::serve::report_since;
use super::text;
use crate::admin::names::Names;
use crate::admin::port::{self, Answers};
use crate::admin::{Answer, html, json, not_allowed, plain};
use crate::config::Settings;
use crate::handover::Phase;
use crate::net::admin_socket::AdminSocket;
use crate::time::clock::{self, Instant};

/// Time for which a report is shown before a new one is made.
const REPORT_LASTS: Duration = Duration::from_secs(1);

/// Handler of the status page.
pub(super) struct Page {
    names: Names,
    observer: Arc<Mutex<Observer>>,
    began: Instant,
    url: String,
    last: Mutex<Option<(Instant, Report)>>,
    /// Always `Serving`: `learn` never hands over.
    phase: watch::Sender<Phase>,
}

impl Page {
    pub(super) fn new(
        settings: &Settings,
        observer: Arc<Mutex<Observer>>,
        began: Instant,
        url: String,
    ) -> Self {
        let phase = watch::Sender::new(Phase::Serving);
        Self { names: Names::of(settings), observer, began, url, last: Mutex::default(), phase }
    }

    /// Answers on a thread of its own, as long as the process lives.
    ///
    /// # Errors
    /// Returns an error if the system refuses a thread or the socket.
    pub(super) fn serve(self, socket: AdminSocket) -> io::Result<()> {
        let serving = self.phase.subscribe();
        port::serve(socket, serving, self)
    }

    fn report(&self) -> Report {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((made, report)) if clock::now() < *made + REPORT_LASTS => report.clone(),
            _ => {
                let report = report_since(&self.observer, self.began);
                *last = Some((clock::now(), report.clone()));
                report
            }
        }
    }
}

impl Answers for Page {
    async fn answer(&self, request: Request<Incoming>, _: bool) -> Answer {
        let knows_us = self.names.know(&request);
        match request.uri().path() {
            _ if !matches!(*request.method(), Method::GET | Method::HEAD) => not_allowed("GET"),
            "/live" | "/ready" => plain(StatusCode::OK, "passing everything through and watching"),
            _ if !knows_us => plain(
                StatusCode::MISDIRECTED_REQUEST,
                "unknown host name: use an IP address, or add the name to --admin-host",
            ),
            "/" => html(include_str!("page.html")),
            "/status.json" => json(&self.report()),
            "/settings" => plain(StatusCode::OK, text::settings(&self.report(), &self.url).trim()),
            _ => plain(
                StatusCode::NOT_FOUND,
                "there is /, /status.json, /settings, /live and /ready",
            ),
        }
    }
}
