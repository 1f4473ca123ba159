//! Commands that the table does not have, of later versions and of modules: where all masters know one, they run it.

use super::data::MAX_WORDS;
use super::{Action, error, table, transaction};
use crate::client::decoder::Args;
use crate::client::reply::{Protocol, Reply};
use crate::client::session::Front;
use crate::operation::aside::Aside;
use crate::operation::newer::Newer;
use crate::reserved::is_reserved;

/// Lets the masters say what a command is that is not in the table; `refused` is the reply if they do not know it.
pub(super) fn run(front: &mut Front, args: Args<'_>, refused: Reply) -> Action {
    if !may_be_served(front, args) {
        return transaction::refused(front, args, refused);
    }
    if args.iter().any(is_reserved) {
        return Action::Reply(error::RESERVED_NAME);
    }
    if front.waits_for_masters() {
        return Action::Later;
    }
    let text = front.worker.transactions().with(&[], None).program;
    let runner = front.worker.residents().runner_of(&text);
    Action::Aside(Box::new(Aside::Newer(Newer {
        db: front.db,
        words: args.iter().map(Into::into).collect(),
        protocol: front.outbox.protocol(),
        unknown: refused,
        text,
        runner,
    })))
}

/// What rules of a user, a transaction and a subscriber may say of it nobody knows.
fn may_be_served(front: &Front, args: Args<'_>) -> bool {
    let hears_only = front.has_subscriptions() && front.outbox.protocol() == Protocol::Resp2;
    let is_free = front.login.is_free() && front.transaction.is_none() && !hears_only;
    // Redis keeps subcommands under such names, and takes none for a command.
    let is_new = !table::known_to_redis(args.at(0)) && !args.at(0).contains(&b'|');
    is_free && is_new && front.worker.gate().is_none() && args.len() <= MAX_WORDS
}
