//! Leases: locks with a TTL, taken and given back by a quorum of votes.
//!
//! A lease is what `SET key token NX PX ttl` takes (Redlock's acquire). Nothing in here knows a socket or a clock.
//! Votes and instants go in; verdicts and what to send come out. An instant is a [`Duration`](std::time::Duration)
//! since any fixed origin of one worker's clock.
//!
//! * [`attempt`] names each try to take a lease, and puts the name into the stored value;
//! * [`claim`] takes a key that must be free, or prolongs one that holds the client's own token;
//! * [`extend`] prolongs a lease; [`release`] gives it back; [`delete`] ends it for whoever asks;
//! * [`holders`] counts which masters hold which attempt;
//! * [`pad`] is Redlock's validity arithmetic, seen from the masters;
//! * [`master`] says what one master does with each command: the specification of the scripts.
//!
//! Three rules keep late commands harmless:
//!
//! 1. What takes back or gives back compares the *attempt*, never only the token.
//! 2. Whatever confirms a lease raises its generation, so what was meant for the state before misses it.
//! 3. Only a quorum that holds *one* attempt counts. An attempt that fewer masters can hold is never confirmed again,
//!    and may be deleted wherever it turns up.

pub mod attempt;
pub mod claim;
pub mod delete;
pub mod extend;
pub mod holders;
pub mod master;
pub mod pad;
pub mod release;
