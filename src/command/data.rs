//! Commands of composite types, by what [`Spec::run`] says of them.

use super::program;
use super::table::{Nothing, Run, Spec};
use super::{Action, Outcome, operation};
use crate::client::decoder::Args;
use crate::client::session::Front;
use crate::operation::query::Query;
use crate::operation::{Kind, request};

/// Runs the command that `spec` describes.
pub(super) fn run(front: &Front, spec: &'static Spec, args: Args<'_>) -> Outcome {
    match spec.run {
        Run::Read(nothing) => Ok(read(front, spec, args, nothing)),
        _ => Ok(Action::Start(program::command(front, spec, args))),
    }
}

fn read(front: &Front, spec: &Spec, args: Args<'_>, nothing: Nothing) -> Action {
    let mut request = Vec::new();
    request::encode(&mut request, &args.iter().collect::<Vec<_>>());
    let unordered = matches!(spec.name, "hkeys" | "hvals" | "hscan" | "sscan" | "zscan");
    let query = Query::new(request.into(), nothing, unordered);
    let keys = program::keys(spec, args);
    let first = keys.first().copied().unwrap_or_default();
    Action::Start(operation(front, first, Kind::Query(Box::new(query))))
}
