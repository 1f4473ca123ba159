//! Routing of requests to the data Redis instead of the masters (`--data`).
//!
//! A request goes where its keys are. A request with keys of both kinds is refused, and so is such a transaction:
//! nothing could run them together.

pub(super) mod destination;
mod loading;
mod notice;
mod short;

use super::{Action, permission, pubsub};
use crate::catalogue::{error, table, words};
use crate::client::outbox::{Order, Ticket};
use crate::context::caller::Caller;
use crate::data::connection::Ready;
use crate::data::side::{DataTransaction, Side};
use crate::operation::request;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::requests::Args;
use crate::resp::word::is;
use destination::Destination;

/// Returns the action for a request to the data Redis, or `None` if the request is for the proxy or the masters.
pub(super) fn elsewhere(caller: &mut Caller, args: Args<'_>) -> Option<Action> {
    if caller.side.is_none() || !caller.login.is_authenticated() {
        return None;
    }
    let is_choosing = caller.side.as_ref().is_some_and(|side| side.is_choosing());
    if caller.waits_for_masters() || is_choosing || waits_for_data(caller, args) {
        return Some(Action::Later);
    }
    // Taken out, so that both can be changed.
    let mut side = caller.side.take()?;
    side.words = args.len();
    let action = decide(caller, &mut side, args);
    caller.side = Some(side);
    action
}

/// Whether the request has to wait for earlier ones: it changes the state of the connection.
fn waits_for_data(caller: &Caller, args: Args<'_>) -> bool {
    caller.outbox.has_passed() && matches!(word(args), Word::Reset | Word::Hello | Word::Connection)
}

/// Returns the action for a long request of `words` words, of which only the first have arrived. Returns `None` if the
/// whole request is needed first. A reply means that the data Redis has refused the client.
pub(crate) fn beginning(caller: &mut Caller, args: Args<'_>, words: usize) -> Option<Action> {
    let mut side = caller.side.take()?;
    side.want_own();
    side.was_refused = false;
    side.words = words;
    let locks = &side.upstream().settings().locks;
    let to =
        Destination::of_beginning(locks, args, words).filter(|_| caller.login.is_authenticated());
    let action = match to {
        Some(_) if caller.waits_for_masters() || side.is_choosing() => Some(Action::Later),
        Some(to) => {
            side.upstream().notes().traffic();
            go(caller, &mut side, to, args)
        }
        None => None,
    };
    let was_refused = side.was_refused;
    caller.side = Some(side);
    // The end of the request is not known yet, so no other answer is final.
    action.filter(|action| match action {
        Action::Pass(_) | Action::Later => true,
        Action::Reply(_) => was_refused,
        _ => false,
    })
}

fn decide(caller: &mut Caller, side: &mut Side, args: Args<'_>) -> Option<Action> {
    let to = Destination::of(&side.upstream().settings().locks, args);
    let action = go(caller, side, to, args);
    notice::of(side.upstream().notes(), caller.command, to, args, action.as_ref());
    action
}

fn go(caller: &mut Caller, side: &mut Side, to: Destination<'_>, args: Args<'_>) -> Option<Action> {
    caller.command =
        table::lookup(args.at(0)).map_or(crate::catalogue::table::NO_COMMAND, |spec| spec.place);
    match (word(args), to) {
        (Word::Subscriptions, _) if !is_in_transaction(caller, side) => listen(caller, side, args),
        (Word::ScriptLoad, _) if !is_in_transaction(caller, side) => {
            loading::load(caller, side, args)
        }
        (Word::Monitor, _) if !is_in_transaction(caller, side) => watch_all(caller, side, args),
        (Word::Hello, _) if !is_in_transaction(caller, side) => greet(caller, side, args),
        (Word::Reset, _) => {
            side.reset();
            None
        }
        (_, Destination::Both { lock, data }) => {
            Some(refuse(caller, side, error::lock_and_data(lock, data)))
        }
        (word, to) if caller.transaction.is_some() => queued(caller, side, word, to, args),
        (word, to) if matches!(side.transaction, DataTransaction::Data { .. }) => {
            in_transaction(caller, side, word, to, args)
        }
        (Word::Multi, _) => multi(caller, side, args),
        (Word::Watch, to) => watch(caller, side, to, args),
        (Word::Unwatch, _) if side.watched.is_some() => {
            pass(caller, side, args).inspect(|action| {
                if matches!(action, Action::Pass(_)) {
                    side.watched = None;
                    caller.watched.clear();
                }
            })
        }
        (_, Destination::Data(_)) => pass(caller, side, args),
        (_, Destination::Proxy | Destination::Locks(_)) => None,
    }
}

/// The commands that begin and end transactions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Select,
    Reset,
    Quit,
    /// `SUBSCRIBE`, `UNSUBSCRIBE` and their variants.
    Subscriptions,
    Monitor,
    ScriptLoad,
    Hello,
    /// Commands that change the connection itself, and cannot be queued on the data Redis.
    Connection,
    Other,
}

fn word(args: Args<'_>) -> Word {
    use table::Command as C;
    match table::lookup(args.at(0)) {
        // `EXEC` ends the transaction even if its arguments are wrong.
        Some(spec) if spec.id == C::Exec => Word::Exec,
        Some(spec) if spec.accepts(args.len()) => word_of(spec, args),
        _ => Word::Other,
    }
}

fn word_of(spec: &table::Spec, args: Args<'_>) -> Word {
    use table::Command as C;
    match spec.id {
        C::Multi => Word::Multi,
        C::Discard => Word::Discard,
        C::Watch => Word::Watch,
        C::Unwatch => Word::Unwatch,
        C::Reset => Word::Reset,
        C::Quit => Word::Quit,
        C::Select => Word::Select,
        C::Hello => Word::Hello,
        C::Auth => Word::Connection,
        C::Client if is(args.at(1), &CHANGES_OF_CLIENT) => Word::Connection,
        C::Script if args.get(1).is_some_and(|word| is(word, &["load"])) => Word::ScriptLoad,
        C::Monitor => Word::Monitor,
        C::Subscribe | C::Psubscribe | C::Ssubscribe => Word::Subscriptions,
        C::Unsubscribe | C::Punsubscribe | C::Sunsubscribe => Word::Subscriptions,
        _ => Word::Other,
    }
}

/// Subcommands of `CLIENT` that change both the proxy and the data Redis.
const CHANGES_OF_CLIENT: [&str; 4] = ["reply", "setname", "no-evict", "no-touch"];

fn is_in_transaction(caller: &Caller, side: &Side) -> bool {
    caller.transaction.is_some() || matches!(side.transaction, DataTransaction::Data { .. })
}

/// Handles a change of subscriptions. The proxy answers it, and subscribes on the data Redis if some of the topics are
/// heard there.
fn listen(caller: &mut Caller, side: &mut Side, args: Args<'_>) -> Option<Action> {
    let spec = table::lookup(args.at(0)).filter(|spec| spec.accepts(args.len()))?;
    let locks = &side.upstream().settings().locks;
    let needs_data = pubsub::needs_data(caller, locks, spec, args) == Some(true);
    if needs_data { be_ready(caller, side, Side::ready) } else { None }
}

/// `HELLO`: the data Redis must use the new form of messages exactly from the proxy's answer on, so it switches first.
/// If the client hears nothing there, that can wait until the next request.
fn greet(caller: &Caller, side: &mut Side, args: Args<'_>) -> Option<Action> {
    let protocol = match (args.len(), args.get(1)) {
        (2, Some(b"2")) => Protocol::Resp2,
        (2, Some(b"3")) => Protocol::Resp3,
        _ => return None,
    };
    // The lines of `MONITOR` have the same form in both protocols, and no answer could be told apart from them.
    let is_heard = side.hears() && !caller.client.is_monitor();
    if protocol == caller.outbox.protocol() || !is_heard {
        return None;
    }
    if caller.outbox.in_flight() > 0 {
        return Some(Action::Later);
    }
    side.choose(caller.db, protocol);
    match side.ready_to_change() {
        Ready::Later => Some(Action::Later),
        Ready::Now | Ready::Refused(_) => None,
    }
}

/// `MONITOR`: the proxy shows the requests that it handles itself, and the data Redis shows all others.
fn watch_all(caller: &Caller, side: &mut Side, args: Args<'_>) -> Option<Action> {
    let spec = table::lookup(args.at(0)).filter(|spec| spec.accepts(args.len()))?;
    if !may_send(caller, spec, args) {
        return None;
    }
    be_ready(caller, side, Side::ready_to_watch)
}

fn may_send(caller: &Caller, spec: &table::Spec, args: Args<'_>) -> bool {
    caller.login.is_free() || permission::check(&caller.login, spec, args).is_ok()
}

/// Prepares a connection to the data Redis. Returns `None` once it is ready.
fn be_ready(caller: &Caller, side: &mut Side, ready: fn(&mut Side) -> Ready) -> Option<Action> {
    if side.is_barred() {
        return Some(Action::Reply(error::nobody_on_data(caller.login.user().name())));
    }
    if caller.outbox.in_flight() > 0 {
        return Some(Action::Later);
    }
    side.choose(caller.db, caller.outbox.protocol());
    match ready(side) {
        Ready::Now => None,
        Ready::Later => Some(Action::Later),
        Ready::Refused(why) => Some(Action::Reply(Reply::error(why))),
    }
}

/// `MULTI`: the transaction runs where the watched keys are, or else where its first key is.
fn multi(caller: &Caller, side: &mut Side, args: Args<'_>) -> Option<Action> {
    if let Some(key) = side.watched.clone() {
        let action = pass(caller, side, args)?;
        if matches!(action, Action::Pass(_)) {
            side.transaction = DataTransaction::Data { key, is_refused: false, selects: false };
        }
        return Some(action);
    }
    side.transaction = match caller.watched.first() {
        Some(watched) => DataTransaction::Locks(watched.key.clone()),
        None => {
            DataTransaction::Undecided { requests: Vec::new(), count: 0, bar: None, selects: false }
        }
    };
    None
}

/// `WATCH`: all keys that a client watches must be of one kind.
fn watch(caller: &Caller, side: &mut Side, to: Destination<'_>, args: Args<'_>) -> Option<Action> {
    match to {
        Destination::Data(Some(key)) => {
            if let Some(lock) = caller.watched.first() {
                return Some(Action::Reply(error::lock_and_data(&lock.key, key)));
            }
            let action = pass(caller, side, args)?;
            if matches!(action, Action::Pass(_)) {
                side.watched.get_or_insert_with(|| key.into());
            }
            Some(action)
        }
        Destination::Locks(lock) => {
            let data = side.watched.as_deref()?;
            Some(Action::Reply(error::lock_and_data(lock, data)))
        }
        _ => None,
    }
}

/// Queues a command of a transaction that runs on the masters, or that is not routed yet.
fn queued(
    caller: &mut Caller,
    side: &mut Side,
    word: Word,
    to: Destination<'_>,
    args: Args<'_>,
) -> Option<Action> {
    if word == Word::Exec
        && let Some(action) = loading::tell_data(caller, side)
    {
        return Some(action);
    }
    if matches!(word, Word::Exec | Word::Discard) {
        side.transaction = DataTransaction::None;
        return None;
    }
    match (&mut side.transaction, to) {
        (DataTransaction::Undecided { .. }, Destination::Data(key)) => {
            move_to_data(caller, side, key.unwrap_or_else(|| args.at(0)), args)
        }
        (DataTransaction::Undecided { .. }, Destination::Locks(key)) => {
            side.transaction = DataTransaction::Locks(key.into());
            None
        }
        (DataTransaction::Undecided { requests, count, bar, selects }, _) => {
            request::encode(requests, &args.iter().collect::<Vec<_>>());
            *count += 1;
            if matches!(word, Word::Connection | Word::Hello) {
                *bar = Some(name_of(args).into());
            }
            *selects |= word == Word::Select;
            None
        }
        (DataTransaction::Locks(lock), Destination::Data(data)) => {
            let refused = error::lock_and_data(lock, data.unwrap_or_else(|| args.at(0)));
            Some(refuse(caller, side, refused))
        }
        _ => None,
    }
}

/// Moves a transaction to the data Redis, once a key is found to be data. The queued commands are repeated there.
fn move_to_data(
    caller: &mut Caller,
    side: &mut Side,
    key: &[u8],
    args: Args<'_>,
) -> Option<Action> {
    if let DataTransaction::Undecided { bar: Some(name), .. } = &side.transaction {
        let refused = error::not_in_multi(name);
        return Some(refuse(caller, side, refused));
    }
    let ticket = match pass(caller, side, args)? {
        Action::Pass(ticket) => ticket,
        Action::Reply(refused) => return Some(refuse(caller, side, refused)),
        other => return Some(other),
    };
    let is_refused = caller.transaction.as_ref().is_some_and(|it| it.is_aborted());
    let selects = matches!(&side.transaction, DataTransaction::Undecided { selects: true, .. });
    let begun = DataTransaction::Data { key: key.into(), is_refused, selects };
    let before = std::mem::replace(&mut side.transaction, begun);
    caller.transaction = None;
    if let (DataTransaction::Undecided { requests, count, .. }, Some(connection)) =
        (before, side.connection())
    {
        connection.say(b"*1\r\n$5\r\nMULTI\r\n", 1);
        connection.say(&requests, count);
    }
    Some(Action::Pass(ticket))
}

/// Handles a command in a transaction that runs on the data Redis.
fn in_transaction(
    caller: &mut Caller,
    side: &mut Side,
    word: Word,
    to: Destination<'_>,
    args: Args<'_>,
) -> Option<Action> {
    let DataTransaction::Data { key, is_refused, selects } = &mut side.transaction else {
        return None;
    };
    *selects |= word == Word::Select;
    let (is_refused, selects) = (*is_refused, *selects);
    match (word, to) {
        (Word::Quit, _) => None,
        (Word::Connection | Word::Hello | Word::Subscriptions | Word::Monitor, _) => {
            let not_here = || error::not_in_multi(&name_of(args));
            let refused = malformed(args, args.len()).unwrap_or_else(not_here);
            Some(refuse(caller, side, refused))
        }
        (_, Destination::Locks(lock)) => {
            let refused = error::lock_and_data(lock, key);
            Some(refuse(caller, side, refused))
        }
        (Word::Exec, _) => exec_data(caller, side, args, is_refused, selects),
        _ => match pass(caller, side, args)? {
            Action::Reply(refused) => Some(refuse(caller, side, refused)),
            Action::Pass(ticket) if word == Word::Discard => {
                (side.transaction, side.watched) = (DataTransaction::None, None);
                Some(Action::Pass(ticket))
            }
            action => Some(action),
        },
    }
}

/// `EXEC` of data. The data Redis discards its queue if any command was refused, or if `EXEC` itself is: its arguments
/// are checked first (`rejectCommand`).
fn exec_data(
    caller: &mut Caller,
    side: &mut Side,
    args: Args<'_>,
    is_refused: bool,
    selects: bool,
) -> Option<Action> {
    let malformed = malformed(args, side.words).map(Action::Reply);
    let action = match malformed.or_else(|| pass(caller, side, args))? {
        Action::Pass(ticket) if !is_refused => {
            side.has_selected = selects;
            Action::Pass(ticket)
        }
        Action::Later => return Some(Action::Later),
        refused => {
            if let Some(connection) = side.connection() {
                connection.say(b"*1\r\n$7\r\nDISCARD\r\n", 1);
            }
            Action::Reply(match refused {
                Action::Reply(Reply::Error(why)) => error::exec_aborted_by(&why),
                _ => error::EXEC_ABORT,
            })
        }
    };
    (side.transaction, side.watched) = (DataTransaction::None, None);
    Some(action)
}

fn name_of(args: Args<'_>) -> String {
    String::from_utf8_lossy(args.at(0)).to_ascii_lowercase()
}

/// Returns the reply to a malformed request of this many words. Redis makes this check before any other.
fn malformed(args: Args<'_>, words: usize) -> Option<Reply> {
    let spec = table::lookup(args.at(0))?;
    if !spec.accepts(words) {
        return Some(error::wrong_arity(spec.name));
    }
    permission::entry(spec, args).err().filter(|_| spec.is_container)
}

/// Refuses a command that cannot be queued. The queue must not run then.
fn refuse(caller: &mut Caller, side: &mut Side, refused: Reply) -> Action {
    if let Some(transaction) = &mut caller.transaction {
        transaction.abort();
    }
    if let DataTransaction::Data { is_refused, .. } = &mut side.transaction {
        *is_refused = true;
    }
    Action::Reply(refused)
}

/// Translates `INFO data ...` to `INFO ...` of the data Redis. Returns `None` for requests that are passed on as they
/// are.
pub(crate) fn in_words_of_data(args: Args<'_>) -> Option<Vec<u8>> {
    let is_info = args.at(0).eq_ignore_ascii_case(b"info")
        && args.get(1).is_some_and(|word| is(word, &["data"]));
    is_info.then(|| {
        let mut request = Vec::new();
        let words: Vec<_> = args.from(0).iter().take(1).chain(args.from(2).iter()).collect();
        request::encode(&mut request, &words);
        request
    })
}

/// Passes the request on as it is, once that is possible.
fn pass(caller: &Caller, side: &mut Side, args: Args<'_>) -> Option<Action> {
    if let Some(refused) = refused_elsewhere(caller, side, args) {
        return Some(Action::Reply(refused));
    }
    let ticket = Ticket { key: 0, order: Order::Passed, bytes: 0, command: caller.command };
    if caller.outbox.is_busy(&ticket) {
        return Some(Action::Later);
    }
    // The request would overtake those in flight if it went over the client's own connection.
    if caller.outbox.in_flight() > 0 && side.has_shared() {
        side.want_own();
        return Some(Action::Later);
    }
    side.choose(caller.db, caller.outbox.protocol());
    if let Some(is_read) = short::is_read(caller.command, args).filter(|_| side.may_share()) {
        return Some(Action::Share { ticket, is_read });
    }
    match side.ready() {
        Ready::Now => {}
        Ready::Later => return Some(Action::Later),
        Ready::Refused(why) if is_for_trouble(args) && side.may_pass_regardless(&why) => {}
        Ready::Refused(why) => return Some(Action::Reply(Reply::error(why))),
    }
    if is_tracking(args) {
        side.is_told = true;
        side.is_tracking = is(args.at(2), &["on"]);
    }
    if is(args.at(0), &["wait", "waitaof"]) && !is_in_transaction(caller, side) {
        side.catch_up();
    }
    Some(Action::Pass(ticket))
}

/// Whether Redis runs the command even while it is busy or loading, for troubleshooting. Such a command concerns no
/// database.
fn is_for_trouble(args: Args<'_>) -> bool {
    let subcommand = args.get(1).unwrap_or_default();
    match &args.at(0).to_ascii_lowercase()[..] {
        b"info" | b"shutdown" => true,
        b"function" => is(subcommand, &["kill", "stats"]),
        b"script" => is(subcommand, &["kill"]),
        _ => false,
    }
}

/// Returns the reply to a request that must not reach the data Redis.
fn refused_elsewhere(caller: &Caller, side: &Side, args: Args<'_>) -> Option<Reply> {
    let may_be_refused = !caller.login.is_free() || caller.has_subscriptions();
    if may_be_refused && let Some(refused) = malformed(args, side.words) {
        return Some(refused);
    }
    if !caller.login.is_free()
        && let Err(denied) = permission::check_elsewhere(&caller.login, args)
    {
        return Some(denied.reply());
    }
    if side.is_barred() {
        return Some(error::nobody_on_data(caller.login.user().name()));
    }
    if let Err(refused) = words::check_elsewhere(args) {
        return Some(refused);
    }
    if let Some(refused) = pubsub::refuse_other_to_subscriber(caller, args) {
        return Some(refused);
    }
    if is_tracking(args) && args.from(2).iter().any(|word| is(word, &["redirect"])) {
        return Some(error::NO_REDIRECT);
    }
    None
}

/// Whether this is `CLIENT TRACKING`, which causes messages that the client has not subscribed to.
fn is_tracking(args: Args<'_>) -> bool {
    let [name, subcommand] = [0, 1].map(|at| args.get(at).unwrap_or_default());
    name.eq_ignore_ascii_case(b"client") && subcommand.eq_ignore_ascii_case(b"tracking")
}
