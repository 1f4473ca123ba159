//! Reading and writing: the loop of a link that is up, and the matching of replies to requests.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::connect::Down;
use super::{Expected, Link, State, Waiting, together};
use crate::decision::roster::mark::Seal;
use crate::engine::Engine;
use crate::engine::connection::Connection;
use crate::engine::reader::Reader;
use crate::operation::Heard;
use crate::resp::answer::Answer;
use crate::resp::flat::Malformed;
use crate::time::clock::{self, Instant};

/// Whether a reply that was read can be handed over.
enum Passed {
    /// It waits for the proof that follows.
    Waits,
    /// It can, with all that waited for it: as votes if they are proved.
    Ends(Option<Seal>),
}

impl Link {
    /// Reads and writes until the connection is lost.
    pub(super) async fn serve(
        &self,
        mut connection: Connection<impl AsyncRead + AsyncWrite + Unpin>,
        engine: &Rc<Engine>,
    ) -> Down {
        loop {
            let has_requests = State::has_unsent;
            let turn = poll_fn(|cx| self.poll_read(&mut connection, engine, has_requests, cx));
            if let Err(down) = turn.await {
                return down;
            }
            // Requests being received at this moment join the same system call.
            tokio::task::yield_now().await;
            let written = poll_fn(|cx| self.poll_write(&mut connection, engine, cx));
            if let Err(down) = written.await {
                return down;
            }
        }
    }

    /// Writes everything. Replies that arrive meanwhile are read.
    fn poll_write(
        &self,
        connection: &mut Connection<impl AsyncRead + AsyncWrite + Unpin>,
        engine: &Rc<Engine>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Down>> {
        if let Poll::Ready(Err(down)) = self.poll_read(connection, engine, |_| false, cx) {
            return Poll::Ready(Err(down));
        }
        let state = &mut *self.state.borrow_mut();
        self.close(state);
        let written = ready!(connection.poll_write(&mut state.out, cx));
        Poll::Ready(written.map_err(Down::from))
    }

    /// Reads replies until there are no more to read. Ready once `enough`, or when the connection is over.
    fn poll_read(
        &self,
        connection: &mut Connection<impl AsyncRead + AsyncWrite + Unpin>,
        engine: &Rc<Engine>,
        enough: impl Fn(&State) -> bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Down>> {
        while let Poll::Ready(read) = connection.poll_read(cx) {
            read?;
            self.state.borrow_mut().silence.ends();
            self.replies(&mut connection.replies, engine)?;
        }
        let mut state = self.state.borrow_mut();
        if let Some(why) = state.broken {
            return Poll::Ready(Err(Down::Broken(why)));
        }
        if enough(&state) {
            state.waker = None;
            return Poll::Ready(Ok(()));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Processes complete replies: those in a stretch wait for its proof.
    fn replies(&self, reader: &mut Reader, engine: &Rc<Engine>) -> Result<(), Down> {
        let now = clock::now();
        while let Some(Passed::Ends(seal)) = self.pass_stretch(reader, now)? {
            self.hand_over(reader, engine, seal, now)?;
        }
        Ok(())
    }

    /// Passes over replies until those that were passed can be handed over, or more bytes are needed.
    fn pass_stretch(&self, reader: &mut Reader, now: Instant) -> Result<Option<Passed>, Down> {
        let state = &mut *self.state.borrow_mut();
        while let Some((answer, raw)) = reader.peek()? {
            let len = raw.len();
            let passed = self.pass(state, &answer, now)?;
            reader.pass(len);
            if let Passed::Ends(_) = passed {
                return Ok(Some(passed));
            }
        }
        Ok(None)
    }

    /// Returns whether a reply waits for later ones.
    fn pass(&self, state: &mut State, answer: &Answer<'_>, now: Instant) -> Result<Passed, Down> {
        let passed = match state.expected.get(state.passed) {
            None => return Err(Malformed.into()),
            Some(
                Expected::Operation { is_due: true, .. } | Expected::Together { is_due: true, .. },
            ) => Passed::Waits,
            Some(Expected::Time(sent_us)) => {
                state.continued = self.proofs.continued(*sent_us, now, answer);
                Passed::Waits
            }
            Some(Expected::Mark(term, db)) => {
                Passed::Ends(self.proofs.seal(term, *db, answer, state.continued))
            }
            Some(_) if state.passed > 0 => Passed::Waits,
            Some(_) => Passed::Ends(None),
        };
        state.passed += 1;
        Ok(passed)
    }

    /// Hands over the replies that were passed, proved by the last one read.
    fn hand_over(
        &self,
        reader: &mut Reader,
        engine: &Rc<Engine>,
        seal: Option<Seal>,
        now: Instant,
    ) -> Result<(), Down> {
        loop {
            let expected = {
                let state = &mut *self.state.borrow_mut();
                let Some(passed) = state.passed.checked_sub(1) else { return Ok(()) };
                state.passed = passed;
                state.expected.pop_front()
            };
            let (Some(expected), Some((answer, raw))) = (expected, reader.first()?) else {
                return Err(Malformed.into());
            };
            let len = raw.len();
            self.answered(engine, expected, Heard { answer: &answer, raw }, seal, now)?;
            reader.taken(len);
        }
    }

    fn answered(
        &self,
        engine: &Rc<Engine>,
        expected: Expected,
        heard: Heard<'_>,
        seal: Option<Seal>,
        now: Instant,
    ) -> Result<(), Down> {
        match expected {
            Expected::Operation { waiting, is_due } => {
                self.operation_answered(engine, waiting, heard, seal.filter(|_| is_due), now);
            }
            Expected::Together { waiting, is_due } => {
                let seal = seal.filter(|_| is_due);
                together::split(&waiting, heard, |waiting, heard| match heard {
                    Some(heard) => self.operation_answered(engine, waiting, heard, seal, now),
                    None => engine.has_to_go_alone(self.master, waiting),
                })?;
            }
            Expected::Deferred(debt) => self.deferred_answered(debt, heard.answer),
            Expected::Flush => self.flush_answered(heard.answer),
            Expected::Select if *heard.answer != Answer::Simple(b"OK") => {
                return Err(Down::Broken("it refused to select a database"));
            }
            Expected::Load | Expected::Select | Expected::Ping | Expected::Part => {}
            Expected::Time(_) | Expected::Mark(..) => {}
        }
        Ok(())
    }

    fn operation_answered(
        &self,
        engine: &Rc<Engine>,
        waiting: Waiting,
        heard: Heard<'_>,
        seal: Option<Seal>,
        now: Instant,
    ) {
        match seal {
            Some(seal) => engine.answered(waiting, seal.proves(heard), now),
            None => engine.overheard(self.master, waiting, heard, now),
        }
    }
}
