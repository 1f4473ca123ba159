//! Calls of one script that are sent as one.
//!
//! A master's overhead per script, whatever the script does, is a good part of the cost of a lock. So consecutive
//! unsent programs on one key each with the same text become one call ([`ProgramText::together`]). Each still counts
//! separately: its answer is one of those in the reply.

use std::rc::Rc;
use std::sync::Arc;

use super::{Expected, Link, State, Waiting};
use crate::decision::roster::term::Term;
use crate::lua::program::ProgramText;
use crate::operation::Heard;
use crate::operation::register::ask::PackMember;
use crate::operation::request::{self, Number};
use crate::resp::answer::{Answer, Decoder};
use crate::resp::flat::{self, Malformed};

/// Maximum calls sent as one. A master serves nobody else meanwhile.
const MOST: usize = 64;

/// Maximum size in bytes of a request to which others may be added.
const MOST_BYTES: usize = 64 << 10;

/// The answer to a call that must be sent alone.
const AGAIN: &[u8] = b"$5\r\nagain\r\n";

/// Calls waiting to be written.
#[derive(Debug)]
pub(super) struct Gathered {
    program: Arc<ProgramText>,
    /// The request of the first, for when it stays the only one.
    alone: Vec<u8>,
    keys: Vec<Vec<u8>>,
    argv: Vec<u8>,
    width: usize,
    how: Vec<u8>,
    waiting: Vec<Waiting>,
    is_due: bool,
}

impl Gathered {
    fn has_room_for(&self, member: &PackMember, is_due: bool) -> bool {
        Arc::ptr_eq(&self.program, &member.program)
            && self.is_due == is_due
            && self.width == member.width
            && self.how == member.how
            && self.keys.len() < MOST
            && self.argv.len() + member.argv.len() < MOST_BYTES
            // Each call relies on the key's state before all of them.
            && !self.keys.contains(&member.key)
    }

    /// Appends the calls as one call of this program.
    fn encode(&self, program: &ProgramText, out: &mut Vec<u8>) {
        request::header(out, 4 + self.keys.len() * (1 + self.width));
        request::word(out, b"EVALSHA");
        request::word(out, program.sha.as_bytes());
        request::word(out, Number::default().digits(self.keys.len() as i64));
        self.keys.iter().for_each(|key| out.extend_from_slice(key));
        out.extend_from_slice(&self.argv);
        request::word(out, &self.how);
    }
}

impl Link {
    /// Sends a program as [`Link::send_program`] does, possibly in one call with others of its text. `request` is sent
    /// if there are none.
    pub fn send_together(
        &self,
        member: &PackMember,
        db: u32,
        request: &[u8],
        waiting: Waiting,
        term: &Rc<Term>,
    ) {
        let is_due = term.proof(self.master, db).is_some() && self.votes_in(term);
        if !self.joins(member, db, waiting, is_due, term) {
            self.load(&member.program);
            self.gather(member, db, request, waiting, is_due.then_some(term));
        }
    }

    fn joins(
        &self,
        member: &PackMember,
        db: u32,
        waiting: Waiting,
        is_due: bool,
        term: &Rc<Term>,
    ) -> bool {
        let state = &mut *self.state.borrow_mut();
        let is_same_stretch =
            !is_due || state.open.as_ref().is_some_and(|open| Rc::ptr_eq(open, term));
        let Some(gathered) = &mut state.gathered else { return false };
        if state.db != db || !is_same_stretch || !gathered.has_room_for(member, is_due) {
            return false;
        }
        gathered.keys.push(member.key.clone());
        gathered.argv.extend_from_slice(&member.argv);
        gathered.waiting.push(waiting);
        true
    }

    fn gather(
        &self,
        member: &PackMember,
        db: u32,
        request: &[u8],
        waiting: Waiting,
        term: Option<&Rc<Term>>,
    ) {
        let state = &mut *self.state.borrow_mut();
        self.goes_to(state, db, term);
        state.gathered = Some(Gathered {
            program: Arc::clone(&member.program),
            alone: request.to_vec(),
            keys: vec![member.key.clone()],
            argv: member.argv.clone(),
            width: member.width,
            how: member.how.clone(),
            waiting: vec![waiting],
            is_due: term.is_some(),
        });
        self.is_to_be_written(state);
    }

    /// Closes the gathered calls to additions.
    pub(super) fn end_gathering(&self, state: &mut State) {
        let Some(gathered) = state.gathered.take() else { return };
        let is_due = gathered.is_due;
        let (program, waiting) = match (&gathered.waiting[..], gathered.program.together()) {
            ([_, _, ..], Some(program)) => (program, gathered.waiting.clone()),
            _ => {
                state.out.extend_from_slice(&gathered.alone);
                let waiting = gathered.waiting.into_iter();
                let expected = waiting.map(|waiting| Expected::Operation { waiting, is_due });
                return state.expected.extend(expected);
            }
        };
        let mut request = Vec::with_capacity(gathered.argv.len() * 2);
        if state.has_to_load(program) {
            request::encode(&mut request, &[b"SCRIPT", b"LOAD", &program.text]);
            state.expected.push_back(Expected::Load);
        }
        gathered.encode(program, &mut request);
        state.out.extend_from_slice(&request);
        state.expected.push_back(Expected::Together { waiting: waiting.into(), is_due });
    }
}

/// Passes the answer to each call to `hand_over`, with its purpose; `None`: the call must be sent alone.
///
/// # Errors
/// Returns an error if the reply does not answer this number of calls.
pub(super) fn split(
    waiting: &[Waiting],
    heard: Heard<'_>,
    mut hand_over: impl FnMut(Waiting, Option<Heard<'_>>),
) -> Result<(), Malformed> {
    if let Answer::Error(_) = heard.answer {
        waiting.iter().for_each(|waiting| hand_over(*waiting, Some(heard)));
        return Ok(());
    }
    let items = flat::items(heard.raw).filter(|items| items.len() == waiting.len());
    for (waiting, raw) in waiting.iter().zip(items.ok_or(Malformed)?) {
        if raw == AGAIN {
            hand_over(*waiting, None);
            continue;
        }
        let (answer, _) = Decoder::default().decode(raw)?.ok_or(Malformed)?;
        hand_over(*waiting, Some(Heard { answer: &answer, raw }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decision::lease::pad::Pad;
    use crate::lua::program::{ScriptRules, Tells};

    fn program() -> Arc<ProgramText> {
        let script_rules = ScriptRules {
            pad: Pad::new(Duration::ZERO, 0.0),
            longest: None,
            sees_all_keys: true,
            tells: Tells::NOTHING,
        };
        Arc::new(ProgramText::wrap(b"return redis.call('incr', KEYS[1])", "", script_rules))
    }

    fn member(program: &Arc<ProgramText>, key: &str) -> PackMember {
        let (program, key, argv) = (Arc::clone(program), key.into(), b"word".to_vec());
        PackMember { program, key, argv, width: 1, how: b"00000rw".to_vec() }
    }

    /// While they hold, the worker's turns also separate two calls on one key.
    #[test]
    fn what_is_gathered_has_one_program_one_shape_and_different_keys() {
        let program = program();
        let PackMember { key, argv, how, .. } = member(&program, "a");
        let mut gathered = Gathered {
            program: Arc::clone(&program),
            alone: Vec::new(),
            keys: vec![key],
            argv,
            width: 1,
            how,
            waiting: Vec::new(),
            is_due: true,
        };
        let other = member(&program, "b");
        assert!(gathered.has_room_for(&other, true));
        assert!(!gathered.has_room_for(&other, false), "it is not in the same stretch");
        assert!(!gathered.has_room_for(&member(&program, "a"), true), "it is the same key");
        assert!(!gathered.has_room_for(&member(&self::program(), "b"), true));
        assert!(!gathered.has_room_for(&PackMember { width: 2, ..member(&program, "b") }, true));
        let elsewhere = b"00001rw".to_vec();
        assert!(!gathered.has_room_for(&PackMember { how: elsewhere, ..other }, true));
        let long = PackMember { argv: vec![b'a'; MOST_BYTES], ..member(&program, "b") };
        assert!(!gathered.has_room_for(&long, true));
        gathered.keys = (0..MOST).map(|number| number.to_string().into()).collect();
        assert!(!gathered.has_room_for(&member(&program, "b"), true), "they are enough");
    }
}
