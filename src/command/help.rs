//! `HELP` of every command that has subcommands, in the words of Redis 7.0.

use crate::catalogue::table::Spec;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// Returns the reply to `NAME HELP`, if the request is one.
pub(super) fn asked(spec: &Spec, args: Args<'_>) -> Option<Reply> {
    let is_help = spec.is_container && args.len() == 2 && args.at(1).eq_ignore_ascii_case(b"help");
    if is_help { of(spec.name) } else { None }
}

fn of(name: &str) -> Option<Reply> {
    let mut lines = TEXTS.lines().skip_while(|line| *line != format!("[{name}]"));
    lines.next()?;
    let lines = lines.take_while(|line| !line.starts_with('['));
    Some(Reply::Array(lines.map(Reply::Simple).collect()))
}

/// The help texts, each under the name of its command in brackets.
const TEXTS: &str = include_str!("help.txt");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::table;

    #[test]
    fn whatever_has_subcommands_has_help() {
        let containers = table::all().iter().filter(|spec| spec.is_container);
        let without: Vec<_> =
            containers.map(|spec| spec.name).filter(|name| of(name).is_none()).collect();
        assert_eq!(without, ["cluster"], "a proxy is no cluster");
    }
}
