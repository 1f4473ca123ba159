//! One published application, run as a process by the scripts of `tests/applications`.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

/// A line from the output of `tests/applications/run LANGUAGE list`.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    pub(crate) language: String,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) versions: String,
    /// Space-separated patterns of keys that are locks.
    pub(crate) keys: String,
    /// Space-separated patterns of channels that carry messages about locks.
    pub(crate) channels: String,
}

/// The checks of an application in order, with whether the feature was available.
pub(crate) type Checks = Vec<(String, bool)>;

impl Application {
    /// Runs its checks against a plain Redis.
    pub(crate) async fn against_one_redis(&self) -> Result<Checks, String> {
        self.run("against-one-redis").await
    }

    /// Runs its checks against the proxy, and checks that locks and data are kept apart.
    pub(crate) async fn against_a_proxy(&self) -> Result<Checks, String> {
        self.run("against-a-proxy").await
    }

    async fn run(&self, script: &str) -> Result<Checks, String> {
        let mut command = Command::new(directory().join(script));
        command.args([&self.language, &self.id]);
        // The machine may be busy, and this test is not about masters that answer late.
        command.env("REDLOCK_PROXY_VOTE_TIMEOUT", "500ms");
        command.env("REDLOCK_PROXY", env!("CARGO_BIN_EXE_redlock-proxy"));
        let lines = lines(command).await.map_err(|why| format!("{self}, {script}: {why}"))?;
        let checks: Option<Checks> = lines.iter().map(|line| check(line)).collect();
        checks.ok_or_else(|| format!("{self} says what nobody understands: {lines:#?}"))
    }
}

impl std::fmt::Display for Application {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.language, self.id)
    }
}

/// Returns every language with applications, in alphabetical order.
pub(crate) fn languages() -> Vec<String> {
    let entries = directory().read_dir().expect("tests/applications");
    let entries = entries.map(|entry| entry.expect("an entry"));
    let languages = entries.filter(|entry| entry.path().join("run").is_file());
    let mut names: Vec<_> =
        languages.map(|it| it.file_name().into_string().expect("a plain name")).collect();
    names.sort();
    names
}

/// Returns the applications of a language.
pub(crate) async fn list(language: &str) -> Vec<Application> {
    let mut command = Command::new(directory().join("run"));
    command.args([language, "list"]);
    let lines =
        lines(command).await.unwrap_or_else(|why| panic!("the applications of {language}: {why}"));
    assert!(!lines.is_empty(), "{language} has no applications");
    lines.iter().map(|line| application(language, line)).collect()
}

fn application(language: &str, line: &str) -> Application {
    let fields: Vec<_> = line.split('\t').map(str::to_owned).collect();
    let [id, name, versions, keys, channels] = fields.try_into().unwrap_or_else(|fields| {
        panic!("{language} should list id, name, versions, keys and channels, not {fields:?}")
    });
    Application { language: language.to_owned(), id, name, versions, keys, channels }
}

/// Parses `CHECK<TAB>passed` or `CHECK<TAB>none`.
fn check(line: &str) -> Option<(String, bool)> {
    match line.split_once('\t')? {
        (name, "passed") => Some((name.to_owned(), true)),
        (name, "none") => Some((name.to_owned(), false)),
        _ => None,
    }
}

/// Returns the lines that a script printed. If it fails, the error contains its whole output.
async fn lines(mut command: Command) -> Result<Vec<String>, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let script = command.spawn().map_err(|error| format!("the script does not start: {error}"))?;
    let output = ended(script).await?;
    let [said, complained] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if !output.status.success() {
        return Err(format!("{}\n{said}{complained}", output.status));
    }
    Ok(said.lines().map(str::to_owned).collect())
}

/// Waits for a script to end. One that takes too long is asked to end, and to end its servers and workers with it.
async fn ended(script: Child) -> Result<Output, String> {
    let process = script.id().and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?));
    let mut output = std::pin::pin!(script.wait_with_output());
    let ended = tokio::select! {
        ended = &mut output => ended,
        () = tokio::time::sleep(LIMIT) => {
            let process = process.expect("a running process has an id");
            rustix::process::kill_process(process, rustix::process::Signal::TERM)
                .expect("a running process can be asked to end");
            let said = output.await.map(|output| {
                [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned())
            });
            return Err(format!("no end after {LIMIT:?}: {said:#?}"));
        }
    };
    ended.map_err(|error| format!("the script cannot be waited for: {error}"))
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/applications")
}

/// Includes fetching and building what the language needs, unless that has already happened.
const LIMIT: Duration = Duration::from_secs(600);
