//! Programs that run transactions: one for transactions without scripts, and one for each set of scripts that users
//! with the same rules have run in a transaction.

use std::collections::HashMap;
use std::sync::Arc;

use crate::acl::guard::Guard;

use super::cache::Script;
use super::program::{ProgramText, ScriptRules, Tells};

/// Maximum size of the remembered texts, in bytes. Beyond it, all are generated anew.
const MAX_BYTES: usize = 4 << 20;

/// Program of a transaction, and the positions of its scripts.
#[derive(Clone, Debug)]
pub struct TransactionText {
    /// Text of the program.
    pub program: Arc<ProgramText>,
    /// First and last line of each script.
    pub places: Arc<[(usize, usize)]>,
}

/// Cache of those programs.
pub struct Transactions {
    script_rules: ScriptRules,
    plain: TransactionText,
    others: HashMap<(Vec<String>, Rules, Databases, Tells), TransactionText>,
}

/// Databases that a transaction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Databases {
    /// Database that its client has selected.
    One,
    /// Also databases that it selects itself. The keys that it uses there only show while it runs, after it may have
    /// written.
    Several,
}

/// Guard that restricts the scripts to the rules of their user. `None` allows everything.
type Rules = Option<Arc<Guard>>;

impl Transactions {
    /// Creates the program for transactions without scripts.
    pub fn new(script_rules: ScriptRules) -> Self {
        Self {
            script_rules,
            plain: text(&[], script_rules, None, Databases::One),
            others: HashMap::new(),
        }
    }

    /// Makes the programs that are asked for from now on tell this.
    pub fn tell(&mut self, tells: Tells) {
        self.script_rules.tells = tells;
    }

    /// Returns the program for transactions that run these scripts.
    pub fn with(&mut self, scripts: &[Arc<Script>], guard: Rules) -> TransactionText {
        self.using(Databases::One, scripts, guard)
    }

    /// Returns the program for transactions that run these scripts and use these databases.
    pub fn using(
        &mut self,
        databases: Databases,
        scripts: &[Arc<Script>],
        guard: Rules,
    ) -> TransactionText {
        let tells = self.script_rules.tells;
        let tells = if scripts.is_empty() { tells.of_command() } else { tells };
        if scripts.is_empty() && databases == Databases::One && !tells.is_any() {
            return self.plain.clone();
        }
        let shas = scripts.iter().map(|script| script.sha.clone()).collect();
        let bytes = |known: &TransactionText| known.program.text.len();
        if self.others.values().map(bytes).sum::<usize>() > MAX_BYTES {
            self.others.clear();
        }
        let script_rules = ScriptRules { tells, ..self.script_rules };
        let program = || text(scripts, script_rules, guard.as_deref(), databases);
        self.others.entry((shas, guard.clone(), databases, tells)).or_insert_with(program).clone()
    }
}

fn text(
    scripts: &[Arc<Script>],
    script_rules: ScriptRules,
    guard: Option<&Guard>,
    databases: Databases,
) -> TransactionText {
    let parts: Vec<_> = scripts.iter().map(|script| script.part()).collect();
    let (program, places) = ProgramText::transaction(&parts, script_rules, guard, databases);
    TransactionText { program: Arc::new(program), places: places.into() }
}

/// Returns the program that runs single commands, for a proxy without settings.
#[cfg(test)]
pub(crate) fn for_tests() -> Arc<ProgramText> {
    use crate::decision::lease::pad::Pad;
    let pad = Pad::new(std::time::Duration::from_millis(50), 0.01);
    Transactions::new(ScriptRules {
        pad,
        longest: None,
        sees_all_keys: true,
        tells: Tells::NOTHING,
    })
    .with(&[], None)
    .program
}
