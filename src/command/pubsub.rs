//! Messages: `SUBSCRIBE`, `PUBLISH`, `PUBSUB` and related commands.

use std::sync::Arc;

use bytes::Bytes;

use super::{Action, Outcome};
use crate::catalogue::channel::{ChannelKind, Topic, TopicKind};
use crate::catalogue::error;
use crate::catalogue::table::{self, Command, Spec};
use crate::context::caller::Caller;
use crate::context::subscriptions::SubscriptionChange;
use crate::engine::sequential::Aside;
use crate::engine::sequential::numsub::{self, NumSub};
use crate::names::lock_names::{Home, LockNames};
use crate::operation::channels::{Channels, What};
use crate::operation::{Kind, Operation};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::requests::Args;

/// `SUBSCRIBE`, `PSUBSCRIBE`, `SSUBSCRIBE`
pub(super) fn subscribe(args: Args<'_>, kind: TopicKind) -> Outcome {
    Ok(Action::Subscribe(topics(args, kind)))
}

/// `UNSUBSCRIBE`, `PUNSUBSCRIBE`, `SUNSUBSCRIBE`: leaves all topics if none is named.
pub(super) fn unsubscribe(caller: &mut Caller, args: Args<'_>, kind: TopicKind) -> Outcome {
    Ok(Action::Unsubscribe(kind, topics_to_leave(caller, args, kind)))
}

fn topics_to_leave(caller: &mut Caller, args: Args<'_>, kind: TopicKind) -> Vec<Topic> {
    if args.len() > 1 {
        return topics(args, kind);
    }
    let subscriber = caller.subscriber();
    let mut topics = subscriber.topics_of(kind);
    if kind != TopicKind::Pattern {
        topics.extend(subscriber.elsewhere_of(kind));
    }
    topics
}

/// Whether a request for subscriptions involves any on the data Redis. Returns `None` for any other request.
pub(super) fn needs_data(
    caller: &mut Caller,
    locks: &LockNames,
    spec: &Spec,
    args: Args<'_>,
) -> Option<bool> {
    use Command as C;
    let (change, kind) = match spec.id {
        C::Subscribe => (SubscriptionChange::Join, TopicKind::Channel),
        C::Psubscribe => (SubscriptionChange::Join, TopicKind::Pattern),
        C::Ssubscribe => (SubscriptionChange::Join, TopicKind::Shard),
        C::Unsubscribe => (SubscriptionChange::Leave, TopicKind::Channel),
        C::Punsubscribe => (SubscriptionChange::Leave, TopicKind::Pattern),
        C::Sunsubscribe => (SubscriptionChange::Leave, TopicKind::Shard),
        _ => return None,
    };
    let topics = match change {
        SubscriptionChange::Join => topics(args, kind),
        SubscriptionChange::Leave => topics_to_leave(caller, args, kind),
    };
    let is_there = |topic: &Topic| caller.home_of(locks, change, topic) != Home::Masters;
    Some(topics.iter().any(is_there))
}

fn topics(args: Args<'_>, kind: TopicKind) -> Vec<Topic> {
    let topic = |name| Topic { kind, name: Bytes::copy_from_slice(name) };
    args.from(1).iter().map(topic).collect()
}

/// `PUBLISH`, `SPUBLISH`. The stamp and the subscribers are those of the moment when nothing holds the message.
pub(super) fn publish(caller: &mut Caller, args: Args<'_>, kind: ChannelKind) -> Outcome {
    let (channel, message) = (args.at(1), args.at(2));
    if caller.holds_message(kind, channel) {
        return Ok(Action::Later);
    }
    let ours = caller.worker.registry().audience().of_message(kind, channel);
    Ok(Action::Start(caller.worker.engine().publication(kind, channel, message, ours)))
}

/// `PUBSUB ...`
pub(super) fn pubsub(caller: &Caller, args: Args<'_>) -> Outcome {
    use ChannelKind::{Plain, Shard};
    let subcommand = args.at(1).to_ascii_lowercase();
    match (&subcommand[..], args.len()) {
        (b"channels", 2..=3) => Ok(list(args, Plain)),
        (b"shardchannels", 2..=3) => Ok(list(args, Shard)),
        (b"channels" | b"shardchannels", _) => Err(error::subcommand_syntax("PUBSUB", args.at(1))),
        (b"numsub", _) => Ok(subscribers(caller, args, Plain)),
        (b"shardnumsub", _) => Ok(subscribers(caller, args, Shard)),
        (b"numpat", 2) => Ok(ask(What::Patterns)),
        (b"numpat", _) => Err(error::wrong_arity("pubsub|numpat")),
        _ => Err(error::unknown_subcommand("PUBSUB", args.at(1))),
    }
}

fn list(args: Args<'_>, kind: ChannelKind) -> Action {
    let pattern = args.get(2).map(Bytes::copy_from_slice);
    ask(What::List { kind, pattern })
}

fn subscribers(caller: &Caller, args: Args<'_>, kind: ChannelKind) -> Action {
    let registry = caller.worker.registry();
    let channels = args.from(2);
    if channels.len() > numsub::AT_ONCE {
        let (mut names, mut ends) = (Vec::new(), Vec::with_capacity(channels.len()));
        for name in channels.iter() {
            names.extend_from_slice(name);
            ends.push(names.len());
        }
        let (names, registry) = (names.into(), Arc::clone(registry));
        let listeners = NumSub { kind, names, ends, registry };
        return Action::Aside(Box::new(Aside::Listeners(listeners)));
    }
    let audience = registry.audience();
    let channels = channels.iter().map(|name| {
        let name = Bytes::copy_from_slice(name);
        let ours = audience.of(&kind.topic(name.clone()));
        (name, ours)
    });
    ask(What::Subscribers { kind, channels: channels.collect() })
}

fn ask(what: What) -> Action {
    let kind = Kind::Channels(Box::new(Channels::new(what)));
    Action::Start(Operation { db: 0, key: Box::default(), kind })
}

/// Returns the error for any other command of a client that has subscribed in RESP2, where replies and messages cannot
/// be told apart (`server.c`, `processCommand`).
pub(super) fn refuse_to_subscriber(caller: &Caller, spec: &Spec, args: Args<'_>) -> Option<Reply> {
    let allowed = caller.outbox.protocol() == Protocol::Resp3 || is_for_subscribers(spec.id);
    if allowed || !caller.has_subscriptions() {
        return None;
    }
    let mut name = spec.name.to_owned();
    if spec.is_container && args.len() > 1 {
        name = format!("{name}|{}", String::from_utf8_lossy(args.at(1)).to_ascii_lowercase());
    }
    Some(error::only_for_subscribers(&name))
}

/// Returns the same error for a command that the data Redis would run.
pub(super) fn refuse_other_to_subscriber(caller: &Caller, args: Args<'_>) -> Option<Reply> {
    if !caller.has_subscriptions() {
        return None;
    }
    match table::lookup(args.at(0)) {
        Some(spec) => refuse_to_subscriber(caller, spec, args),
        None if caller.outbox.protocol() == Protocol::Resp3 => None,
        None => {
            let name = String::from_utf8_lossy(args.at(0)).to_ascii_lowercase();
            Some(error::only_for_subscribers(&name))
        }
    }
}

fn is_for_subscribers(command: Command) -> bool {
    use Command as C;
    matches!(
        command,
        C::Subscribe
            | C::Psubscribe
            | C::Ssubscribe
            | C::Unsubscribe
            | C::Punsubscribe
            | C::Sunsubscribe
            | C::Ping
            | C::Quit
            | C::Reset
    )
}
