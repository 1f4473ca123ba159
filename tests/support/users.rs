//! A settings file with users.

use std::path::PathBuf;

use tempfile::TempDir;

/// A settings file with these users and `more` lines.
pub struct Settings {
    path: PathBuf,
    _directory: TempDir,
}

impl Settings {
    pub fn with(users: &[&str], more: &str) -> Settings {
        let users: String = users.iter().map(|user| format!("  '''{user}''',\n")).collect();
        Settings::of(&format!("users = [\n{users}]\n{more}\n"))
    }

    pub fn of(text: &str) -> Settings {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("proxy.toml");
        std::fs::write(&path, text).expect("written");
        Settings { path, _directory: directory }
    }

    pub fn flags(&self) -> [&str; 2] {
        ["--config", self.path.to_str().expect("a path")]
    }
}
