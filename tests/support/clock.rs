//! A wall clock that a test can set, for masters and proxies that use it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

/// A settable wall clock. It shows the right time until it is set.
pub struct Clock {
    directory: TempDir,
}

impl Clock {
    pub fn new() -> Clock {
        let clock = Clock { directory: tempfile::tempdir().expect("a temporary directory") };
        let source = clock.path("clock.c");
        std::fs::write(&source, include_str!("clock.c")).expect("a file in a temporary directory");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([clock.path("clock.so"), source])
            .status()
            .expect("the C compiler that Rust links with");
        assert!(compiled.success(), "clock.c does not compile");
        clock.say(0.0, 0.0);
        clock
    }

    /// Sets the clock this many seconds ahead of real time, or behind it if negative.
    pub fn set_ahead_by(&self, seconds: f64) {
        self.say(seconds, 0.0);
    }

    /// Makes the clock gain this many seconds per second from now on, or lose them if negative.
    pub fn gain(&self, seconds_each: f64) {
        self.say(0.0, seconds_each);
    }

    /// Environment variables that a process needs to use this clock.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("LD_PRELOAD", self.path("clock.so")), ("TEST_CLOCK", self.path("setting"))]
    }

    /// Writes the setting in place, because processes have mapped the file.
    fn say(&self, ahead: f64, gain: f64) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let setting = [ahead, gain, since.as_secs_f64()];
        let bytes: Vec<u8> = setting.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let mut file = std::fs::OpenOptions::new();
        let mut file = file
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.path("setting"))
            .expect("a file");
        std::io::Write::write_all(&mut file, &bytes).expect("a file in a temporary directory");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
