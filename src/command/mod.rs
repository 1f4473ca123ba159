//! From words to operations.
//!
//! * [`table`]: every command, its arity, keys and how the masters answer it; [`error`], `help`: Redis's texts;
//! * [`options`], [`number`], [`glob`]: arguments as Redis reads them; `keys`: which of them are keys;
//! * [`outlook`]: what a request names, and what would become of it, for whoever only watches;
//! * one file per family: `lock`, `key`, `expiry`, `counter`, `keyspace`, `script`, `function`, `pubsub` ask the masters,
//!   `transaction`, `program` and `data` let them run something; `connection`, `client`, `acl`, `server`,
//!   `config`, `latency`, `info` answer at once; `permission`: who may send what; `names`: what nobody may name.

mod acl;
mod client;
mod clients;
mod config;
mod connection;
mod counter;
mod data;
pub mod error;
mod expiry;
mod function;
pub mod glob;
mod help;
mod info;
mod key;
mod key_flags;
mod keys;
mod keyspace;
mod latency;
mod lock;
mod names;
mod newer;
pub mod number;
pub mod options;
pub mod outlook;
mod permission;
mod program;
mod pubsub;
pub(crate) mod route;
mod script;
mod server;
mod stream;
pub mod table;
pub mod transaction;
pub mod word;
pub(crate) mod zero;

use crate::client::decoder::Args;
use crate::client::outbox::{Gather, Ticket};
use crate::client::reply::Reply;
use crate::client::session::Front;
use crate::client::slices::Sliced;
use crate::client::waiting::Waiting;
use crate::clock::Instant;
use crate::metrics::NO_COMMAND;
use crate::moving::job::{Job, REFUSED, Way};
use crate::operation::aside::Aside;
use crate::operation::flush::Extent;
use crate::operation::libraries::Storing;
use crate::operation::{Kind, Operation};
use crate::pubsub::{ChannelKind, Topic, TopicKind};
use table::{Command, Spec};

/// What a request comes to.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "moved once; a box would cost every claim an allocation"
)]
pub enum Action {
    /// It has to wait until everything before it is answered.
    Later,
    /// It has to wait until then, and all that comes after it.
    Rest(Instant),
    /// The reply is known.
    Reply(Reply),
    /// The reply is made in slices, over several turns of the event loop.
    Slices(Sliced),
    /// The reply is known, and comes when the masters know what nobody listens to any more.
    Unsubscribed(Reply),
    /// The reply is known, and the connection ends with it.
    Close(Reply),
    /// No reply at all (`CLIENT REPLY OFF`).
    Silence,
    /// No reply, and the connection ends.
    HangUp,
    /// The masters are asked.
    Start(Operation),
    /// The commands of a transaction are looked at, over several turns of the event loop.
    Plan(Box<transaction::Planning>),
    /// One master after the other is asked, apart from the votes.
    Aside(Box<Aside>),
    /// Libraries of functions are looked at by the masters and kept, apart from other requests of the client.
    Store(Box<Storing>),
    /// Scripts that keep masters busy are ended.
    KillScripts,
    /// The client sees all requests from now on.
    Monitor,
    /// The client waits until there is something.
    Wait(Box<Waiting>),
    /// Messages are wanted.
    Subscribe(Vec<Topic>),
    /// No more messages are wanted; of all these topics, which have one kind.
    Unsubscribe(TopicKind, Vec<Topic>),
    /// The masters are asked about each of many keys.
    Gather(Gather, Vec<Operation>),
    /// The data Redis is asked, in the words of the client.
    Pass(Ticket),
    /// The data Redis is asked over a connection that clients share.
    Share {
        /// What the outbox needs to know.
        ticket: Ticket,
        /// It changes nothing.
        is_read: bool,
    },
    /// The data Redis and the masters are asked for a lock.
    Both(Box<Job>),
}

/// What a family makes of a request; the error is the reply.
type Outcome = Result<Action, Reply>;

/// Looks a request up and hands it to its family. The checks have Redis's order (`server.c`,
/// `processCommand`): does it exist, are there enough arguments, may the client send it.
pub fn prepare(front: &mut Front, args: Args<'_>) -> Action {
    front.adopt_db();
    front.command = NO_COMMAND;
    if let Some(action) = route::elsewhere(front, args) {
        return action;
    }
    let spec = match accepted(front, args) {
        Ok(spec) => spec,
        Err(Some(refused)) if table::lookup(args.at(0)).is_none() => {
            return newer::run(front, args, refused);
        }
        Err(Some(refused)) => return transaction::refused(front, args, refused),
        Err(None) => return Action::HangUp,
    };
    front.command = spec.place;
    if front.waits_for_masters() {
        return Action::Later;
    }
    if let Some(refusal) = pubsub::refuse_to_subscriber(front, spec, args) {
        return transaction::refused(front, args, refusal);
    }
    if front.transaction.is_some() && !goes_past_the_queue(spec.id) {
        return transaction::queue(front, spec, args).unwrap_or_else(Action::Reply);
    }
    if waits_for_all(spec.id, args.len()) && front.outbox.in_flight() > 0 {
        return Action::Later;
    }
    if spec.id == Command::Select && front.outbox.runs_alone() {
        return Action::Later;
    }
    front.client.did(spec);
    let action = family(front, spec, args).unwrap_or_else(Action::Reply);
    if front.worker.gate().is_some() { with_data(action) } else { action }
}

/// Old instances still take locks on the data Redis, so whatever changes one is done there as well.
fn with_data(action: Action) -> Action {
    let way = match action {
        Action::Start(operation) => Job::of(operation),
        Action::Gather(_, operations) if operations.iter().any(Job::changes) => None,
        Action::Plan(_) | Action::Wait(_) => None,
        other => return other,
    };
    match way {
        Some(Way::Masters(operation)) => Action::Start(operation),
        Some(Way::Both(job)) => Action::Both(job),
        None => Action::Reply(REFUSED),
    }
}

/// The command, or what is answered instead; nothing to whoever does not speak Redis at all.
fn accepted(front: &Front, args: Args<'_>) -> Result<&'static Spec, Option<Reply>> {
    let spec = existing(args)?;
    if !front.login.is_free() {
        permission::check(&front.login, spec, args).map_err(|denied| Some(denied.reply()))?;
    }
    well_named(spec, args)
}

/// The same for somebody who may do everything.
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
    zero::check(spec, args).map_err(Some)?;
    names::check(spec, args).map_err(Some)?;
    Ok(spec)
}

/// Commands that a `MULTI` does not queue.
fn goes_past_the_queue(command: Command) -> bool {
    use Command as C;
    matches!(command, C::Multi | C::Exec | C::Discard | C::Watch | C::Quit | C::Reset)
}

/// A command that changes how replies are sent, or looks at more than one key, must not overtake.
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

fn family(front: &mut Front, spec: &'static Spec, args: Args<'_>) -> Outcome {
    use Command as C;
    if let Some(help) = help::asked(spec, args) {
        return Ok(Action::Reply(help));
    }
    let command = spec.id;
    match command {
        C::Set => lock::set(front, args),
        C::SetNx => lock::setnx(front, args),
        C::SetEx | C::PsetEx => lock::setex(front, args, command),
        C::GetSet | C::GetDel | C::Append => Ok(lock::run(front, command, args)),
        C::Persist => Ok(lock::persist(front, args)),
        C::GetEx => lock::getex(front, args),
        C::DelEx => lock::delex(front, args),
        C::DelIfEq => lock::delifeq(front, args),
        C::Get => key::get(front, args),
        C::Mget => key::mget(front, args),
        C::Strlen => key::strlen(front, args),
        C::GetRange | C::Substr => key::getrange(front, args),
        C::Exists | C::Touch => key::exists(front, args),
        C::Type => key::kind(front, args),
        C::Del | C::Unlink => Ok(lock::delete(front, command, args)),
        C::Ttl | C::Pttl | C::ExpireTime | C::PexpireTime => expiry::ttl(front, args, command),
        C::Expire | C::Pexpire | C::ExpireAt | C::PexpireAt => expiry::expire(front, args, command),
        C::Incr | C::IncrBy | C::Decr | C::DecrBy => counter::add(front, args, command),
        C::Keys => keyspace::keys(front, args),
        C::Scan => keyspace::scan(front, args),
        C::DbSize => keyspace::dbsize(front),
        C::RandomKey => Ok(keyspace::random_key(front)),
        C::FlushDb => keyspace::flush(front, args, "flushdb", Extent::One),
        C::FlushAll => keyspace::flush(front, args, "flushall", Extent::All),
        C::Eval => script::eval(front, args, false),
        C::EvalRo => script::eval(front, args, true),
        C::EvalSha => script::evalsha(front, args, false),
        C::EvalShaRo => script::evalsha(front, args, true),
        C::Fcall => function::fcall(front, spec, args),
        C::FcallRo => function::fcall(front, spec, args),
        C::Function => function::function(front, args),
        C::Subscribe => pubsub::subscribe(args, TopicKind::Channel),
        C::Psubscribe => pubsub::subscribe(args, TopicKind::Pattern),
        C::Ssubscribe => pubsub::subscribe(args, TopicKind::Shard),
        C::Unsubscribe => pubsub::unsubscribe(front, args, TopicKind::Channel),
        C::Punsubscribe => pubsub::unsubscribe(front, args, TopicKind::Pattern),
        C::Sunsubscribe => pubsub::unsubscribe(front, args, TopicKind::Shard),
        C::Publish => pubsub::publish(front, args, ChannelKind::Plain),
        C::Spublish => pubsub::publish(front, args, ChannelKind::Shard),
        C::Pubsub => pubsub::pubsub(front, args),
        C::Script => script::script(front, args),
        C::Multi => transaction::multi(front),
        C::Exec => transaction::exec(front),
        C::Discard => transaction::discard(front),
        C::Watch => transaction::watch(front, args),
        C::Unwatch => transaction::unwatch(front),
        C::Data => data::run(front, spec, args),
        C::Hello => connection::hello(front, args),
        C::Auth => connection::auth(front, args),
        C::Select => connection::select(front, args),
        C::Ping => connection::ping(front, args),
        C::Echo => connection::echo(args),
        C::Quit => Ok(Action::Close(Reply::OK)),
        C::Reset => connection::reset(front),
        C::Client => client::client(front, args),
        C::Acl => acl::acl(front, args),
        C::Info => info::info(front, args),
        C::Config => config::config(front, args),
        C::Command => server::command(args),
        C::Slowlog => latency::slowlog(front, args),
        C::Latency => latency::latency(front, args),
        C::Monitor => Ok(Action::Monitor),
        C::Role => server::role(),
        C::Time => server::time(front),
        C::Wait => server::wait(args),
        C::ReadOnly | C::ReadWrite | C::Cluster => Err(error::NO_CLUSTER),
    }
}

/// An operation on `key` in the session's database.
fn operation(front: &Front, key: &[u8], kind: Kind) -> Operation {
    Operation { db: front.db, key: key.into(), kind }
}

/// Refuses a TTL beyond `--max-ttl`, with Redis's own words and the reason.
fn check_ttl(front: &Front, command: &str, asked_ms: i64) -> Result<(), Reply> {
    let Some(max_ttl) = front.worker.settings().max_ttl else { return Ok(()) };
    if u128::try_from(asked_ms).is_ok_and(|asked_ms| asked_ms > max_ttl.as_millis()) {
        let max_ttl = humantime::format_duration(max_ttl);
        return Err(Reply::error(format!(
            "ERR invalid expire time in '{command}' command: longer than --max-ttl {max_ttl}"
        )));
    }
    Ok(())
}
