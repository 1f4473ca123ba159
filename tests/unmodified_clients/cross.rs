//! Clients of different libraries and languages against each other: one proxy, every client takes
//! locks and goes away without releasing them, and then every client tries to take what the others
//! hold.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::client::{self, Client};
use crate::support::{Masters, Proxy};

/// What each client holds, in the order of the clients.
type Held = Vec<Vec<String>>;

pub(crate) async fn refused_by_each_other(languages: &[String]) {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut clients = Vec::new();
    for language in languages {
        clients.extend(client::list(language).await);
    }
    prepare(&clients, proxy.address()).await;

    let start = Instant::now();
    let wanted = clients.iter().map(keys_of).collect();
    let held = everybody(&clients, proxy.address(), "hold", wanted).await;
    let held: Held = held.into_iter().map(|answers| keys(answers, "held")).collect();
    let others = (0..clients.len()).map(|own| held_by_others(&held, own)).collect();
    let answers = everybody(&clients, proxy.address(), "try", others).await;
    assert!(start.elapsed() < HOLD, "this machine is too slow: the locks have run out");

    let mut refusals = HashMap::new();
    for (client, answers) in clients.iter().zip(answers) {
        let refused = keys(answers, "refused");
        assert!(!refused.is_empty(), "{client} could try nothing that others hold");
        for key in refused {
            *refusals.entry(key).or_insert(0) += 1;
        }
    }
    for key in held.iter().flatten() {
        assert!(refusals.contains_key(key), "nobody could try {key}");
    }
}

/// Fetches and builds what the clients need before the clock runs.
async fn prepare(clients: &[Client], address: &str) {
    let nothing = vec![Vec::new(); clients.len()];
    everybody(clients, address, "try", nothing).await;
}

/// Lets every client do the same with its keys, a few at a time, and returns their answers.
async fn everybody(
    clients: &[Client],
    address: &str,
    action: &'static str,
    keys: Vec<Vec<String>>,
) -> Vec<Vec<String>> {
    let mut answers = JoinSet::new();
    for (row, (client, keys)) in clients.iter().cloned().zip(keys).enumerate() {
        let address = address.to_owned();
        answers.spawn(async move {
            let _turn = client::turn().await;
            let words = [action, &client.id].into_iter().chain(keys.iter().map(String::as_str));
            (row, client.run(&address, &words.collect::<Vec<_>>(), &[]).await)
        });
    }
    let mut all = vec![Vec::new(); clients.len()];
    while let Some(answered) = answers.join_next().await {
        let (row, answer) = answered.expect("a client that is run");
        all[row] = answer.unwrap_or_else(|why| panic!("{why}"));
    }
    all
}

/// The keys in answers of one kind, which is all that there may be.
fn keys(answers: Vec<String>, kind: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for answer in answers {
        match answer.split_once('\t') {
            Some((said, key)) if said == kind => keys.push(key.to_owned()),
            _ => panic!("{kind} was expected, not: {answer}"),
        }
    }
    keys
}

fn keys_of(client: &Client) -> Vec<String> {
    let name = format!("cross:{} {}", client.language, client.id);
    PREFIXES.iter().map(|prefix| format!("{prefix}{name}")).collect()
}

fn held_by_others(held: &Held, own: usize) -> Vec<String> {
    let others = held.iter().enumerate().filter(|(owner, _)| *owner != own);
    others.flat_map(|(_, keys)| keys.clone()).collect()
}

/// For how long a client takes what it is told to hold.
const HOLD: Duration = Duration::from_secs(120);

/// What libraries put before a lock's name to get its key. Clients without a prefix of their own
/// take all these keys.
const PREFIXES: [&str; 7] =
    ["", ":1:", "RedisMutex:", "lock:", "lock_", "php-malkusch-lock:", "redlock:"];
