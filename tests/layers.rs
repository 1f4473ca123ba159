//! The rooms of `src/` form layers: the list in `src/lib.rs` gives their order, and a room imports only rooms below
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Module that only unit tests see: the masters of the models (`tests/specification`). It is no room.
const FOR_UNIT_TESTS: &str = "specification";

#[test]
fn no_room_imports_a_room_above_it() {
    let rooms = rooms();
    let mut wrong = Vec::new();
    for (place, room) in rooms.iter().enumerate() {
        for file in sources(&src().join(room)) {
            for path in imports(&code_of(&file)) {
                match rooms.iter().position(|other| *other == path) {
                    Some(other) if other >= place => {}
                    None if path == FOR_UNIT_TESTS => {}
                    _ => wrong.push(format!("{} imports crate::{path}", file.display())),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports that point up:\n{}", wrong.join("\n"));
}

#[test]
fn no_path_leaves_its_room_by_super() {
    let mut wrong = Vec::new();
    for room in rooms() {
        for file in sources(&src().join(&room)) {
            let inside = file.strip_prefix(src()).expect("a file of src");
            // The module itself, unless it is the `mod.rs` of a directory, and modules in the file, which are tests.
            let is_root = inside.ends_with("mod.rs");
            let depth = inside.components().count() - usize::from(is_root);
            let code = code_of(&file);
            let body = code.split("#[cfg(test)]").next().unwrap_or_default();
            if climbs(body) >= depth {
                wrong.push(file.display().to_string());
            }
        }
    }
    assert!(wrong.is_empty(), "`super` leads out of the room: {wrong:?}");
}

#[test]
fn the_order_names_every_room() {
    let mut rooms = rooms();
    let lib = fs::read_to_string(src().join("lib.rs")).expect("src/lib.rs");
    let mut modules: Vec<_> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")).collect();
    modules.sort_unstable();
    rooms.sort_unstable();
    let rooms: Vec<_> = rooms.iter().map(|room| format!("{room};")).collect();
    assert_eq!(rooms, modules);
    let only = ["lib.rs", "main.rs"];
    let beside = fs::read_dir(src()).expect("src").flatten().map(|entry| entry.path());
    let stray: Vec<_> = beside
        .filter(|path| path.is_file() && !only.iter().any(|name| path.ends_with(name)))
        .collect();
    assert!(stray.is_empty(), "files that are in no room: {stray:?}");
}

/// Types with one name in two rooms, and the reason.
const HALVES: [(&str, &str); 6] = [
    ("Claim", "the decision, and the operation that joins it with bytes"),
    ("Delete", "the same"),
    ("Extend", "the same"),
    ("Flush", "the same"),
    ("Release", "the same"),
    ("Program", "the same: what a proposer runs, and the operation"),
];

#[test]
fn no_two_rooms_call_different_types_the_same() {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for room in rooms() {
        for file in sources(&src().join(&room)) {
            let code = code_of(&file);
            let code = code.split("#[cfg(test)]").next().unwrap_or_default();
            for name in public_types(code) {
                owners.entry(name).or_default().insert(room.clone());
            }
        }
    }
    assert!(owners.len() > 300, "only {} types were found", owners.len());
    let is_half = |name: &str| HALVES.iter().any(|(half, _)| *half == name);
    let shared: Vec<_> =
        owners.iter().filter(|(name, rooms)| rooms.len() > 1 && !is_half(name)).collect();
    assert!(shared.is_empty(), "types of one name in several rooms: {shared:#?}");
}

/// Returns the names of `pub` structs, enums, traits and aliases.
fn public_types(code: &str) -> Vec<String> {
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let name = |line: &str| kinds.iter().find_map(|kind| line.strip_prefix(kind)).map(name_at);
    code.lines().filter_map(name).collect()
}

/// A planted fault for each of the readers below, because a test that cannot fail is worthless.
#[test]
fn imports_are_found_wherever_they_stand() {
    let code = "use crate::resp::reply::Reply;\npub use crate::{acl, lua::Script};\n\
                fn f() { crate::worker::serve(); let g: crate::engine::Engine; }\n\
                // crate::session::Session\n/// [`x`](crate::admin)\n";
    let mut found = imports(&without_comments(code));
    found.sort_unstable();
    assert_eq!(found, ["acl", "engine", "lua", "resp", "worker"]);
    assert_eq!(
        (climbs("use super::super::x;"), climbs("use super::x;"), climbs("super")),
        (2, 1, 0)
    );
}

/// Returns the rooms from top to bottom, as `src/lib.rs` lists them.
fn rooms() -> Vec<String> {
    let lib = fs::read_to_string(src().join("lib.rs")).expect("src/lib.rs");
    let named = lib.lines().filter_map(|line| line.strip_prefix("//! * [`"));
    let rooms: Vec<_> = named.filter_map(|line| Some(line.split_once('`')?.0.to_owned())).collect();
    assert!(rooms.len() > 10, "the list of rooms is gone: {rooms:?}");
    rooms
}

/// Returns the first names after `crate::`.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices("crate::") {
        if code[..at]
            .ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == '$')
        {
            continue;
        }
        let rest = &code[at + word.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(heads(group)),
            None => found.push(name_at(rest)),
        }
    }
    found
}

/// Returns the first name of each member of a group of imports, up to its closing brace.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut heads, mut is_next) = (1, Vec::new(), true);
    for (at, it) in group.char_indices() {
        match it {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => is_next = true,
            it if is_next && it.is_alphabetic() => {
                heads.push(name_at(&group[at..]));
                is_next = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn name_at(text: &str) -> String {
    text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}

/// Returns the longest run of `super::` in one path.
fn climbs(code: &str) -> usize {
    let mut longest = 0;
    let mut rest = code;
    while let Some(at) = rest.find("super::") {
        rest = &rest[at..];
        let mut run = 0;
        while let Some(behind) = rest.strip_prefix("super::") {
            (run, rest) = (run + 1, behind);
        }
        longest = longest.max(run);
    }
    longest
}

fn code_of(file: &Path) -> String {
    without_comments(&fs::read_to_string(file).expect("a source file"))
}

fn without_comments(text: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).expect("a room").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}
