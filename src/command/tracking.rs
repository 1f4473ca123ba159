//! `CLIENT TRACKING`, `CLIENT CACHING`, `CLIENT TRACKINGINFO`, `CLIENT GETREDIR` (`networking.c`, `tracking.c`)

use bytes::Bytes;

use super::{Action, Outcome};
use crate::catalogue::error;
use crate::context::caller::Caller;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::tracking::options::{TrackingMode, TrackingOptions};
use crate::tracking::tracked::Tracked;

/// `CLIENT TRACKING ON|OFF [REDIRECT id] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
pub(super) fn tracking(caller: &mut Caller, args: Args<'_>) -> Outcome {
    let before = caller.tracked().map(|tracked| tracked.options().clone());
    let is_there = |id| caller.home.registry().client(id).is_some();
    match TrackingOptions::switch(args, before.as_ref(), is_there)? {
        Some(options) => Ok(Action::Track(caller.begin_tracking(options))),
        None => {
            caller.end_tracking();
            Ok(Action::Reply(Reply::OK))
        }
    }
}

/// `CLIENT CACHING YES|NO`
pub(super) fn caching(caller: &Caller, args: Args<'_>) -> Outcome {
    let tracked = caller.tracked().ok_or(error::CACHING_WITHOUT_TRACKING)?;
    let mode = tracked.options().mode;
    match &args.at(2).to_ascii_lowercase()[..] {
        b"yes" if mode != TrackingMode::OptIn => Err(error::CACHING_YES),
        b"no" if mode != TrackingMode::OptOut => Err(error::CACHING_NO),
        b"yes" | b"no" => {
            tracked.set_caching(true);
            Ok(Action::Reply(Reply::OK))
        }
        _ => Err(error::SYNTAX),
    }
}

/// `CLIENT GETREDIR`
pub(super) fn redirection(caller: &Caller) -> Reply {
    Reply::Int(caller.tracked().map_or(-1, |tracked| tracked.options().redirect as i64))
}

/// `CLIENT TRACKINGINFO`
pub(super) fn info(caller: &Caller) -> Reply {
    let prefixes = caller.tracked().map(|tracked| tracked.options().prefixes.clone());
    let prefixes = prefixes.unwrap_or_default().into_iter().map(Reply::bulk);
    Reply::Map(vec![
        (text("flags"), Reply::Set(flags(caller.tracked().map(|tracked| &**tracked)))),
        (text("redirect"), redirection(caller)),
        (text("prefixes"), Reply::Array(prefixes.collect())),
    ])
}

fn flags(tracked: Option<&Tracked>) -> Vec<Reply> {
    let Some(tracked) = tracked else { return vec![text("off")] };
    let options = tracked.options();
    let is = |mode| options.mode == mode;
    let caching = tracked.is_caching();
    let flags = [
        (true, "on"),
        (is(TrackingMode::Broadcast), "bcast"),
        (is(TrackingMode::OptIn), "optin"),
        (is(TrackingMode::OptIn) && caching, "caching-yes"),
        (is(TrackingMode::OptOut), "optout"),
        (is(TrackingMode::OptOut) && caching, "caching-no"),
        (options.no_loop, "noloop"),
        (tracked.is_broken(), "broken_redirect"),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| text(flag)).collect()
}

fn text(text: &'static str) -> Reply {
    Reply::Bulk(Bytes::from_static(text.as_bytes()))
}
