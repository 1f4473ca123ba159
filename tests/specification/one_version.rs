//! The electorate of a model in which the roster does not change by itself.

use redlock_proxy::decision::quorum::MasterId;
use redlock_proxy::decision::register::electorate::RegisterElectorate;

/// Electorate of ordinary keys: masters whose mark shows the roster version under which the operation was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OneVersion(pub u64);

impl<V> RegisterElectorate<V> for OneVersion {
    type Credential = u64;

    fn counts(&self, _: &V, _: MasterId, version: &u64) -> bool {
        *version == self.0
    }
}
