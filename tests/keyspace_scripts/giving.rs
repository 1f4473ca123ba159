//! State given to a master that has forgotten.

use proptest::prelude::*;
use redlock_proxy::decision::keyspace::copying::{Given, unknown};
use redlock_proxy::decision::keyspace::slot::State;
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::lua::keyspace::{CLEAR, GIVE};
use redlock_proxy::operation::register::{ask, stamp};

use crate::both::{Both, Checked, MARK, bulk, name, of_job};
use crate::support::{Master, Raw, Reply as Wire, target_is_plain_redis};
use crate::tasks::place;

impl Both {
    pub(crate) async fn give(
        &mut self,
        at: usize,
        from: usize,
        key: usize,
        is_known: bool,
    ) -> Checked {
        let (place, now_us) = (place(key), self.counter);
        let source = self.slots[from].get(&place);
        self.let_short_ends_pass().await;
        let own_us = crate::now_us();
        let shown = source.sight(own_us);
        let state = match is_known {
            true => State { open: None, ..shown.state },
            false => unknown(&[&shown], now_us).state,
        };
        let lives = state.stays(now_us);
        let lease = source.lease.clone().filter(|_| !lives);
        let mut dump = None;
        if lives && source.lease.is_none() {
            dump = bulk(self.connections[from].ask(&["DUMP", name(&place)]).await);
        }
        if lives && dump.is_none() {
            return Ok(());
        }
        // In this test programs run under any promise, and no two of them under the same ballot.
        let promised = Ballot { epoch: 0, counter: now_us, worker: 5 + at as u64 };
        let given = Given { state, promised, lease };
        let mut words: Vec<Vec<u8>> = vec![b"EVAL".into(), GIVE.text.clone().into(), b"1".into()];
        words.extend([name(&place).into(), b"0".into(), MARK.into()]);
        words.extend([now_us.to_string().into(), stamp::ballot(given.promised).into()]);
        words.push(stamp::write(&of_job(&given.state), &place));
        words.push(dump.unwrap_or_default());
        words.push(given.lease.as_ref().map(stamp::lease).unwrap_or_default());
        let reply = self.connections[at].ask(&words).await;
        prop_assert!(matches!(reply, Wire::Int(0..=1)), "{reply:?}");
        self.slots[at].give(&place, &given, now_us, own_us);
        Ok(())
    }

    pub(crate) async fn clear(&mut self, at: usize, key: usize) -> Checked {
        let place = place(key);
        let words = ["EVAL", &CLEAR.text, "1", name(&place), "0", MARK];
        let reply = self.connections[at].ask(&words).await;
        prop_assert!(matches!(reply, Wire::Int(0..=1)), "{reply:?}");
        self.slots[at].clear_late(&place);
        Ok(())
    }
}

/// A program that it ran would count as soon as it is a member.
#[tokio::test]
async fn a_master_that_is_yet_to_be_admitted_promises_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let mut direct = Raw::connect(&master.address()).await;
    let ballot = Ballot { epoch: 0, counter: 7, worker: 1 };
    for (mark, expected) in [("? 7 0;0 0", "refused"), ("c 1 1 1 0;0 0", "promised")] {
        direct.ask(&["SET", "redlock-proxy:mark", mark]).await;
        direct.send(&ask::prepare(&[(place(0), 0)], ballot, 0).eval()).await;
        let Wire::Array(said) = direct.reply().await else { panic!("an answer") };
        assert_eq!(said[0].text(), expected);
    }
}
