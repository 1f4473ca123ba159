//! `redlock-proxy members`: shows the members of a running proxy's clusters, and has them changed.
//!
//! It asks the admin port, or Unix socket, of any proxy. The change is the roster's, so that it goes on without this process, and
//! without that proxy.

use std::fmt::Write as _;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::{TcpStream, UnixStream};

use super::table::aligned;
use crate::admin::members::{MemberShown, MembersOf, OrderBody};
use crate::masters::roster::orders::ChangeMade;
use crate::net::admin_socket::{AdminStream, path_of};

/// Timeout for an answer. A proxy answers an order within ten seconds.
const PATIENCE: Duration = Duration::from_secs(12);

/// Interval between looks at a replacement in progress.
const INTERVAL: Duration = Duration::from_millis(200);

/// Failed looks in a row after which the proxy counts as gone.
const MOST_FAILURES: u32 = 25;

const HEADINGS: [&str; 4] = ["member", "state", "replaced", "why"];

/// Shows the members.
///
/// # Errors
/// Returns one sentence about the reason if `admin` is not the admin port of a proxy that answers.
pub async fn show(admin: &str, say: impl Fn(&str)) -> Result<(), String> {
    say(&told(&members(admin).await.map_err(Unanswered::advised)?));
    Ok(())
}

/// Has the members changed, and waits until a new instance votes.
///
/// # Errors
/// Returns one sentence about the reason if the proxy refuses, or if it cannot be asked.
pub async fn change(admin: &str, order: OrderBody, say: impl Fn(&str)) -> Result<(), String> {
    let body = serde_json::to_vec(&order).map_err(|why| why.to_string())?;
    let made = answer(admin, Method::POST, body).await.map_err(Unanswered::advised)?;
    let ChangeMade { by: new, gone, told: done } = made;
    say(&format!("{done}\n"));
    let (mut last, mut failures) = (String::new(), 0);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let known = match members(admin).await {
            Ok(known) => known,
            Err(_) if failures < MOST_FAILURES => {
                failures += 1;
                continue;
            }
            Err(why) => {
                return Err(format!(
                    "{why}; the change goes on: ask another proxy for its members"
                ));
            }
        };
        failures = 0;
        if new.is_empty() && member_at(&known, &gone).is_none() {
            say(&format!("{gone} left\n\n{}", told(&known)));
            return Ok(());
        }
        let Some(member) = member_at(&known, &new) else { continue };
        if member.is_in && member.state == "voter" {
            say(&format!("{new} votes\n\n{}", told(&known)));
            return Ok(());
        }
        if !member.reason.is_empty() && member.reason != last {
            say(&format!("{new}: {}\n", member.reason));
            last.clone_from(&member.reason);
        }
    }
}

fn member_at<'a>(known: &'a [MembersOf], address: &str) -> Option<&'a MemberShown> {
    known.iter().flat_map(|of| &of.members).find(|member| member.address == address)
}

async fn members(admin: &str) -> Result<Vec<MembersOf>, Unanswered> {
    answer(admin, Method::GET, Vec::new()).await
}

/// Reason why there is no answer to a request, in one sentence.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    /// The proxy refuses what it was asked for.
    #[error("{0}")]
    Refused(String),
    /// No admin port of a proxy answers at the address.
    #[error("{0}")]
    NoProxy(String),
}

impl Unanswered {
    /// Adds what to do before anything was asked for.
    fn advised(self) -> String {
        match self {
            Self::Refused(why) => why,
            Self::NoProxy(why) => format!(
                "{why}: start the proxy with --admin HOST:PORT, and give that address to members with --connect"
            ),
        }
    }
}

/// Formats the members of all clusters.
fn told(known: &[MembersOf]) -> String {
    let mut text = String::new();
    for of in known {
        let shard = of.shard.as_ref().map(|name| format!("shard {name}: ")).unwrap_or_default();
        let _ = writeln!(text, "{shard}cluster {}, version {}", of.cluster, of.version);
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(of.members.iter().map(row));
        text += &aligned(&rows);
        if !of.votes.is_empty() {
            let _ = writeln!(text, "{}", of.votes);
        }
        let _ = writeln!(text, "list of masters for every proxy: {}", of.list);
    }
    text
}

fn row(member: &MemberShown) -> [String; 4] {
    let replaced = member.replaced.last().cloned().unwrap_or_default();
    [member.address.clone(), member.state.clone(), replaced, member.reason.clone()]
}

/// Sends one request for `/members` and returns the answer.
async fn answer<T: DeserializeOwned>(
    admin: &str,
    method: Method,
    body: Vec<u8>,
) -> Result<T, Unanswered> {
    let asked = tokio::time::timeout(PATIENCE, exchange(admin, method, body)).await;
    let answer =
        asked.map_err(|_| Unanswered::NoProxy(format!("{admin} did not answer in time")))?;
    let answer =
        answer.map_err(|why| Unanswered::NoProxy(format!("{admin} cannot be asked ({why})")))?;
    let not_one = || {
        let why = format!("{admin} is not the admin port of a proxy that knows members");
        Unanswered::NoProxy(why)
    };
    match answer {
        (status, text) if status.is_success() => serde_json::from_str(&text).map_err(|_| not_one()),
        (StatusCode::NOT_FOUND, _) => Err(not_one()),
        (_, text) => Err(Unanswered::Refused(text.trim_end().to_owned())),
    }
}

async fn exchange(
    admin: &str,
    method: Method,
    body: Vec<u8>,
) -> Result<(StatusCode, String), Box<dyn std::error::Error>> {
    let (stream, host): (Box<dyn AdminStream>, _) = match path_of(admin) {
        Some(path) => (Box::new(UnixStream::connect(path).await?), "localhost"),
        None => (Box::new(TcpStream::connect(admin).await?), admin),
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder().method(method).uri("/members").header(HOST, host);
    let asking = async {
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    };
    tokio::pin!(asking);
    tokio::select! {
        answer = &mut asking => answer,
        _ = connection => asking.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_shown_with_the_list_that_leads_to_them() {
        let member = |address: &str, state: &str, reason: &str, replaced: &[&str]| MemberShown {
            address: address.to_owned(),
            is_in: state == "voter",
            incarnation: 1,
            state: state.to_owned(),
            reason: reason.to_owned(),
            copying: [0, 0],
            replaced: replaced.iter().map(|it| (*it).to_owned()).collect(),
        };
        let of = MembersOf {
            shard: Some("one".to_owned()),
            cluster: "c".to_owned(),
            version: 8,
            votes: "1 of 2 masters vote, and 2 are needed".to_owned(),
            list: "a:1,b:2".to_owned(),
            members: vec![
                member("a:1", "voter", "", &[]),
                member("b:2", "probation", "it was restarted", &["a:2"]),
            ],
        };
        let expected = "\
shard one: cluster c, version 8
member  state      replaced  why
a:1     voter
b:2     probation  a:2       it was restarted
1 of 2 masters vote, and 2 are needed
list of masters for every proxy: a:1,b:2
";
        assert_eq!(told(&[of]), expected);
    }
}
