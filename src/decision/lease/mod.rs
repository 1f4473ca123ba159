//! Leases: locks with a TTL, acquired and released by a quorum of votes.
//!
//! `SET key token NX PX ttl` (Redlock's acquire) takes a lease. Nothing here depends on a socket or a clock. Votes and
//! instants go in; verdicts and messages to send come out. An instant is a [`Duration`](std::time::Duration) since any
//! fixed origin of one worker's clock.
//!
//! * [`attempt`] names each try to take a lease, and puts the name into the stored value;
//! * [`claim`] takes a key that must be free, or extends one that holds the client's own token;
//! * [`extend`] extends a lease; [`release`] gives it back; [`delete`] ends it for any caller;
//! * [`holders`] groups masters by the attempt they hold;
//! * [`pad`] is Redlock's validity arithmetic, seen from the masters.
//!
//! Three rules keep late commands harmless:
//!
//! 1. A take-back or a release compares the *attempt*, never only the token.
//! 2. Every confirmation of a lease raises its generation, so that commands meant for the earlier state miss it.
//! 3. Only a quorum that holds *one* attempt counts. An attempt that fewer masters can hold is never confirmed again,
//!    and may be deleted wherever it turns up.

pub mod attempt;
pub mod claim;
pub mod delete;
pub mod extend;
pub mod holders;
pub mod pad;
pub mod release;
