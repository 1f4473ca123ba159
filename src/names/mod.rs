//! Names of keys and channels, and which of them are locks.

pub mod kind;
pub mod kinship;
pub mod lock_names;
pub mod patterns;
pub mod skeleton;
pub mod slot;

/// Name of a key or channel.
pub type Name = Box<[u8]>;

/// Maximum length in bytes of a key or channel name that is analyzed.
pub const LONGEST_NAME: usize = 512;
