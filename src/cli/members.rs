//! `redlock-proxy members`: shows the members of a running proxy's clusters, and has one replaced.
//!
//! It asks the admin port of any proxy. The change is the roster's, so that it goes on without this process, and
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
use tokio::net::TcpStream;

use super::table::aligned;
use crate::admin::members::{MemberShown, MembersOf, OrderBody};
use crate::masters::roster::orders::Replaced;

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
    say(&told(&members(admin).await?));
    Ok(())
}

/// Has a member replaced, and waits until the new instance votes.
///
/// # Errors
/// Returns one sentence about the reason if the proxy refuses, or if it cannot be asked.
pub async fn replace(admin: &str, order: OrderBody, say: impl Fn(&str)) -> Result<(), String> {
    let body = serde_json::to_vec(&order).map_err(|why| why.to_string())?;
    let Replaced { by: new, told: done } = parsed(admin, &ask(admin, Method::POST, body).await?)?;
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
                    "{why}; the replacement goes on: ask another proxy for its members"
                ));
            }
        };
        failures = 0;
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

async fn members(admin: &str) -> Result<Vec<MembersOf>, String> {
    parsed(admin, &ask(admin, Method::GET, Vec::new()).await?)
}

fn parsed<T: DeserializeOwned>(admin: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|_| format!("{admin} is not the admin port of a proxy that knows members"))
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
        let _ = writeln!(text, "list of masters for every proxy: {}", of.list);
    }
    text
}

fn row(member: &MemberShown) -> [String; 4] {
    let replaced = member.replaced.last().cloned().unwrap_or_default();
    [member.address.clone(), member.state.clone(), replaced, member.reason.clone()]
}

/// Sends one request for `/members` and returns the text of the answer.
async fn ask(admin: &str, method: Method, body: Vec<u8>) -> Result<String, String> {
    let asked = tokio::time::timeout(PATIENCE, exchange(admin, method, body)).await;
    let answer = asked.map_err(|_| format!("{admin} did not answer in time"))?;
    let (status, text) = answer.map_err(|why| format!("{admin} cannot be asked: {why}"))?;
    if status.is_success() { Ok(text) } else { Err(text.trim_end().to_owned()) }
}

async fn exchange(
    admin: &str,
    method: Method,
    body: Vec<u8>,
) -> Result<(StatusCode, String), Box<dyn std::error::Error>> {
    let stream = TcpStream::connect(admin).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder().method(method).uri("/members").header(HOST, admin);
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
list of masters for every proxy: a:1,b:2
";
        assert_eq!(told(&[of]), expected);
    }
}
