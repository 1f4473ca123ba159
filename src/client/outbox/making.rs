//! Replies in the making: the slots whose reply comes in [slices](crate::client::slices).

use super::{
    Filling, Order, Outbox, Purpose, REPLIES_TO_STOP_READING, Reply, Slot, State, Target, Ticket,
    Waiter,
};
use crate::client::slices::{Made, Slice, Sliced};
use crate::client::timeslice::TimeSlice;
use crate::resp::reply::Done;

impl Target {
    /// Delivers a reply that is made when it becomes the first, and while its client reads.
    pub fn deliver_slices(self, sliced: Sliced) {
        match self.0 {
            // The slices may hold the outbox: kept in it, they would never be dropped.
            Waiter::Slot(outbox, ..) if outbox.state.borrow().closed => drop(sliced),
            Waiter::Slot(outbox, slot, _) => outbox.fill(slot, Filling::Sliced(sliced)),
            // See `deliver`.
            Waiter::Task(sender) => _ = sender.send(sliced.whole()),
            // Making the reply has side effects, which must still happen.
            Waiter::Nobody => drop(sliced.whole()),
        }
    }
}

/// Answers a request of a transaction. The first argument is the place of its command in the table.
type Answer<'a> = &'a mut dyn FnMut(u16, &[u8]) -> Made;

impl Outbox {
    /// Adds a reply to this command that is made in slices, even if it is discarded. Nothing overtakes it.
    pub fn push_slices(&self, command: u16, sliced: Sliced, silent: bool) {
        let ticket = Ticket { key: 0, order: Order::Alone, bytes: 0, command };
        let purpose = if silent { Purpose::Silence } else { Purpose::Answer };
        let filling = Filling::Sliced(sliced);
        let slot = Slot { filling, answer_bytes: 0, ticket, purpose };
        self.state.borrow_mut().slots.push_back(slot);
    }

    /// Continues the first reply if it is in the making, and then those after it. Stops when the session's turn is over
    /// or there is enough to write. Returns whether a reply was completed.
    ///
    /// Every turn makes at least one slice: earlier work of the turn may take all of its time, every time.
    pub fn make(&self, time: &mut TimeSlice, answer: Answer<'_>) -> bool {
        let mut was_made = false;
        // The slices may access this outbox, so it must not be borrowed while they run.
        while let Some(mut sliced) = self.take_sliced() {
            if !self.make_some(&mut sliced, time, answer) {
                self.put_back(sliced);
                break;
            }
            self.state.borrow_mut().made(&sliced);
            was_made = true;
            if time.is_over() {
                break;
            }
        }
        was_made
    }

    /// Whether there is a reply to be made and room for it.
    pub fn may_make(&self) -> bool {
        self.state.borrow().may_make()
    }

    /// Returns the bytes of replies and messages that wait for the client to read.
    pub fn unread_bytes(&self) -> usize {
        let state = self.state.borrow();
        let in_the_making = match state.slots.front() {
            Some(Slot { filling: Filling::Sliced(sliced), .. }) => sliced.bytes(),
            _ => 0,
        };
        state.ready_bytes() + state.behind_bytes + in_the_making
    }

    fn take_sliced(&self) -> Option<Sliced> {
        let state = &mut *self.state.borrow_mut();
        if !state.may_make() {
            return None;
        }
        match std::mem::replace(&mut state.slots.front_mut()?.filling, Filling::InTheMaking) {
            Filling::Sliced(sliced) => Some(sliced),
            _ => None,
        }
    }

    fn put_back(&self, sliced: Sliced) {
        if let Some(first) = self.state.borrow_mut().slots.front_mut() {
            first.filling = Filling::Sliced(sliced);
        }
    }

    /// Makes slices while there is time and room. Returns whether the reply is complete.
    fn make_some(&self, sliced: &mut Sliced, time: &mut TimeSlice, answer: Answer<'_>) -> bool {
        while self.state.borrow().has_room_to_make() {
            let Some(slice) = sliced.next_slice() else { return true };
            let slice = match slice {
                Slice::Done(command, Done::Reply(reply)) => self.begin(sliced, command, reply),
                Slice::Done(command, Done::Own(request)) => match answer(command, &request) {
                    Made::Whole(reply) => self.begin(sliced, command, reply),
                    Made::Sliced(reply) => {
                        sliced.with_slices(command, reply);
                        Slice::Nothing
                    }
                },
                slice => slice,
            };
            self.state.borrow_mut().add(sliced, &slice);
            if time.look() {
                break;
            }
        }
        false
    }

    /// Counts and starts the reply to one command of a transaction.
    fn begin(&self, sliced: &mut Sliced, command: u16, reply: Reply) -> Slice {
        self.state.borrow().count(command, &reply);
        sliced.with(reply)
    }
}

impl State {
    fn has_room_to_make(&self) -> bool {
        self.bytes.len() < REPLIES_TO_STOP_READING && !self.closed
    }

    fn may_make(&self) -> bool {
        let first = self.slots.front().map(|slot| &slot.filling);
        matches!(first, Some(Filling::Sliced(_)))
            && self.has_room_to_make()
            && !self.is_amid_message
    }

    /// Whether a message has to wait. It must not come in the middle of a reply, nor before the confirmation of the
    /// subscription that it belongs to.
    pub(super) fn is_amid(&self) -> bool {
        let first = self.slots.front().map(|slot| &slot.filling);
        let is_made = matches!(first, Some(Filling::Sliced(_) | Filling::InTheMaking));
        is_made || self.is_amid_passed || self.is_amid_message
    }

    fn add(&mut self, sliced: &mut Sliced, slice: &Slice) {
        let Some(Slot { purpose, ticket, .. }) = self.slots.front() else { return };
        let (purpose, command) = (*purpose, ticket.command);
        let uncounted = if sliced.begun { sliced.uncounted } else { Some(command) }
            .filter(|_| *slice != Slice::Nothing);
        if let Some(command) = uncounted {
            let reply = if let Slice::Part(reply) = slice { reply } else { &Reply::Nil };
            self.count(command, reply);
            (sliced.begun, sliced.uncounted) = (true, None);
        }
        if purpose != Purpose::Silence {
            let before = self.bytes.len();
            slice.encode(self.protocol, &mut self.bytes);
            sliced.sent += self.bytes.len() - before;
        }
    }

    fn made(&mut self, sliced: &Sliced) {
        let Some(Slot { ticket, .. }) = self.slots.pop_front() else { return };
        self.first += 1;
        self.request_bytes -= ticket.bytes;
        self.reply_bytes -= sliced.charged;
        if !sliced.begun {
            self.count(ticket.command, &Reply::Nil);
        }
        self.window.replied(sliced.sent);
        let messages = std::mem::take(&mut self.messages);
        self.bytes.append(messages);
        self.encode_ready();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;
    use crate::catalogue::table::NO_COMMAND;
    use crate::client::outbox::tests::{ticket, written};
    use crate::client::timeslice::TURN;
    use crate::resp::reply::Head;
    use crate::time::clock;

    fn numbers(count: usize) -> Sliced {
        let head = Slice::Head(Head::Array(count));
        let items = (0..count as i64).map(|number| Slice::Part(Reply::Int(number)));
        Sliced::new(std::iter::once(head).chain(items))
    }

    fn make(outbox: &Outbox, time: &mut TimeSlice) {
        outbox.make(time, &mut |_, _| Made::Whole(Reply::Nil));
    }

    fn a_turn() -> TimeSlice {
        TimeSlice::from(clock::now())
    }

    /// Returns slices that each take a tenth of a turn.
    fn slow(made: &Rc<Cell<usize>>) -> Sliced {
        let made = Rc::clone(made);
        Sliced::new((0..100).map(move |_| {
            made.set(made.get() + 1);
            pass(TURN / 10);
            Slice::Nothing
        }))
    }

    /// Advances the paused clock.
    fn pass(duration: Duration) {
        let mut advance = std::pin::pin!(tokio::time::advance(duration));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        // The future yields once time has advanced.
        let _ = advance.as_mut().poll(&mut cx);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_ends_when_its_time_is_up() {
        let (outbox, made) = (Rc::new(Outbox::default()), Rc::default());
        outbox.push_slices(NO_COMMAND, slow(&made), false);
        make(&outbox, &mut a_turn());
        assert_eq!(made.get(), 10);
        make(&outbox, &mut a_turn());
        assert_eq!(made.get(), 20);
        assert_eq!(outbox.in_flight(), 1);
        let spent = &mut a_turn();
        pass(TURN);
        make(&outbox, spent);
        assert_eq!(made.get(), 21, "others have used the turn up, as they may each time");
    }

    #[tokio::test(start_paused = true)]
    async fn replies_keep_their_order_around_one_in_the_making() {
        let outbox = Rc::new(Outbox::default());
        let before = outbox.reserve(ticket(1, Order::Plain), false);
        outbox.push_slices(NO_COMMAND, numbers(2), false);
        outbox.push_reply(NO_COMMAND, Reply::Simple("PONG"));
        make(&outbox, &mut a_turn());
        assert_eq!(written(&outbox), "", "it is not its turn");
        before.deliver(Reply::OK);
        assert_eq!(written(&outbox), "+OK\r\n");
        assert!(outbox.is_busy(&ticket(7, Order::Read)), "nothing overtakes it");
        make(&outbox, &mut a_turn());
        assert_eq!(written(&outbox), "*2\r\n:0\r\n:1\r\n+PONG\r\n");
        assert_eq!(outbox.in_flight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_made_than_a_client_reads() {
        let outbox = Rc::new(Outbox::default());
        outbox.push_slices(NO_COMMAND, numbers(1_000_000), false);
        make(&outbox, &mut a_turn());
        let first = outbox.ready_bytes();
        assert!((REPLIES_TO_STOP_READING..REPLIES_TO_STOP_READING + 100).contains(&first));
        make(&outbox, &mut a_turn());
        assert_eq!(outbox.ready_bytes(), first);
        written(&outbox);
        make(&outbox, &mut a_turn());
        assert!(outbox.ready_bytes() >= REPLIES_TO_STOP_READING);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_does_not_come_in_the_middle_of_a_reply() {
        let outbox = Rc::new(Outbox::default());
        let items = [Slice::Head(Head::Array(20)), Slice::Nothing];
        let rest = (0..20).map(|_| {
            pass(TURN / 10);
            Slice::Part(Reply::Nil)
        });
        outbox.push_message(&Reply::Simple("before"));
        outbox.push_slices(NO_COMMAND, Sliced::new(items.into_iter().chain(rest)), false);
        make(&outbox, &mut a_turn());
        outbox.push_message(&Reply::Simple("after"));
        assert!(outbox.may_make());
        while outbox.may_make() {
            make(&outbox, &mut a_turn());
        }
        let expected = format!("+before\r\n*20\r\n{}+after\r\n", "$-1\r\n".repeat(20));
        assert_eq!(written(&outbox), expected);
    }

    /// Each reply of the proxy itself in a transaction takes a tenth of a turn.
    #[tokio::test(start_paused = true)]
    async fn a_transaction_is_answered_over_several_turns() {
        let (outbox, mut asked) = (Rc::new(Outbox::default()), 0);
        let target = outbox.reserve(ticket(1, Order::Alone), false);
        outbox.executes();
        let own = (0..30).map(|_| (NO_COMMAND, Done::Own(b"INFO".as_slice().into())));
        let masters = [(NO_COMMAND, Done::Reply(Reply::Int(7)))];
        target.deliver(Reply::Executed(masters.into_iter().chain(own).collect()));
        assert_eq!((outbox.in_flight(), outbox.ready_bytes()), (1, 0));
        while outbox.may_make() {
            let before = asked;
            assert!(outbox.is_executing(), "what comes after it waits");
            outbox.make(&mut a_turn(), &mut |_, request| {
                assert_eq!(request, b"INFO");
                asked += 1;
                pass(TURN / 10);
                if asked % 2 == 0 { Made::Sliced(numbers(1)) } else { Made::Whole(Reply::OK) }
            });
            assert!(asked - before <= 10, "{} in one turn", asked - before);
        }
        assert!(asked == 30 && !outbox.is_executing());
        assert_eq!(written(&outbox), format!("*31\r\n:7\r\n{}", "+OK\r\n*1\r\n:0\r\n".repeat(15)));
        assert_eq!(outbox.held(), outbox.bytes().held());
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_wants_to_see_is_done_all_the_same() {
        let (outbox, made) = (Rc::new(Outbox::default()), Rc::default());
        outbox.push_slices(NO_COMMAND, slow(&made), true);
        while outbox.may_make() {
            make(&outbox, &mut a_turn());
        }
        assert_eq!((made.get(), outbox.in_flight(), outbox.ready_bytes()), (100, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_for_nobody_is_done_all_the_same() {
        let made = Rc::default();
        Target::nobody().deliver_slices(slow(&made));
        assert_eq!(made.get(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_made_for_a_client_that_has_gone() {
        let (outbox, made) = (Rc::new(Outbox::default()), Rc::default());
        outbox.push_slices(NO_COMMAND, slow(&made), false);
        outbox.close();
        make(&outbox, &mut a_turn());
        assert_eq!(made.get(), 0);
        assert_eq!(Rc::strong_count(&made), 1, "it is dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_for_a_client_that_has_gone_is_dropped() {
        let (outbox, made) = (Rc::new(Outbox::default()), Rc::default());
        let target = outbox.reserve(ticket(1, Order::Plain), false);
        outbox.close();
        target.deliver_slices(slow(&made));
        assert_eq!(Rc::strong_count(&made), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_reply_comes_in_slices_by_itself() {
        let outbox = Rc::new(Outbox::default());
        let long = vec![b'x'; 10 * REPLIES_TO_STOP_READING];
        outbox.reserve(ticket(1, Order::Plain), false).deliver(Reply::bulk(long.clone()));
        outbox.push_reply(NO_COMMAND, Reply::OK);
        let mut received = 0;
        assert_eq!(outbox.unread_bytes(), long.len(), "none of it is there twice");
        while outbox.may_make() {
            make(&outbox, &mut a_turn());
            assert!(outbox.ready_bytes() < 3 * REPLIES_TO_STOP_READING);
            received += written(&outbox).len();
        }
        assert_eq!(received, "$655360\r\n".len() + long.len() + "\r\n+OK\r\n".len());
    }

    #[tokio::test(start_paused = true)]
    async fn parts_that_become_one_long_reply_do_so_in_slices() {
        use crate::client::outbox::Gather;
        let outbox = Rc::new(Outbox::default());
        outbox.gather(Gather::List, 3, false);
        let parts = [0; 3].map(|_| outbox.reserve_part(ticket(1, Order::Plain)));
        let value = vec![b'x'; 2 * REPLIES_TO_STOP_READING];
        parts.into_iter().for_each(|part| part.deliver(Reply::bulk(value.clone())));
        assert!(!outbox.is_gathering());
        assert_eq!((outbox.in_flight(), outbox.ready_bytes()), (1, 0), "it is still to be made");
        make(&outbox, &mut a_turn());
        assert!(
            (REPLIES_TO_STOP_READING..3 * REPLIES_TO_STOP_READING).contains(&outbox.ready_bytes())
        );
    }
}
