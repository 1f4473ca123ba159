//! The program under test: the real binary, its log, and its exit.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::{
    Clock, Masters, Raw, client, eventually, eventually_blocking, master::signal,
    target_is_plain_redis,
};

/// A running proxy. Dropping it kills it. The test fails if the process had already exited by
/// itself, or had logged a warning not announced with [`Proxy::expect_warnings`].
pub struct Proxy {
    address: String,
    process: Option<Child>,
    log: Arc<Mutex<Vec<String>>>,
    warnings_expected: Cell<bool>,
}

impl Proxy {
    /// Starts a proxy in front of these masters, with [`ROOMY`] limits and then `flags`.
    pub fn start(masters: &Masters, flags: &[&str]) -> Proxy {
        Proxy::in_front_of(&masters.addresses(), flags)
    }

    /// Starts a proxy in front of any addresses, such as a relay's or one where nobody listens.
    pub fn in_front_of(addresses: &[String], flags: &[&str]) -> Proxy {
        if target_is_plain_redis() {
            return Proxy::stand_in(&addresses[0], flags);
        }
        Proxy::with_links(Proxy::unready(addresses, flags), addresses, flags)
    }

    /// Same as [`Proxy::start`], with `clock` as the wall clock of its host.
    pub fn start_by(clock: &Clock, masters: &Masters, flags: &[&str]) -> Proxy {
        let addresses = masters.addresses();
        let process = spawn(&addresses, flags, clock.environment());
        Proxy::with_links(Proxy::listening(process), &addresses, flags)
    }

    /// Same as [`Proxy::start`], with extra environment variables.
    pub fn start_in(masters: &Masters, flags: &[&str], environment: Vec<(&str, PathBuf)>) -> Proxy {
        let addresses = masters.addresses();
        let process = spawn(&addresses, flags, environment);
        Proxy::with_links(Proxy::listening(process), &addresses, flags)
    }

    fn with_links(mut proxy: Proxy, addresses: &[String], flags: &[&str]) -> Proxy {
        let (process, log) = (proxy.process.as_mut().expect("just started"), &proxy.log);
        wait_for_links(&proxy.address, addresses, password(flags), || {
            let ended = process.try_wait().expect("the state of the proxy");
            assert!(ended.is_none(), "the proxy died, {ended:?}: {:#?}", lines(log));
        });
        proxy
    }

    /// Starts a proxy without waiting until it can take a lock, because perhaps it never can.
    pub fn unready(addresses: &[String], flags: &[&str]) -> Proxy {
        Proxy::listening(spawn(addresses, flags, Vec::new()))
    }

    fn listening(mut process: Child) -> Proxy {
        let log = Arc::default();
        collect_log(&mut process, &log);
        let address = eventually_blocking("the proxy says where it listens", || {
            let ended = process.try_wait().expect("the state of the proxy");
            assert!(ended.is_none(), "the proxy ended at once, {ended:?}: {:#?}", lines(&log));
            listening_address(&lines(&log))
        });
        Proxy { address, process: Some(process), log, warnings_expected: Cell::new(false) }
    }

    /// Starts a plain Redis in the proxy's place. It takes over only those flags that its own
    /// configuration can express.
    fn stand_in(address: &str, flags: &[&str]) -> Proxy {
        if let Some(password) = password(flags) {
            let mut connection = dial(address, None).expect("a plain Redis");
            let mut command = redis::cmd("CONFIG");
            command.arg("SET").arg("requirepass").arg(password);
            command.exec(&mut connection).expect("CONFIG SET requirepass");
        }
        let warnings_expected = Cell::new(true);
        Proxy { address: address.to_owned(), process: None, log: Arc::default(), warnings_expected }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Address where it accepts TLS clients.
    pub fn tls_address(&self) -> String {
        eventually_blocking("it listens by TLS", || {
            let log = self.log();
            let line = log.iter().find(|line| line.contains("listening on "))?;
            let before = line.split(" (TLS)").next()?;
            Some(before.rsplit(' ').next()?.to_owned())
        })
    }

    /// Address of its admin interface.
    pub fn admin_address(&self) -> String {
        eventually_blocking("the proxy says where", || {
            let log = self.log();
            let line = log.iter().find_map(|line| line.split_once("status at http://"))?;
            Some(line.1.trim_end_matches('/').to_owned())
        })
    }

    /// Asks it to reload the settings that can change at runtime.
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    pub async fn connection(&self) -> MultiplexedConnection {
        client::connection(&self.address).await
    }

    pub async fn raw(&self) -> Raw {
        Raw::connect(&self.address).await
    }

    /// Returns a field of one master from `INFO redlock`.
    pub async fn says_of(&self, master: usize, field: &str) -> String {
        let info = self.raw().await.ask(&["INFO", "redlock"]).await.text();
        let prefix = format!("master{master}:");
        let line = info.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
        let fields = line.expect("a line for each master").split(',');
        let found = fields.filter_map(|field| field.split_once('='));
        found.into_iter().find(|(name, _)| *name == field).expect("the field").1.to_owned()
    }

    /// Waits until the proxy owes a master something. That may include more than the test's own
    /// requests: the claims that checked the links were released as well.
    pub async fn owes(&self, master: usize) {
        eventually("something waits for the master", || async move {
            (self.says_of(master, "deferred_releases").await != "0").then_some(())
        })
        .await;
    }

    /// Waits until `INFO redlock` shows this value for a master's field.
    pub async fn knows(&self, master: usize, field: &str, value: &str) {
        let what = format!("the proxy says of master {master} {field}={value}");
        eventually(&what, || async { (self.says_of(master, field).await == value).then_some(()) })
            .await;
    }

    /// Announces that this test makes masters fail, so the proxy may log warnings.
    pub fn expect_warnings(&self) {
        self.warnings_expected.set(true);
    }

    pub fn log(&self) -> Vec<String> {
        lines(&self.log)
    }

    /// Waits for a log line that contains all of `parts`: lines are read a moment after they are
    /// written.
    pub async fn tells(&self, parts: &[&str]) {
        let is_told = |line: &String| parts.iter().all(|part| line.contains(part));
        eventually(&format!("the log tells {parts:?}"), || async {
            self.log().iter().any(is_told).then_some(())
        })
        .await;
    }

    /// Returns the warnings and errors in the log, apart from the one about a first deployment.
    pub fn warnings(&self) -> Vec<String> {
        self.log().into_iter().filter(|line| is_warning(line)).collect()
    }

    /// Freezes the process: connections stay open, nothing answers.
    pub fn stop(&self) {
        super::master::stop(self.process.as_ref().expect("a process"));
    }

    pub fn cont(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        signal(name, self.process.as_ref().expect("only a real proxy gets signals").id());
    }

    /// Asks it to exit (SIGTERM) and returns its exit status.
    pub fn terminate(mut self) -> ExitStatus {
        let mut process = self.process.take().expect("only a real proxy can be terminated");
        signal("TERM", process.id());
        eventually_blocking("the proxy ends after SIGTERM", || {
            process.try_wait().expect("the state of the proxy")
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("only a real proxy has one").id()
    }

    /// Waits until it exits by itself, and returns its exit status.
    pub fn ended(mut self) -> ExitStatus {
        let process = self.process.as_mut().expect("only a real proxy can end");
        let ended = eventually_blocking("the proxy ends by itself", || {
            process.try_wait().expect("the state of the proxy")
        });
        // Until here, a test that fails ends the process.
        self.process = None;
        ended
    }

    /// Kills it, which the test expects.
    pub fn kill_9(mut self) {
        let mut process = self.process.take().expect("only a real proxy can be killed");
        process.kill().expect("killed");
        process.wait().expect("reaped");
    }

    /// Sends it a signal by name.
    pub fn send_signal(&self, name: &str) {
        self.signal(name);
    }

    fn assert_healthy(&self, ended: Option<ExitStatus>) {
        let log = self.log();
        assert!(ended.is_none(), "the proxy died, {ended:?}: {log:#?}");
        if !self.warnings_expected.get() {
            let unexpected = log.iter().find(|line| is_warning(line));
            assert!(unexpected.is_none(), "nobody expected {unexpected:?}");
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut ended = None;
        if let Some(process) = &mut self.process {
            ended = process.try_wait().ok().flatten();
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("log of the proxy at {}: {:#?}", self.address, self.log());
        } else {
            self.assert_healthy(ended);
        }
    }
}

/// Flags of every proxy under test. The vote timeout is far above what a healthy master needs, even
/// on a machine that is busy with other tests. A master that is merely starved must not count as
/// failed.
pub const ROOMY: [&str; 2] = ["--vote-timeout", "500ms"];

/// Runs the program to its end, in front of a master that it never has to reach.
pub fn run(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_redlock-proxy"))
        .args(["--master", "127.0.0.1:1"])
        .args(flags)
        .stdin(Stdio::null())
        .output()
        .expect("the proxy's binary starts")
}

fn spawn(addresses: &[String], flags: &[&str], environment: Vec<(&str, PathBuf)>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"));
    for address in addresses {
        command.args(["--master", address]);
    }
    command.args(["--listen", "127.0.0.1:0"]);
    if !flags.contains(&"--vote-timeout") {
        command.args(ROOMY);
    }
    command
        .args(flags)
        .envs(environment)
        .env_remove("RUST_LOG")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the proxy's binary starts")
}

/// Waits until the proxy has a link to every master that is up, which it has once a claim has
/// arrived on all of them. Tests that look for a key on every master may start then. With fewer
/// masters than a quorum there is nothing to wait for.
fn wait_for_links(
    proxy: &str,
    addresses: &[String],
    password: Option<&str>,
    mut assert_alive: impl FnMut(),
) {
    let mut masters: Vec<_> = addresses.iter().filter_map(|address| dial(address, None)).collect();
    if masters.len() < addresses.len() / 2 + 1 {
        return;
    }
    eventually_blocking("the proxy has a link to every master", || {
        assert_alive();
        let key = format!("lock:first light {}", fastrand::u64(..));
        let mut claim = redis::cmd("SET");
        claim.arg(&key).arg("light").arg("NX").arg("PX").arg(60_000);
        let mut client = dial(proxy, password)?;
        claim.exec(&mut client).ok()?;
        std::thread::sleep(Duration::from_millis(5));
        let mut deleted = 0;
        for master in &mut masters {
            deleted += redis::cmd("DEL").arg(&key).query::<usize>(master).unwrap_or(0);
        }
        // A master that receives the claim only after this check receives the DEL behind it on the
        // same link.
        let _ = redis::cmd("DEL").arg(&key).exec(&mut client);
        (deleted == masters.len()).then_some(())
    });
}

/// Opens a blocking connection for setup before a test begins.
fn dial(address: &str, password: Option<&str>) -> Option<redis::Connection> {
    let login = password.map_or(String::new(), |password| format!(":{password}@"));
    let client = redis::Client::open(format!("redis://{login}{address}/")).expect("an address");
    let connection = client.get_connection_with_timeout(Duration::from_secs(1)).ok()?;
    connection.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    Some(connection)
}

fn password<'a>(flags: &[&'a str]) -> Option<&'a str> {
    let at = flags.iter().position(|flag| *flag == "--requirepass")?;
    Some(flags[at + 1])
}

/// Keeps the pipe empty, so that the proxy never waits for the test to read its log.
fn collect_log(process: &mut Child, log: &Arc<Mutex<Vec<String>>>) {
    let stderr = process.stderr.take().expect("stderr is piped");
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            log.lock().expect("the log").push(line);
        }
    });
}

fn lines(log: &Arc<Mutex<Vec<String>>>) -> Vec<String> {
    log.lock().expect("the log").clone()
}

fn listening_address(log: &[String]) -> Option<String> {
    let rest = log.iter().find_map(|line| line.split_once("listening on "))?.1;
    let address: String =
        rest.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
    Some(address)
}

fn is_warning(line: &str) -> bool {
    // Every test is a first deployment.
    let is_first = line.contains("--cold-start trust");
    !is_first && line.split_whitespace().take(4).any(|word| word == "WARN" || word == "ERROR")
}
