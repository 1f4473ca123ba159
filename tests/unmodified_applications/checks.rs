//! Runs of each application against a plain Redis, which has every feature it asks for, and against the proxy.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::application::{Application, Checks};

/// An application that passed in both places.
pub(crate) struct Outcome {
    pub(crate) application: Application,
    /// Results in front of the proxy. `false` marks a feature that the application does without.
    pub(crate) checks: Checks,
}

/// Runs the checks of all applications, a few at a time, and returns the outcomes in the same order.
pub(crate) async fn both(applications: Vec<Application>) -> Vec<Outcome> {
    let turns = Arc::new(Semaphore::new(AT_A_TIME));
    let mut running = JoinSet::new();
    for (row, application) in applications.into_iter().enumerate() {
        let turns = turns.clone();
        running.spawn(async move {
            let _turn = turns.acquire().await.expect("nobody closes it");
            (row, check(application).await)
        });
    }
    let mut ended = running.join_all().await;
    ended.sort_by_key(|(row, _)| *row);
    let failures: Vec<_> = ended.iter().filter_map(|(_, it)| it.as_ref().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    ended.into_iter().filter_map(|(_, outcome)| outcome.ok()).collect()
}

async fn check(application: Application) -> Result<Outcome, String> {
    let start = std::time::Instant::now();
    let plain = application.against_one_redis().await?;
    let halfway = start.elapsed();
    let checks = application.against_a_proxy().await?;
    println!(
        "{application}: {} s in front of one Redis, {} s in front of the proxy",
        halfway.as_secs(),
        (start.elapsed() - halfway).as_secs()
    );
    if let Some((name, _)) = plain.iter().find(|(_, has)| !has) {
        return Err(format!("{application} goes without {name} in front of a plain Redis"));
    }
    let names = |checks: &Checks| checks.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let mut expected = names(&plain);
    expected.push(APART.to_owned());
    if names(&checks) != expected {
        return Err(format!("{application} checks other things in front of the proxy: {checks:?}"));
    }
    Ok(Outcome { application, checks })
}

/// Name of the check that `against-a-proxy` adds.
pub(crate) const APART: &str = "locks and data apart";

/// Applications that run at a time. Most of them spend most of their time waiting.
const AT_A_TIME: usize = 3;
