//! Which shard serves a request: the one that has its keys, all of which must be in one hash slot, as in Redis Cluster
//! (`getNodeByQuery` in `cluster.c`). Requests without keys are served by the first shard.

use super::permission::{LookUp, sort_looks_up};
use crate::catalogue::table::{Command, Spec};
use crate::catalogue::{error, keys};
use crate::context::caller::Caller;
use crate::names::slot::slot;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// Has the request served by the shard of its keys.
///
/// # Errors
/// Returns an error if its keys are in several slots, or not in that of the transaction.
pub(super) fn choose(caller: &mut Caller, spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    let slot = match spec.id {
        Command::Exec => slot_of_transaction(caller),
        Command::Watch => common(slot_of_transaction(caller), keys::of(spec, args))?,
        _ if caller.transaction.is_some() => {
            refuse_all_keys(spec)?;
            let slot = common(slot_of_transaction(caller), keys::of(spec, args))?;
            caller.transaction.iter_mut().for_each(|transaction| transaction.slot = slot);
            slot
        }
        _ => {
            let slot = common(None, keys::of(spec, args))?;
            refuse_to_look_up(spec, args)?;
            slot
        }
    };
    caller.go_to(slot);
    Ok(())
}

/// Like [`choose`], for a command that is not in the table.
pub(super) fn choose_for_unknown(caller: &mut Caller, args: Args<'_>) -> Result<(), Reply> {
    caller.go_to(common(None, keys::of_other(args))?);
    Ok(())
}

/// Returns the slot of everything that the client watches or has queued.
fn slot_of_transaction(caller: &Caller) -> Option<u16> {
    let queued = caller.transaction.as_ref().and_then(|transaction| transaction.slot);
    queued.or_else(|| Some(slot(&caller.watched.first()?.key)))
}

fn common(slot_of_others: Option<u16>, keys: Vec<&[u8]>) -> Result<Option<u16>, Reply> {
    let add = |common: Option<u16>, key: &[u8]| match (common, slot(key)) {
        (Some(common), slot) if slot != common => Err(error::CROSS_SLOT),
        (_, slot) => Ok(Some(slot)),
    };
    keys.into_iter().try_fold(slot_of_others, add)
}

/// Refuses options of `SORT` that look up keys, which may be on other shards (`sortCommandGeneric` in `sort.c`). In a
/// transaction or script masters refuse them.
fn refuse_to_look_up(spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    if !matches!(spec.name, "sort" | "sort_ro") {
        return Ok(());
    }
    match sort_looks_up(args) {
        Some(LookUp::By) => Err(error::SORT_BY_OF_SHARDS),
        Some(LookUp::Get) => Err(error::SORT_GET_OF_SHARDS),
        None => Ok(()),
    }
}

/// Refuses to queue what would see the keys of one shard only.
fn refuse_all_keys(spec: &Spec) -> Result<(), Reply> {
    use Command as C;
    match spec.id {
        C::Keys | C::Scan | C::DbSize | C::RandomKey | C::FlushDb | C::FlushAll => {
            Err(Reply::error(format!(
                "ERR '{}' sees one shard only in a script or transaction: send it by itself",
                spec.name
            )))
        }
        _ => Ok(()),
    }
}
