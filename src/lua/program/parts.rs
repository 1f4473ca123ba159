//! The proxy's Lua, split into statements. A program only contains those that its script can need, because a master
//! creates every function of a program anew for each run.

use std::collections::HashSet;

/// Statement at the outermost level, without comments and indentation, because a master keeps a copy of it in every
/// script.
#[derive(Debug)]
pub(super) struct Statement {
    /// Local names that it declares. A statement without any is always needed.
    names: Vec<String>,
    text: String,
}

/// Splits `lua` into statements. Each line starts one, unless it is indented or ends a statement.
pub(super) fn statements(lua: &str) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    for line in lua.lines().filter(|line| is_code(line)) {
        let goes_on = line.starts_with([' ', '}']) || line.starts_with("end");
        match statements.last_mut().filter(|_| goes_on) {
            Some(statement) => statement.text += line.trim(),
            None => statements.push(Statement { names: names(line), text: line.into() }),
        }
        statements.last_mut().expect("there is one now").text.push('\n');
    }
    statements
}

/// Returns `last`, after the `statements` that it needs, directly or through others.
pub(super) fn before(statements: &[Statement], last: &str) -> String {
    let mut known: HashSet<&str> = words(last).collect();
    let mut needed = Vec::new();
    // Nothing can use a local name before its declaration, so in reverse order every use comes before the declaration.
    for statement in statements.iter().rev() {
        let is_wanted = |name: &String| known.contains(name.as_str());
        if statement.names.is_empty() || statement.names.iter().any(is_wanted) {
            known.extend(words(&statement.text));
            needed.push(statement.text.as_str());
        }
    }
    needed.into_iter().rev().chain([last]).collect()
}

/// Returns `lua` without comments and indentation.
pub(super) fn compact(lua: &str) -> String {
    lua.lines()
        .filter(|line| is_code(line))
        .fold(String::new(), |text, line| text + line.trim() + "\n")
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("--")
}

/// Returns the names declared by a statement that starts with `line`.
fn names(line: &str) -> Vec<String> {
    let Some(declared) = line.strip_prefix("local ") else { return Vec::new() };
    let declared = match declared.strip_prefix("function ") {
        Some(function) => function.split('(').next(),
        None => declared.split('=').next(),
    };
    words(declared.unwrap_or_default()).map(str::to_owned).collect()
}

fn words(lua: &str) -> impl Iterator<Item = &str> {
    lua.split(|next: char| !next.is_ascii_alphanumeric() && next != '_')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LUA: &str = "\
-- Said about one.
local one, two = 1, 2

local function twice(number)
  -- Said about it.
  return two * number
end

local unused = {
  one,
}
first()
";

    #[test]
    fn only_what_is_needed_is_there() {
        let text = before(&statements(LUA), "return twice(3)\n");
        let expected = "local one, two = 1, 2\nlocal function twice(number)\nreturn two * number\nend\n\
                        first()\nreturn twice(3)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_statement_ends_where_the_next_one_begins() {
        let declared: Vec<_> =
            statements(LUA).into_iter().map(|statement| statement.names.join(" ")).collect();
        assert_eq!(declared, ["one two", "twice", "unused", ""]);
    }
}
