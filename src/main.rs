//! The executable: flags to settings, settings to a running proxy, and exit codes.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | stopped on request, after everything in flight was finished or handed over to another process; or `learn` has reported |
//! | 1 | failed; or `health` found no healthy proxy, `check` found masters that no proxy serves, or that never vote, or `settle` failed |
//! | 64 | wrong usage or settings (`EX_USAGE`) |
//! | 69 | something is not available: the address, a program that `dev` needs, or what the running proxy has; or masters are another cluster's (`EX_UNAVAILABLE`) |
//! | 130, 143 | a second SIGINT or SIGTERM ended it at once |

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;

use redlock_proxy::admin::Admin;
use redlock_proxy::admin::members::OrderBody;
use redlock_proxy::cli::dev::{LocalMasters, SupervisedMasters};
use redlock_proxy::cli::logging::{self, Log};
use redlock_proxy::cli::reload::{ReadSettings, Reload};
use redlock_proxy::cli::{check, health, members as cli_members, settle, signals, upgrade};
use redlock_proxy::config::command_line::{
    self, Cli, CliAction, DevArgs, Generated, HealthArgs, LearnArgs, MembersArgs, MembersChange,
    SettleArgs,
};
use redlock_proxy::config::typed::Typed;
use redlock_proxy::config::{InvalidSetting, Learning, LogFormat, MasterAddr, Settings};
use redlock_proxy::context::shared::{Certificates, Shared};
use redlock_proxy::data::upstream::Upstream;
use redlock_proxy::handover::{CannotTakeOver, Handover};
use redlock_proxy::learn::serve::{CannotLearn, LearnWatch};
use redlock_proxy::net::admin_socket::AdminSocket;
use redlock_proxy::net::sockets::{Inherited, SocketKind};
use redlock_proxy::session::listener::{CannotListen, Listeners};
use redlock_proxy::worker::{self, CannotServe};
use sd_notify::NotifyState;

/// jemalloc, as in Redis: the C library's allocator keeps the gaps that many small buffers leave between those in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(help) if help.exit_code() == 0 => {
            say(&help.render().to_string());
            return ExitCode::SUCCESS;
        }
        Err(wrong) => return Failure::usage(command_line::one_sentence(&wrong)).report(),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let typed = cli.settings().map_err(Failure::usage)?;
    match &cli.action {
        None if cli.test_config => test_config(&typed),
        Some(_) if cli.test_config => Err(Failure::usage("--test-config takes no subcommand")),
        None => serve(cli),
        Some(CliAction::Dev(_)) => dev(cli, typed),
        Some(CliAction::Health(args)) => check_health(&typed, args),
        Some(CliAction::Check(_)) => check_masters(&typed),
        Some(CliAction::Settle(args)) => settle_key(&typed, args),
        Some(CliAction::Learn(args)) => learn(&typed, args),
        Some(CliAction::Members(args)) => members(&typed, args),
        Some(CliAction::Generate(args)) => generate(args.what),
    }
}

fn generate(what: Generated) -> Result<(), Failure> {
    let mut text = Vec::new();
    what.write(&mut text).map_err(Failure::other)?;
    say(&String::from_utf8_lossy(&text));
    Ok(())
}

fn test_config(typed: &Typed) -> Result<(), Failure> {
    let settings = Settings::from_typed(typed).map_err(Failure::usage)?;
    let log_format = LogFormat::from_typed(typed).map_err(Failure::usage)?;
    logging::filter().map_err(Failure::usage)?;
    certificates(&settings)?;
    say(&format!("settings are valid: {settings} log-format={log_format}\n"));
    Ok(())
}

fn serve(cli: Cli) -> Result<(), Failure> {
    let read: ReadSettings = Box::new(move || {
        let typed = cli.settings().map_err(|why| why.to_string())?;
        understood(&typed, Settings::from_typed)
    });
    let (settings, log_format) = read().map_err(Failure::usage)?;
    let log = start_logging(log_format)?;
    let certificates = certificates(&settings)?;
    let handover =
        settings.handover.as_deref().map_or_else(|| Ok(Handover::none()), Handover::begin);
    let mut handover = handover.map_err(Failure::unavailable)?;
    require_free(&settings, handover.inherited())?;
    let upgrade = upgrade::on_request(settings.handover.is_some());
    let shared = Shared::new(settings, &certificates);
    let reload =
        Reload { read, log_format, shared: shared.clone(), certificates: certificates.clone() };
    let shutdown = signals::listen(move || reload.again(), upgrade, || ());
    let shutdown = shutdown.map_err(Failure::other)?;
    serve_until(shared, certificates, handover, log, |_, _| (), shutdown)
}

fn understood(
    typed: &Typed,
    settings: impl Fn(&Typed) -> Result<Settings, InvalidSetting>,
) -> Result<(Settings, LogFormat), String> {
    let both = settings(typed).and_then(|it| Ok((it, LogFormat::from_typed(typed)?)));
    both.map_err(|why| why.to_string())
}

/// Reads the certificates. Unreadable ones are wrong settings.
fn certificates(settings: &Settings) -> Result<Certificates, Failure> {
    Certificates::read(settings).map_err(Failure::usage)
}

fn dev(mut cli: Cli, typed: Typed) -> Result<(), Failure> {
    let Some(CliAction::Dev(args)) = &mut cli.action else { return Ok(()) };
    if args.listen.is_none() && typed.given("listen").is_none() {
        args.listen = Some(free_listen()?);
    }
    let bound = if !typed.has("admin") { Some(bind_dev_admin()?) } else { None };
    let admin = bound.as_ref().map(|(at, _)| at.clone());
    let count = args.masters.into();
    let needs_data = typed.given("data").is_none();
    // Every problem with the settings is reported before a process is started.
    let example = vec!["127.0.0.1".parse().map_err(Failure::usage)?];
    let (checked, log_format) =
        dev_settings(&cli, admin.as_deref(), NO_DATA_YET, example).map_err(Failure::usage)?;
    certificates(&checked)?;
    require_free(&checked, &Inherited::default())?;
    let log = start_logging(log_format)?;

    let masters = LocalMasters::start(count, needs_data).map_err(Failure::unavailable)?;
    let (addresses, data) = (masters.addresses(), masters.data().unwrap_or_default());
    let read: ReadSettings =
        Box::new(move || dev_settings(&cli, admin.as_deref(), &data, addresses.clone()));
    let (settings, _) = read().map_err(Failure::usage)?;
    let certificates = certificates(&settings)?;
    let masters = SupervisedMasters::new(masters);
    masters.supervise(say).map_err(Failure::other)?;
    let end_masters = {
        let masters = masters.clone();
        move || masters.end()
    };
    let shared = Shared::new(settings, &certificates);
    let reload =
        Reload { read, log_format, shared: shared.clone(), certificates: certificates.clone() };
    let upgrade = upgrade::on_request(false);
    let shutdown = signals::listen(move || reload.again(), upgrade, end_masters.clone());
    let shutdown = shutdown.map_err(Failure::other)?;
    let welcome = |listeners: &Listeners, admin: Option<SocketAddr>| {
        if let Some(address) = listeners.address() {
            say(&masters.welcome(address, admin));
        }
    };
    let handover = match bound {
        Some((at, listener)) => Handover::with_admin(&at, listener),
        None => Handover::none(),
    };
    let served = serve_until(shared, certificates, handover, log, welcome, shutdown);
    end_masters();
    served
}

/// Returns the usual address for clients, or a free one if it is in use.
fn free_listen() -> Result<String, Failure> {
    const USUAL: &str = "127.0.0.1:6379";
    match TcpListener::bind(USUAL) {
        Err(why) if why.kind() == io::ErrorKind::AddrInUse => {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let free = free.map_err(|why| cannot_listen(SocketKind::Plain, "127.0.0.1", &why))?;
            say(&format!("{USUAL} is in use, so the proxy listens on {free}\n"));
            Ok(free.to_string())
        }
        _ => Ok(USUAL.to_owned()),
    }
}

/// Returns the settings of `dev`, before its own masters and its own data Redis run. With these, `lock:*` are locks
/// unless something else is set.
fn dev_settings(
    cli: &Cli,
    admin: Option<&str>,
    data: &str,
    masters: Vec<MasterAddr>,
) -> Result<(Settings, LogFormat), String> {
    let typed = cli.settings().map_err(|why| why.to_string())?;
    let mut typed = Typed::of("allow-flush", "true").or(typed);
    if let Some(CliAction::Dev(DevArgs { listen: Some(listen), .. })) = &cli.action {
        typed = Typed::of("listen", listen).or(typed);
    }
    if typed.given("data").is_none() {
        typed = Typed::of("data", data).or(typed).or(Typed::of("lock-keys", "lock:*"));
    }
    if let Some(admin) = admin {
        typed = typed.or(Typed::of("admin", admin));
    }
    understood(&typed, |typed| Settings::with_own_masters(typed, masters.clone()))
}

/// Stands for a data Redis that has not been started.
const NO_DATA_YET: &str = "redis://127.0.0.1:1";

/// Binds the port of the status page of `dev`: any port will do if the usual one is in use. The listener is kept,
/// because another `dev` may start at the same moment.
fn bind_dev_admin() -> Result<(String, TcpListener), Failure> {
    let listener = TcpListener::bind("127.0.0.1:9379");
    let listener = listener.or_else(|_| TcpListener::bind("127.0.0.1:0"));
    let bound = listener.and_then(|listener| Ok((listener.local_addr()?.to_string(), listener)));
    bound.map_err(|why| cannot_listen(SocketKind::Admin, "127.0.0.1", &why))
}

fn check_masters(typed: &Typed) -> Result<(), Failure> {
    let settings = Settings::from_typed(typed).map_err(Failure::usage)?;
    let network = certificates(&settings)?.network;
    let report =
        worker::on_one_thread(check::check(&settings, &network)).map_err(Failure::other)?;
    say(&report.text);
    report.outcome.map_err(Failure::other)
}

fn settle_key(typed: &Typed, args: &SettleArgs) -> Result<(), Failure> {
    let settings = Settings::from_typed(typed).map_err(Failure::usage)?;
    let shared =
        Shared::new(Settings { workers: 1, ..settings.clone() }, &certificates(&settings)?);
    let key = std::os::unix::ffi::OsStrExt::as_bytes(args.key.as_os_str()).to_vec();
    let settling = settle::settle(shared, args.db, key.into(), args.release_locks);
    let report = worker::on_one_thread(settling).map_err(Failure::other)?;
    say(&report.text);
    match report.is_settled {
        true => Ok(()),
        false => Err(Failure::other("the key was not settled")),
    }
}

fn learn(typed: &Typed, args: &LearnArgs) -> Result<(), Failure> {
    let Learning { settings, span } =
        Learning::from_typed(typed, args.span.as_deref()).map_err(Failure::usage)?;
    let log_format = LogFormat::from_typed(typed).map_err(Failure::usage)?;
    let certificates = certificates(&settings)?;
    let Some(data) = &settings.data else { return Ok(()) };
    let upstream = Upstream::of(data, &settings.master_tls).map_err(Failure::usage)?;
    require_free(&settings, &Inherited::default())?;
    let admin =
        settings.admin.as_ref().map(|it| bind_admin(it, &mut Handover::none())).transpose()?;
    start_logging(log_format)?;
    let shutdown = signals::listen(|| (), || (), || ()).map_err(Failure::other)?;
    let server = certificates.server;
    let address = admin.as_ref().map_or(Ok(None), AdminSocket::address).map_err(Failure::other)?;
    let shown = settings.admin.as_ref().map(|place| told_place(address, place));
    let started = format!("data: {}", data.address);
    let ready = |listeners: &Listeners| {
        tracing::info!("redlock-proxy {} learn", env!("CARGO_PKG_VERSION"));
        tracing::info!("listening on {}", listeners.places().join(", "));
        tracing::info!("{started}");
        if let Some(place) = &shown {
            tracing::info!("status at {place}");
        }
        tracing::info!("passing everything through; SIGINT or SIGTERM stops and prints the report");
        tell_system(&[NotifyState::Ready]);
        Ok(())
    };
    let watch = LearnWatch { settings, upstream, server, admin, span, shutdown };
    let report = worker::on_one_thread(watch.run(ready)).map_err(Failure::other)?;
    say(&report.map_err(|why| match why {
        CannotLearn::Listen(why) => cannot_listen(why.kind, &why.place, &why.why),
        why => Failure::unavailable(why),
    })?);
    Ok(())
}

fn check_health(typed: &Typed, args: &HealthArgs) -> Result<(), Failure> {
    let place = match (&args.connect, typed.word("listen"), typed.word("unixsocket")) {
        (Some(address), ..) => health::HealthTarget::Tcp(address.clone()),
        (None, Some("none"), Some(path)) if !path.is_empty() => {
            health::HealthTarget::Unix(path.into())
        }
        (None, Some("none"), _) => return Err(Failure::usage(NOWHERE_TO_ASK)),
        (None, listen, _) => {
            health::HealthTarget::Tcp(health::reachable(listen.unwrap_or("127.0.0.1:6379")))
        }
    };
    let password = args.password.as_deref().or(typed.word("requirepass"));
    health::check(&place, password.filter(|password| !password.is_empty())).map_err(Failure::other)
}

fn members(typed: &Typed, args: &MembersArgs) -> Result<(), Failure> {
    let admin = args.connect.as_deref().or(typed.word("admin").filter(|it| !it.is_empty()));
    let admin = health::reachable(admin.unwrap_or("127.0.0.1:9379"));
    let password = args.password.as_deref().or(typed.word("requirepass"));
    let done = worker::on_one_thread(async {
        match &args.change {
            None => cli_members::show(&admin, say).await,
            Some(change) => {
                let order = OrderBody {
                    user: args.user.clone(),
                    password: password.filter(|it| !it.is_empty()).map(str::to_owned),
                    ..ordered(change)
                };
                cli_members::change(&admin, order, say).await
            }
        }
    });
    done.map_err(Failure::other)?.map_err(Failure::other)
}

fn ordered(change: &MembersChange) -> OrderBody {
    let word = |word: &String| Some(word.clone());
    match change {
        MembersChange::Replace { old, new } => {
            OrderBody { replace: word(old), by: word(new), ..OrderBody::default() }
        }
        MembersChange::Add { new } => OrderBody { add: word(new), ..OrderBody::default() },
        MembersChange::Remove { old } => OrderBody { remove: word(old), ..OrderBody::default() },
    }
}

const NOWHERE_TO_ASK: &str = "health asks without TLS: give the proxy a --listen on 127.0.0.1 or a --unixsocket, or ask \
     /live at --admin instead";

fn start_logging(format: LogFormat) -> Result<Log, Failure> {
    Ok(logging::start(format, logging::filter().map_err(Failure::usage)?))
}

fn serve_until(
    shared: Shared,
    certificates: Certificates,
    mut handover: Handover,
    log: Log,
    ready: impl FnOnce(&Listeners, Option<SocketAddr>),
    shutdown: tokio::sync::watch::Receiver<bool>,
) -> Result<(), Failure> {
    let announced = Arc::clone(&shared.settings);
    let admin = announced.admin.as_ref().map(|listen| bind_admin(listen, &mut handover));
    let (admin, phase) = (admin.transpose()?, handover.phase());
    let listening = |listeners: &Listeners, shared: &Shared| {
        for line in announced.start_lines(&listeners.places()) {
            tracing::info!("{line}");
        }
        let address = admin.as_ref().map_or(Ok(None), AdminSocket::address)?;
        if let (Some(admin), Some(place)) = (admin, &announced.admin) {
            tracing::info!("metrics and status at {}", told_place(address, place));
            Admin::new(shared.clone(), log.events, log.level).serve(admin, phase)?;
        }
        if let Some(warning) = announced.warning() {
            tracing::warn!("{warning}");
        }
        ready(listeners, address);
        tell_system(&[NotifyState::Ready]);
        Ok(())
    };
    let served = worker::serve(shared, certificates.server, handover, listening, shutdown);
    let successor = served.map_err(|error| {
        if let Some(cannot) = error.downcast_ref::<CannotListen>() {
            return cannot_listen(cannot.kind, &cannot.place, &cannot.why);
        }
        if let Some(cannot) = error.downcast_ref::<CannotServe>() {
            return Failure::unavailable(cannot);
        }
        match error.downcast_ref::<CannotTakeOver>() {
            Some(cannot) => Failure::unavailable(cannot),
            None => Failure::other(format!("{error:#}")),
        }
    })?;
    if let Some(pid) = successor {
        tell_system(&[NotifyState::MainPid(pid)]);
    }
    Ok(())
}

fn bind_admin(place: &str, handover: &mut Handover) -> Result<AdminSocket, Failure> {
    let cannot = |why: io::Error| cannot_listen(SocketKind::Admin, place, &why);
    let inherited = handover.inherited().take_admin(place);
    let socket = inherited.map_or_else(|| AdminSocket::bind(place), Ok).map_err(cannot)?;
    handover.offer_admin(place, &socket).map_err(cannot)?;
    Ok(socket)
}

/// Returns where operators ask, for people to read. A socket file has no `address`.
fn told_place(address: Option<SocketAddr>, place: &str) -> String {
    address.map_or_else(|| place.to_owned(), |address| format!("http://{address}/"))
}

/// Tells a service manager that waits for it (`Type=notify`) how far the process is.
fn tell_system(states: &[NotifyState<'_>]) {
    // Fails where no service manager waits.
    let _ = sd_notify::notify(states);
}

/// Fails if another process listens already. The workers' own listeners would not notice another proxy of the same
/// user: with `SO_REUSEPORT` the two would share the clients. Sockets that a predecessor hands over are free.
fn require_free(settings: &Settings, inherited: &Inherited) -> Result<(), Failure> {
    let plain = settings.listen.iter().map(|listen| (SocketKind::Plain, listen));
    let tls = settings.tls.iter().map(|tls| (SocketKind::Tls, &tls.listen));
    for (kind, listen) in plain.chain(tls) {
        if !inherited.has_tcp(kind, listen) {
            TcpListener::bind(listen).map_err(|why| cannot_listen(kind, listen, &why))?;
        }
    }
    Ok(())
}

fn cannot_listen(kind: SocketKind, place: &str, why: &io::Error) -> Failure {
    let flag = kind.flag();
    Failure::unavailable(match why.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{place} is in use: stop what listens there (a redis-server?) or choose another one with {flag}"
        ),
        _ => format!("cannot listen on {place} ({why}): choose another one with {flag}"),
    })
}

/// Writes to stdout. A reader that is gone is no reason to fail.
fn say(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Reason, in one sentence, why the process ends with a code other than 0.
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
