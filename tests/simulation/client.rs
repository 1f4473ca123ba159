//! Clients that speak to a proxy as libraries do, and the conclusions that they may draw from its
//! answers.

use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, timeout};

use super::lua::sha1;
use super::resp::{Reply, encode_request};
use super::world::World;

/// The release from Redis's documentation.
pub const RELEASE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// symfony/lock 3.4: take a lock, or extend one's own.
pub const ACQUIRE: &str = r#"
            if redis.call("GET", KEYS[1]) == ARGV[1] then
                return redis.call("PEXPIRE", KEYS[1], ARGV[2])
            elseif redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
                return 1
            else
                return 0
            end
        "#;
/// [`ACQUIRE`] in a wording that the proxy does not know, so that it runs as a program.
pub const PROGRAM: &str = "local held = redis.call('GET', KEYS[1]) \
                       if held and held ~= ARGV[1] then return {0, 'somebody else has it'} end \
                       redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return {1, 'it is yours'}";
pub const EXTEND: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then \
                      return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

/// Longest time to any reply, whatever happens: turns, retries, pauses, and a stopped proxy.
const PATIENCE: Duration = Duration::from_secs(15);

/// Errors that tell a client to try again. (`NOSCRIPT` only answers `EVALSHA`.)
const SENSIBLE: [&str; 4] = ["CLUSTERDOWN", "LOADING", "TRYAGAIN", "UNKNOWN"];

/// The connection is gone: the proxy has died.
#[derive(Debug)]
pub struct Gone;

/// One client. It reconnects by itself.
pub struct Client {
    pub name: String,
    pub world: Rc<World>,
    pub rng: Rng,
    proxy: usize,
    stream: Option<DuplexStream>,
    received: Vec<u8>,
    tokens: u32,
}

impl Client {
    pub fn new(world: &Rc<World>, proxy: usize, name: String, rng: Rng) -> Self {
        let world = Rc::clone(world);
        Self { name, world, rng, proxy, stream: None, received: Vec::new(), tokens: 0 }
    }

    /// Version of the roster by which its proxy counts votes.
    pub fn version(&self) -> Option<u64> {
        let worker = self.world.proxies[self.proxy].worker()?;
        Some(worker.engine().electorate().roster().version)
    }

    /// Releases a lock. The client stops relying on the lock as soon as the request is sent.
    pub async fn release(&mut self, key: &str, token: &str) -> Result<Reply, Gone> {
        let held = self.world.journal.held(key, token);
        self.world.journal.gave_up(key, token);
        let reply = self.script(RELEASE, &["1", key, token]).await?;
        if let Reply::Int(done) = reply {
            // The lock may have expired before the masters got the request.
            let held = held.filter(|(_, until)| *until > Instant::now());
            self.expect_ours(key, token, held.map(|(since, _)| since), done, "a release");
        }
        self.expect_sensible(&["release", key], &reply, matches!(reply, Reply::Int(0 | 1)));
        Ok(reply)
    }

    /// Runs a script: sometimes by `EVALSHA` first, as libraries do, and by its text if it is not
    /// known.
    pub async fn script(&mut self, text: &str, args: &[&str]) -> Result<Reply, Gone> {
        let sha = sha1(text.as_bytes());
        if self.rng.bool() {
            let words: Vec<&str> =
                ["EVALSHA", &sha].into_iter().chain(args.iter().copied()).collect();
            let reply = self.ask(&words).await?;
            if reply.error_prefix() != Some("NOSCRIPT") {
                return Ok(reply);
            }
        }
        let words: Vec<&str> = ["EVAL", text].into_iter().chain(args.iter().copied()).collect();
        self.ask(&words).await
    }

    /// Checks that a valid lock has not been lost.
    pub fn expect_ours(
        &self,
        key: &str,
        token: &str,
        since: Option<Instant>,
        done: i64,
        what: &str,
    ) {
        if done == 0 && since.is_some_and(|since| !self.world.may_lose(since)) {
            self.world.journal.violation(format_args!(
                "rule 1: {what} of {key} tells {token} that its valid lock is not its own"
            ));
        }
    }

    pub fn granted(&self, key: &str, token: &str, lease: Duration) {
        self.world.journal.granted(key, token, lease);
    }

    pub fn prolonged(&self, key: &str, token: &str, lease: Duration) {
        self.world.journal.hold(key, token, lease);
    }

    pub fn is_granted(&self, reply: &Reply, granted: &Reply, refused: &Reply) -> bool {
        self.expect_sensible(&["claim"], reply, reply == granted || reply == refused);
        reply == granted
    }

    /// Rule 3: an answer either fits the request or is an error that says what to do.
    pub fn expect_sensible(&self, request: &[&str], reply: &Reply, is_fitting: bool) {
        let is_sensible = reply.error_prefix().is_some_and(|prefix| SENSIBLE.contains(&prefix));
        if !is_fitting && !is_sensible {
            let journal = &self.world.journal;
            journal.violation(format_args!("rule 3: {request:?} is answered with {reply:?}"));
        }
    }

    /// Sends one request and returns its answer.
    pub async fn ask(&mut self, words: &[&str]) -> Result<Reply, Gone> {
        self.send(&[words]).await?;
        self.receive(words).await
    }

    pub async fn send(&mut self, requests: &[&[&str]]) -> Result<(), Gone> {
        if self.stream.is_none() {
            self.stream = self.world.proxies[self.proxy].connect();
        }
        let mut bytes = Vec::new();
        for words in requests {
            self.world.journal.count_request();
            self.world.journal.note(format_args!("{} > {}", self.name, shown(words)));
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            encode_request(&words, &mut bytes);
        }
        let stream = self.stream.as_mut().ok_or(Gone)?;
        stream.write_all(&bytes).await.map_err(|_| Gone)
    }

    pub async fn receive(&mut self, words: &[&str]) -> Result<Reply, Gone> {
        let asked = Instant::now();
        let reply = timeout(PATIENCE, self.next_reply()).await;
        let Ok(reply) = reply else {
            let journal = &self.world.journal;
            journal
                .violation(format_args!("rule 3: no answer to {} in {PATIENCE:?}", shown(words)));
            return Err(Gone);
        };
        let took = asked.elapsed();
        let journal = &self.world.journal;
        match &reply {
            Ok(reply) => journal.note(format_args!(
                "{} < {} ({} after {took:?})",
                self.name,
                show_reply(reply),
                shown(words)
            )),
            Err(Gone) => journal.note(format_args!("{} < connection lost", self.name)),
        }
        reply
    }

    async fn next_reply(&mut self) -> Result<Reply, Gone> {
        let stream = self.stream.as_mut().ok_or(Gone)?;
        loop {
            match Reply::decode(&self.received) {
                Ok(Some((reply, len))) => {
                    self.received.drain(..len);
                    return Ok(reply);
                }
                Ok(None) => {}
                Err(why) => {
                    self.world.journal.violation(format_args!("rule 3: malformed reply: {why}"));
                    return Err(Gone);
                }
            }
            if !matches!(stream.read_buf(&mut self.received).await, Ok(1..)) {
                return Err(Gone);
            }
        }
    }

    /// Makes the next request use a new connection.
    pub fn hang_up(&mut self) {
        self.stream = None;
        self.received.clear();
    }

    /// Makes the next request use another proxy.
    pub fn go_elsewhere(&mut self) {
        self.hang_up();
        self.proxy = (self.proxy + 1) % self.world.proxies.len();
    }

    pub fn token(&mut self) -> String {
        self.tokens += 1;
        format!("{}-{}", self.name, self.tokens)
    }
}

fn shown(words: &[&str]) -> String {
    let word = |word: &&str| match *word {
        RELEASE => "<release>".to_owned(),
        EXTEND => "<extend>".to_owned(),
        ACQUIRE => "<acquire>".to_owned(),
        PROGRAM => "<program>".to_owned(),
        other => other.to_owned(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Status(text) | Reply::Error(text) => text.clone(),
        Reply::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
