//! The executable: flags to settings, settings to a running proxy, and exit codes.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | told to stop, and everything in flight was finished |
//! | 1 | failed, or `health` found nobody well, or `check` no quorum |
//! | 64 | wrong usage or settings (`EX_USAGE`) |
//! | 69 | the address, or a program that `dev` needs, is not available (`EX_UNAVAILABLE`) |
//! | 130, 143 | a second SIGINT or SIGTERM ended it at once |

mod health;
mod stop;

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use redlock_proxy::cli::{self, Action, Cli, DevArgs, HealthArgs, Typed};
use redlock_proxy::config::{LogFormat, Settings};
use redlock_proxy::dev::LocalMasters;
use redlock_proxy::{check, worker};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(help) if help.exit_code() == 0 => {
            say(&help.render().to_string());
            return ExitCode::SUCCESS;
        }
        Err(wrong) => return Failure::usage(cli::one_sentence(&wrong)).report(),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let typed = cli.settings().map_err(Failure::usage)?;
    match cli.action {
        None if cli.test_config => test_config(&typed),
        Some(_) if cli.test_config => {
            Err(Failure::usage("--test-config goes without a subcommand"))
        }
        None => serve(&typed),
        Some(Action::Dev(args)) => dev(typed, args),
        Some(Action::Health(args)) => check_health(&typed, args),
        Some(Action::Check(_)) => check_masters(&typed),
    }
}

fn test_config(typed: &Typed) -> Result<(), Failure> {
    let settings = Settings::from_typed(typed).map_err(Failure::usage)?;
    let log_format = LogFormat::from_typed(typed).map_err(Failure::usage)?;
    log_filter()?;
    say(&format!("settings are valid: {settings} log-format={log_format}\n"));
    Ok(())
}

fn serve(typed: &Typed) -> Result<(), Failure> {
    let settings = Settings::from_typed(typed).map_err(Failure::usage)?;
    start_logging(LogFormat::from_typed(typed).map_err(Failure::usage)?)?;
    require_free(&settings.listen)?;
    let shutdown = stop::on_signals(|| ()).map_err(Failure::other)?;
    serve_until(settings, |_| (), shutdown)
}

fn dev(mut typed: Typed, args: DevArgs) -> Result<(), Failure> {
    typed.listen = args.listen.or(typed.listen);
    typed.allow_flush = Some("true".into());
    let log_format = LogFormat::from_typed(&typed).map_err(Failure::usage)?;
    // All that can be wrong with the settings is said before a process is started.
    let example = vec!["127.0.0.1".parse().map_err(Failure::usage)?];
    let checked = Settings::with_own_masters(&typed, example).map_err(Failure::usage)?;
    require_free(&checked.listen)?;
    start_logging(log_format)?;

    let masters = LocalMasters::start(args.masters.into()).map_err(Failure::unavailable)?;
    let settings =
        Settings::with_own_masters(&typed, masters.addresses()).map_err(Failure::usage)?;
    let masters = Arc::new(Mutex::new(Some(masters)));
    let end_masters = {
        let masters = Arc::clone(&masters);
        move || drop(masters.lock().unwrap_or_else(PoisonError::into_inner).take())
    };
    let shutdown = stop::on_signals(end_masters.clone()).map_err(Failure::other)?;
    let welcome = |address| {
        if let Some(masters) = &*masters.lock().unwrap_or_else(PoisonError::into_inner) {
            say(&masters.welcome(address));
        }
    };
    let served = serve_until(settings, welcome, shutdown);
    end_masters();
    served
}

fn check_masters(typed: &Typed) -> Result<(), Failure> {
    let settings = Settings::from_typed(typed).map_err(Failure::usage)?;
    let report = worker::on_one_thread(check::check(&settings)).map_err(Failure::other)?;
    say(&report.text);
    if report.has_quorum {
        Ok(())
    } else {
        Err(Failure::other("no quorum of the masters could vote"))
    }
}

fn check_health(typed: &Typed, args: HealthArgs) -> Result<(), Failure> {
    let listen = typed.listen.as_deref().unwrap_or("127.0.0.1:6379");
    let address = args.connect.unwrap_or_else(|| health::reachable(listen));
    let password = args.password.as_deref().or(typed.requirepass.as_deref());
    health::check(&address, password.filter(|password| !password.is_empty()))
        .map_err(Failure::other)
}

fn serve_until(
    settings: Settings,
    ready: impl FnOnce(SocketAddr),
    shutdown: tokio::sync::watch::Receiver<bool>,
) -> Result<(), Failure> {
    let announced = settings.clone();
    let listener_ready = |address| {
        for line in announced.start_lines(address) {
            tracing::info!("{line}");
        }
        if let Some(warning) = announced.warning() {
            tracing::warn!("{warning}");
        }
        ready(address);
    };
    let listen = settings.listen.clone();
    worker::serve(settings, listener_ready, shutdown).map_err(|error| {
        let cause = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
        match cause.filter(|why| why.kind() == io::ErrorKind::AddrInUse) {
            Some(why) => cannot_listen(&listen, why),
            None => Failure::other(format!("{error:#}")),
        }
    })
}

/// Fails where somebody listens already. The workers' own listeners would not notice another proxy
/// of the same user: with `SO_REUSEPORT` the two would share the clients.
fn require_free(listen: &str) -> Result<(), Failure> {
    match std::net::TcpListener::bind(listen) {
        Ok(_) => Ok(()),
        Err(why) => Err(cannot_listen(listen, &why)),
    }
}

fn cannot_listen(listen: &str, why: &io::Error) -> Failure {
    Failure::unavailable(match why.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{listen} is in use: stop what listens there (a redis-server?) or choose another \
             address with --listen"
        ),
        _ => format!("cannot listen on {listen} ({why}): choose another address with --listen"),
    })
}

fn start_logging(format: LogFormat) -> Result<(), Failure> {
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(log_filter()?).with_writer(io::stderr);
    match format {
        LogFormat::Json => subscriber.json().init(),
        LogFormat::Text => {
            let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            subscriber.with_ansi(io::stderr().is_terminal() && !no_color).init();
        }
    }
    Ok(())
}

/// `RUST_LOG`, or everything from `info` on.
fn log_filter() -> Result<EnvFilter, Failure> {
    let directives = std::env::var("RUST_LOG").unwrap_or_default();
    let directives = if directives.is_empty() { "info" } else { &directives };
    EnvFilter::try_new(directives)
        .map_err(|why| Failure::usage(format!("RUST_LOG `{directives}` is not valid: {why}")))
}

/// Writes to stdout. A reader that has gone away is no reason to fail.
fn say(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Why the process ends with another code than 0: one sentence.
struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    fn usage(sentence: impl ToString) -> Self {
        Self { code: 64, sentence: sentence.to_string() }
    }

    fn unavailable(sentence: impl ToString) -> Self {
        Self { code: 69, sentence: sentence.to_string() }
    }

    fn other(sentence: impl ToString) -> Self {
        Self { code: 1, sentence: sentence.to_string() }
    }

    fn report(self) -> ExitCode {
        let _ = writeln!(io::stderr(), "redlock-proxy: {}", self.sentence);
        ExitCode::from(self.code)
    }
}
