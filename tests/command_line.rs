//! The command line as an operator meets it: usage errors, precedence, start, stop, `dev`, `health`.
#![allow(clippy::disallowed_methods, reason = "these tests wait for real processes")]
#![allow(clippy::unwrap_used, reason = "a broken test set-up should end the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Returns the built binary, without any of the proxy's variables in its environment.
fn proxy(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"));
    command.args(words).stdin(Stdio::null()).env_remove("RUST_LOG");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("REDLOCK_PROXY_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command until it exits. A command that serves when it should have refused is killed and fails the test.
fn run(mut command: Command) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = piped.spawn().expect("the binary runs");
    let started = Instant::now();
    while process.try_wait().expect("its state").is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            process.kill().expect("killed");
            panic!("it goes on: {:?}", process.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    process.wait_with_output().expect("what it has said")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the only line on stderr of a run that must exit with `code`.
fn sentence(command: Command, code: i32) -> String {
    let output = run(command);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "one sentence: {stderr}");
    stderr.trim_end().strip_prefix("redlock-proxy: ").expect(&stderr).to_owned()
}

/// Returns the settings that `--test-config` prints.
fn settings(command: Command) -> String {
    let output = run(command);
    let line = stdout(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line.trim_end().strip_prefix("settings are valid: ").expect(&line).to_owned()
}

/// A running proxy whose stdout and stderr are read line by line. It is killed when dropped.
struct Running {
    process: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = piped.spawn().expect("the binary runs");
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let stderr = BufReader::new(process.stderr.take().unwrap());
        Self { process, stdout, stderr }
    }

    /// Reads the log until a line contains `text`, and returns that line.
    fn log_line_with(&mut self, text: &str) -> String {
        line_with(&mut self.stderr, text)
    }

    fn output_line_with(&mut self, text: &str) -> String {
        line_with(&mut self.stdout, text)
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line_with(reader: &mut impl BufRead, text: &str) -> String {
    let mut seen = String::new();
    loop {
        let start = seen.len();
        let n = reader.read_line(&mut seen).unwrap();
        assert!(n > 0, "ended without {text:?}: {seen}");
        if seen[start..].contains(text) {
            return seen[start..].trim_end().to_owned();
        }
    }
}

/// Returns the `host:port` after `listening on`, as text.
fn address_in(line: &str) -> String {
    let (_, after) = line.split_once("listening on ").expect(line);
    after.split(|c: char| c.is_whitespace() || c == '"').next().unwrap().to_owned()
}

/// Polls for a condition that has no event, such as the exit of a process that is not our child.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn wrong_usage_is_one_sentence_and_64() {
    for (words, expected) in [
        (vec![], "no masters are named"),
        (vec!["--nonsense"], "unexpected argument '--nonsense' found"),
        (vec!["--vote-timeout"], "a value is required for '--vote-timeout <DURATION>'"),
        (vec!["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        (vec!["--master", "a", "--vote-timeout", "0"], "vote-timeout `0` must be from 1ms to 10s"),
        (vec!["--master", "a", "--warn-unmatched-after", "x"], "warn-unmatched-after `x` "),
        (vec!["--master", "a", "--log-format", "xml"], "log-format `xml` must be text or json"),
        (vec!["--masters", "a,a"], "master a:6379 is named twice"),
        (vec!["--config", "/nonexistent.toml"], "cannot read /nonexistent.toml"),
        (vec!["--master", "a", "dev"], "masters cannot be named for `dev`"),
        (vec!["--test-config", "dev"], "--test-config takes no subcommand"),
    ] {
        let sentence = sentence(proxy(&words), 64);
        assert!(sentence.starts_with(expected), "{words:?}: {sentence}");
    }
}

#[test]
fn help_and_version_are_not_errors() {
    let version = run(proxy(&["--version"]));
    assert_eq!(stdout(&version), format!("redlock-proxy {}\n", env!("CARGO_PKG_VERSION")));
    assert!(version.status.success());

    let mut help = proxy(&["--help"]);
    help.env("REDLOCK_PROXY_REQUIREPASS", "hunter2");
    let help = run(help);
    assert!(help.status.success() && stdout(&help).contains("--vote-timeout"));
    assert!(!stdout(&help).contains("hunter2"));
}

#[test]
fn flags_beat_the_environment_and_the_environment_beats_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("proxy.toml");
    let text = "masters = ['file:1']\nlisten = '127.0.0.1:1111'\ndrift = 0.3\nworkers = 3\n\
                max-ttl = '3s'\nlog-format = 'json'\n";
    std::fs::write(&file, text).unwrap();

    let file = file.to_str().unwrap();
    let mut command = proxy(&["--test-config", "--config", file, "--listen", "127.0.0.1:2222"]);
    command
        .env("REDLOCK_PROXY_MASTERS", "environment:1, environment:2")
        .env("REDLOCK_PROXY_LISTEN", "127.0.0.1:3333")
        .env("REDLOCK_PROXY_DRIFT", "0.2")
        .env("REDLOCK_PROXY_ALLOW_FLUSH", "yes")
        // A variable that a compose file passes on although it is not set.
        .env("REDLOCK_PROXY_MAX_TTL", "");
    assert_eq!(
        settings(command),
        "listen=127.0.0.1:2222 tls-listen=none tls-cert-file=none tls-key-file=none \
         tls-ca-cert-file=none tls-auth-clients=none unixsocket=none unixsocketperm=none \
         masters=environment:1,environment:2 shards= master-tls-ca-cert-file=none \
         master-tls-cert-file=none master-tls-key-file=none master-tls-server-name=none \
         vote-timeout=50ms patience=1s500ms max-ttl=3s drift=0.2 split-vote-retries=3 \
         split-vote-delay=20ms fair-waiting=5ms restart-wait=3s cold-start=trust data=none \
         lock-keys= lock-channels= also-claim-on-data=false warn-unmatched-after=1h \
         max-request-bytes=1048576 protected-mode=true admin=none admin-host= workers=3 \
         handover=none no-ttl=keep max-clients=10000 max-clients-per-user=0 timeout=0s \
         tcp-keepalive=5m max-output-bytes=67108864 max-memory-clients=268435456 \
         requirepass=none users=default allow-flush=true slowlog-log-slower-than=10000 \
         slowlog-max-len=128 notify-keyspace-events= drain-timeout=10s redis-version=auto \
         log-format=json"
    );
}

#[test]
fn the_whole_configuration_can_come_from_the_environment() {
    let mut command = proxy(&["--test-config"]);
    command
        .env("REDLOCK_PROXY_MASTERS", "redis://u:hunter2@a:1")
        .env("REDLOCK_PROXY_REQUIREPASS", "hunter3");
    let settings = settings(command);
    assert!(settings.contains(" masters=a:1 ") && settings.contains(" requirepass=*** "));
    assert!(!settings.contains("hunter"));
}

#[test]
fn a_mistake_in_the_file_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        ("unknown.toml", "drift = 0.1\nvote-timout = 5\n", "line 2: unknown field `vote-timout`"),
        ("broken.toml", "\n\nrequirepass = 'hunter2\n", "line 3: "),
        ("list.toml", "drift = [1]\n", "line 1: a value must be a string, a number, true or false"),
    ] {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let sentence = sentence(proxy(&["--config", file]), 64);
        assert!(sentence.starts_with(&format!("{file} {expected}")), "{sentence}");
        assert!(!sentence.contains("hunter2"), "{sentence}");
    }
}

#[test]
fn the_delivered_configuration_file_is_accepted() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/redlock-proxy.toml");
    let command = proxy(&["--test-config", "--master", "a", "--config", file.to_str().unwrap()]);
    let settings = settings(command);
    assert!(settings.contains(" masters=a:6379 shards= ") && settings.contains(" data=none "));
}

#[test]
fn a_start_is_told_in_five_lines_and_a_warning_for_an_even_number() {
    let masters = "redis://:hunter2@127.0.0.1:1,127.0.0.1:2";
    let mut proxy = Running::start(proxy(&["--masters", masters, "--listen", "127.0.0.1:0"]));
    for expected in [
        concat!("redlock-proxy ", env!("CARGO_PKG_VERSION")),
        "listening on 127.0.0.1:",
        "masters: 127.0.0.1:1, 127.0.0.1:2",
        "quorum: 2 of 2",
        "tolerates: 0 of 2 masters down",
        "with 2 masters both must be up",
    ] {
        let line = proxy.log_line_with(expected);
        assert!(!line.contains("hunter2"), "{line}");
    }
}

#[test]
fn a_json_log_has_one_object_for_each_line() {
    let words = ["--master", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--log-format", "json"];
    let mut proxy = Running::start(proxy(&words));
    let line = proxy.log_line_with("listening on 127.0.0.1:");
    assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
    assert!(line.contains("\"level\":\"INFO\""), "{line}");
}

#[test]
fn rust_log_decides_what_is_logged() {
    let mut wrong = proxy(&["--test-config", "--master", "a"]);
    wrong.env("RUST_LOG", "info,=");
    assert!(sentence(wrong, 64).starts_with("RUST_LOG `info,=` is not valid"));

    let mut quiet = proxy(&["--master", "127.0.0.1:1", "--listen", "127.0.0.1:0"]);
    quiet.env("RUST_LOG", "warn");
    let mut quiet = Running::start(quiet);
    let mut first = String::new();
    quiet.stderr.read_line(&mut first).unwrap();
    assert!(first.contains("with 1 master no lock"), "only the warning: {first}");
}

#[test]
fn a_signal_ends_the_proxy_with_0() {
    for signal in ["TERM", "INT"] {
        let mut proxy =
            Running::start(proxy(&["--master", "127.0.0.1:1", "--listen", "127.0.0.1:0"]));
        proxy.log_line_with("tolerates");
        proxy.signal(signal);
        assert_eq!(proxy.exit_code(), Some(0), "{signal}");
    }
}

#[test]
fn an_address_in_use_is_one_sentence_and_69() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for words in
        [vec!["--master", "127.0.0.1:1", "--listen", &address], vec!["dev", "--listen", &address]]
    {
        let sentence = sentence(proxy(&words), 69);
        assert!(sentence.starts_with(&format!("{address} is in use: stop what")), "{sentence}");
    }
}

#[test]
fn dev_without_redis_server_says_how_to_install_it() {
    let mut command = proxy(&["dev", "--listen", "127.0.0.1:0"]);
    command.env("PATH", "");
    let sentence = sentence(command, 69);
    let expected = "redis-server is not installed: `apt-get install redis-server` brings it";
    assert_eq!(sentence, expected);
}

/// Starts `dev` with two masters. Returns it, the pids of the masters and the directory of its files.
fn start_dev() -> (Running, Vec<String>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = proxy(&["dev", "--masters", "2", "--listen", "127.0.0.1:0"]);
    command.env("TMPDIR", directory.path());
    let mut dev = Running::start(command);
    let mut pid = || {
        let line = dev.output_line_with("started redis-server on 127.0.0.1:");
        let (_, pid) = line.split_once("(pid ").expect(&line);
        pid.trim_end_matches(')').to_owned()
    };
    let pids = vec![pid(), pid()];
    (dev, pids, directory)
}

fn runs(pid: &str) -> bool {
    // A zombie still has a directory, but no command line.
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline"));
    command_line.is_ok_and(|bytes| !bytes.is_empty())
}

#[test]
fn dev_prints_what_to_paste_and_leaves_nothing_behind() {
    let (mut dev, pids, directory) = start_dev();
    dev.output_line_with("SET lock:demo alice NX PX 30000");
    dev.output_line_with("SET lock:demo bob NX PX 30000");
    dev.output_line_with("EVAL \"if redis.call('get',KEYS[1])==ARGV[1] then");
    dev.output_line_with("SET page hello");
    assert!(pids.iter().all(|pid| runs(pid)));
    dev.signal("INT");
    assert_eq!(dev.exit_code(), Some(0));
    assert!(!pids.iter().any(|pid| runs(pid)));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn the_masters_of_dev_die_with_a_proxy_that_is_killed() {
    let (dev, pids, _directory) = start_dev();
    dev.signal("KILL");
    eventually("the masters are gone", || !pids.iter().any(|pid| runs(pid)));
}

#[test]
fn health_is_0_for_a_proxy_and_1_for_silence() {
    let mut proxy_running =
        Running::start(proxy(&["--master", "127.0.0.1:1", "--listen", "127.0.0.1:0"]));
    let address = address_in(&proxy_running.log_line_with("listening on "));
    assert!(run(proxy(&["health", "--connect", &address])).status.success());

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let sentence = sentence(proxy(&["health", "--connect", &address]), 1);
    assert!(sentence.starts_with(&format!("{address} did not answer: ")), "{sentence}");
}

/// Answers each read from one client with the next of `replies`; returns everything it received.
fn scripted_server(replies: &'static [&'static str]) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        let (mut client, _): (TcpStream, _) = listener.accept().unwrap();
        let mut requests = String::new();
        for reply in replies {
            let mut request = [0; 512];
            let n = client.read(&mut request).unwrap();
            requests += &String::from_utf8_lossy(&request[..n]);
            client.write_all(reply.as_bytes()).unwrap();
        }
        requests
    };
    (address, std::thread::spawn(serve))
}

#[test]
fn health_takes_a_wanted_password_as_life() {
    let (address, server) = scripted_server(&["-NOAUTH Authentication required.\r\n"]);
    assert!(run(proxy(&["health", "--connect", &address])).status.success());
    assert_eq!(server.join().unwrap(), "*1\r\n$4\r\nPING\r\n");
}

#[test]
fn health_gives_the_configured_password() {
    let (address, server) = scripted_server(&["+OK\r\n", "+PONG\r\n"]);
    let mut command = proxy(&["health"]);
    command.env("REDLOCK_PROXY_LISTEN", &address).env("REDLOCK_PROXY_REQUIREPASS", "secret");
    assert!(run(command).status.success());
    let expected = "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*1\r\n$4\r\nPING\r\n";
    assert_eq!(server.join().unwrap(), expected);
}

#[test]
fn health_is_1_for_any_other_answer() {
    let (address, server) = scripted_server(&["-LOADING not yet\r\n"]);
    let sentence = sentence(proxy(&["health", "--connect", &address]), 1);
    assert_eq!(sentence, format!("{address} answered PING with \"-LOADING not yet\""));
    server.join().unwrap();
}

#[test]
fn the_manual_page_and_completions_know_every_flag() {
    let help = stdout(&run(proxy(&["--help"])));
    let flags: Vec<&str> =
        help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2).collect();
    assert!(flags.len() > 30, "{flags:?}");
    for what in ["man", "bash", "zsh", "fish"] {
        let output = run(proxy(&["generate", what]));
        assert!(output.status.success());
        // roff writes a dash as `\-`; fish completions name long flags without dashes.
        let text = stdout(&output).replace("\\-", "-");
        for flag in &flags {
            let name = flag.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            let name = name.split(['=', '[', ',', '.', ']']).next().unwrap();
            assert!(text.contains(name), "{what} does not know {name}");
        }
        if what == "bash" {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("completion.bash");
            std::fs::write(&file, &output.stdout).unwrap();
            assert!(Command::new("bash").arg("-n").arg(&file).status().unwrap().success());
        }
    }
}

#[test]
fn a_service_manager_is_told_when_clients_may_come() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = proxy(&["--master", "127.0.0.1:1", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &path);
    let mut running = Running::start(command);
    let mut told = [0; 100];
    let length = manager.recv(&mut told).expect("a word");
    assert_eq!(String::from_utf8_lossy(&told[..length]).trim(), "READY=1");
    running.process.kill().unwrap();
}
