//! The report for people, with the lines for the settings file at its end.

use std::fmt::Write as _;
use std::time::Duration;

use super::report::{Counted, FoundLocks, Report};

/// Maximum commands, libraries and scripts shown per pattern.
const MOST_SHOWN: usize = 8;

/// Returns the whole report. `url` names the data Redis, without user and password.
pub fn of(report: &Report, url: &str) -> String {
    let watched = humantime::format_duration(Duration::from_secs(report.seconds));
    let Report { clients, requests, .. } = report;
    let mut text = format!("watched for {watched}: {clients} clients, {requests} requests\n");
    for found in &report.locks {
        text += &pattern(found);
    }
    for mixed in &report.mixed {
        let _ = write!(
            text,
            "\n{} names lock '{}' and '{}', which is none ({}): it would get CROSSSLOT\n",
            mixed.command, mixed.lock, mixed.data, mixed.count
        );
    }
    if report.perhaps_count > 0 {
        let _ = write!(
            text,
            "\npossibly locks, taken with SETNX but never expired: {} keys, such as {}\n",
            report.perhaps_count,
            report.perhaps.join(", ")
        );
    }
    for search in &report.searches {
        let _ = write!(
            text,
            "\nKEYS or SCAN with {search} would find no lock: the data Redis answers, and has none\n"
        );
    }
    for script in &report.keyless {
        let _ = write!(
            text,
            "\n{script} names no keys: the data Redis would run it, and find no lock there\n"
        );
    }
    for note in &report.notes {
        let _ = write!(text, "\nnote: {note}\n");
    }
    text + &settings(report, url)
}

/// Returns the findings about one pattern, a line for each aspect.
fn pattern(found: &FoundLocks) -> String {
    let examples = found.examples.join(", ");
    let names = match found.names {
        1 => "1 name".to_owned(),
        names => format!("{names} names"),
    };
    let mut text = format!("\n{}   {names}", found.pattern);
    if found.examples.iter().any(|example| *example != found.pattern) {
        let _ = write!(text, ", such as {examples}");
    }
    text.push('\n');
    if found.belongs_to_others {
        line(&mut text, "used with", "keys of locks, in one script or transaction");
    }
    for (name, all) in [
        ("lock by", &found.kinds),
        ("libraries", &found.libraries),
        ("databases", &found.databases),
        ("scripts", &found.scripts),
        ("commands", &found.commands),
    ] {
        if !all.is_empty() {
            line(&mut text, name, &list(all));
        }
    }
    for refused in &found.refused {
        line(&mut text, "refused", &format!("{}: {}", refused.command, refused.why));
    }
    text
}

fn line(text: &mut String, name: &str, what: &str) {
    let _ = writeln!(text, "  {name:<10} {what}");
}

fn list(all: &[Counted]) -> String {
    let shown = all.iter().take(MOST_SHOWN).map(|it| format!("{} ({})", it.what, it.count));
    let more = all.len().saturating_sub(MOST_SHOWN);
    let more = (more > 0).then(|| format!("{more} more"));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

/// Returns the lines for the settings file, and the same settings as flags.
pub fn settings(report: &Report, url: &str) -> String {
    if report.lock_keys.is_empty() {
        return "\nno key was used as a lock: watch for longer, while the application takes locks\n".to_owned();
    }
    let mut file = format!("data = {}\n", quoted(url));
    let mut flags = format!("--data={}", for_shell(url));
    for (key, patterns) in
        [("lock-keys", &report.lock_keys), ("lock-channels", &report.lock_channels)]
    {
        if !patterns.is_empty() {
            let all: Vec<String> = patterns.iter().map(|pattern| quoted(pattern)).collect();
            let _ = writeln!(file, "{key} = [{}]", all.join(", "));
        }
        for pattern in patterns {
            let _ = write!(flags, " --{key}={}", for_shell(pattern));
        }
    }
    format!("\nfor the settings file:\n\n{file}\nthe same as flags:\n\n{flags}\n")
}

/// Quotes a basic string of TOML. Patterns and addresses contain no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Quotes one word for a shell.
fn for_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::command_line::Cli;
    use crate::config::typed::Typed;

    fn report(patterns: &[&str]) -> Report {
        let lock_keys: Vec<_> = patterns.iter().map(|it| (*it).to_owned()).collect();
        Report { lock_channels: vec!["free:*".to_owned()], lock_keys, ..Report::default() }
    }

    #[test]
    fn the_lines_are_a_settings_file_and_flags_that_mean_the_same() {
        let patterns = ["lock:*", "a\\*\"b", "it's", "caf\u{e9}?"];
        let text = settings(&report(&patterns), "redis://h:1/2");
        let (file, flags) = text.split_once("the same as flags:").expect("both");
        let file = file.split_once("settings file:").expect("its heading").1;
        let typed = Typed::from_toml(file).expect("TOML");
        assert_eq!(typed.list("lock-keys"), patterns);
        assert_eq!(typed.word("data"), Some("redis://h:1/2"));

        let words = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {}", flags.trim())])
            .output()
            .expect("a shell");
        let words = String::from_utf8(words.stdout).expect("text");
        let words = ["redlock-proxy"].into_iter().chain(words.lines()).map(Into::into);
        assert!(Cli::read(words).ok().unwrap().given.typed == typed);
    }

    #[test]
    fn without_a_lock_there_are_no_lines() {
        assert!(!settings(&report(&[]), "redis://h:1").contains("lock-keys"));
    }
}
