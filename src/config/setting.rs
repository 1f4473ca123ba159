//! One row of the table of settings: its flag, its environment variable, and the field for its value.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction};

use super::typed::Typed;
use super::{InvalidSetting, Live, Settings};

/// One setting.
pub struct Setting {
    /// The setting's key in the settings file, and its name in `CONFIG GET` and in messages.
    pub name: &'static str,
    /// The form of its values.
    pub(super) shape: Shape,
    /// The field for its value.
    pub(super) field: Field,
    flag: &'static str,
    value_name: &'static str,
    help: &'static str,
    default: &'static str,
    /// Text for the short help (`-h`), which shows only settings with one.
    brief: &'static str,
}

/// The form of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One value.
    One,
    /// One number, which may be negative.
    Signed,
    /// Several values, separated by commas or given by repeating the flag.
    List,
    /// A flag that needs no value.
    Switch,
    /// Several values without a flag: the command line and the environment are visible to others.
    OnlyInFile,
}

/// The struct that holds a setting's value.
pub(super) enum Field {
    /// A field of [`Settings`], which is fixed until the next start.
    Fixed(Access<Settings>),
    /// A field of [`Live`], which can change while the proxy runs.
    Live(Access<Live>),
    /// None: a word that changes the meaning of other settings, and is not shown.
    None,
}

/// Access to the value of a setting.
pub(super) struct Access<T: 'static> {
    /// Shows the value without passwords.
    pub(super) show: fn(&T) -> String,
    /// Parses the value; `None` if it depends on other settings too.
    pub(super) set: Option<Set<T>>,
    /// Whether two values differ that may look the same because passwords are hidden.
    pub(super) differs: fn(&T, &T) -> bool,
}

/// Parses a value. The error message continues a sentence that begins with the name and the text.
type Set<T> = fn(&mut T, &str) -> Result<(), String>;

/// Returns a setting with one value.
pub(super) const fn one(name: &'static str, value_name: &'static str) -> Setting {
    let (shape, field) = (Shape::One, Field::None);
    Setting { name, flag: name, value_name, help: "", default: "", brief: "", shape, field }
}

/// Returns a setting with several values.
pub(super) const fn list(name: &'static str, value_name: &'static str) -> Setting {
    one(name, value_name).shape(Shape::List)
}

/// Returns a setting that is on or off.
pub(super) const fn toggle(name: &'static str) -> Setting {
    one(name, "BOOL").shape(Shape::Switch)
}

impl Setting {
    pub(super) const fn shape(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    pub(super) const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Sets a flag that differs from the key.
    pub(super) const fn flag(self, flag: &'static str) -> Self {
        Self { flag, ..self }
    }

    /// Shows the setting in the short help, too.
    pub(super) const fn brief(self, brief: &'static str) -> Self {
        Self { brief, ..self }
    }

    /// Sets the default shown in the help.
    pub(super) const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    pub(super) const fn field(self, field: Field) -> Self {
        Self { field, ..self }
    }

    /// Returns the flag, if the setting has one.
    pub(super) fn arg(&self) -> Option<Arg> {
        let arg = Arg::new(self.name)
            .long(self.flag)
            .value_name(self.value_name)
            .env(format!("REDLOCK_PROXY_{}", self.name.replace('-', "_").to_uppercase()))
            .hide_env_values(true)
            .hide_short_help(self.brief.is_empty())
            .help(if self.brief.is_empty() { self.full_help() } else { self.brief.into() })
            .long_help(self.full_help());
        let arg = if self.flag == self.name { arg } else { arg.visible_alias(self.name) };
        match self.shape {
            Shape::One => Some(arg),
            Shape::Signed => Some(arg.allow_negative_numbers(true)),
            Shape::List => Some(arg.action(ArgAction::Append).value_delimiter(',')),
            Shape::Switch => {
                Some(arg.num_args(0..=1).require_equals(true).default_missing_value("true"))
            }
            Shape::OnlyInFile => None,
        }
    }

    /// The default appears only as text: if clap knew it, it would override the file's settings.
    fn full_help(&self) -> StyledStr {
        let help = self.help;
        match (self.shape, self.default) {
            (Shape::List, _) => format!("{help}; repeat the flag or separate by commas").into(),
            (_, "") => help.into(),
            (_, default) => format!("{help}. [default: {default}]").into(),
        }
    }

    /// Sets the field to the typed value of this setting alone.
    pub(super) fn apply(
        &self,
        settings: &mut Settings,
        typed: &Typed,
    ) -> Result<(), InvalidSetting> {
        let Some(word) = typed.word(self.name) else { return Ok(()) };
        let done = match &self.field {
            Field::Fixed(access) => access.set.map(|set| set(settings, word)),
            Field::Live(access) => access.set.map(|set| set(&mut settings.live, word)),
            Field::None => None,
        };
        done.unwrap_or(Ok(())).map_err(|why| InvalidSetting::of(self.name, word, &why))
    }
}

impl<T> Access<T> {
    /// Whether the setting differs in `ours` and `theirs`.
    pub(super) fn is_different(&self, ours: &T, theirs: &T) -> bool {
        (self.show)(ours) != (self.show)(theirs) || (self.differs)(ours, theirs)
    }
}
