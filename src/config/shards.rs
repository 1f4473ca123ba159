//! `--shard NAME=HOST:PORT,...`: several clusters of masters behind one address, each for its share of the keys.

use std::fmt;

use super::typed::Typed;
use super::{InvalidSetting, MasterAddr, Settings, access, checked_masters};

/// Maximum number of shards.
pub const MAX_SHARDS: usize = 256;

/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 64;

/// One cluster of several, with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardSetting {
    /// Name of the shard: the same for every proxy, whatever its masters are called.
    pub name: String,
    /// Masters of the shard, 1 to 31 of them.
    pub masters: Vec<MasterAddr>,
}

/// Shows the shard as it is typed, without passwords.
impl fmt::Display for ShardSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masters: Vec<_> = self.masters.iter().map(ToString::to_string).collect();
        write!(f, "{}={}", self.name, masters.join(","))
    }
}

/// Returns the shards in ascending order of their names; none if the masters are one cluster.
///
/// # Errors
/// Returns an error for a name or a master that is malformed, or that occurs twice.
pub(super) fn parse(typed: &Typed) -> Result<Vec<ShardSetting>, InvalidSetting> {
    let mut shards: Vec<ShardSetting> = Vec::new();
    // In the file, a list has an item for each shard.
    for word in typed.list("shards").iter().flat_map(|words| words.split(',')) {
        let (name, master) = begins(word.trim());
        if let Some(name) = name {
            shards.push(ShardSetting { name: checked_name(name)?, masters: Vec::new() });
        }
        let Some(shard) = shards.last_mut() else {
            return Err(InvalidSetting::new(
                "the first shard has no name: write NAME=host:port,...",
            ));
        };
        let number = shard.masters.len() + 1;
        let invalid = |why| InvalidSetting(format!("shard {}: master {number} {why}", shard.name));
        shard.masters.push(master.parse().map_err(invalid)?);
    }
    shards.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some([one, _]) = shards.windows(2).find(|two| two[0].name == two[1].name) {
        return Err(InvalidSetting(format!(
            "shard {} is named twice: list its masters after one name, separated by commas",
            one.name
        )));
    }
    if shards.len() > MAX_SHARDS {
        let count = shards.len();
        return Err(InvalidSetting(format!("{count} shards are too many: at most {MAX_SHARDS}")));
    }
    if !shards.is_empty() && !typed.list("masters").is_empty() {
        return Err(InvalidSetting::new(
            "masters and shards exclude each other: put the masters into shards",
        ));
    }
    log_in(&mut shards, typed)?;
    Ok(shards)
}

/// Splits the name from a word that begins a shard. A URL has a colon before any equals sign.
fn begins(word: &str) -> (Option<&str>, &str) {
    match word.split_once('=') {
        Some((name, master)) if !name.contains([':', '/', '@']) => (Some(name), master),
        _ => (None, word),
    }
}

fn checked_name(name: &str) -> Result<String, InvalidSetting> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_allowed) {
        return Err(InvalidSetting(format!(
            "shard `{name}` has a name that is not 1 to 64 letters, digits, dots, dashes and underscores"
        )));
    }
    Ok(name.to_owned())
}

fn log_in(shards: &mut [ShardSetting], typed: &Typed) -> Result<(), InvalidSetting> {
    for shard in shards.iter_mut() {
        access::log_in(&mut shard.masters, typed)?;
        let masters = std::mem::take(&mut shard.masters);
        let checked = checked_masters(masters);
        shard.masters =
            checked.map_err(|why| InvalidSetting(format!("shard {}: {why}", shard.name)))?;
    }
    let mut all = shards.iter().flat_map(|shard| shard.masters.iter().map(move |it| (shard, it)));
    while let Some((shard, master)) = all.next() {
        let is_same = |other: &MasterAddr| (&other.host, other.port) == (&master.host, master.port);
        if let Some((other, _)) = all.clone().find(|(_, other)| is_same(other)) {
            return Err(InvalidSetting(format!(
                "master {master} is in the shards {} and {}: each needs masters of its own",
                shard.name, other.name
            )));
        }
    }
    Ok(())
}

impl Settings {
    /// Returns the settings of one shard: those of the process, with the masters of that shard.
    #[must_use]
    pub fn of_shard(&self, at: usize) -> Self {
        let masters = self.shards[at].masters.clone();
        Self { masters, shard: Some(at), ..self.clone() }
    }

    /// Returns the settings of each cluster: one for each shard, or these if there are none.
    pub fn clusters(&self) -> Vec<Self> {
        match self.shards.len() {
            0 => vec![self.clone()],
            count => (0..count).map(|at| self.of_shard(at)).collect(),
        }
    }

    /// Returns the place of the shard among all; 0 if there are none.
    pub fn shard_place(&self) -> usize {
        self.shard.unwrap_or_default()
    }

    /// Returns the name of the shard, if these are the settings of one.
    pub fn shard_name(&self) -> Option<&str> {
        Some(&self.shards.get(self.shard?)?.name)
    }

    /// Returns the names of all shards in ascending order.
    pub fn shard_names(&self) -> Vec<String> {
        self.shards.iter().map(|shard| shard.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::command_line::Cli;

    fn settings(line: &str) -> Result<Settings, String> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let cli = Cli::read(words).expect("a command line");
        Settings::from_typed(&cli.settings().expect("settings")).map_err(|why| why.to_string())
    }

    fn shown(line: &str) -> String {
        let settings = settings(line).expect("valid settings");
        settings.shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn shards_are_typed_one_by_one_or_together_and_sorted_by_name() {
        let one_by_one = "redlock-proxy --shard b=h:4 --shard a=h:1,redis://u:p=q@h:2,h:3";
        assert_eq!(shown(one_by_one), "a=h:1,h:2,h:3 b=h:4");
        assert_eq!(
            shown("redlock-proxy --shards b=h:4,a=h:1,redis://u:p=q@h:2,h:3"),
            shown(one_by_one)
        );
        let settings = settings(one_by_one).expect("valid settings");
        assert_eq!(settings.clusters()[1].masters, settings.shards[1].masters);
        assert_eq!(settings.clusters()[1].shard_name(), Some("b"));
    }

    #[test]
    fn wrong_shards_are_refused_in_one_sentence() {
        let cases = [
            ("--shard h:1", "the first shard has no name: write NAME=host:port,..."),
            (
                "--shard a=h:1 --shard a=h:2",
                "shard a is named twice: list its masters after one name, separated by commas",
            ),
            (
                "--shard a=h:1 --master h:2",
                "masters and shards exclude each other: put the masters into shards",
            ),
            (
                "--shard a=h:1 --shard b=h:1",
                "master h:1 is in the shards a and b: each needs masters of its own",
            ),
            (
                "--shard a=h:1,h:1",
                "shard a: master h:1 is named twice, and one instance must not vote twice",
            ),
            (
                "--shard a=h:x",
                "shard a: master 1 has no valid port: a port is a number from 1 to 65535",
            ),
            (
                "--shard ä=h:1",
                "shard `ä` has a name that is not 1 to 64 letters, digits, dots, dashes and underscores",
            ),
        ];
        for (line, sentence) in cases {
            assert_eq!(
                settings(&format!("redlock-proxy {line}")),
                Err(sentence.to_owned()),
                "{line}"
            );
        }
    }
}
