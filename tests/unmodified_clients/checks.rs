//! The checks of each client on its own: once with every master up, and once with a minority killed as soon as the
//! client holds its first lock.

use std::fs;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::{self, Client};
use crate::support::{Masters, Proxy};
use crate::table;

/// Checks that every client must report on, in this order.
pub(crate) const COMMON: [&str; 7] =
    ["acquire", "refuse", "extend", "stranger", "release", "expire", "wait"];

/// Results of the common checks and then of the client's own, with whether the library has the feature.
pub(crate) type Outcome = Vec<(String, bool)>;

/// Checks all clients of some languages, and that the page of clients agrees with the results.
pub(crate) async fn languages(languages: &[String]) {
    let _side_by_side = client::CHECKS.read().await;
    let mut failures = Vec::new();
    for language in languages {
        let checked = match check_all(client::list(language).await).await {
            Ok(rows) => table::tells(language, &rows),
            Err(failure) => Err(failure),
        };
        failures.extend(checked.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn check_all(clients: Vec<Client>) -> Result<Vec<(Client, Outcome)>, String> {
    let mut checks = JoinSet::new();
    for (row, client) in clients.into_iter().enumerate() {
        checks.spawn(async move {
            let _turn = client::turn().await;
            let outcome = both_rounds(&client).await;
            (row, outcome.map(|outcome| (client, outcome)))
        });
    }
    let mut checked = checks.join_all().await;
    checked.sort_by_key(|(row, _)| *row);
    let (rows, failures): (Vec<_>, Vec<_>) =
        checked.into_iter().map(|(_, outcome)| outcome).partition(Result::is_ok);
    let failures: Vec<_> = failures.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        Ok(rows.into_iter().filter_map(Result::ok).collect())
    } else {
        Err(failures.join("\n"))
    }
}

async fn both_rounds(client: &Client) -> Result<Outcome, String> {
    let healthy = with_all_masters(client).await?;
    let bereft = with_a_minority_killed(client).await?;
    if healthy != bereft {
        return Err(format!("{client} checks other things when a master is killed: {bereft:?}"));
    }
    Ok(healthy)
}

async fn with_all_masters(client: &Client) -> Result<Outcome, String> {
    let masters = Masters::start(3);
    let (flags, environment): (&[&str], &[(&str, &str)]) = if gives_a_password(client) {
        (&["--requirepass", PASSWORD], &[("REDLOCK_PASSWORD", PASSWORD)])
    } else {
        (&[], &[])
    };
    let proxy = Proxy::start(&masters, flags);
    let said = client.run(proxy.address(), &["check", &client.id], environment).await;
    said.and_then(|lines| outcome(client, &lines)).map_err(|why| with_log(&why, &proxy))
}

/// Returns whether the client sends a password: StackExchange.Redis sends AUTH and everything after it in one write.
fn gives_a_password(client: &Client) -> bool {
    client.language == "dotnet"
}

const PASSWORD: &str = "correct horse";

async fn with_a_minority_killed(client: &Client) -> Result<Outcome, String> {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let middle = directory.path().join("middle");
    let environment = [("REDLOCK_MIDDLE", middle.to_str().expect("a path in UTF-8"))];
    let words = ["check", &client.id];
    let mut run = pin!(client.run(proxy.address(), &words, &environment));
    let said = tokio::select! {
        said = &mut run => said.and(Err(format!("{client} never comes to its middle"))),
        () = kill_in_the_middle(&mut masters, &middle) => run.await,
    };
    said.and_then(|lines| outcome(client, &lines)).map_err(|why| with_log(&why, &proxy))
}

/// Waits until the client reports a held lock, kills a minority of the masters, and lets the client continue.
async fn kill_in_the_middle(masters: &mut Masters, middle: &Path) {
    while !middle.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for master in masters.minority() {
        master.kill_9();
    }
    fs::write(middle.with_extension("done"), "").expect("a file for the client");
}

/// Parses `CHECK<TAB>passed` or `CHECK<TAB>none`, line by line.
fn outcome(client: &Client, lines: &[String]) -> Result<Outcome, String> {
    let Some(("all locks held", checks)) =
        lines.split_last().map(|(end, rest)| (end.as_str(), rest))
    else {
        return Err(format!("{client} does not come to its end: {lines:#?}"));
    };
    let outcome: Option<Outcome> = checks.iter().map(|line| check(line)).collect();
    let outcome =
        outcome.ok_or_else(|| format!("{client} says what nobody understands: {lines:#?}"))?;
    let (mut common, own): (Outcome, Outcome) =
        outcome.into_iter().partition(|(name, _)| COMMON.contains(&name.as_str()));
    if !common.iter().map(|(name, _)| name.as_str()).eq(COMMON) {
        return Err(format!("{client} leaves out a check: {lines:#?}"));
    }
    common.extend(own);
    Ok(common)
}

fn check(line: &str) -> Option<(String, bool)> {
    match line.split_once('\t')? {
        (name, "passed") => Some((name.to_owned(), true)),
        (name, "none") => Some((name.to_owned(), false)),
        _ => None,
    }
}

fn with_log(why: &str, proxy: &Proxy) -> String {
    format!("{why}\nlog of the proxy: {:#?}\n", proxy.log())
}
