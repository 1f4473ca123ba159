//! Limits on the port's callers: who may ask, for how long, and how many at a time.
//!
//! A connection carries one request. One deadline covers all of it: sending the head, sending the body, reading the
//! answer. A slow caller cannot hold a connection for longer.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Answer;
use crate::handover::Phase;
use crate::net::address;
use crate::net::admin_socket::{AdminListener, AdminSocket};

/// Maximum time from a connection to the last byte of its answer. Prometheus waits this long for a scrape by default
/// (`scrape_timeout`).
const CONVERSATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum connections at a time. Prometheus, probes and a few open status pages take one for some milliseconds each.
/// This leaves the rest of 1,024 open files, the usual limit, to clients and masters.
const MAX_CONVERSATIONS: usize = 64;

/// Pause after `accept` failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Handler of the port's requests.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Answers a request. `is_local`: whether it comes from this host.
    fn answer(
        &self,
        request: Request<Incoming>,
        is_local: bool,
    ) -> impl Future<Output = Answer> + Send;
}

/// Answers on `socket`, on a thread of its own, as long as the process lives and no other takes over.
///
/// # Errors
/// Returns an error if the system refuses a thread or the socket.
pub(crate) fn serve(
    socket: AdminSocket,
    phase: watch::Receiver<Phase>,
    admin: impl Answers,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _entered = runtime.enter();
        socket.in_event_loop()?
    };
    std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || runtime.block_on(accept(listener, phase, Arc::new(admin))))?;
    Ok(())
}

/// Answers on `listener` while this process is the one that serves.
async fn accept(
    listener: AdminListener,
    mut phase: watch::Receiver<Phase>,
    admin: Arc<impl Answers>,
) {
    let mut conversations = Conversations::default();
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
                let task = tokio::spawn(converse(stream, from, Arc::clone(&admin)));
                conversations.begin(from, task.abort_handle());
                // Pending requests are answered before the next connection is accepted, so that a flood of connections
                // does not evict an unanswered probe.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an admin connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    from: IpAddr,
    admin: Arc<impl Answers>,
) {
    let is_local = address::is_local(from);
    let answer = service_fn(move |request| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(admin.answer(request, is_local).await) }
    });
    let conversation = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), answer);
    // A caller that hangs up in the middle, or is too slow, gets no more.
    let _ = tokio::time::timeout(CONVERSATION_TIMEOUT, conversation).await;
}

/// Open conversations, in the order in which they began.
#[derive(Debug, Default)]
struct Conversations(VecDeque<(IpAddr, AbortHandle)>);

impl Conversations {
    /// Adds a conversation from this address. If there are too many, ends the oldest one of the host that has most. So
    /// a host that floods the port only ends its own.
    fn begin(&mut self, from: IpAddr, task: AbortHandle) {
        self.0.retain(|(_, task)| !task.is_finished());
        if self.0.len() >= MAX_CONVERSATIONS
            && let Some((_, oldest)) = self.oldest_of_most().and_then(|at| self.0.remove(at))
        {
            oldest.abort();
        }
        self.0.push_back((address::home(from), task));
    }

    fn oldest_of_most(&self) -> Option<usize> {
        let count = |home: &IpAddr| self.0.iter().filter(|(other, _)| other == home).count();
        // Of several hosts with the same count, takes the first: `max_by_key` would return the last.
        let counts = self.0.iter().enumerate().rev();
        counts.max_by_key(|(_, (home, _))| count(home)).map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::admin::events::Events;
    use crate::admin::{Admin, LogLevel};
    use crate::config::Settings;
    use crate::context::shared::{Certificates, Shared};

    struct NoLog;

    impl LogLevel for NoLog {
        fn current(&self) -> String {
            "info".to_owned()
        }

        fn replace(&self, _: &str) -> Result<(), String> {
            Ok(())
        }
    }

    fn admin() -> Arc<Admin> {
        let settings = Settings::try_new(vec!["a:1".parse().unwrap()]).unwrap();
        let shared = Shared::new(settings, &Certificates::default());
        Arc::new(Admin::new(shared, Events::default(), Arc::new(NoLog)))
    }

    /// Sends `sent`, and reads nothing until the conversation ends. Returns the bytes left to read then.
    async fn rest_for(sent: &str) -> Vec<u8> {
        // Too small for any answer.
        let (mut operator, stream) = tokio::io::duplex(64);
        let conversation = tokio::spawn(converse(stream, host(1), admin()));
        operator.write_all(sent.as_bytes()).await.expect("sent");
        let end = tokio::time::timeout(2 * CONVERSATION_TIMEOUT, conversation).await;
        end.expect("an end").expect("no panic");
        let mut rest = Vec::new();
        operator.read_to_end(&mut rest).await.expect("the end");
        rest
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_operator_holds_a_connection_for_good() {
        for sent in [
            "",
            "GET",
            "GET / HTTP/1.1\r\n",
            "PUT /log-level HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
        ] {
            rest_for(sent).await;
        }
        let rest = rest_for("GET / HTTP/1.1\r\n\r\n").await;
        assert!(rest.starts_with(b"HTTP/1.1 200") && rest.len() <= 64, "{}", rest.escape_ascii());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_carries_one_request() {
        let (mut operator, stream) = tokio::io::duplex(1 << 20);
        tokio::spawn(converse(stream, host(1), admin()));
        operator.write_all(b"GET /live HTTP/1.1\r\n\r\n".repeat(9).as_slice()).await.unwrap();
        let mut answers = String::new();
        operator.read_to_string(&mut answers).await.unwrap();
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1, "{answers}");
    }

    fn endless() -> AbortHandle {
        tokio::spawn(std::future::pending::<()>()).abort_handle()
    }

    fn host(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    #[tokio::test]
    async fn a_flood_ends_its_own_conversations_only() {
        let mut conversations = Conversations::default();
        let probe = endless();
        conversations.begin(host(1), probe.clone());
        let flood: Vec<_> = (0..1000).map(|_| endless()).collect();
        for one in &flood {
            conversations.begin(host(2), one.clone());
        }
        for _ in 0..flood.len() {
            tokio::task::yield_now().await;
        }
        assert!(!probe.is_finished());
        let alive: Vec<_> = flood.iter().map(|one| !one.is_finished()).collect();
        let expected: Vec<_> = (0..1000).map(|at| at > 1000 - MAX_CONVERSATIONS).collect();
        assert_eq!(alive, expected, "the latest of them go on");
    }

    #[tokio::test]
    async fn what_is_over_takes_no_room() {
        let mut conversations = Conversations::default();
        let first = endless();
        conversations.begin(host(1), first.clone());
        for _ in 0..10 * MAX_CONVERSATIONS {
            let short = endless();
            conversations.begin(host(1), short.clone());
            short.abort();
            tokio::task::yield_now().await;
        }
        assert!(!first.is_finished());
    }
}
