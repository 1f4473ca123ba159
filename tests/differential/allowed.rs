//! Differences between proxy and Redis that `docs/differences.md` allows.

use std::path::Path;

use crate::step::{Scripts, Step};

/// Rules for comparing replies, and commands to leave out, as read from that page.
pub(crate) struct Allowed {
    /// Request prefixes in lower case, with the rule for comparing their replies.
    rules: Vec<(String, Rule)>,
    left_out: Vec<String>,
    left_out_of_programs: Vec<String>,
    left_out_of_transactions: Vec<String>,
    left_out_while_watching: Vec<String>,
}

/// Permitted differences between two replies. With none set, the replies must be equal byte for byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) times: bool,
    pub(crate) order: bool,
    pub(crate) numbers: bool,
    pub(crate) raw: bool,
    /// Redis may refuse scores that are numbers.
    pub(crate) scores: bool,
    /// The proxy may refuse a lock command in a read-only script.
    pub(crate) locks: bool,
    pub(crate) kind: bool,
    pub(crate) anything: bool,
    /// Like `order`, where `BY` names a pattern without `*`.
    pub(crate) without_weights: bool,
}

impl Rule {
    /// Returns a rule that allows what either of the two allows.
    pub(crate) fn or(self, other: Rule) -> Rule {
        Rule {
            times: self.times || other.times,
            order: self.order || other.order,
            numbers: self.numbers || other.numbers,
            raw: self.raw || other.raw,
            scores: self.scores || other.scores,
            locks: self.locks || other.locks,
            kind: self.kind || other.kind,
            anything: self.anything || other.anything,
            without_weights: self.without_weights || other.without_weights,
        }
    }

    fn named(how: &str) -> Rule {
        let rule = Rule::default();
        match how {
            "times" => Rule { times: true, ..rule },
            "order" => Rule { order: true, ..rule },
            "numbers" => Rule { numbers: true, ..rule },
            "raw" => Rule { raw: true, ..rule },
            "scores" => Rule { scores: true, ..rule },
            "locks" => Rule { locks: true, ..rule },
            "type" => Rule { kind: true, ..rule },
            "anything" => Rule { anything: true, ..rule },
            "order without weights" => Rule { without_weights: true, ..rule },
            other => panic!("no such rule: {other}"),
        }
    }
}

impl Allowed {
    pub(crate) fn read() -> Allowed {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/differences.md");
        Allowed::of(&std::fs::read_to_string(page).expect("the page of differences"))
    }

    fn of(page: &str) -> Allowed {
        let mut allowed = Allowed {
            rules: Vec::new(),
            left_out: Vec::new(),
            left_out_of_programs: Vec::new(),
            left_out_of_transactions: Vec::new(),
            left_out_while_watching: Vec::new(),
        };
        for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
            let columns: Vec<_> = row.split(" | ").collect();
            let [commands, how, why] = columns[..] else { panic!("three columns: {row}") };
            assert!(why.trim_end_matches('|').trim().len() > 10, "a reason: {row}");
            for command in commands.split(", ").map(|name| name.trim_matches('`').to_lowercase()) {
                match how {
                    "nowhere" => allowed.left_out.push(command),
                    "not in transactions" => allowed.left_out_of_transactions.push(command),
                    "not while a key is watched" => allowed.left_out_while_watching.push(command),
                    "not in programs" => allowed.left_out_of_programs.push(command),
                    how => allowed.rules.push((command, Rule::named(how))),
                }
            }
        }
        allowed
    }

    pub(crate) fn leaves_out(&self, name: &str) -> bool {
        is_among(name, &self.left_out)
    }

    pub(crate) fn leaves_out_of_programs(&self, name: &str) -> bool {
        is_among(name, &self.left_out_of_programs)
    }

    pub(crate) fn leaves_out_of_transactions(&self, name: &str) -> bool {
        is_among(name, &self.left_out_of_transactions) || self.leaves_out_of_programs(name)
    }

    /// Returns whether to leave out this request while a key is watched, for its own sake or for a command that its
    /// script calls.
    pub(crate) fn leaves_out_while_watching(&self, step: &Step, scripts: &Scripts) -> bool {
        let words = scripts.words_of(step);
        self.left_out_while_watching.iter().any(|out| words_name(&words, step, out))
    }

    /// Returns the rule for comparing the replies to a request. For a script, the rules of all commands that it calls
    /// apply as well.
    pub(crate) fn rule(&self, step: &Step, scripts: &Scripts) -> Rule {
        let words = scripts.words_of(step);
        let rules = self.rules.iter().filter(|(command, _)| words_name(&words, step, command));
        let all = rules.fold(Rule::default(), |all, (_, rule)| all.or(*rule));
        let has_no_weights = words.windows(2).any(|two| two[0] == "by" && !two[1].contains('*'));
        Rule { order: all.order || all.without_weights && has_no_weights, ..all }
    }
}

/// Returns whether `command` is the request's own command or one that its script calls.
fn words_name(words: &[String], step: &Step, command: &str) -> bool {
    let name: Vec<_> = command.split(' ').collect();
    match step.name().starts_with("eval") {
        true => words.windows(name.len()).any(|some| some == name),
        false => words.starts_with(&name.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()),
    }
}

/// Returns whether the list names this command, or its container in the case of `xgroup|create`.
fn is_among(name: &str, list: &[String]) -> bool {
    let container = name.split('|').next().unwrap_or(name);
    list.iter().any(|out| *out == name.replace('|', " ") || out == container)
}
