//! Publishing and subscribing.
//!
//! A message goes to every master and comes back from every master, so one living master is enough to carry it. A
//! worker delivers the first copy and drops the others.
//!
//! ```text
//! PUBLISH --seal--> link 1..N --> master 1..N --> subscription link 1..N --open, duplicate?--> subscribers
//! ```
//!
//! * [`hub`]: the subscriptions of one worker; [`subscriber`]: those of one session;
//! * [`duplicates`]: drops copies of a message, pure; the [envelope](crate::operation::envelope) distinguishes copies
//!   from another message with the same text;
//! * [`expiries`]: tells of expired keys once, pure;
//! * [`batches`]: requests with many topics, over several turns of the event loop;
//! * [`handover`]: subscribers that move to another process without losing a message;
//! * [`subscription_link`]: the connections that listen. They are separate from the links that vote, as a burst of
//!   messages must not delay a claim.

pub mod batches;
pub mod duplicates;
pub mod expiries;
pub mod handover;
pub mod hub;
pub mod subscriber;
pub mod subscription_link;
