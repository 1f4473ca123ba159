//! Every expectation here was compared with redis-server 7.0.15 (except `IFEQ`, which it lacks).

use proptest::prelude::*;

use super::*;
use crate::resp::requests::{Decoder, Limits};

const NOW: i64 = 1_700_000_000_000;

/// Calls `parse` with the words of a line.
fn with_args<T>(line: &str, parse: impl FnOnce(Args<'_>) -> T) -> T {
    let (mut decoder, buf) = (Decoder::new(), format!("{line}\n"));
    let limits = Limits { max_request_bytes: 1000, authenticated: true, may_pass: false };
    decoder.decode(buf.as_bytes(), limits).expect("valid").expect("complete");
    parse(decoder.args(buf.as_bytes()))
}

#[track_caller]
fn assert_set(line: &str, condition: Condition<'_>, ttl: SetTtl, get: bool) {
    with_args(line, |args| {
        assert_eq!(
            SetOptions::parse(args, || NOW),
            Ok(SetOptions { condition, ttl, get }),
            "{line}"
        );
    });
}

#[track_caller]
fn assert_set_refused(line: &str, error: Reply) {
    assert_eq!(
        with_args(line, |args| SetOptions::parse(args, || NOW).err()),
        Some(error),
        "{line}"
    );
}

#[test]
fn set_takes_options_in_any_order_and_case() {
    assert_set("", Condition::Always, SetTtl::Never, false);
    assert_set("NX PX 30000", Condition::Absent, SetTtl::Ms(30_000), false);
    assert_set("ex 30 Nx", Condition::Absent, SetTtl::Ms(30_000), false);
    assert_set("get xx keepttl", Condition::Present, SetTtl::Keep, true);
    assert_set("IFEQ NX px 1", Condition::Equal(b"NX"), SetTtl::Ms(1), false);
    assert_set("nx GET nx get", Condition::Absent, SetTtl::Never, true);
    assert_set("EX 10 EX 20", Condition::Always, SetTtl::Ms(20_000), false);
    assert_set("KEEPTTL KEEPTTL", Condition::Always, SetTtl::Keep, false);
}

#[test]
fn set_refuses_options_that_contradict_each_other() {
    for line in [
        "NX XX",
        "XX nx",
        "NX IFEQ a",
        "IFEQ a XX",
        "IFEQ",
        "EX",
        "NX PX",
        "EX 1 PX 1",
        "EX 1 EXAT 1",
        "KEEPTTL EX 1",
        "EX 1 KEEPTTL",
        "PERSIST",
        "EX 10 PERSIST",
        "FOO",
        "EX x FOO",
        "EX 0 NX XX",
        "PX 10 \"\"",
    ] {
        assert_set_refused(line, error::SYNTAX);
    }
}

#[test]
fn set_refuses_times_that_are_no_times() {
    for line in ["EX x", "EX 01", "PX 1.5", "PX \"\"", "PXAT +1", "EX 9223372036854775808"] {
        assert_set_refused(line, error::NOT_AN_INTEGER);
    }
    for line in [
        "EX 0",
        "EX -1",
        "PX 0",
        "EXAT 0",
        "PXAT -1",
        "PX 9223372036854775807",
        "EX 9223372036854775807",
        "EX 9223372036854775",
        "EXAT 9223372036854776",
    ] {
        assert_set_refused(line, error::invalid_expire_time("set"));
    }
}

#[test]
fn set_counts_moments_from_now() {
    assert_set("PXAT 1700000000001", Condition::Always, SetTtl::Ms(1), false);
    assert_set("EXAT 1700000060", Condition::Always, SetTtl::Ms(60_000), false);
    assert_set("PXAT 1", Condition::Always, SetTtl::Ms(1 - NOW), false);
    assert_set("PXAT 9223372036854775807", Condition::Always, SetTtl::Ms(i64::MAX - NOW), false);
}

#[test]
fn getex_takes_one_change() {
    let parse = |line: &str| {
        with_args(line, |args| match GetexTtl::parse(args)? {
            GetexTtl::Time(time) => time.ttl_ms("getex", || NOW).map(Some),
            GetexTtl::Never => Ok(Some(i64::MAX)),
            GetexTtl::Unchanged => Ok(None),
        })
    };
    assert_eq!(parse(""), Ok(None));
    assert_eq!(parse("persist"), Ok(Some(i64::MAX)));
    assert_eq!(parse("PERSIST PERSIST"), Ok(Some(i64::MAX)));
    assert_eq!(parse("ex 2"), Ok(Some(2000)));
    assert_eq!(parse("PX 0"), Err(error::invalid_expire_time("getex")));
    assert_eq!(parse("PXAT x"), Err(error::NOT_AN_INTEGER));
    for line in ["PERSIST EX 1", "EX 1 PERSIST", "EX", "KEEPTTL", "NX", "GET", "EX 1 PX 1"] {
        assert_eq!(parse(line), Err(error::SYNTAX), "{line}");
    }
}

fn expire(command: Command, line: &str) -> Result<ExpireOptions, Reply> {
    let line = format!("{} key {line}", command.spec().name);
    with_args(&line, |args| ExpireOptions::parse(command, args, || NOW))
}

#[test]
fn expire_counts_in_the_unit_of_its_name() {
    let ttl_ms = |command, line| expire(command, line).map(|options| options.ttl_ms);
    assert_eq!(ttl_ms(Command::Expire, "2"), Ok(2000));
    assert_eq!(ttl_ms(Command::Pexpire, "2"), Ok(2));
    assert_eq!(ttl_ms(Command::ExpireAt, "1700000001"), Ok(1000));
    assert_eq!(ttl_ms(Command::PexpireAt, "1699999999999"), Ok(-1));
    assert_eq!(ttl_ms(Command::Expire, "0"), Ok(0));
    assert_eq!(ttl_ms(Command::Expire, "-1"), Ok(-1000));
    assert_eq!(ttl_ms(Command::PexpireAt, "9223372036854775807"), Ok(i64::MAX - NOW));
}

#[test]
fn expire_refuses_times_out_of_range() {
    use Command::{Expire, ExpireAt, Pexpire};
    for (command, time) in [
        (Expire, "9223372036854775807"),
        (Expire, "9223372036854775"),
        (Expire, "-9223372036854775807"),
        (Pexpire, "9223372036854775807"),
        (ExpireAt, "9223372036854775807"),
    ] {
        let error = error::invalid_expire_time(command.spec().name);
        assert_eq!(expire(command, time), Err(error), "{command:?} {time}");
    }
    assert!(expire(Expire, "-9223372036854775").is_ok());
    assert_eq!(expire(Expire, "x"), Err(error::NOT_AN_INTEGER));
}

#[test]
fn expire_refuses_conditions_that_contradict_each_other() {
    let refused = |line| expire(Command::Expire, line).expect_err("refused");
    assert_eq!(refused("10 NX XX"), error::EXPIRE_NX_CONFLICT);
    assert_eq!(refused("10 gt nx"), error::EXPIRE_NX_CONFLICT);
    assert_eq!(refused("10 NX GT LT"), error::EXPIRE_NX_CONFLICT);
    assert_eq!(refused("10 GT LT"), error::EXPIRE_GT_LT_CONFLICT);
    assert_eq!(refused("10 NX Foo"), Reply::error("ERR Unsupported option Foo"));
    assert_eq!(refused("x Foo"), Reply::error("ERR Unsupported option Foo"));
    assert!(expire(Command::Expire, "10 XX GT xx").is_ok());
}

#[test]
fn scan_reads_cursor_and_options() {
    with_args("scan 7 match a* COUNT 3 type string MATCH b*", |args| {
        let expected =
            ScanOptions { cursor: 7, pattern: Some(b"b*"), count: 3, type_name: Some(b"string") };
        assert_eq!(ScanOptions::parse(args, 1), Ok(expected));
    });
    let scan = |line: &str| with_args(line, |args| ScanOptions::parse(args, 1).map(|o| o.cursor));
    for (line, cursor) in
        [("scan -1", u64::MAX), ("scan 18446744073709551615", u64::MAX), ("scan 01", 1)]
    {
        assert_eq!(scan(line), Ok(cursor), "{line}");
    }
    for line in ["scan x", "scan 1x", "scan ' 1'", "scan 18446744073709551616"] {
        assert_eq!(scan(line), Err(error::INVALID_CURSOR), "{line}");
    }
    for line in ["scan 0 FOO", "scan 0 FOO 1", "scan 0 MATCH", "scan 0 COUNT 0", "scan 0 COUNT -1"]
    {
        assert_eq!(scan(line), Err(error::SYNTAX), "{line}");
    }
    assert_eq!(scan("scan 0 COUNT x"), Err(error::NOT_AN_INTEGER));
}

proptest! {
    #[test]
    fn a_relative_time_means_itself(ms in 1..i64::MAX - NOW) {
        let text = ms.to_string();
        let time = Time::new(text.as_bytes(), TimeUnit::Milliseconds, Base::Now);
        prop_assert_eq!(time.ttl_ms("set", || NOW), Ok(ms));
    }

    #[test]
    fn a_moment_is_as_far_as_it_is(ms in 1..i64::MAX, now in 0..i64::MAX) {
        let text = ms.to_string();
        let time = Time::new(text.as_bytes(), TimeUnit::Milliseconds, Base::Epoch);
        prop_assert_eq!(time.ttl_ms("set", || now), Ok(ms - now));
    }
}
