//! `SCRIPT LOAD`: the proxy stores the text and answers; the data Redis receives it as well, if it is reachable.

use super::{is_in_transaction, may_send};
use crate::catalogue::table;
use crate::command::Action;
use crate::context::caller::Caller;
use crate::data::connection::Ready;
use crate::data::side::Side;
use crate::resp::requests::Args;

/// `SCRIPT LOAD` outside a transaction.
pub(super) fn load(caller: &Caller, side: &mut Side, args: Args<'_>) -> Option<Action> {
    let spec = table::lookup(args.at(0)).filter(|spec| spec.accepts(args.len()))?;
    if !may_send(caller, spec, args) || args.len() != 3 {
        return None;
    }
    side.upstream().notes().scripts().text(args.at(2));
    tell(caller, side, &[&args.to_request()])
}

/// `EXEC` of a transaction that does not run on the data Redis: its scripts may be called there afterwards.
pub(super) fn tell_data(caller: &Caller, side: &mut Side) -> Option<Action> {
    let transaction = caller.transaction.as_ref().filter(|it| !it.is_aborted())?;
    let loads: Vec<_> = transaction.loads().collect();
    if loads.is_empty() { None } else { tell(caller, side, &loads) }
}

fn tell(caller: &Caller, side: &mut Side, loads: &[&[u8]]) -> Option<Action> {
    if caller.outbox.in_flight() > 0 {
        return Some(Action::Later);
    }
    side.choose(caller.db, caller.outbox.protocol());
    match side.ready_if_there()? {
        Ready::Later => Some(Action::Later),
        Ready::Refused(_) => None,
        Ready::Now => {
            let connection = side.connection()?;
            loads.iter().for_each(|load| connection.say(load, 1));
            // In a transaction, the proxy shows monitors the commands that it runs.
            let is_alone = !is_in_transaction(caller, side);
            side.was_told = is_alone && caller.worker.registry().monitors().any();
            None
        }
    }
}
