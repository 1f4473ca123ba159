//! The client in Rust, over the redis crate or with rslock. It speaks to the journal like the
//! others.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, Value};
use rslock::{LockError, LockManager};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::sleep;

use crate::history::now;
use crate::support::scripts::{EXTEND, RELEASE};

/// Carries out the journal's orders.
pub(crate) async fn run(address: SocketAddr, mut driver: Driver) -> Result<(), String> {
    let talk = async {
        let mut journal = Journal::connect(address).await?;
        journal.tell("hello").await?;
        loop {
            let line = journal.ask("turn").await?;
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["rest", ms] => sleep(Duration::from_millis(number(ms))).await,
                ["try", servers, key, token, ref numbers @ ..] => {
                    let numbers: Vec<u64> = numbers.iter().map(|word| number(word)).collect();
                    driver.obey(&mut journal, servers, (key, token), &numbers).await?;
                }
                ["free", server, key, value, patience] => {
                    let patience = Duration::from_millis(number(patience));
                    let mut lock = Lock::of(&mut driver, server, (key, value), patience);
                    journal.call("release", 0, lock.release()).await?;
                }
                _ => return Ok(()),
            }
        }
    };
    talk.await.map_err(|error: std::io::Error| error.to_string())
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number in an order")
}

struct Journal {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl Journal {
    async fn connect(address: SocketAddr) -> std::io::Result<Journal> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        Ok(Journal { lines: BufReader::new(read).lines(), write })
    }

    async fn tell(&mut self, line: &str) -> std::io::Result<()> {
        self.write.write_all(format!("{line}\n").as_bytes()).await
    }

    async fn ask(&mut self, line: &str) -> std::io::Result<String> {
        self.tell(line).await?;
        Ok(self.lines.next_line().await?.unwrap_or_default())
    }

    /// Times one request. Returns whether the answer was yes.
    async fn call(
        &mut self,
        operation: &str,
        px: u64,
        reply: impl Future<Output = Reply>,
    ) -> std::io::Result<bool> {
        self.tell(&format!("ask {} {operation} {px}", now())).await?;
        let Reply { kind, text } = reply.await;
        let at = now();
        self.tell(&format!("answer {at} {kind} {}", text.replace(['\r', '\n'], " "))).await?;
        Ok(kind == "yes")
    }
}

pub(crate) struct Reply {
    kind: &'static str,
    pub(crate) text: String,
}

impl Reply {
    fn yes() -> Reply {
        Reply { kind: "yes", text: String::new() }
    }

    fn no() -> Reply {
        Reply { kind: "no", text: String::new() }
    }
}

/// The library that takes locks, with its state for each server or set of servers.
pub(crate) enum Driver {
    RedisCrate(HashMap<String, MultiplexedConnection>),
    Rslock(HashMap<String, LockManager>),
}

impl Driver {
    pub(crate) fn redis_crate() -> Driver {
        Driver::RedisCrate(HashMap::new())
    }

    pub(crate) fn rslock() -> Driver {
        Driver::Rslock(HashMap::new())
    }

    async fn obey(
        &mut self,
        journal: &mut Journal,
        servers: &str,
        (key, token): (&str, &str),
        numbers: &[u64],
    ) -> std::io::Result<()> {
        let &[px, hold, extend, release, patience] = numbers else { return Ok(()) };
        let hold = Duration::from_millis(hold);
        let patience = Duration::from_millis(patience);
        let mut lock = Lock::of(self, servers, (key, token), patience);
        if !journal.call("claim", px, lock.claim(px)).await? {
            return Ok(());
        }
        journal.ask("enter").await?;
        sleep(hold).await;
        if extend == 1 && journal.call("extend", px, lock.extend(px)).await? {
            sleep(hold).await;
        }
        journal.ask("leave").await?;
        if release == 1 {
            journal.call("release", px, lock.release()).await?;
        }
        Ok(())
    }
}

struct Lock<'a> {
    driver: &'a mut Driver,
    servers: &'a str,
    key: &'a str,
    token: &'a str,
    patience: Duration,
    held: Option<rslock::Lock>,
}

impl<'a> Lock<'a> {
    fn of(
        driver: &'a mut Driver,
        servers: &'a str,
        (key, token): (&'a str, &'a str),
        patience: Duration,
    ) -> Self {
        Self { driver, servers, key, token, patience, held: None }
    }

    async fn claim(&mut self, px: u64) -> Reply {
        match self.driver {
            Driver::RedisCrate(_) => {
                let words = ["SET", self.key, self.token, "NX", "PX", &px.to_string()];
                self.ask(&words, &Value::Okay, &Value::Nil).await
            }
            Driver::Rslock(managers) => {
                let manager = managers.entry(self.servers.to_owned());
                let manager = manager.or_insert_with(|| manager_of(self.servers));
                match manager.lock(self.key, Duration::from_millis(px)).await {
                    Ok(lock) => {
                        self.held = Some(lock);
                        Reply::yes()
                    }
                    Err(LockError::Unavailable | LockError::TtlExceeded) => Reply::no(),
                    Err(error) => Reply { kind: "error", text: error.to_string() },
                }
            }
        }
    }

    async fn extend(&mut self, px: u64) -> Reply {
        if let Some(held) = &self.held {
            let extended = held.lock_manager.extend(held, Duration::from_millis(px)).await;
            return match extended {
                Ok(lock) => {
                    self.held = Some(lock);
                    Reply::yes()
                }
                Err(error) => Reply { kind: "error", text: error.to_string() },
            };
        }
        let words = ["EVAL", EXTEND, "1", self.key, self.token, &px.to_string()];
        self.ask(&words, &Value::Int(1), &Value::Int(0)).await
    }

    async fn release(&mut self) -> Reply {
        if let Some(held) = &self.held {
            held.lock_manager.unlock(held).await;
            return Reply::yes();
        }
        let words = ["EVAL", RELEASE, "1", self.key, self.token];
        self.ask(&words, &Value::Int(1), &Value::Int(0)).await
    }

    /// Sends words over the connection to the server, a new one if need be. Drops the connection if
    /// no reply comes.
    async fn ask(&mut self, words: &[&str], yes: &Value, no: &Value) -> Reply {
        let Driver::RedisCrate(connections) = self.driver else { unreachable!("rslock") };
        if !connections.contains_key(self.servers) {
            match connect(self.servers, self.patience).await {
                Ok(connection) => connections.insert(self.servers.to_owned(), connection),
                Err(error) => return failure(&error),
            };
        }
        let connection = connections.get_mut(self.servers).expect("one was made");
        let reply = crate::support::value(connection, words).await;
        let reply = match reply {
            Ok(value) if value == *yes => Reply::yes(),
            Ok(value) if value == *no => Reply::no(),
            Ok(other) => Reply { kind: "odd", text: format!("{other:?}") },
            Err(error) => failure(&error),
        };
        if reply.kind == "lost" {
            connections.remove(self.servers);
        }
        reply
    }
}

pub(crate) fn failure(error: &RedisError) -> Reply {
    let kind = if error.code().is_some() { "error" } else { "lost" };
    let text = match error.code() {
        Some(code) => format!("{code} {}", error.detail().unwrap_or_default()),
        None => error.to_string(),
    };
    Reply { kind, text }
}

/// Opens a connection with this timeout for connecting and for each reply.
pub(crate) async fn connect(
    server: &str,
    patience: Duration,
) -> redis::RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(patience))
        .set_response_timeout(Some(patience));
    let client = Client::open(format!("redis://{server}/"))?;
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Makes one attempt per claim, like the other clients.
fn manager_of(servers: &str) -> LockManager {
    let urls = servers.split(',').map(|server| format!("redis://{server}/")).collect();
    let mut manager = LockManager::new(urls);
    manager.set_retry(1, Duration::from_millis(10));
    manager
}
