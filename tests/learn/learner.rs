//! A running `redlock-proxy learn`.

#![allow(dead_code, reason = "every test binary uses its own part of this module")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::master::signal;
use crate::support::{PATIENCE, Raw, eventually_blocking};

/// A learner process. It is killed on drop.
pub(crate) struct Learner {
    process: Child,
    log: Arc<Mutex<Vec<String>>>,
}

/// Exit status and output of a learner.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) report: String,
}

/// Returns the command with these arguments, without starting it.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"));
    command.arg("learn").args(words).env_remove("RUST_LOG").env("NO_COLOR", "1");
    command.stdin(Stdio::null());
    command
}

/// Runs it until it ends by itself.
pub(crate) fn run(words: &[&str]) -> Output {
    let mut command = command(words);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = piped.spawn().expect("the binary runs");
    let limit = Instant::now() + PATIENCE;
    while process.try_wait().expect("its state").is_none() {
        if Instant::now() > limit {
            process.kill().expect("killed");
            panic!("it goes on: {:?}", process.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    process.wait_with_output().expect("what it has said")
}

impl Learner {
    /// Starts it in front of this Redis.
    pub(crate) fn start(data: &str, flags: &[&str]) -> Self {
        let words = ["--data", data, "--listen", "127.0.0.1:0"];
        let mut command = command(&[&words, flags].concat());
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = piped.spawn().expect("the binary runs");
        let (log, stderr) = (Arc::default(), process.stderr.take().expect("stderr is piped"));
        let learner = Self { process, log: Arc::clone(&log) };
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                log.lock().expect("the log").push(line);
            }
        });
        learner
    }

    /// Waits for a log line with `text`, and returns the rest of that line.
    pub(crate) fn told(&self, text: &str) -> String {
        eventually_blocking(text, || {
            let log = self.log.lock().expect("the log");
            let line = log.iter().find_map(|line| line.split_once(text))?;
            Some(line.1.split([' ', ',', '/']).next()?.to_owned())
        })
    }

    /// Returns the address for clients.
    pub(crate) fn address(&self) -> String {
        self.told("listening on ")
    }

    /// Returns the address of its status page.
    pub(crate) fn admin_address(&self) -> String {
        self.told("status at http://")
    }

    pub(crate) async fn raw(&self) -> Raw {
        Raw::connect(&self.address()).await
    }

    /// Returns its peak memory in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let text = text.expect("a running process");
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        line.trim().trim_end_matches(" kB").parse().expect("a number of kB")
    }

    /// Sends it a signal, and waits for its end.
    pub(crate) fn end(self, name: &str) -> Ended {
        signal(name, self.process.id());
        self.ended()
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(mut self) -> Ended {
        let status = eventually_blocking("it ends", || self.process.try_wait().expect("its state"));
        let mut report = String::new();
        let mut stdout = self.process.stdout.take().expect("stdout is piped");
        stdout.read_to_string(&mut report).expect("text");
        Ended { status, report }
    }
}

impl Ended {
    /// Returns the report of a learner that ended successfully.
    pub(crate) fn report(self) -> String {
        assert!(self.status.success(), "{}: {}", self.status, self.report);
        self.report
    }
}

impl Drop for Learner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("log: {:#?}", self.log.lock().expect("the log"));
        }
    }
}

/// Returns the lines for the settings file.
pub(crate) fn settings(report: &str) -> &str {
    let rest = report.split_once("for the settings file:\n\n").expect("settings").1;
    rest.split_once("\nthe same as flags").expect("flags").0
}

/// Returns the flags, split as a shell would split them.
pub(crate) fn flags(report: &str) -> Vec<String> {
    let line = report.split_once("the same as flags:\n\n").expect("flags").1;
    line.trim().split(' ').map(|word| word.replace('\'', "")).collect()
}

/// Returns the lines about one pattern.
pub(crate) fn about<'a>(report: &'a str, pattern: &str) -> &'a str {
    let paragraphs = report.split("\n\n");
    let about = paragraphs.into_iter().find(|it| it.starts_with(&format!("{pattern}   ")));
    about.unwrap_or_else(|| panic!("nothing about {pattern}: {report}"))
}
