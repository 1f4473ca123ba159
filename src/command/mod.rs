//! Translates the words of a request into an operation.
//!
//! [`prepare`] finds the command in the command [`table`], checks it in Redis's order, and hands it to
//! its family.
//!
//! * [`options`]: arguments after the key, parsed as Redis does; `help`: Redis's texts;
//! * [`outlook`]: the effect that a request would have, for `learn`;
//! * one file per family: `lock`, `key`, `expiry`, `counter`, `keyspace`, `script`, `function` and `pubsub` query the
//!   masters; `transaction`, `program` and `data` have them run a program; `connection`, `client`, `acl`, `server`,
//!   `config`, `latency` and `info` answer at once;
//! * `permission`: ACL checks; `shards`: the shard that serves a request; `route`: requests for the data Redis;
//!   [`unknown`]: commands of newer versions and modules.

mod acl;
mod client;
mod clients;
mod config;
mod connection;
mod counter;
mod data;
mod expiry;
mod function;
mod help;
mod info;
mod key;
mod keyspace;
mod latency;
mod lock;
pub mod options;
pub mod outlook;
mod permission;
mod program;
mod pubsub;
pub(crate) mod route;
mod script;
mod server;
mod shards;
mod stream;
mod tracking;
pub mod transaction;
pub mod unknown;

use crate::also_claim::job::{LockJob, REFUSED, Way};
use crate::catalogue::channel::{ChannelKind, Topic, TopicKind};
use crate::catalogue::table::NO_COMMAND;
use crate::catalogue::table::{Command, Spec};
use crate::catalogue::{error, table, words};
use crate::client::outbox::{Gather, Ticket};
use crate::client::slices::Sliced;
use crate::context::caller::Caller;
use crate::context::waiting::BlockingWait;
use crate::engine::sequential::Aside;
use crate::engine::sequential::libraries::Storing;
use crate::operation::flush::Extent;
use crate::operation::{Kind, Operation};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::time::clock::Instant;
use crate::tracking::tracked::Tracked;
use std::rc::Rc;

/// The action that a request results in.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "moved once; a box would cost every claim an allocation"
)]
pub enum Action {
    /// Wait until everything before the request is answered.
    Later,
    /// Wait until this time, along with all later requests.
    Rest(Instant),
    /// Send this reply.
    Reply(Reply),
    /// Make the reply in slices, over several turns of the event loop.
    Slices(Sliced),
    /// Send this reply once the masters know about the unsubscriptions.
    Unsubscribed(Reply),
    /// Send this reply and close the connection.
    Close(Reply),
    /// Send no reply (`CLIENT REPLY OFF`).
    Silence,
    /// Close the connection without a reply.
    HangUp,
    /// Start an operation on the masters.
    Start(Operation),
    /// Check the commands of a transaction, over several turns of the event loop.
    Plan(Box<transaction::Planning>),
    /// Query one master after the other, apart from the votes.
    Aside(Box<Aside>),
    /// Have the masters check and store libraries of functions, apart from other requests of the client.
    Store(Box<Storing>),
    /// End scripts that keep masters busy.
    KillScripts,
    /// Answer once the client can cache what it reads.
    Track(Rc<Tracked>),
    /// Send all requests to the client from now on.
    Monitor,
    /// Wait until an element or an entry exists.
    Wait(Box<BlockingWait>),
    /// Subscribe to these topics.
    Subscribe(Vec<Topic>),
    /// Unsubscribe from these topics, all of this kind.
    Unsubscribe(TopicKind, Vec<Topic>),
    /// Query the masters about each of many keys.
    Gather(Gather, Vec<Operation>),
    /// Pass the request on to the data Redis as the client sent it.
    Pass(Ticket),
    /// Pass the request on to the data Redis over a connection that clients share.
    Share {
        /// The ticket for the outbox.
        ticket: Ticket,
        /// Whether the request changes nothing.
        is_read: bool,
    },
    /// Ask the data Redis and the masters for a lock.
    Both(Box<LockJob>),
}

/// A family's result for a request; the error is the reply.
type Outcome = Result<Action, Reply>;

/// Looks a request up and hands it to its family. The checks have Redis's order (`server.c`, `processCommand`): that
/// the command exists, that it has enough arguments, that the client may send it.
pub fn prepare(caller: &mut Caller, args: Args<'_>) -> Action {
    caller.adopt_db();
    caller.command = NO_COMMAND;
    if caller.home.has_shards() {
        caller.go_to(None);
    }
    if let Some(action) = route::elsewhere(caller, args) {
        return action;
    }
    let spec = match accepted(caller, args) {
        Ok(spec) => spec,
        Err(Some(refused)) if table::lookup(args.at(0)).is_none() => {
            return to_masters(caller, args, refused);
        }
        Err(Some(refused)) => return transaction::refused(caller, args, refused),
        Err(None) => return Action::HangUp,
    };
    caller.command = spec.place;
    if caller.waits_for_masters() {
        return Action::Later;
    }
    if caller.home.has_shards()
        && let Err(refused) = shards::choose(caller, spec, args)
    {
        return transaction::refused(caller, args, refused);
    }
    if let Some(refusal) = pubsub::refuse_to_subscriber(caller, spec, args) {
        return transaction::refused(caller, args, refusal);
    }
    if caller.transaction.is_some() && !goes_past_the_queue(spec.id) {
        return transaction::queue(caller, spec, args).unwrap_or_else(Action::Reply);
    }
    if waits_for_all(spec.id, args.len()) && caller.outbox.in_flight() > 0 {
        return Action::Later;
    }
    if spec.id == Command::Select && caller.outbox.runs_alone() {
        return Action::Later;
    }
    caller.client.did(spec, args);
    let action = family(caller, spec, args).unwrap_or_else(Action::Reply);
    if caller.worker.gate().is_some() { with_data(action) } else { action }
}

/// Passes on a command that is not in the table, where it is that of a later version or of a module.
fn to_masters(caller: &mut Caller, args: Args<'_>, refused: Reply) -> Action {
    match caller.home.has_shards().then(|| shards::choose_for_unknown(caller, args)) {
        Some(Err(refused)) => transaction::refused(caller, args, refused),
        _ => unknown::run(caller, args, refused),
    }
}

/// Extends changes of locks to the data Redis, where old instances still take their locks.
fn with_data(action: Action) -> Action {
    let way = match action {
        Action::Start(operation) => LockJob::of(operation),
        Action::Gather(_, operations) if operations.iter().any(LockJob::changes) => None,
        Action::Plan(_) | Action::Wait(_) => None,
        other => return other,
    };
    match way {
        Some(Way::Masters(operation)) => Action::Start(operation),
        Some(Way::Both(job)) => Action::Both(job),
        None => Action::Reply(REFUSED),
    }
}

/// Returns the command, or the reply that refuses it. The error is `None` for a client that does not speak Redis at
/// all.
fn accepted(caller: &Caller, args: Args<'_>) -> Result<&'static Spec, Option<Reply>> {
    let spec = existing(args)?;
    if !caller.login.is_free() {
        permission::check(&caller.login, spec, args).map_err(|denied| Some(denied.reply()))?;
    }
    well_named(spec, args)
}

/// Returns the command, or the reply that refuses it, for a user without restrictions.
fn accepted_by_anybody(args: Args<'_>) -> Result<&'static Spec, Option<Reply>> {
    well_named(existing(args)?, args)
}

fn existing(args: Args<'_>) -> Result<&'static Spec, Option<Reply>> {
    let spec = table::lookup(args.at(0)).ok_or_else(|| refused(args))?;
    if !spec.accepts(args.len()) {
        return Err(Some(error::wrong_arity(spec.name)));
    }
    if spec.is_container {
        permission::entry(spec, args).map_err(Some)?;
    }
    Ok(spec)
}

fn well_named(spec: &'static Spec, args: Args<'_>) -> Result<&'static Spec, Option<Reply>> {
    words::check(spec, args).map_err(Some)?;
    Ok(spec)
}

/// Whether the command is run instead of queued after `MULTI`.
fn goes_past_the_queue(command: Command) -> bool {
    use Command as C;
    matches!(command, C::Multi | C::Exec | C::Discard | C::Watch | C::Quit | C::Reset)
}

/// Whether the command must not overtake others: it changes how replies are sent, or reads more than one key.
fn waits_for_all(command: Command, words: usize) -> bool {
    use Command as C;
    let many_keys = matches!(command, C::Mget | C::Exists | C::Touch | C::Watch)
        || matches!(command, C::Script | C::Function)
        || matches!(command, C::Del | C::Unlink) && words > 2;
    many_keys || changes_or_lists_everything(command)
}

fn changes_or_lists_everything(command: Command) -> bool {
    use Command as C;
    matches!(
        command,
        C::Hello
            | C::Reset
            | C::Client
            | C::Keys
            | C::Scan
            | C::DbSize
            | C::RandomKey
            | C::FlushDb
            | C::FlushAll
            | C::Quit
            | C::Exec
            | C::Monitor
            | C::Subscribe
            | C::Psubscribe
            | C::Ssubscribe
            | C::Unsubscribe
            | C::Punsubscribe
            | C::Sunsubscribe
            | C::Pubsub
    )
}

fn refused(args: Args<'_>) -> Option<Reply> {
    if table::is_http(args.at(0)) {
        return None;
    }
    if table::known_to_redis(args.at(0)) {
        return Some(error::unsupported_command(args.at(0)));
    }
    Some(error::unknown_command(args))
}

fn family(caller: &mut Caller, spec: &'static Spec, args: Args<'_>) -> Outcome {
    use Command as C;
    if let Some(help) = help::asked(spec, args) {
        return Ok(Action::Reply(help));
    }
    let command = spec.id;
    match command {
        C::Set => lock::set(caller, args),
        C::SetNx => lock::setnx(caller, args),
        C::SetEx | C::PsetEx => lock::setex(caller, args, command),
        C::GetSet | C::GetDel | C::Append => Ok(lock::run(caller, command, args)),
        C::Persist => Ok(lock::persist(caller, args)),
        C::GetEx => lock::getex(caller, args),
        C::DelEx => lock::delex(caller, args),
        C::DelIfEq => lock::delifeq(caller, args),
        C::Get => key::get(caller, args),
        C::Mget => key::mget(caller, args),
        C::Strlen => key::strlen(caller, args),
        C::GetRange | C::Substr => key::getrange(caller, args),
        C::Exists | C::Touch => key::exists(caller, args),
        C::Type => key::kind(caller, args),
        C::Del | C::Unlink => Ok(lock::delete(caller, command, args)),
        C::Ttl | C::Pttl | C::ExpireTime | C::PexpireTime => expiry::ttl(caller, args, command),
        C::Expire | C::Pexpire | C::ExpireAt | C::PexpireAt => {
            expiry::expire(caller, args, command)
        }
        C::Incr | C::IncrBy | C::Decr | C::DecrBy => counter::add(caller, args, command),
        C::Keys => keyspace::keys(caller, args),
        C::Scan => keyspace::scan(caller, args),
        C::DbSize => keyspace::dbsize(caller),
        C::RandomKey => Ok(keyspace::random_key(caller)),
        C::FlushDb => keyspace::flush(caller, args, "flushdb", Extent::One),
        C::FlushAll => keyspace::flush(caller, args, "flushall", Extent::All),
        C::Eval => script::eval(caller, args, false),
        C::EvalRo => script::eval(caller, args, true),
        C::EvalSha => script::evalsha(caller, args, false),
        C::EvalShaRo => script::evalsha(caller, args, true),
        C::Fcall => function::fcall(caller, spec, args),
        C::FcallRo => function::fcall(caller, spec, args),
        C::Function => function::function(caller, args),
        C::Subscribe => pubsub::subscribe(args, TopicKind::Channel),
        C::Psubscribe => pubsub::subscribe(args, TopicKind::Pattern),
        C::Ssubscribe => pubsub::subscribe(args, TopicKind::Shard),
        C::Unsubscribe => pubsub::unsubscribe(caller, args, TopicKind::Channel),
        C::Punsubscribe => pubsub::unsubscribe(caller, args, TopicKind::Pattern),
        C::Sunsubscribe => pubsub::unsubscribe(caller, args, TopicKind::Shard),
        C::Publish => pubsub::publish(caller, args, ChannelKind::Plain),
        C::Spublish => pubsub::publish(caller, args, ChannelKind::Shard),
        C::Pubsub => pubsub::pubsub(caller, args),
        C::Script => script::script(caller, args),
        C::Multi => transaction::multi(caller),
        C::Exec => transaction::exec(caller),
        C::Discard => transaction::discard(caller),
        C::Watch => transaction::watch(caller, args),
        C::Unwatch => transaction::unwatch(caller),
        C::Data => data::run(caller, spec, args),
        C::Hello => connection::hello(caller, args),
        C::Auth => connection::auth(caller, args),
        C::Select => connection::select(caller, args),
        C::Ping => connection::ping(caller, args),
        C::Echo => connection::echo(args),
        C::Quit => Ok(Action::Close(Reply::OK)),
        C::Reset => connection::reset(caller),
        C::Client => client::client(caller, args),
        C::Acl => acl::acl(caller, args),
        C::Info => info::info(caller, args),
        C::Config => config::config(caller, args),
        C::Command => server::command(args),
        C::Slowlog => latency::slowlog(caller, args),
        C::Latency => latency::latency(caller, args),
        C::Monitor => Ok(Action::Monitor),
        C::Role => server::role(),
        C::Time => server::time(caller),
        C::Wait => server::wait(args),
        C::ReadOnly | C::ReadWrite | C::Cluster => Err(error::NO_CLUSTER),
    }
}

/// Returns an operation on `key` in the session's database.
fn operation(caller: &Caller, key: &[u8], kind: Kind) -> Operation {
    Operation { db: caller.db, key: key.into(), kind }
}

/// Refuses a TTL beyond `--max-ttl`, with Redis's own words and the reason.
fn check_ttl(caller: &Caller, command: &str, asked_ms: i64) -> Result<(), Reply> {
    let Some(max_ttl) = caller.worker.settings().max_ttl else { return Ok(()) };
    if u128::try_from(asked_ms).is_ok_and(|asked_ms| asked_ms > max_ttl.as_millis()) {
        let max_ttl = humantime::format_duration(max_ttl);
        return Err(Reply::error(format!(
            "ERR invalid expire time in '{command}' command: longer than --max-ttl {max_ttl}"
        )));
    }
    Ok(())
}
