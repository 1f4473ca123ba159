//! Clients that count. Each request adds one, so a reply that is lost, duplicated or meant for another client shows.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use crate::pair::Pair;
use crate::support::{Raw, Reply, encode, eventually};

/// Number of clients of each kind.
const CLIENTS: usize = 8;

/// Requests in flight for a client that pipelines.
const PIPELINE: u64 = 30;

pub struct Load {
    clients: Vec<Client>,
    is_over: Arc<AtomicBool>,
}

struct Client {
    key: String,
    replies: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

/// Way of connecting, and whether to reconnect for every request.
#[derive(Clone)]
struct Habit {
    address: String,
    unix: Option<PathBuf>,
    pipeline: u64,
    stays: bool,
}

impl Load {
    pub fn start(pair: &Pair) -> Load {
        let is_over = Arc::default();
        let by_tcp =
            |pipeline, stays| Habit { address: pair.address().into(), unix: None, pipeline, stays };
        let by_file =
            |pipeline| Habit { unix: Some(pair.path("clients.sock")), ..by_tcp(pipeline, true) };
        let habits = [
            by_tcp(1, true),
            by_tcp(PIPELINE, true),
            by_file(1),
            by_file(PIPELINE),
            by_tcp(1, false),
        ];
        let clients = habits.iter().enumerate().flat_map(|(kind, habit)| {
            let over = &is_over;
            (0..CLIENTS)
                .map(move |number| Client::start(format!("{kind}:{number}"), habit.clone(), over))
        });
        Load { clients: clients.collect(), is_over }
    }

    /// Waits until every client has received some more replies.
    pub async fn makes_progress(&self) {
        let replies = |client: &Client| client.replies.load(Ordering::Relaxed);
        let before: Vec<u64> = self.clients.iter().map(replies).collect();
        for (client, before) in self.clients.iter().zip(before) {
            eventually("every client gets replies", || async {
                let has_failed = client.task.is_finished();
                (has_failed || replies(client) >= before + 2 * PIPELINE).then_some(())
            })
            .await;
        }
    }

    /// Stops the clients, and checks that each request was executed exactly once.
    pub async fn stop_and_check(self, pair: &Pair) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut raw = Raw::connect(pair.address()).await;
        for client in self.clients {
            client.task.await.expect("every reply was right");
            let replies = client.replies.load(Ordering::Relaxed);
            assert_eq!(raw.ask(&["GET", &client.key]).await, Reply::bulk(&replies.to_string()));
        }
    }
}

impl Client {
    fn start(key: String, habit: Habit, is_over: &Arc<AtomicBool>) -> Client {
        let replies = Arc::default();
        let task =
            tokio::spawn(count(key.clone(), habit, Arc::clone(&replies), Arc::clone(is_over)));
        Client { key, replies, task }
    }
}

async fn count(key: String, habit: Habit, replies: Arc<AtomicU64>, is_over: Arc<AtomicBool>) {
    let mut raw = habit.connect().await;
    let request = encode(&["INCR", &key]).repeat(habit.pipeline as usize);
    let mut counted = 0;
    while !is_over.load(Ordering::Relaxed) {
        if !habit.stays {
            raw = habit.connect().await;
        }
        raw.send(&request).await;
        for _ in 0..habit.pipeline {
            counted += 1;
            assert_eq!(raw.reply().await, Reply::Int(counted as i64), "INCR {key}");
        }
        replies.store(counted, Ordering::Relaxed);
    }
}

impl Habit {
    async fn connect(&self) -> Raw {
        match &self.unix {
            None => Raw::connect(&self.address).await,
            Some(path) => Raw::over(UnixStream::connect(path).await.expect("a listener")),
        }
    }
}
