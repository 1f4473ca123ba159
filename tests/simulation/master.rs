//! A master: a process with its own clock that can be stopped, killed and restarted.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use redlock_proxy::masters::facts::FARTHEST_AHEAD_MS;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::keyspace::Keyspace;
use super::lua::Scripts;
use super::plan::Plan;
use super::resp::decode_request;
use super::socket::Socket;

/// One master, whatever process it currently runs.
pub struct Master {
    pub index: usize,
    pub clock: RefCell<WallClock>,
    pub process: RefCell<Option<Process>>,
    pub scripts: Rc<RefCell<Scripts>>,
    rng: RefCell<Rng>,
    /// Id and marks that hide from proxies that a master has forgotten, for masters that keep them.
    disguise: RefCell<Option<(String, Keyspace)>>,
    /// Its keys at the last backup.
    volume: RefCell<Option<Keyspace>>,
    /// Whether restarts preserve the proof that it remembers, while everything else is forgotten.
    keeps_marks: bool,
    stopped: Cell<bool>,
    /// Number of processes that have ended. Their connections do nothing more.
    deaths: Cell<u64>,
    /// Notified when the process is resumed.
    continued: Notify,
    /// Duration of a command.
    pub service: Cell<Duration>,
    calls: RefCell<Option<mpsc::UnboundedSender<Socket>>>,
    running: RefCell<Option<tokio::task::JoinHandle<()>>>,
}

/// State that is lost with the process.
pub struct Process {
    pub run_id: String,
    pub started_ms: i64,
    pub keys: Keyspace,
    /// SHA1s that `EVALSHA` finds.
    pub loaded: BTreeSet<String>,
    pub connections: BTreeMap<i64, Connection>,
    last_id: i64,
}

/// A connection of one of its clients.
#[derive(Default)]
pub struct Connection {
    pub name: String,
    pub killed: Rc<Cell<bool>>,
    pub end: Rc<Notify>,
    pub resp3: bool,
    /// Commands after `MULTI`.
    pub queue: Option<Vec<Vec<Vec<u8>>>>,
}

/// A clock that may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    begun: Instant,
    at: Instant,
    micros: i64,
    rate: f64,
    set_back_ms: u64,
}

impl WallClock {
    pub fn new(micros: i64, rate: f64) -> Self {
        let now = Instant::now();
        Self { begun: now, at: now, micros, rate, set_back_ms: 0 }
    }

    /// Total time by which it was set back. Keys may live this much longer.
    pub fn set_back(&self) -> Duration {
        Duration::from_millis(self.set_back_ms)
    }

    pub fn micros(&self) -> i64 {
        self.micros + (self.at.elapsed().as_micros() as f64 * self.rate) as i64
    }

    pub fn ms(&self) -> i64 {
        self.micros() / 1000
    }

    /// Sets it by about this much, but never so far that its master must not vote.
    pub fn step(&mut self, ms: i64) {
        let right_us = SOME_DAY_US + self.begun.elapsed().as_micros() as i64;
        let wrong_us = self.micros() - right_us;
        let us = (wrong_us + 1000 * ms).clamp(-FARTHEST_US, FARTHEST_US) - wrong_us;
        self.micros += us;
        self.set_back_ms += u64::try_from(-us).unwrap_or_default().div_ceil(1000);
    }

    pub fn set_rate(&mut self, rate: f64) {
        *self = Self { at: Instant::now(), micros: self.micros(), rate, ..*self };
    }

    /// Draws the clock of a master that has just started. If clocks differ, they may be seconds
    /// apart and drift as far as the drift bound allows.
    fn draw(rng: &mut Rng, plan: &Plan) -> Self {
        if plan.clocks_differ {
            let most = (FARTHEST_US as f64 / plan.chaos.as_micros() as f64).min(0.004);
            let rate = 1.0 + most * rng.i32(-40..=40) as f64 / 40.0;
            return Self::new(SOME_DAY_US + rng.i64(-FARTHEST_US..FARTHEST_US), rate);
        }
        Self::new(SOME_DAY_US + rng.i64(-DISCIPLINED_US..DISCIPLINED_US), 1.0)
    }
}

/// Correct time at the start of a run.
const SOME_DAY_US: i64 = 20_000 * 86_400_000_000;

/// Maximum initial error of a clock, and maximum further error in a run, with which its master
/// still votes.
const FARTHEST_US: i64 = FARTHEST_AHEAD_MS * 1000 / 6;

/// Maximum error of a clock under NTP.
const DISCIPLINED_US: i64 = 1_000;

impl Master {
    /// Creates a master that has been running for `age`.
    pub fn new(
        index: usize,
        mut rng: Rng,
        scripts: Rc<RefCell<Scripts>>,
        age: Duration,
        plan: &Plan,
    ) -> Rc<Self> {
        let clock = WallClock::draw(&mut rng, plan);
        let master = Rc::new(Self {
            index,
            clock: RefCell::new(clock),
            process: RefCell::default(),
            scripts,
            rng: RefCell::new(rng),
            disguise: RefCell::default(),
            volume: RefCell::default(),
            keeps_marks: plan.masters_keep_marks,
            stopped: Cell::new(false),
            deaths: Cell::new(0),
            continued: Notify::new(),
            service: Cell::new(Duration::ZERO),
            calls: RefCell::default(),
            running: RefCell::default(),
        });
        master.start();
        if let Some(process) = &mut *master.process.borrow_mut() {
            process.started_ms -= age.as_millis() as i64;
        }
        master
    }

    pub fn now_ms(&self) -> i64 {
        self.clock.borrow().ms()
    }

    pub fn is_running(&self) -> bool {
        self.process.borrow().is_some()
    }

    /// Starts a new process, which remembers nothing.
    pub fn start(self: &Rc<Self>) {
        let new = || (format!("{:040x}", self.rng.borrow_mut().u128(..)), Keyspace::default());
        let (run_id, keys) = self.disguise.take().unwrap_or_else(new);
        *self.process.borrow_mut() = Some(Process {
            run_id,
            started_ms: self.now_ms(),
            keys,
            loaded: BTreeSet::new(),
            connections: BTreeMap::new(),
            last_id: 0,
        });
        let (calls, accepted) = mpsc::unbounded_channel();
        *self.calls.borrow_mut() = Some(calls);
        let running = tokio::task::spawn_local(Rc::clone(self).accept(accepted, self.deaths.get()));
        *self.running.borrow_mut() = Some(running);
    }

    /// Ends the process. Its memory and connections are lost.
    pub fn kill(&self) {
        let process = self.process.take().filter(|_| self.keeps_marks);
        *self.disguise.borrow_mut() = process.map(|it| (it.run_id, it.keys.only_the_proxies_own()));
        *self.calls.borrow_mut() = None;
        self.deaths.set(self.deaths.get() + 1);
        self.resume();
        if let Some(running) = self.running.borrow_mut().take() {
            running.abort();
        }
    }

    /// Copies its keys, including marks.
    pub fn back_up(&self) {
        let process = self.process.borrow();
        *self.volume.borrow_mut() = process.as_ref().map(|it| it.keys.clone());
    }

    /// Starts a new process with the last backup.
    pub fn restore(self: &Rc<Self>) {
        self.kill();
        self.start();
        if let (Some(process), Some(keys)) = (&mut *self.process.borrow_mut(), self.volume.take()) {
            process.keys = keys;
        }
    }

    /// SIGSTOP: the kernel still accepts connections and bytes, but nothing is processed.
    pub fn stop(&self) {
        self.stopped.set(true);
    }

    /// SIGCONT: everything received meanwhile is processed.
    pub fn resume(&self) {
        self.stopped.set(false);
        self.continued.notify_waiters();
    }

    /// `FLUSHALL` by some other client.
    pub fn flush(&self) {
        let now_ms = self.now_ms();
        if let Some(process) = &mut *self.process.borrow_mut() {
            process.keys.command(now_ms, &[b"FLUSHALL".to_vec()]).expect("it is known");
        }
    }

    /// Accepts a connection, if a process is listening.
    pub fn call(&self, socket: Socket) {
        if let Some(calls) = &*self.calls.borrow() {
            let _ = calls.send(socket);
        }
    }

    async fn accept(self: Rc<Self>, mut calls: mpsc::UnboundedReceiver<Socket>, deaths: u64) {
        let mut serving = JoinSet::new();
        while let Some(socket) = calls.recv().await {
            serving.spawn_local(Rc::clone(&self).serve(socket, deaths));
            while serving.try_join_next().is_some() {}
        }
    }

    async fn serve(self: Rc<Self>, mut socket: Socket, deaths: u64) {
        if !self.gate(deaths).await {
            return;
        }
        let (id, end) = self.enter();
        let mut received = Vec::new();
        loop {
            let more = tokio::select! {
                biased;
                () = end.notified() => break,
                more = socket.read_buf(&mut received) => more,
            };
            if !matches!(more, Ok(1..)) {
                break;
            }
            let goes_on = self.gate(deaths).await
                && self.requests((id, deaths), &mut received, &mut socket).await;
            if !goes_on {
                break;
            }
        }
        if self.deaths.get() != deaths {
            return;
        }
        if let Some(process) = &mut *self.process.borrow_mut() {
            process.connections.remove(&id);
        }
    }

    /// Processes the received requests. Returns false if the connection was killed meanwhile.
    async fn requests(
        &self,
        (id, deaths): (i64, u64),
        received: &mut Vec<u8>,
        socket: &mut Socket,
    ) -> bool {
        let mut done = 0;
        let mut replies = Vec::new();
        while let Some((words, len)) = decode_request(&received[done..]) {
            done += len;
            if !self.service.get().is_zero() {
                tokio::time::sleep(self.service.get()).await;
                if !self.gate(deaths).await {
                    return false;
                }
            }
            if self.is_killed(id) {
                return false;
            }
            self.execute(id, &words, &mut replies);
            if !self.service.get().is_zero() {
                let _ = socket.write_all(&std::mem::take(&mut replies)).await;
            }
        }
        received.drain(..done);
        if !replies.is_empty() {
            let _ = socket.write_all(&replies).await;
        }
        true
    }

    /// Waits while the process is stopped. On resumption it serves all connections in one turn of
    /// its event loop, in any order. Returns false if the process has ended since `deaths` was
    /// read.
    async fn gate(&self, deaths: u64) -> bool {
        while self.stopped.get() {
            self.continued.notified().await;
            let others = self.rng.borrow_mut().u8(0..4);
            for _ in 0..others {
                tokio::task::yield_now().await;
            }
        }
        self.deaths.get() == deaths
    }

    fn enter(&self) -> (i64, Rc<Notify>) {
        let mut process = self.process.borrow_mut();
        let process = process.as_mut().expect("connections end with the process");
        process.last_id += 1;
        let connection = Connection::default();
        let end = Rc::clone(&connection.end);
        process.connections.insert(process.last_id, connection);
        (process.last_id, end)
    }

    fn is_killed(&self, id: i64) -> bool {
        let process = self.process.borrow();
        let known = process.as_ref().and_then(|it| it.connections.get(&id));
        known.is_none_or(|connection| connection.killed.get())
    }
}

impl Connection {
    /// `CLIENT KILL`
    pub fn kill(&self) {
        self.killed.set(true);
        self.end.notify_one();
    }
}
