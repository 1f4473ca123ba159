//! One published client, run as a process by `tests/clients/run`.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Semaphore;

/// A line from the output of `tests/clients/run LANGUAGE list`.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) language: String,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// The Redis type of its lock's key.
    pub(crate) keys: String,
}

impl Client {
    /// Runs it and returns the lines that it printed. If it fails, the error contains its whole output.
    pub(crate) async fn run(
        &self,
        address: &str,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Vec<String>, String> {
        let mut command = command(&self.language);
        command.args(words).env("REDLOCK_ADDRESS", address).envs(environment.iter().copied());
        lines(command).await.map_err(|why| format!("{self}, {}: {why}", words[0]))
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.language, self.id)
    }
}

/// Returns every language with a suite, in alphabetical order.
pub(crate) fn languages() -> Vec<String> {
    let entries = directory().read_dir().expect("tests/clients").map(|entry| entry.expect("entry"));
    let suites = entries.filter(|entry| entry.path().join("run").is_file());
    let mut names: Vec<_> =
        suites.map(|suite| suite.file_name().into_string().expect("a plain name")).collect();
    names.sort();
    names
}

/// Returns the clients of a language.
pub(crate) async fn list(language: &str) -> Vec<Client> {
    let mut command = command(language);
    command.arg("list");
    let lines =
        lines(command).await.unwrap_or_else(|why| panic!("the clients of {language}: {why}"));
    assert!(!lines.is_empty(), "{language} has no clients");
    lines.iter().map(|line| client(language, line)).collect()
}

fn client(language: &str, line: &str) -> Client {
    let fields: Vec<_> = line.split('\t').map(str::to_owned).collect();
    let [id, name, version, keys] = fields.try_into().unwrap_or_else(|fields| {
        panic!("{language} should list id, name, version and type of key, not {fields:?}")
    });
    Client { language: language.to_owned(), id, name, version, keys }
}

/// Checks run side by side. A test that needs the machine to itself waits until none is running.
pub(crate) static CHECKS: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());

/// Waits for permission to start processes that other tests wait for: the machine may be small.
pub(crate) async fn turn() -> tokio::sync::SemaphorePermit<'static> {
    static TURNS: Semaphore = Semaphore::const_new(3);
    TURNS.acquire().await.expect("nobody closes it")
}

fn command(language: &str) -> Command {
    let mut command = Command::new(directory().join("run"));
    command
        .arg(language)
        .env_remove("REDLOCK_MIDDLE")
        .env_remove("REDLOCK_PASSWORD")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn lines(mut command: Command) -> Result<Vec<String>, String> {
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let output = output.map_err(|_| format!("no end after {LIMIT:?}"))?;
    let output = output.map_err(|error| format!("tests/clients/run does not start: {error}"))?;
    let [said, complained] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if !output.status.success() {
        return Err(format!("{}\n{said}{complained}", output.status));
    }
    Ok(said.lines().map(str::to_owned).collect())
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Includes fetching and building what the language needs, unless that has already happened.
const LIMIT: Duration = Duration::from_secs(600);
