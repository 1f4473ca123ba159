//! Debts: requests delivered now or when the link is back, and repeated until done.

use super::{Expected, Link};
use crate::operation::debts::Debt;
use crate::operation::request::Form;
use crate::resp::answer::Answer;
use crate::time::clock;

impl Link {
    /// Returns the number of releases and rollbacks that wait for the link to come back.
    pub fn deferred(&self) -> usize {
        self.state.borrow().deferred.count(clock::now())
    }

    /// Returns the number of debts dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.state.borrow().deferred.dropped()
    }

    /// Whether a release or rollback waits, or was sent and not answered yet.
    pub fn owes(&self) -> bool {
        let is_debt = |expected: &Expected| matches!(expected, Expected::Deferred(_));
        self.deferred() > 0 || self.state.borrow().expected.iter().any(is_debt)
    }

    /// Sends the debt, now or when the link is back, and repeats it until the master has done it.
    pub fn deliver(&self, debt: Debt) {
        if self.is_up() {
            return self.send_deferred(Box::new(debt), Form::Sha);
        }
        self.defer(debt);
    }

    pub(super) fn defer(&self, debt: Debt) {
        self.state.borrow_mut().deferred.push(debt, clock::now());
    }

    pub(super) fn send_all_deferred(&self) -> usize {
        let deferred = self.state.borrow_mut().deferred.take(clock::now());
        let sent = deferred.len();
        for debt in deferred {
            self.send_deferred(Box::new(debt), Form::Sha);
        }
        sent
    }

    fn send_deferred(&self, debt: Box<Debt>, form: Form) {
        let mut request = Vec::new();
        debt.encode(form, &mut request);
        self.append(debt.db(), &request, 0, Expected::Deferred(debt), None);
    }

    pub(super) fn deferred_answered(&self, debt: Box<Debt>, answer: &Answer<'_>) {
        match answer {
            Answer::Error(error) if error.starts_with(b"NOSCRIPT") => {
                self.send_deferred(debt, Form::Text);
            }
            // A master without room for notes must not make this proxy forget its other debts.
            Answer::Error(_) if matches!(*debt, Debt::Note(_)) => {
                tracing::debug!(
                    master = %self.name(),
                    "it cannot store notes about leases that have ended"
                );
            }
            Answer::Error(_) => self.defer(*debt),
            _ => {}
        }
    }
}
