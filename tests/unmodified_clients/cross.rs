//! Clients of different libraries and languages against each other. Through one proxy, every client takes locks and
//! exits without releasing them. Then every client tries to take the locks that all of them hold.
//!
//! A client tries keys of the same type as its own locks. For keys of any other type, a plain Redis answers many
//! libraries with an error as well.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::client::{self, Client};
use crate::support::{Masters, Proxy};

pub(crate) async fn refused_by_each_other(languages: &[String]) {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut clients = Vec::new();
    for language in languages {
        clients.extend(client::list(language).await);
    }
    let forms = nameable_forms(&clients, proxy.address()).await;

    // The locks would expire while other tests use the machine.
    let _alone = client::CHECKS.write().await;
    let start = Instant::now();
    let wanted = (0..clients.len()).map(|row| keys_to_hold(row, &clients[row], &forms[row]));
    let held = everybody(&clients, proxy.address(), "hold", wanted.collect()).await;
    let held: Vec<_> =
        clients.iter().zip(held).map(|(it, answers)| keys(it, &answers, "held")).collect();
    let tried = clients.iter().map(|client| held_where_it_looks(client, &clients, &held)).collect();
    let answers = everybody(&clients, proxy.address(), "try", tried).await;
    assert!(start.elapsed() < HOLD, "this machine is too slow: the locks have run out");

    for ((client, answers), held) in clients.iter().zip(answers).zip(held) {
        let refused = keys(client, &answers, "refused");
        assert!(!held.is_empty(), "{client} holds nothing");
        assert!(
            held.iter().all(|key| refused.contains(key)),
            "{client} is not refused its own keys"
        );
    }
}

/// Returns the forms of keys that each client can name. This also fetches and builds what the clients need, before the
/// clock runs.
async fn nameable_forms(clients: &[Client], address: &str) -> Vec<Vec<&'static str>> {
    let key = |form: &str, client: &Client| form.replace("NAME", &format!("prepare:{client}"));
    let all = |client: &Client| FORMS.iter().map(|form| key(form, client)).collect();
    let answers = everybody(clients, address, "try", clients.iter().map(all).collect()).await;
    let nameable = |(client, answers): (&Client, Vec<String>)| {
        let named = keys(client, &answers, "taken");
        FORMS.into_iter().filter(|form| named.contains(&key(form, client))).collect()
    };
    clients.iter().zip(answers).map(nameable).collect()
}

/// Returns the plain form if the client can name it, and one of the others in turn. A client with its own prefix is met
/// there.
fn keys_to_hold(row: usize, client: &Client, nameable: &[&str]) -> Vec<String> {
    let plain = nameable.iter().filter(|form| **form == PLAIN);
    let special: Vec<_> = nameable.iter().filter(|form| ![PLAIN, TIMES].contains(form)).collect();
    let one_special = special.get(row % special.len().max(1)).copied();
    // Only redis-mutex can name nothing else.
    let times = nameable.iter().filter(|_| special.is_empty());
    let forms = plain.chain(one_special).chain(times);
    forms.map(|form| form.replace("NAME", &format!("cross:{client}"))).collect()
}

fn held_where_it_looks(client: &Client, clients: &[Client], held: &[Vec<String>]) -> Vec<String> {
    let looks = clients.iter().zip(held).filter(|(holder, _)| meet(client, holder));
    looks.flat_map(|(_, keys)| keys.clone()).collect()
}

/// Returns whether two clients use keys of the same type in the same database. .NET's clients use database 1.
fn meet(one: &Client, other: &Client) -> bool {
    let database = |client: &Client| u8::from(client.language == "dotnet");
    one.keys == other.keys && database(one) == database(other)
}

/// Runs the same action for every client with its keys, a few clients at a time, and returns their answers.
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
    let mut answers = answers.join_all().await;
    answers.sort_by_key(|(row, _)| *row);
    let failures: Vec<_> = answers.iter().filter_map(|(_, answer)| answer.as_ref().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    answers.into_iter().filter_map(|(_, answer)| answer.ok()).collect()
}

/// Returns the keys in a client's answers, all of which must be of one kind.
fn keys(client: &Client, answers: &[String], kind: &str) -> Vec<String> {
    let (alike, others): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.split('\t').next() == Some(kind));
    assert!(others.is_empty(), "{client} should only say {kind}, not {others:#?}");
    alike.iter().filter_map(|answer| answer.split('\t').nth(1)).map(str::to_owned).collect()
}

/// Time to live of the locks that a client holds.
const HOLD: Duration = Duration::from_secs(120);

/// Key names that libraries derive from a lock's name.
const FORMS: [&str; 10] = [
    PLAIN,
    ":1:NAME",
    "NAME.writer",
    TIMES,
    "SEMAPHORE:NAME:AVAILABLE",
    "job-lock:NAME",
    "lock:NAME",
    "lock_NAME",
    "php-malkusch-lock:NAME",
    "redlock:NAME",
];

const PLAIN: &str = "NAME";

/// The form of redis-mutex. Its values are times, and it takes any other library's value for a time long past. So
/// nobody else takes its keys.
const TIMES: &str = "RedisMutex:NAME";
