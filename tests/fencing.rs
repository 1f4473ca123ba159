//! The fencing page, tested: its statements run on a real PostgreSQL, and the table rejects a holder whose lease has
//! ended.
#![allow(clippy::unwrap_used, reason = "a broken test set-up should end the test")]

mod support;

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use redis::aio::MultiplexedConnection;
use support::{Masters, Proxy, int, text};
use tempfile::TempDir;

#[tokio::test]
async fn who_works_on_beyond_its_lease_is_refused_by_the_table() {
    let statements = statements();
    let [create, begin, write] = &statements[..] else { panic!("{} statements", statements.len()) };
    let database = Postgres::start().await;
    database.run(create, &[]);
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (mut slow, mut next) = (proxy.connection().await, proxy.connection().await);

    let slow_fence = hold(&mut slow, "slow", "200").await;
    assert_eq!(database.run(begin, &[("fence", slow_fence)]), "10\nUPDATE 1");
    // The holder pauses now, and does not notice that its lease ends.
    let fence = hold(&mut next, "next", "60000").await;
    assert!(fence > slow_fence, "{fence} after {slow_fence}");
    assert_eq!(database.run(begin, &[("fence", fence)]), "10\nUPDATE 1");
    let late = database.run(write, &[("fence", slow_fence), ("amount", 3)]);
    assert_eq!(late, "UPDATE 0", "whose lease has ended");
    assert_eq!(database.run(write, &[("fence", fence), ("amount", 9)]), "UPDATE 1");
    // Nor may it begin again with the same number.
    assert_eq!(database.run(begin, &[("fence", slow_fence)]), "UPDATE 0");
    assert_eq!(database.run("SELECT amount FROM stock;", &[]), "9");
}

/// Takes the lock as soon as it is free, and draws a number.
async fn hold(client: &mut MultiplexedConnection, token: &str, ttl_ms: &str) -> i64 {
    support::eventually("the lock is free", || {
        let mut client = client.clone();
        async move {
            let claim = ["SET", "lock:stock", token, "NX", "PX", ttl_ms];
            (text(&mut client, &claim).await.as_deref() == Some("OK")).then_some(())
        }
    })
    .await;
    int(client, &["INCR", "fence:stock"]).await
}

/// Returns the SQL blocks of the page, in order.
fn statements() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fencing.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sql\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// A private PostgreSQL, reachable only by its socket.
struct Postgres {
    server: Child,
    directory: TempDir,
}

impl Postgres {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        if let Some((user, group)) = somebody() {
            chown(directory.path(), Some(user), Some(group)).unwrap();
        }
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let data = directory.path().join("data");
        let created = program("initdb")
            .args(["--username=fencing", "--auth=trust", "--no-sync", "--locale=C", "--pgdata"])
            .arg(&data)
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(created.status.success(), "initdb: {}", String::from_utf8_lossy(&created.stderr));
        let server = program("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path())
            .args(["-c", "listen_addresses=", "-F"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let it = Self { server, directory };
        support::eventually("PostgreSQL answers", || async { it.psql("SELECT 1;", &[]).ok() })
            .await;
        it
    }

    fn run(&self, statement: &str, variables: &[(&str, i64)]) -> String {
        self.psql(statement, variables).unwrap_or_else(|why| panic!("{statement}: {why}"))
    }

    /// Returns what `psql` prints for these statements: rows, and the results of changes.
    fn psql(&self, statements: &str, variables: &[(&str, i64)]) -> Result<String, String> {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-A", "-t", "-U", "fencing", "-d", "postgres", "-v", "ON_ERROR_STOP=1"]);
        psql.arg("-h").arg(self.directory.path());
        for (name, value) in variables {
            psql.arg("-v").arg(format!("{name}={value}"));
        }
        let psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut psql = psql.expect(INSTALL);
        // If `psql` cannot connect, it does not read either.
        let _ = psql.stdin.take().unwrap().write_all(statements.as_bytes());
        let output = psql.wait_with_output().unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT ends it at once, with all its processes.
        let pid = self.server.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &pid]).status();
        let _ = self.server.wait();
    }
}

const INSTALL: &str = "PostgreSQL is missing: scripts/install-missing postgresql";

/// Returns a command for one of PostgreSQL's own programs, which Debian keeps next to each other by version. It
/// refuses to run as root.
fn program(name: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let installed = versions.map(|version| version.unwrap().path().join("bin").join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).map(|directory| directory.join(name));
    let found: Option<PathBuf> = installed.chain(others).find(|path| path.exists());
    let mut command = Command::new(found.expect(INSTALL));
    if let Some((user, group)) = somebody() {
        command.uid(user).gid(group);
    }
    command
}

/// Returns the user to run it as if the tests run as root: the one of Debian's package.
fn somebody() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().unwrap();
        assert!(output.status.success(), "there is no user postgres. {INSTALL}");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().unwrap()
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}
