//! The programs that run transactions: one for those without scripts, and one for each set of scripts
//! that was run in one, by users with the same rules.

use std::collections::HashMap;
use std::sync::Arc;

use crate::acl::guard::Guard;

use super::cache::Script;
use super::program::{Program, Ttls};

/// How many bytes of texts are remembered; beyond it all are made anew.
const MAX_BYTES: usize = 4 << 20;

/// The program of a transaction, and where its scripts are.
#[derive(Clone, Debug)]
pub struct TransactionText {
    /// The text.
    pub program: Arc<Program>,
    /// First and last line of each script.
    pub places: Arc<[(usize, usize)]>,
}

/// See the module.
pub struct Transactions {
    ttls: Ttls,
    plain: TransactionText,
    with_scripts: HashMap<(Vec<String>, Rules), TransactionText>,
}

/// What keeps the scripts to the rules of their user, who otherwise may do everything.
type Rules = Option<Arc<Guard>>;

impl Transactions {
    /// Only the one without scripts.
    pub fn new(ttls: Ttls) -> Self {
        Self { ttls, plain: text(&[], ttls, None), with_scripts: HashMap::new() }
    }

    /// The program that runs transactions with these scripts in them.
    pub fn with(&mut self, scripts: &[Arc<Script>], guard: Rules) -> TransactionText {
        if scripts.is_empty() {
            return self.plain.clone();
        }
        let shas = scripts.iter().map(|script| script.sha.clone()).collect();
        let bytes = |known: &TransactionText| known.program.text.len();
        if self.with_scripts.values().map(bytes).sum::<usize>() > MAX_BYTES {
            self.with_scripts.clear();
        }
        let ttls = self.ttls;
        let program = || text(scripts, ttls, guard.as_deref());
        self.with_scripts.entry((shas, guard.clone())).or_insert_with(program).clone()
    }
}

fn text(scripts: &[Arc<Script>], ttls: Ttls, guard: Option<&Guard>) -> TransactionText {
    let codes: Vec<&[u8]> = scripts.iter().map(|script| script.code()).collect();
    let (program, places) = Program::transaction(&codes, ttls, guard);
    TransactionText { program: Arc::new(program), places: places.into() }
}
