//! Who may do what.

use super::joined;
use crate::config::setting::{Access, Field, Setting, Shape, list, one, toggle};
use crate::config::values::switch;

pub(super) static SETTINGS: &[Setting] = &[
    one("requirepass", "PASSWORD")
        .help("Password that clients must give; safer in the environment or the file")
        .field(Field::Live(Access {
            show: |it| it.requirepass.as_ref().map_or("none", |_| "***").to_owned(),
            set: None,
            differs: |ours, theirs| ours.requirepass != theirs.requirepass,
        })),
    one("requirepass-file", "FILE").help("File with that password"),
    list("users", "RULES")
        .help("Additional users, each as in an ACL file")
        .shape(Shape::OnlyInFile)
        .field(Field::Live(Access {
            show: |it| joined(it.users.all().map(|user| user.name())),
            set: None,
            // The password of the default user is a separate setting.
            differs: |ours, theirs| {
                ours.users != theirs.users && ours.requirepass == theirs.requirepass
            },
        })),
    one("protected-mode", "BOOL")
        .help("Refuse to listen for other hosts without a password or client certificates")
        .default("true")
        .field(field!(Fixed.protected_mode, switch, bool::to_string)),
    toggle("allow-flush").help("Allow FLUSHDB and FLUSHALL").default("false").field(field!(
        Live.allow_flush,
        switch,
        bool::to_string
    )),
];
