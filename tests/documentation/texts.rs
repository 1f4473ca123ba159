//! Texts for operators, as they stand in the source: reasons why the proxy does not start, problems with a master,
//! warnings in the log.

use super::{files, filled_in, joined, root};

/// Returns all of these texts, with `…` for filled-in values and without Markdown quotes.
pub(super) fn for_operators() -> Vec<String> {
    let mut texts = Vec::new();
    for file in files(&root().join("src"), "rs") {
        if file.ends_with("tests.rs") {
            continue;
        }
        let source = std::fs::read_to_string(&file).unwrap();
        let source = joined(source.split("#[cfg(test)]").next().unwrap_or_default());
        let is_among =
            |paths: &[&str]| paths.iter().any(|path| file.starts_with(root().join(path)));
        if is_among(&SETTINGS) && !is_among(&HELP) {
            texts.extend(literals(&source));
        }
        for opening in ["#[error(", "warn!(", "error!("] {
            let calls = source.split(opening).skip(1);
            texts.extend(calls.filter_map(|call| literals(call).into_iter().next()));
        }
    }
    let shown = texts.iter().map(|text| filled_in(text).replace('`', ""));
    let told = shown.filter(|text| is_sentence(text) && !NOTHING_WRONG.contains(&text.as_str()));
    told.filter(|text| !text.starts_with("Protocol error")).collect()
}

/// Files whose texts are all about problems, except for those in [`NOTHING_WRONG`].
const SETTINGS: [&str; 19] = [
    "src/admin/members.rs",
    "src/admin/status.rs",
    "src/cli/check",
    "src/cli/check.rs",
    "src/cli/health.rs",
    "src/cli/logging.rs",
    "src/cli/members.rs",
    "src/config",
    "src/decision/quorum/outlook.rs",
    "src/decision/roster/shards.rs",
    "src/engine/link",
    "src/engine/link.rs",
    "src/engine/reader.rs",
    "src/main.rs",
    "src/masters/roster/keeper/beginning.rs",
    "src/masters/roster/keeper/ordered.rs",
    "src/masters/roster/together.rs",
    "src/masters/roster/youth.rs",
    "src/masters/standing.rs",
];

/// Files with texts for `--help`.
const HELP: [&str; 4] =
    ["src/config/help.rs", "src/config/setting.rs", "src/config/table", "src/config/table.rs"];

/// Texts that are not complaints, or are part of a text that is one.
const NOTHING_WRONG: [&str; 39] = [
    "it has ended: start it first",
    "… is in use, so the proxy listens on …\\n",
    "… is out, and … votes once everything is copied to it",
    "… is being replaced by …",
    "… of … masters vote",
    "…, … are needed",
    "list of masters for every proxy: …",
    "…cluster …, version …",
    "redlock-proxy 1  ",
    "redlock-proxy 1 \\\"\\\" ",
    "…, did you mean …?",
    "the roster is known",
    "a quorum could vote",
    "a quorum could vote; masters started later receive copies first",
    "…\\n…… of … masters could vote and … are needed: ….\\n",
    "no roster: no proxy has used them yet.\\n",
    "no roster: those that answer show none.\\n",
    "roster: cluster …, version …\\n",
    "out since version …",
    "it was not seen",
    "cannot listen on … (…)",
    "listening on …",
    "shard …: ",
    "quorum: … of …",
    "tolerates: … of … masters down",
    "joins the cluster of these masters: its roster decides the quorum",
    "shard … of …",
    "give all proxies the same shards with the same masters",
    "settings are valid: … log-format=…\\n",
    "SIGHUP: certificates reloaded",
    "metrics and status at …",
    "status at …",
    "redlock-proxy … learn",
    "passing everything through; SIGINT or SIGTERM stops and prints the report",
    "the messages say it",
    "the names say it",
    "the master is up",
    "it is empty",
    "log filter set to … from now on",
];

/// Returns whether a text has three words, one of them not filled in. A text that begins with a space continues another
/// one.
fn is_sentence(text: &str) -> bool {
    let is_word = |word: &str| word.chars().filter(char::is_ascii_alphabetic).count() > 2;
    text.split(' ').count() > 2 && text.split(' ').any(is_word) && !text.starts_with([' ', ';'])
}

/// Returns the string literals up to the bracket that closes the one open at the start of `source`.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut rest, mut depth) = (source, 0_i32);
    while let Some(at) = rest.find(['"', '\'', '/', '(', ')']) {
        let here = &rest[at..];
        let skipped = match here.as_bytes() {
            [b'/', b'/', ..] => here.find('\n').unwrap_or(here.len()),
            [b'\'', b'\\', _, b'\'', ..] => 4,
            [b'\'', _, b'\'', ..] => 3,
            [b'"', ..] => {
                let length = length_of_literal(&here[1..]);
                found.push(here[1..=length].to_owned());
                length + 2
            }
            [bracket, ..] => {
                depth += i32::from(*bracket == b'(') - i32::from(*bracket == b')');
                1
            }
            [] => 0,
        };
        if depth < 0 {
            break;
        }
        rest = here.get(skipped..).unwrap_or_default();
    }
    found
}

fn length_of_literal(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}
