//! Single steps of the specification, by hand.

mod lease_steps;
#[path = "mod.rs"]
mod specification;
mod stamp_steps;
