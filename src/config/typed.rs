//! The words that were typed for settings: on the command line, in the environment, in the settings file.
//!
//! Only their spelling is checked here; [`super::Settings`] checks their meaning.

use std::collections::BTreeMap;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::InvalidSetting;
use super::setting::Setting;
use super::table::{self, GROUPS};

/// The settings as they were typed.
///
/// There is no `Debug`, as the words include passwords.
#[derive(Clone, Default, PartialEq)]
pub struct Typed {
    /// By the names of settings; unset ones are missing.
    words: BTreeMap<&'static str, Vec<String>>,
}

impl Typed {
    /// Creates settings with only this one.
    pub fn of(name: &'static str, word: &str) -> Self {
        let mut typed = Self::default();
        typed.put(name, [word.to_owned()]);
        typed
    }

    /// Fills in missing settings from `below`.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        let mut words = below.words;
        words.extend(self.words);
        Self { words }
    }

    /// Whether a setting is present, even with an empty word or list.
    pub fn has(&self, name: &str) -> bool {
        self.words(name).is_some()
    }

    /// Returns the word for a setting with one value.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.words(name)?.first().map(String::as_str)
    }

    /// Returns the word for a setting that counts as unset if empty.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.word(name).filter(|word| !word.is_empty())
    }

    /// Returns the words for a list.
    pub fn list(&self, name: &str) -> &[String] {
        self.words(name).unwrap_or_default()
    }

    /// Replaces the words for a setting.
    pub(super) fn put(&mut self, name: &'static str, words: impl IntoIterator<Item = String>) {
        debug_assert!(table::find(name).is_some());
        self.words.insert(name, words.into_iter().collect());
    }

    /// Removes the settings of the given names.
    pub(super) fn without(mut self, names: &[&str]) -> Self {
        self.words.retain(|name, _| !names.contains(name));
        self
    }

    /// Parses the word for a setting, unless it is empty or missing.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, InvalidSetting> {
        let refused = |word, why: String| InvalidSetting::of(name, word, &why);
        self.given(name).map(|word| read(word).map_err(|why| refused(word, why))).transpose()
    }

    fn words(&self, name: &str) -> Option<&[String]> {
        debug_assert!(table::find(name).is_some());
        self.words.get(name).map(Vec::as_slice)
    }
}

impl Args for Typed {
    fn augment_args(command: Command) -> Command {
        GROUPS.iter().fold(command, |command, group| {
            let args = group.settings.iter().filter_map(Setting::arg);
            command.args(args.map(|arg| arg.help_heading(group.heading)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Typed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut typed = Self::default();
        typed.update_from_arg_matches(matches)?;
        Ok(typed)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in table::all() {
            if let Ok(Some(words)) = matches.try_get_many::<String>(setting.name) {
                self.put(setting.name, words.cloned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_layer_wins_and_the_lower_one_fills_the_gaps() {
        let typed = |toml| Typed::from_toml(toml).unwrap();
        let (upper, lower) = (typed("drift = 0.1"), typed("drift = 0.2\nworkers = 2"));
        assert!(upper.or(lower) == typed("drift = 0.1\nworkers = 2"));
    }
}
