//! The behaviour of the kinds of operations, most of which share most of it.

use std::fmt::Debug;
use std::sync::Arc;

use super::lock_request::LockRequest;
use super::on_register::Instead;
use super::program::Message;
use super::register::Place;
use super::request::Form;
use super::{Asked, Next, Owed, Received, Rules, Sent};
use crate::client::outbox::Order;
use crate::decision::lease::attempt::Tag;
use crate::decision::quorum::{MasterId, MasterSet, turn};
use crate::decision::register::ballot::Ballot;
use crate::lua::program::ProgramText as Text;
use crate::metrics::QuestionKind;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// The key that an operation is about, and the rules of its worker.
#[derive(Clone, Copy)]
pub struct On<'a> {
    /// What decisions need to know.
    pub rules: &'a Rules,
    /// The database that the session has selected.
    pub db: u32,
    /// The key.
    pub key: &'a [u8],
}

#[cfg(test)]
impl<'a> On<'a> {
    /// A key without a name.
    pub(super) fn for_tests(rules: &'a Rules) -> Self {
        Self { rules, db: 0, key: b"" }
    }
}

/// One kind of operation: a decision, joined with the bytes that masters exchange and the reply of the client.
///
/// The engine [asks](Behaviour::ask) masters in rounds, passes on what they [answer](Behaviour::received) and that a
/// [deadline](Behaviour::deadline) has passed, and does the [`Next`] that comes of it. Everything else has a default that
/// is right for an operation that only asks a quorum something.
pub trait Behaviour: Debug {
    /// Begins a round that is sent to `asked`.
    fn ask(&mut self, on: On<'_>, asked: Asked, now: Instant);

    /// Appends the request of the current round.
    fn encode(&self, on: On<'_>, form: Form, out: &mut Vec<u8>);

    /// Takes the answer of one master, or the loss of its link.
    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next;

    /// Takes the end of the vote timeout of the current round, or, with `is_last`, of the client's patience. An operation
    /// that waits for a quorum goes on waiting until then.
    fn deadline(&mut self, on: On<'_>, now: Instant, is_last: bool) -> Next;

    /// Returns what this operation may overtake within its session.
    fn order(&self) -> Order;

    /// Returns the kind of question under which it is counted.
    fn question(&self) -> QuestionKind;

    /// Returns what its client wants of a lock.
    fn wish(&self) -> LockRequest {
        LockRequest::Look
    }

    /// Returns the round that answers belong to now.
    fn round(&self) -> u8 {
        0
    }

    /// Returns how its round is sent.
    fn sent(&self) -> Sent {
        match self.parts() {
            0 => Sent::Alone,
            parts => Sent::Parts(parts),
        }
    }

    /// Returns the number of a master's replies before the one that counts: those of the commands in a transaction.
    fn parts(&self) -> usize {
        0
    }

    /// Appends the request that this master got last in the current round.
    fn encode_for(&self, _: MasterId, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        self.encode(on, form, out);
    }

    /// Returns the size of what masters are asked, if that may be far more than the client's request.
    fn request_bytes(&self) -> usize {
        0
    }

    /// Whether it takes a quorum; otherwise any master will do.
    fn needs_quorum(&self) -> bool {
        true
    }

    /// Whether it waits for masters that no quorum needs.
    fn needs_all(&self) -> bool {
        false
    }

    /// Whether it is only worth doing for a client that is still there when its turn comes.
    fn needs_its_client(&self) -> bool {
        false
    }

    /// Whether a master that could not take part has to be told again, whatever was sent to it since.
    fn must_arrive(&self) -> bool {
        false
    }

    /// Whether masters change nothing, so that what comes after it may be sent before they have answered.
    fn only_looks(&self) -> bool {
        false
    }

    /// Whether masters give or take a lease, and do not look at which flush they do that after.
    fn is_about_a_lease(&self) -> bool {
        false
    }

    /// Whether what masters did in earlier rounds counts in the present one.
    fn builds_on_earlier_votes(&self) -> bool {
        false
    }

    /// Whether the client's command is counted elsewhere.
    fn is_only_a_part(&self) -> bool {
        false
    }

    /// Whether a part of its reply is made in its session when the masters have answered.
    fn has_own_part(&self) -> bool {
        false
    }

    /// Whether it is refused for the number of its keys.
    fn has_too_many_keys(&self) -> bool {
        false
    }

    /// Returns how it takes its turn on its key, or `None` if it needs none.
    fn turn(&self) -> Option<turn::TurnKind> {
        None
    }

    /// Returns the keys whose turns it takes beside its own, one after the other, each alone.
    fn turns(&self) -> &[u64] {
        &[]
    }

    /// Adds to the keys whose turns it takes. It holds none of them now, and begins its round anew once it does.
    fn take_on(&mut self, _keys: Vec<u64>) {}

    /// Returns the keys that it has come to, among others: its script has, or one of them was changed along with them.
    fn come_to(&self) -> &[Place] {
        &[]
    }

    /// Returns the keys of a program that waits before it is sent, as masters may still say that they hold what it is to
    /// run on.
    fn waits_for_holders(&mut self, _: On<'_>) -> Option<&[Place]> {
        None
    }

    /// Returns the reply of another claim that shares the result of this turn.
    fn shared(&self, reply: &Reply) -> Reply {
        reply.clone()
    }

    /// Takes note that a lease was granted or prolonged, and its client cannot be told before others have their replies.
    fn untold(&mut self, _: On<'_>, _now: Instant) -> Next {
        Next::WAIT
    }

    /// Returns what runs on registers instead, if the key is no lease.
    fn instead(&self) -> Option<Instead<'_>> {
        None
    }

    /// Whether a master has already done its part.
    fn has_begun(&self) -> bool {
        false
    }

    /// Ends a program that goes on as it came to a key that it has not declared. Returns the reply.
    fn give_up_widening(&mut self) -> Option<Reply> {
        None
    }

    /// Returns the reply instead of this error, by what is known of the operation.
    fn as_known(&self, reply: Reply) -> Reply {
        reply
    }

    /// Whether a quorum has changed something, and nothing of that will be taken back.
    fn has_changed(&self) -> bool {
        false
    }

    /// Returns the changed keys with their databases, now that the reply is known.
    fn changed_keys(&self, on: On<'_>) -> Vec<(u32, Vec<u8>)> {
        if self.has_changed() { vec![(on.db, on.key.to_vec())] } else { Vec::new() }
    }

    /// Returns what is to be published now that the reply is known.
    fn messages(&self) -> Vec<Message> {
        Vec::new()
    }

    /// Returns the lease that a quorum holds now, if this has granted or prolonged one: its token and its tag.
    fn lease(&self) -> Option<(&[u8], Tag)> {
        None
    }

    /// Returns the value that a claim has left in `round`, and when it expires by itself.
    fn value(&self, _: &Rules, _round: u8) -> Option<(Vec<u8>, Instant)> {
        None
    }

    /// Returns what masters may have missed of a lease that was given back.
    fn owed(&self, _: On<'_>) -> Option<Owed> {
        None
    }

    /// Returns registers of which some masters may not hold what the others do, and those masters, once nothing of it is
    /// on its way.
    fn behind(&self) -> Option<(Vec<Place>, MasterSet)> {
        None
    }

    /// Returns what all masters hold now, if their stamps are long: keys, and the ballots that it was accepted under.
    fn decided(&self) -> Option<Vec<(Place, Ballot)>> {
        None
    }

    /// Returns what masters have answered differently although they held the same.
    fn differing(&self) -> Option<(Arc<Text>, Vec<Place>)> {
        None
    }
}
