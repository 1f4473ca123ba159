//! Names of keys and channels: which of them are locks.

pub mod kind;
pub mod kinship;
pub mod lock_names;
pub mod patterns;
pub mod skeleton;

/// A name of a key or channel.
pub type Name = Box<[u8]>;

/// The longest name of a key or channel that is looked at, in bytes.
pub const LONGEST_NAME: usize = 512;
