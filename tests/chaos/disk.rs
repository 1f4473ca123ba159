//! A disk that a test can make slow, for masters that wait for it.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

/// A disk with adjustable latency. It adds none at first.
pub(crate) struct Disk {
    directory: TempDir,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        let disk = Disk { directory: tempfile::tempdir().expect("a temporary directory") };
        let source = disk.path("slow_disk.c");
        std::fs::write(&source, include_str!("slow_disk.c")).expect("a temporary file");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([disk.path("slow_disk.so"), source])
            .status()
            .expect("the C compiler that Rust links with");
        assert!(compiled.success(), "slow_disk.c does not compile");
        disk.delay(Duration::ZERO);
        disk
    }

    /// Delays every sync to disk by this much from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        let mut file = std::fs::OpenOptions::new();
        let file = file.create(true).truncate(false).write(true).open(self.path("setting"));
        // Written in place, because processes have mapped the file.
        let ms = delay.as_secs_f64() * 1e3;
        file.and_then(|file| file.write_all_at(&ms.to_ne_bytes(), 0)).expect("a temporary file");
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.path("slow_disk.so")
    }

    pub(crate) fn setting(&self) -> PathBuf {
        self.path("setting")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
