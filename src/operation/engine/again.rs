//! Beginning again what was caught between two versions of the roster.
//!
//! When a member is put out or comes in, the marks of all are raised. Votes that were on their way meanwhile prove the
//! one version or the other, and never meet in one verdict. What changes nothing is asked again in the new
//! term; its client notices nothing. Claims see to that by themselves.

use std::rc::Rc;
use std::time::Duration;

use super::{Engine, OperationId};
use crate::client::reply::Reply;
use crate::clock;
use crate::operation::verdict;

/// How often one operation is begun again.
const MOST: u8 = 3;

/// How long a new term is waited for.
const LONGEST: Duration = Duration::from_millis(300);

/// How often it is looked whether there is one.
const LOOK: Duration = Duration::from_millis(2);

impl Engine {
    /// Begins again instead of giving this reply, if proofs were missing and nothing else is in the way.
    pub(super) fn begins_again(self: &Rc<Self>, id: OperationId, reply: &Reply) -> bool {
        let is_undecided = matches!(reply, Reply::Error(error) if verdict::is_undecided(error));
        let begun = self.with(id, |flight| {
            let may = is_undecided
                && flight.unproven
                && flight.begun_again < MOST
                && flight.target.is_some()
                && flight.operation.can_begin_again();
            may.then(|| {
                flight.unproven = false;
                flight.begun_again += 1;
                flight.pausing = true;
            })
        });
        if begun.flatten().is_none() {
            return false;
        }
        let engine = Rc::clone(self);
        let before = self.electorate.edition();
        tokio::task::spawn_local(async move {
            let deadline = clock::now() + LONGEST;
            while engine.electorate.edition() == before && clock::now() < deadline {
                tokio::time::sleep(LOOK).await;
            }
            engine.see(clock::now());
            engine.with(id, |flight| flight.pausing = false);
            engine.ask(id);
            engine.start_ready();
        });
        true
    }
}
