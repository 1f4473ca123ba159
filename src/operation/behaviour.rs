//! Common behaviour of all kinds of operations, with defaults shared by most of them.

use std::fmt::Debug;
use std::sync::Arc;

use auto_impl::auto_impl;
use enum_dispatch::enum_dispatch;

use super::lock_request::LockRequest;
use super::on_register::Instead;
use super::program::Message;
use super::register::Place;
use super::request::Form;
use super::{Asked, Next, Owed, Received, Rules, Sent};
use super::{
    channels, claim, delete, everywhere, extend, flush, load, memory_usage, multi_read, program,
    read, release, settle, verbatim_read, watch,
};
use crate::client::outbox::Order;
use crate::decision::lease::attempt::Tag;
use crate::decision::quorum::{MasterId, MasterSet, turn};
use crate::decision::register::ballot::Ballot;
use crate::lua::program::{ProgramText as Text, Tells};
use crate::metrics::QuestionKind;
use crate::names::slot::Share;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// The key of an operation, and the rules of its worker.
#[derive(Clone, Copy)]
pub struct On<'a> {
    /// Facts that decisions depend on.
    pub rules: &'a Rules,
    /// The database selected by the session.
    pub db: u32,
    /// The key.
    pub key: &'a [u8],
}

#[cfg(test)]
impl<'a> On<'a> {
    /// Returns an empty key.
    pub(super) fn for_tests(rules: &'a Rules) -> Self {
        Self { rules, db: 0, key: b"" }
    }
}

/// One kind of operation: a decision, joined with the bytes exchanged with masters and the client's reply.
///
/// The engine [sends](Behaviour::ask) requests to masters in rounds. It passes on their [answers](Behaviour::received)
/// and each [deadline](Behaviour::deadline), and carries out the resulting [`Next`]. All other methods have defaults
/// that fit an operation with a single request to a quorum.
#[auto_impl(Box)]
#[enum_dispatch]
pub trait Behaviour: Debug {
    /// Begins a round that is sent to `asked`.
    fn ask(&mut self, on: On<'_>, asked: Asked, now: Instant);

    /// Appends the request of the current round.
    fn encode(&self, on: On<'_>, form: Form, out: &mut Vec<u8>);

    /// Processes the answer of one master, or the loss of its link.
    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next;

    /// Processes the end of the current round's vote timeout or, with `is_last`, of the client's patience. An operation
    /// that waits for a quorum keeps waiting until `is_last`.
    fn deadline(&mut self, on: On<'_>, now: Instant, is_last: bool) -> Next;

    /// Returns which operations this one may overtake within its session.
    fn order(&self) -> Order;

    /// Returns the kind of question under which the operation is counted.
    fn question(&self) -> QuestionKind;

    /// Returns the client's intention for a lock.
    fn wish(&self) -> LockRequest {
        LockRequest::Look
    }

    /// Returns the current round, to which answers belong.
    fn round(&self) -> u8 {
        0
    }

    /// Returns how the round's request is sent.
    fn sent(&self) -> Sent {
        match self.parts() {
            0 => Sent::Alone,
            parts => Sent::Parts(parts),
        }
    }

    /// Returns how many of a master's replies precede the one that counts: those of the commands in a transaction.
    fn parts(&self) -> usize {
        0
    }

    /// Appends the request that this master received last in the current round.
    fn encode_for(&self, _master: MasterId, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        self.encode(on, form, out);
    }

    /// Returns the size of the request to masters, if it may be far larger than the client's.
    fn request_bytes(&self) -> usize {
        0
    }

    /// Whether the operation needs a quorum; otherwise any one master suffices.
    fn needs_quorum(&self) -> bool {
        true
    }

    /// Whether the operation waits for masters beyond a quorum.
    fn needs_all(&self) -> bool {
        false
    }

    /// Whether the operation is only worth doing if its client is still connected when its turn comes.
    fn needs_its_client(&self) -> bool {
        false
    }

    /// Whether to send the operation again to a master that could not take part, no matter which requests that master
    /// received since.
    fn must_arrive(&self) -> bool {
        false
    }

    /// Whether masters change nothing, so that later requests may be sent before they have answered.
    fn only_looks(&self) -> bool {
        false
    }

    /// Whether masters grant or release a lease without checking which flush that comes after.
    fn is_about_a_lease(&self) -> bool {
        false
    }

    /// Whether votes of earlier rounds count in the current one.
    fn builds_on_earlier_votes(&self) -> bool {
        false
    }

    /// Forgets the answers of masters that have gone out of the cluster since. Returns whether the operation can go on
    /// without them. Others begin again.
    fn forget(&mut self, _masters: MasterSet) -> bool {
        false
    }

    /// Stops counting the answers of a member that would count if others had not gone out of the cluster. Returns whether
    /// the operation wants them all the same, as those of a master without a vote.
    fn discount(&mut self, _master: MasterId) -> bool {
        false
    }

    /// Whether the client's command is counted elsewhere.
    fn is_only_a_part(&self) -> bool {
        false
    }

    /// Whether the session adds a part to the reply once the masters have answered.
    fn has_own_part(&self) -> bool {
        false
    }

    /// Whether the operation is rejected because it has too many keys.
    fn has_too_many_keys(&self) -> bool {
        false
    }

    /// Whether the operation has a key that is not in `share`, apart from that of [`super::Operation`].
    fn leaves(&self, _share: Share) -> bool {
        false
    }

    /// Returns how the operation takes its turn on its key, or `None` if it needs no turn.
    fn turn(&self) -> Option<turn::TurnKind> {
        None
    }

    /// Returns the token of a claim that its client may repeat until it is granted.
    fn polls_with(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the additional keys on which the operation takes turns, one after the other, each alone.
    fn turns(&self) -> &[u64] {
        &[]
    }

    /// Adds keys to those on which the operation takes turns. It holds no turns at this point, and restarts its round
    /// once it does.
    fn take_on(&mut self, _keys: Vec<u64>) {}

    /// Returns the operation's keys including new ones: those that its script has reached, or that were changed along
    /// with one of its keys.
    fn come_to(&self) -> &[Place] {
        &[]
    }

    /// Returns the keys of a program that waits before it is sent, because masters may yet confirm that they hold the
    /// state on which it runs.
    fn waits_for_holders(&mut self, _on: On<'_>) -> Option<&[Place]> {
        None
    }

    /// Returns the reply of another claim that shares the result of this turn.
    fn shared(&self, reply: &Reply) -> Reply {
        reply.clone()
    }

    /// Notes that a lease was granted or prolonged, but that its client must get its reply after others have theirs.
    fn untold(&mut self, _on: On<'_>, _now: Instant) -> Next {
        Next::WAIT
    }

    /// Returns the program to run on registers instead, if the key is no lease.
    fn instead(&self) -> Option<Instead<'_>> {
        None
    }

    /// Whether a master has already done its part.
    fn has_begun(&self) -> bool {
        false
    }

    /// Ends a program that continues because it has reached an undeclared key. Returns the reply.
    fn give_up_widening(&mut self) -> Option<Reply> {
        None
    }

    /// Returns the reply to send instead of this error, given what is known of the operation.
    fn as_known(&self, reply: Reply) -> Reply {
        reply
    }

    /// Whether a quorum has made a change that will not be taken back.
    fn has_changed(&self) -> bool {
        false
    }

    /// Returns the changed keys with their databases, now that the reply is known.
    fn changed_keys(&self, on: On<'_>) -> Vec<(u32, Vec<u8>)> {
        if self.has_changed() { vec![(on.db, on.key.to_vec())] } else { Vec::new() }
    }

    /// Returns the messages to publish, now that the reply is known.
    fn messages(&self) -> Vec<Message> {
        Vec::new()
    }

    /// Returns what onlookers are told, now that the client gets `reply`, besides these messages.
    fn told(&self, _on: On<'_>, _reply: &Reply, _tells: Tells) -> Vec<Message> {
        Vec::new()
    }

    /// Returns the token and tag of the lease that a quorum holds now, if this operation has granted or prolonged one.
    fn lease(&self) -> Option<(&[u8], Tag)> {
        None
    }

    /// Returns the value that a claim left in `round`, and when it expires by itself.
    fn value(&self, _rules: &Rules, _round: u8) -> Option<(Vec<u8>, Instant)> {
        None
    }

    /// Returns the part of a given-back lease that masters may have missed.
    fn owed(&self, _on: On<'_>) -> Option<Owed> {
        None
    }

    /// Returns registers that may differ on some masters, along with those masters. At this point none of the
    /// operation's requests is in flight.
    fn behind(&self) -> Option<(Vec<Place>, MasterSet)> {
        None
    }

    /// Returns the keys that all masters hold now, with the ballots of their acceptance, if their stamps are long.
    fn decided(&self) -> Option<Vec<(Place, Ballot)>> {
        None
    }

    /// Returns the program and keys for which masters gave different answers although they held the same state.
    fn differing(&self) -> Option<(Arc<Text>, Vec<Place>)> {
        None
    }
}

/// The kinds of operations, one file each. Claims are too frequent to be boxed, and all are dispatched by a jump table.
#[enum_dispatch(Behaviour)]
#[derive(Debug)]
pub enum Kind {
    /// Take a key that must not exist yet.
    Claim(claim::Claim),
    /// Give a key back by its token.
    Release(release::Release),
    /// Delete a key, whatever it holds.
    Delete(Box<delete::Delete>),
    /// Prolong a key by its token.
    Extend(extend::Extend),
    /// Read a key.
    Read(read::Read),
    /// Read several keys at one moment.
    Several(Box<multi_read::Several>),
    /// Count the keys of a database.
    Everywhere(Box<everywhere::Everywhere>),
    /// Empty a database, or all.
    Flush(Box<flush::Flush>),
    /// Run a script, a transaction, or a command of a composite type.
    Program(Box<program::Program>),
    /// Read from a composite type.
    Query(Box<verbatim_read::Query>),
    /// Remember a key's value.
    Watch(watch::Watch),
    /// Let a quorum agree on a key, then remember its value.
    Settling(Box<watch::Settling>),
    /// Check whether a script can be run.
    Load(load::Load),
    /// Measure the size of a key.
    Measure(memory_usage::Measure),
    /// Make all masters hold the same state.
    Settle(Box<settle::Settle>),
    /// Publish a message, or ask about subscribers.
    Channels(Box<channels::Channels>),
}
