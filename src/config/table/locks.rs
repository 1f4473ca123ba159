//! How locks are decided.

use super::or_none;
use crate::config::rules::{ColdStart, NoTtl};
use crate::config::setting::{Access, Field, Setting, one};
use crate::config::values::{
    YEAR_MS, duration_within, lease, number_within, shown_duration, unless,
};

pub(super) static SETTINGS: &[Setting] = &[
    one("vote-timeout", "DURATION")
        .help("Time that a verdict waits for a silent minority of masters")
        .default("50ms")
        .field(field!(Fixed.vote_timeout, duration_within(1..=10_000), shown_duration)),
    one("patience", "DURATION")
        .help("Time that a client waits for a silent quorum of masters")
        .default("1.5s")
        .field(field!(Fixed.patience, duration_within(1..=60_000), shown_duration)),
    one("max-ttl", "DURATION").help("Longest TTL that a client may ask for").default("none").field(
        field!(
            Fixed.max_ttl,
            unless("none", lease),
            of: |it| or_none(&it.max_ttl.as_ref().map(shown_duration))
        ),
    ),
    one("no-ttl", "RULE")
        .help("Treatment of locks without a TTL: keep, reject or lease=DURATION")
        .default("keep")
        .field(field!(Live.no_ttl, NoTtl::read, NoTtl::to_string)),
    one("drift", "FACTOR").help("Clock drift factor of Redlock").default("0.01").field(field!(
        Fixed.drift,
        number_within(0.0..=0.5),
        f64::to_string
    )),
    one("split-vote-retries", "N")
        .help("Number of retries of a claim that nobody won")
        .default("3")
        .field(field!(Fixed.split_vote_retries, number_within(0..=100), u32::to_string)),
    one("split-vote-delay", "DURATION")
        .help("Longest random pause before such a retry")
        .default("20ms")
        .field(field!(Fixed.split_vote_delay, duration_within(1..=10_000), shown_duration)),
    one("fair-waiting", "DURATION")
        .help("Longest wait for a held key of a client that polls for it")
        .default("5ms")
        .field(field!(Fixed.fair_waiting, duration_within(0..=1000), shown_duration)),
    one("restart-wait", "DURATION")
        .help(
            "Time that a restarted master must not vote if its locks cannot be copied back: the \
             longest TTL in use; auto is --max-ttl, or 1m",
        )
        .default("auto")
        .field(field!(
            Fixed.restart_wait,
            unless("auto", duration_within(0..=YEAR_MS)),
            of: |it| shown_duration(&it.restart_wait())
        )),
    one("cold-start", "RULE")
        .help(
            "Masters without a cluster that were all started a short while ago: trust them to vote, or wait; \
             join: never found a cluster",
        )
        .default("trust")
        .field(field!(Fixed.cold_start, ColdStart::read, ColdStart::to_string)),
];
