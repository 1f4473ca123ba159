//! Trying what happens when masters fail: a line typed in the terminal stops, starts, pauses or empties one.

use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;

use rustix::process::{Pid, Signal, kill_process};

use super::{DevError, LocalMasters, Server};

/// Something to do to one master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    act: Act,
    /// Number of the master, from 1 on.
    number: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Stop,
    Start,
    Pause,
    Resume,
    Empty,
}

/// A line that is no control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoControl;

impl fmt::Display for NoControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("type stop, start, pause, resume or empty, and the number of a master: stop 2")
    }
}

impl FromStr for Control {
    type Err = NoControl;

    fn from_str(line: &str) -> Result<Self, NoControl> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [act, number] = words[..] else { return Err(NoControl) };
        let act = match act {
            "stop" => Act::Stop,
            "start" => Act::Start,
            "pause" => Act::Pause,
            "resume" => Act::Resume,
            "empty" => Act::Empty,
            _ => return Err(NoControl),
        };
        Ok(Self { act, number: number.parse().map_err(|_| NoControl)? })
    }
}

/// The lines of the welcome that explain the controls.
pub(super) fn explanation(has_terminal: bool) -> String {
    let pid = std::process::id();
    match has_terminal {
        true => {
            "\nSee what happens when masters fail. Type one of these here, and press Enter:\n\n\
                 stop 2     kills the second master, and start 2 starts it again, empty\n\
                 pause 2    lets it hang, and resume 2 lets it go on\n\
                 empty 2    deletes everything on it\n"
                .to_owned()
        }
        false => format!(
            "\nSee what happens when masters fail: kill one, or stop it with kill -STOP. This starts those again, \
             empty, that have ended, and lets the others go on:\n\n\
             kill -USR1 {pid}\n"
        ),
    }
}

/// Whether lines can be typed: standard input is a terminal, and this process is in its foreground. A background process
/// that reads from its terminal is stopped.
pub(super) fn has_terminal() -> bool {
    let stdin = io::stdin();
    let foreground = rustix::termios::tcgetpgrp(&stdin).ok();
    stdin.is_terminal() && foreground == Some(rustix::process::getpgrp())
}

impl LocalMasters {
    /// Carries out a control, and returns a sentence about it.
    pub fn control(&mut self, control: Control) -> String {
        let count = self.servers.len();
        let Control { act, number } = control;
        let server = number.checked_sub(1).and_then(|at| self.servers.get_mut(at));
        let Some(server) = server else { return format!("there are the masters 1 to {count}") };
        let port = server.port;
        let done = match act {
            Act::Stop => server.stop().map(|()| "is stopped"),
            Act::Start if server.runs() => Ok("runs already"),
            Act::Start => server.start_again(&self.directory.0).map(|()| "runs again, empty"),
            Act::Pause => server
                .signal(Signal::STOP)
                .map(|()| "is paused: it accepts connections and answers nothing"),
            Act::Resume => server.signal(Signal::CONT).map(|()| "goes on"),
            Act::Empty => server.empty().map(|()| "is empty"),
        };
        match done {
            Ok(what) => format!("master {number} (127.0.0.1:{port}) {what}"),
            Err(why) => format!("master {number} (127.0.0.1:{port}): {why}"),
        }
    }

    /// Starts the masters again that have ended, and lets paused ones go on. Returns a sentence about each that had ended.
    pub fn revive(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        for number in 1..=self.servers.len() {
            let server = &mut self.servers[number - 1];
            if server.runs() {
                // Fails only if it has ended in the meantime.
                let _ = server.signal(Signal::CONT);
            } else {
                told.push(self.control(Control { act: Act::Start, number }));
            }
        }
        told
    }

    /// Takes note of masters that have ended, so that no zombie is left. Returns a sentence about each.
    pub fn reap(&mut self) -> Vec<String> {
        let servers = self.servers.iter_mut().enumerate();
        let ended = servers.filter_map(|(at, server)| {
            let number = at + 1;
            let has_ended = server.is_up && !server.runs();
            has_ended.then(|| format!("master {number} (127.0.0.1:{}) has ended", server.port))
        });
        ended.collect()
    }
}

impl Server {
    /// Whether the process runs. One that has ended is reaped.
    fn runs(&mut self) -> bool {
        self.is_up = self.is_up && matches!(self.process.try_wait(), Ok(None));
        self.is_up
    }

    fn stop(&mut self) -> Result<(), DevError> {
        self.is_up = false;
        // Fails only if it has ended already.
        let _ = self.process.kill();
        self.process.wait().map(drop).map_err(DevError::Start)
    }

    fn start_again(&mut self, directory: &std::path::Path) -> Result<(), DevError> {
        let again = Self::spawn(self.port, directory)?;
        *self = again;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(DevError::Start)?.block_on(self.answers())
    }

    fn signal(&mut self, signal: Signal) -> Result<(), DevError> {
        if !self.runs() {
            return Err(DevError::IsDown);
        }
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).map_err(|why| DevError::Start(why.into()))
    }

    fn empty(&mut self) -> Result<(), DevError> {
        if !self.runs() {
            return Err(DevError::IsDown);
        }
        let url = format!("redis://127.0.0.1:{}", self.port);
        let flushed = redis::Client::open(url)
            .and_then(|client| client.get_connection_with_timeout(super::ANSWER_TIMEOUT))
            .and_then(|mut connection| {
                connection.set_read_timeout(Some(super::PROBE_TIMEOUT))?;
                redis::cmd("FLUSHALL").exec(&mut connection)
            });
        flushed.map_err(|_| DevError::Silent(self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(masters: &mut LocalMasters, line: &str) -> String {
        masters.control(line.parse().expect(line))
    }

    #[test]
    fn a_line_names_an_act_and_a_master() {
        assert_eq!("stop 2".parse(), Ok(Control { act: Act::Stop, number: 2 }));
        assert_eq!("  empty   1 ".parse(), Ok(Control { act: Act::Empty, number: 1 }));
        for line in ["", "stop", "stop two", "stop 2 3", "halt 2", "stop -1"] {
            assert_eq!(line.parse::<Control>(), Err(NoControl), "{line}");
        }
    }

    #[test]
    fn a_master_ends_hangs_and_comes_back_as_told() {
        let mut masters = LocalMasters::start(2, false).unwrap();
        let port = masters.servers[1].port;
        let at = format!("master 2 (127.0.0.1:{port})");
        assert_eq!(control(&mut masters, "start 2"), format!("{at} runs already"));
        assert_eq!(control(&mut masters, "stop 2"), format!("{at} is stopped"));
        assert_eq!(control(&mut masters, "pause 2"), format!("{at}: it has ended: start it first"));
        assert_eq!(masters.reap(), [""; 0], "it was told to end");
        assert_eq!(control(&mut masters, "start 2"), format!("{at} runs again, empty"));
        assert!(control(&mut masters, "pause 2").starts_with(&format!("{at} is paused")));
        assert!(control(&mut masters, "empty 2").contains("did not answer"));
        assert_eq!(control(&mut masters, "resume 2"), format!("{at} goes on"));
        assert_eq!(control(&mut masters, "empty 2"), format!("{at} is empty"));
        assert_eq!(control(&mut masters, "stop 3"), "there are the masters 1 to 2");
    }

    #[test]
    fn a_killed_master_leaves_no_zombie_and_is_revived() {
        let mut masters = LocalMasters::start(1, false).unwrap();
        let pid = Pid::from_child(&masters.servers[0].process);
        kill_process(pid, Signal::KILL).unwrap();
        let end = std::time::Duration::from_secs(10);
        let began = crate::time::clock::now();
        let told = loop {
            let told = masters.reap();
            if !told.is_empty() {
                break told;
            }
            assert!(began.elapsed() < end, "it is not noticed");
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        };
        assert!(told[0].ends_with("has ended"), "{told:?}");
        assert!(!std::path::Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists());
        assert!(masters.revive()[0].ends_with("runs again, empty"));
        assert_eq!(masters.revive(), [""; 0]);
    }
}
