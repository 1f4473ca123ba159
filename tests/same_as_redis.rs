//! The proxy over three masters answers as one plain `redis-server` does, byte for byte, in both versions of the
//! protocol.
//!
//! `support::side_by_side` describes the format of the tables.

mod support;
mod tables;

use support::{Masters, Proxy, Reply, compare, words};

#[tokio::test]
async fn setting_strings() {
    compare(tables::SET).await;
    compare(tables::SET_ERRORS).await;
    compare(tables::OLD_SETTERS).await;
}

#[tokio::test]
async fn reading_strings() {
    compare(tables::READS).await;
}

#[tokio::test]
async fn numbers_and_appending() {
    compare(tables::NUMBERS).await;
}

#[tokio::test]
async fn expiry() {
    compare(tables::EXPIRY).await;
    compare(tables::EXPIRY_CONDITIONS).await;
}

#[tokio::test]
async fn the_keyspace() {
    compare(tables::KEYSPACE).await;
    compare(tables::DATABASES).await;
}

#[tokio::test]
async fn scripts() {
    compare(tables::SCRIPTS).await;
    compare(tables::SCRIPT_ERRORS).await;
}

#[tokio::test]
async fn the_connection() {
    compare(tables::CONNECTION).await;
    compare(tables::CONNECTION_ERRORS).await;
}

#[tokio::test]
async fn the_server() {
    compare(tables::SERVER).await;
}

#[tokio::test]
async fn integers_that_a_double_cannot_hold_are_exact() {
    compare(tables::LARGE_INTEGERS).await;
}

#[tokio::test]
async fn a_subcommand_is_looked_at_before_its_command() {
    compare(tables::SUBCOMMANDS).await;
}

#[tokio::test]
async fn a_watched_key_that_is_written_as_it_was_has_changed() {
    compare(tables::WRITTEN_AS_IT_WAS).await;
}

#[tokio::test]
async fn the_first_mistake_of_several_is_told() {
    compare(tables::SEVERAL_MISTAKES).await;
}

#[tokio::test]
async fn elements_without_weights_have_any_order() {
    compare(tables::WITHOUT_WEIGHTS).await;
}

#[tokio::test]
async fn a_subscriber_s_exec_is_discarded() {
    compare(tables::EXEC_OF_SUBSCRIBER).await;
}

#[tokio::test]
async fn unknown_commands_and_wrong_arity() {
    compare(tables::UNKNOWN).await;
    compare(tables::ARITY).await;
}

/// The proxy answers commands of servers newer than Redis 7.0 over any masters: there is no old Redis to compare
/// with.
#[tokio::test]
async fn newer_commands() {
    if support::target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let (yes, no) = (Reply::Int(1), Reply::Int(0));
    for (line, expected) in [
        ("CLIENT SETINFO LIB-NAME tester", Reply::ok()),
        ("client setinfo lib-ver 1.0", Reply::ok()),
        ("SET lock mine NX PX 600000", Reply::ok()),
        ("SET lock new IFEQ other PX 600000", Reply::Nil),
        ("SET lock mine PX 700000 IFEQ mine", Reply::ok()),
        ("SET absent mine IFEQ mine", Reply::Nil),
        ("DELEX lock IFEQ other", no.clone()),
        ("DELEX lock IFEQ mine", yes.clone()),
        ("DELEX lock IFEQ mine", no.clone()),
        ("SET lock mine", Reply::ok()),
        ("DELIFEQ lock other", no),
        ("DELIFEQ lock mine", yes),
        ("GET lock", Reply::Nil),
    ] {
        assert_eq!(raw.ask(&words(line)).await, expected, "{line}");
    }
}

/// Commands on other data types are for lock scripts; sent directly they are refused by name, and nothing else
/// happens.
#[tokio::test]
async fn flushing_is_refused_by_name() {
    if support::target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    for line in ["FLUSHALL", "FLUSHDB"] {
        let name = words(line)[0].to_lowercase();
        let refusal = raw.ask(&words(line)).await;
        assert!(refusal.is_error("ERR"), "{line} was answered {refusal:?}");
        assert!(refusal.text().to_lowercase().contains(&name), "{line} was answered {refusal:?}");
    }
}
