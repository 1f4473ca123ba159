//! The table of settings, from which flags, environment variables, the keys of the file, `CONFIG GET`, `CONFIG SET` and
//! the manual are generated.

use std::fmt::Display;

use super::setting::{Access, Field, Setting};
use super::{Live, Settings};

/// A field set by one word. A function of the field, or of its whole struct, shows the value.
macro_rules! field {
    ($owner:ident.$name:ident, $read:expr, $show:expr) => {
        field!($owner.$name, $read, of: |it| $show(&it.$name))
    };
    ($owner:ident.$name:ident, $read:expr, of: $show:expr) => {
        Field::$owner(Access {
            show: $show,
            set: Some(|it, text| $read(text).map(|value| it.$name = value)),
            differs: |_, _| false,
        })
    };
}

/// Returns the field for a value of [`Settings`] that depends on several settings.
const fn shown(show: fn(&Settings) -> String) -> Field {
    Field::Fixed(Access { show, set: None, differs: |_, _| false })
}

mod data;
mod limits;
mod listening;
mod locks;
mod masters;
mod operation;
mod security;

/// Settings with a heading of their own in the help.
pub struct SettingGroup {
    /// The heading.
    pub heading: &'static str,
    /// The settings, in the order of the help.
    pub settings: &'static [Setting],
}

/// All settings, in the order of the help.
pub static GROUPS: [SettingGroup; 7] = [
    SettingGroup { heading: "Listening", settings: listening::SETTINGS },
    SettingGroup { heading: "Masters", settings: masters::SETTINGS },
    SettingGroup { heading: "Locks", settings: locks::SETTINGS },
    SettingGroup { heading: "Data", settings: data::SETTINGS },
    SettingGroup { heading: "Limits", settings: limits::SETTINGS },
    SettingGroup { heading: "Security", settings: security::SETTINGS },
    SettingGroup { heading: "Operation", settings: operation::SETTINGS },
];

/// Returns all settings, in the order of the help.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    GROUPS.iter().flat_map(|group| group.settings)
}

/// Returns the setting with this name.
pub(super) fn find(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name == name)
}

/// Returns the names of settings that are fixed until the next start, with access to each.
pub(super) fn fixed() -> impl Iterator<Item = (&'static str, &'static Access<Settings>)> {
    all().filter_map(|setting| match &setting.field {
        Field::Fixed(access) => Some((setting.name, access)),
        _ => None,
    })
}

/// Returns the names of settings that can change while the proxy runs, with access to each.
pub(super) fn live() -> impl Iterator<Item = (&'static str, &'static Access<Live>)> {
    all().filter_map(|setting| match &setting.field {
        Field::Live(access) => Some((setting.name, access)),
        _ => None,
    })
}

fn or_none(value: &Option<impl Display>) -> String {
    value.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn joined(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_shown_is_about_a_password_or_the_log() {
        let hidden = all().filter(|setting| matches!(setting.field, Field::None));
        let names: Vec<_> = hidden.map(|setting| setting.name).collect();
        let about_data = ["data-user", "data-password-file", "data-sentinel-password-file"];
        let of_masters = ["master-user", "master-password-file"];
        let others = ["requirepass-file", "log-format"];
        assert_eq!(names, [&of_masters[..], &about_data, &others].concat());
    }
}
