//! Commands that the table does not have, of later versions and of modules. If all masters know one, they run it.

use super::data::MAX_WORDS;
use super::{Action, transaction};
use crate::catalogue::reserved::is_reserved;
use crate::catalogue::{error, table};
use crate::context::caller::Caller;
use crate::engine::sequential::Aside;
use crate::engine::sequential::unknown_command::Newer;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::requests::Args;

/// Has the masters describe a command that is not in the table. `refused` is the reply if they do not know it either.
pub(super) fn run(caller: &mut Caller, args: Args<'_>, refused: Reply) -> Action {
    if !may_be_served(caller, args) {
        return transaction::refused(caller, args, refused);
    }
    if args.iter().any(is_reserved) {
        return Action::Reply(error::RESERVED_NAME);
    }
    if caller.waits_for_masters() {
        return Action::Later;
    }
    let text = caller.worker.transactions().with(&[], None).program;
    let runner = caller.worker.residents().runner_of(&text);
    Action::Aside(Box::new(Aside::Newer(Newer {
        db: caller.db,
        words: args.iter().map(Into::into).collect(),
        protocol: caller.outbox.protocol(),
        unknown: refused,
        text,
        runner,
    })))
}

/// Whether the command may be served. It is refused where the rules of a user, a transaction or a subscriber would
/// apply, because nothing is known of the command.
fn may_be_served(caller: &Caller, args: Args<'_>) -> bool {
    let hears_only = caller.has_subscriptions() && caller.outbox.protocol() == Protocol::Resp2;
    let is_free = caller.login.is_free() && caller.transaction.is_none() && !hears_only;
    // Redis names subcommands in this way, but accepts no such name as a command.
    let is_new = !table::known_to_redis(args.at(0)) && !args.at(0).contains(&b'|');
    is_free && is_new && caller.worker.gate().is_none() && args.len() <= MAX_WORDS
}
