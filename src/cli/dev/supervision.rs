//! Watches over local masters, and does to them what the user types.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::LocalMasters;
use super::controls::{Control, has_terminal};
use crate::cli::signals;

/// Interval between looks for masters that have ended.
const INTERVAL: Duration = Duration::from_millis(500);

/// Local masters that several threads work on, until they are ended.
#[derive(Clone, Debug)]
pub struct SupervisedMasters(Arc<Mutex<Option<LocalMasters>>>);

impl SupervisedMasters {
    /// Takes over masters that were started.
    pub fn new(masters: LocalMasters) -> Self {
        Self(Arc::new(Mutex::new(Some(masters))))
    }

    /// Returns the text for a first-time user; see [`LocalMasters::welcome`].
    pub fn welcome(&self, proxy: SocketAddr, admin: Option<SocketAddr>) -> String {
        self.with(|masters| vec![masters.welcome(proxy, admin)]).concat()
    }

    /// Ends the masters.
    pub fn end(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Lets the user stop and start masters: by lines in the terminal, and by SIGUSR1. Passes on a line about all that
    /// happens.
    ///
    /// # Errors
    /// Returns an error if the system refuses a thread or a signal handler.
    pub fn supervise(&self, say: fn(&str)) -> io::Result<()> {
        let tell =
            move |lines: Vec<String>| lines.iter().for_each(|line| say(&format!("{line}\n")));
        let masters = self.clone();
        signals::on_user_1(move || tell(masters.with(LocalMasters::revive)))?;
        let masters = self.clone();
        thread::Builder::new().name("reaper".to_owned()).spawn(move || {
            loop {
                thread::park_timeout(INTERVAL);
                tell(masters.with(LocalMasters::reap));
            }
        })?;
        if has_terminal() {
            let masters = self.clone();
            let terminal = thread::Builder::new().name("terminal".to_owned());
            terminal.spawn(move || masters.follow_terminal(tell))?;
        }
        Ok(())
    }

    fn follow_terminal(&self, tell: impl Fn(Vec<String>)) {
        for line in io::stdin().lines().map_while(Result::ok) {
            if line.trim().is_empty() {
                continue;
            }
            tell(match line.parse::<Control>() {
                Ok(control) => self.with(|masters| vec![masters.control(control)]),
                Err(why) => vec![why.to_string()],
            });
        }
        // Masters end with the thread that has started them.
        loop {
            thread::park();
        }
    }

    fn with(&self, act: impl FnOnce(&mut LocalMasters) -> Vec<String>) -> Vec<String> {
        let mut masters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        masters.as_mut().map(act).unwrap_or_default()
    }
}
