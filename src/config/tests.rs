use std::sync::Arc;

use super::*;
use crate::acl::Users;

fn masters(n: usize) -> Vec<MasterAddr> {
    (1..=n).map(|i| format!("10.0.0.{i}:6379").parse().unwrap()).collect()
}

fn typed(toml: &str) -> Typed {
    Typed::from_toml(toml).unwrap()
}

fn refusal(toml: &str) -> String {
    let toml = format!("masters = 'a:1'\n{toml}");
    Settings::from_typed(&typed(&toml)).expect_err(&toml).to_string()
}

/// `config/redlock-proxy.toml` is the manual of the settings, so it must be correct.
#[test]
fn the_example_file_shows_every_setting_with_its_default() {
    let example = include_str!("../../config/redlock-proxy.toml");
    let setting = |line: &&str| line.starts_with('#') && line[1..].starts_with(char::is_alphabetic);
    let uncommented: Vec<_> = example.lines().filter(setting).map(|line| &line[1..]).collect();
    let typed = typed(&uncommented.join("\n"));
    let settings = Settings::from_typed(&typed).unwrap();
    assert_eq!(settings, Settings::try_new(settings.masters.clone()).unwrap());
    assert_eq!(LogFormat::from_typed(&typed), Ok(LogFormat::default()));
    assert_eq!(uncommented.len(), table::all().count(), "one line for each setting");
}

#[test]
fn the_example_file_as_delivered_sets_nothing() {
    let typed = typed(include_str!("../../config/redlock-proxy.toml"));
    assert!(typed == Typed::default());
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    for (line, sentence) in [
        ("vote-timeout = 0", "vote-timeout `0` must be from 1ms to 10s"),
        ("vote-timeout = '11s'", "vote-timeout `11s` must be from 1ms to 10s"),
        ("max-ttl = 0", "max-ttl `0` must be from 1ms to 1000years"),
        ("no-ttl = 'lease=0'", "no-ttl `lease=0` must be from 1ms to 1000years"),
        ("drift = 0.51", "drift `0.51` must be from 0 to 0.5"),
        ("split-vote-retries = 101", "split-vote-retries `101` must be from 0 to 100"),
        ("split-vote-delay = 0", "split-vote-delay `0` must be from 1ms to 10s"),
        ("fair-waiting = '2s'", "fair-waiting `2s` must be from 0s to 1s"),
        ("workers = 65", "workers `65` must be from 1 to 64"),
        ("max-clients = 0", "max-clients `0` must be from 1 to 2147483647"),
        ("max-clients-per-user = -1", "max-clients-per-user `-1` is not a number that fits"),
        ("users = ['al +@none']", "users: al: `+@none` is not a command or category"),
        (
            "max-request-bytes = 1023",
            "max-request-bytes `1023` must be from 1024 to 536870912 bytes",
        ),
        ("no-ttl = 'lease'", "no-ttl `lease` must be keep, reject or lease=<duration>"),
        ("allow-flush = 'maybe'", "allow-flush `maybe` must be true or false"),
        ("redis-version = '7'", "redis-version `7` must be three numbers with dots, such as 7.4.0"),
    ] {
        assert_eq!(refusal(line), sentence);
    }
}

/// A value that is added to an instant or sent to a master must not overflow.
#[test]
fn numbers_beyond_all_bounds_are_refused_with_one_sentence() {
    let extremes = ["18446744073709551615", "-9223372036854775808", "1e308", "inf", "NaN"];
    let durations = ["500000000000years", "18446744073709551615s", "18446744073709551615h"];
    for name in [
        "vote-timeout",
        "patience",
        "max-ttl",
        "no-ttl",
        "drift",
        "split-vote-retries",
        "split-vote-delay",
        "fair-waiting",
        "max-request-bytes",
        "workers",
        "restart-wait",
        "max-clients",
        "max-clients-per-user",
        "max-memory-clients",
        "timeout",
        "tcp-keepalive",
        "max-output-bytes",
        "slowlog-log-slower-than",
        "slowlog-max-len",
        "drain-timeout",
    ] {
        let lease = if name == "no-ttl" { "lease=" } else { "" };
        for extreme in extremes.iter().chain(&durations) {
            let refusal = refusal(&format!("{name} = '{lease}{extreme}'"));
            let is_clear = refusal.contains(" must be ") || refusal.contains(" is not a ");
            assert!(is_clear && refusal.starts_with(name), "{refusal}");
        }
    }
}

#[test]
fn the_longest_times_can_be_added_to_a_clock() {
    let settings = Settings::from_typed(&typed(
        "masters = 'a:1'\nvote-timeout = '10s'\nmax-ttl = '1000years'\nno-ttl = 'lease=1000years'
         timeout = '365days'\ndrain-timeout = '1h'",
    ));
    let settings = settings.unwrap();
    let times = [settings.restart_wait(), settings.vote_timeout, settings.live.timeout];
    let now = crate::time::clock::now();
    assert!(times.iter().all(|time| now.checked_add(3 * *time).is_some()));
    let NoTtl::Lease(lease) = settings.live.no_ttl else { panic!("it was typed") };
    assert_eq!(lease.as_millis() as i64, 31_557_600_000_000);
}

#[test]
fn values_mean_what_they_say() {
    let settings = Settings::from_typed(&typed(
        "masters = 'a:1, b:2'\nmax-ttl = '1h'\nno-ttl = 'lease=30s'\nrequirepass = 'pw'
         max-request-bytes = '2mb'\nallow-flush = true\nredis-version = '7.2.4'\ndrift = 0",
    ));
    let expected = Settings {
        max_ttl: Some(Duration::from_secs(3600)),
        max_request_bytes: 2 << 20,
        drift: 0.0,
        live: Live {
            no_ttl: NoTtl::Lease(Duration::from_secs(30)),
            requirepass: Some(Secret::new("pw")),
            users: Arc::new(Users::parse([], Some("pw")).unwrap()),
            allow_flush: true,
            redis_version: Some("7.2.4".to_owned()),
            ..Live::default()
        },
        ..Settings::try_new(vec!["a:1".parse().unwrap(), "b:2".parse().unwrap()]).unwrap()
    };
    assert_eq!(settings, Ok(expected));
}

#[test]
fn one_to_thirty_one_different_masters() {
    assert!(Settings::try_new(masters(1)).is_ok());
    assert!(Settings::try_new(masters(31)).is_ok());
    let too_many = Settings::try_new(masters(32)).unwrap_err();
    assert_eq!(too_many.to_string(), "32 masters are too many: at most 31");
    assert_eq!(Settings::try_new(vec![]).unwrap_err().to_string(), NO_MASTERS);
}

#[test]
fn one_address_written_twice_is_found() {
    let error = Settings::from_typed(&typed("masters = ['Host', 'b:1', 'redis://:x@host:6379']"));
    assert!(error.unwrap_err().to_string().starts_with("master host:6379 is named twice"));
}

#[test]
fn a_malformed_master_is_named_by_its_place_not_its_text() {
    let error = Settings::from_typed(&typed("masters = 'a:1,redis://:hunter2@b:x'")).unwrap_err();
    let expected = "master 2 has no valid port: a port is a number from 1 to 65535";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn start_lines_tell_quorum_and_tolerance() {
    let mut with_password = masters(4);
    with_password.push("redis://:hunter2@e:1".parse().unwrap());
    let settings = Settings::try_new(with_password).unwrap();
    let lines = settings.start_lines(&["127.0.0.1:7000".to_owned()]);
    assert_eq!(
        lines[1..],
        [
            "listening on 127.0.0.1:7000",
            "masters: 10.0.0.1:6379, 10.0.0.2:6379, 10.0.0.3:6379, 10.0.0.4:6379, e:1",
            "quorum: 3 of 5",
            "tolerates: 2 of 5 masters down",
        ]
    );
}

#[test]
fn a_proxy_that_joins_a_cluster_tells_no_quorum_of_its_list() {
    let joining =
        |n| Settings { cold_start: ColdStart::Join, ..Settings::try_new(masters(n)).unwrap() };
    let lines = joining(1).start_lines(&[]);
    let expected = [
        "masters: 10.0.0.1:6379",
        "joins the cluster of these masters: its roster decides the quorum",
    ];
    assert_eq!(lines[2..], expected);
    assert!((1..=4).all(|n| joining(n).warning().is_none()));
}

#[test]
fn no_limit_for_a_user_is_zero() {
    let limit = |toml: &str| {
        let typed = typed(&format!("masters = 'a:1'\n{toml}"));
        Settings::from_typed(&typed).unwrap().live.max_clients_per_user
    };
    let limits = ["", "max-clients-per-user = 0", "max-clients-per-user = 2"].map(limit);
    assert_eq!(limits, [None, None, Some(2)]);
}

#[test]
fn doubtful_numbers_of_masters_are_warned_about() {
    let warned = |n| Settings::try_new(masters(n)).unwrap().warning().is_some();
    assert_eq!((1..=7).filter(|n| warned(*n)).collect::<Vec<_>>(), [1, 2, 4, 6]);
}

#[test]
fn what_stays_until_the_next_start_is_named_when_it_differs() {
    let settings = |toml: &str| {
        Settings::from_typed(&typed(&format!("masters = 'redis://:a@a:1'\n{toml}"))).unwrap()
    };
    let ours = settings("");
    let differences = |theirs: Settings| ours.fixed_differences(&theirs);
    assert_eq!(differences(settings("drift = 0.1\nmax-clients = 7")), ["drift"]);
    assert_eq!(differences(settings("workers = 2\nadmin = 'a:1'")), ["admin", "workers"]);
    let other = Settings::from_typed(&typed("masters = 'redis://:b@a:1'")).unwrap();
    assert_eq!(differences(other), ["masters"], "its password is another one");
    assert!(differences(settings("max-clients = 7")).is_empty());
}

#[test]
fn the_one_line_form_hides_passwords() {
    let line = Settings::from_typed(&typed(
        "masters = 'redis://u:hunter2@a:1'\nrequirepass = 'hunter3'\nusers = ['al on >hunter4']",
    ))
    .unwrap()
    .to_string();
    assert!(line.contains("masters=a:1 ") && line.contains("requirepass=***"), "{line}");
    assert!(line.contains(" users=al,default "), "{line}");
    assert!(!line.contains("hunter"), "{line}");
}
