//! A proxy with a handover socket, and the process that takes over from it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::net::UnixStream;

use crate::support::master::signal;
use crate::support::{Masters, Proxy, Raw, eventually};

/// The serving process, in front of three masters. It listens on TCP and on a Unix socket.
pub struct Pair {
    /// Dropped before the masters.
    current: RefCell<Option<Proxy>>,
    masters: Masters,
    address: String,
    directory: TempDir,
}

impl Pair {
    pub fn start(flags: &[&str]) -> Pair {
        Pair::start_in(flags, Vec::new())
    }

    /// Starts the pair with additional environment variables.
    pub fn start_in(flags: &[&str], environment: Vec<(&str, PathBuf)>) -> Pair {
        let (masters, directory) = (Masters::start(3), tempfile::tempdir().expect("a directory"));
        let words = with_places(directory.path(), flags);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let proxy = Proxy::start_in(&masters, &words, environment);
        let address = proxy.address().to_owned();
        Pair { masters, address, current: RefCell::new(Some(proxy)), directory }
    }

    pub fn masters(&self) -> &Masters {
        &self.masters
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the path of a file in the pair's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the serving process.
    pub fn current(&self) -> std::cell::Ref<'_, Proxy> {
        std::cell::Ref::map(self.current.borrow(), |proxy| proxy.as_ref().expect("one that serves"))
    }

    /// Starts a new process, which takes over and accepts. Returns the previous one, which ends when its last client
    /// has gone.
    pub fn upgrade(&mut self, flags: &[&str]) -> Proxy {
        let words = with_places(self.directory.path(), flags);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let after = Proxy::unready(&self.masters.addresses(), &words);
        assert_eq!(after.address(), self.address);
        self.replace(after)
    }

    /// Records that another process serves now, and returns the previous one.
    pub fn replace(&self, after: Proxy) -> Proxy {
        self.current.replace(Some(after)).expect("one that served")
    }

    /// Waits until the current process ends by itself.
    pub fn retire_current(&self) -> Option<i32> {
        self.current.take().expect("one that served").ended().code()
    }

    /// Ends the last process, and returns its files for inspection.
    pub fn stop(self) -> TempDir {
        let ended = self.current.take().expect("one that serves").terminate();
        assert_eq!(ended.code(), Some(0));
        self.directory
    }

    /// Waits until another process accepts, and returns its id.
    pub async fn successor_of(&self, first: u32) -> u32 {
        eventually("another process answers", || async {
            let process = Raw::connect(&self.address).await.process_id().await;
            (process != first).then_some(process)
        })
        .await
    }

    /// Waits for the log line in which a process reports that it has handed over.
    pub async fn farewell(before: &Proxy) -> String {
        eventually("it has handed over", || async {
            before.log().into_iter().find(|line| line.contains("handed over to process"))
        })
        .await
    }

    /// Connects to the handover socket, like a successor would.
    pub async fn handover_socket(&self) -> Raw {
        Raw::over(UnixStream::connect(self.path("handover.sock")).await.expect("a listener"))
    }

    /// Starts a new process that cannot take over. Returns its exit code and its output.
    pub fn fail_to_take_over(&self, flags: &[&str]) -> (Option<i32>, String) {
        let words = with_places(self.directory.path(), flags);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run(&words)
    }
}

fn with_places(directory: &Path, flags: &[&str]) -> Vec<String> {
    let place = |name: &str| directory.join(name).display().to_string();
    let (handover, clients) = (place("handover.sock"), place("clients.sock"));
    let mut words = vec!["--handover".to_owned(), handover, "--unixsocket".to_owned(), clients];
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    words
}

/// Runs the program to its end.
pub fn run(flags: &[&str]) -> (Option<i32>, String) {
    let output = crate::support::run(&[&["--listen", "127.0.0.1:0"], flags].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Encodes a message as the processes send it to each other.
pub fn frame(json: &[u8]) -> Vec<u8> {
    let length = u32::try_from(json.len()).expect("a short message").to_be_bytes();
    [&length, &[0; 4], json].concat()
}

/// A process that is not a child of this one. It is killed on drop.
pub struct Killed(pub u32);

impl Drop for Killed {
    fn drop(&mut self) {
        signal("KILL", self.0);
    }
}
