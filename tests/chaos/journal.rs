//! The journal to which clients in all languages report. It gives them orders, records their
//! requests and answers, and lets them in to the witness. `clients/README.md` describes the lines.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::history::{Answer, Call, History, MILLISECOND, Nanos, Operation, now};
use crate::orders::{Next, Order, Orders, Standing};
use crate::witness::{Visit, Witness};

/// The journal's listener. It runs until dropped.
pub(crate) struct Journal {
    pub(crate) address: SocketAddr,
    books: Arc<Mutex<Books>>,
    listener: AbortHandle,
}

/// Everything known about one test.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) history: History,
    pub(crate) witness: Witness,
    pub(crate) orders: Orders,
    /// Number of clients that have said hello.
    pub(crate) present: usize,
    /// Lines that no client should ever send.
    pub(crate) nonsense: Vec<String>,
}

impl Journal {
    pub(crate) async fn open(orders: Orders) -> Journal {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the address of a listener");
        let books = Books {
            history: History::default(),
            witness: Witness::default(),
            orders,
            present: 0,
            nonsense: Vec::new(),
        };
        let books = Arc::new(Mutex::new(books));
        let listener = tokio::spawn(accept(listener, Arc::clone(&books))).abort_handle();
        Journal { address, books, listener }
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics while writing")
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn accept(listener: TcpListener, books: Arc<Mutex<Books>>) {
    for client in 0.. {
        let Ok((stream, _)) = listener.accept().await else { return };
        tokio::spawn(attend(stream, Desk::new(client, Arc::clone(&books))));
    }
}

async fn attend(stream: TcpStream, mut desk: Desk) {
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(reply) = desk.hear(&line)
            && write.write_all(format!("{reply}\n").as_bytes()).await.is_err()
        {
            return;
        }
    }
}

/// The journal's side of one client's connection.
struct Desk {
    books: Arc<Mutex<Books>>,
    standing: Standing,
    order: Option<Order>,
    /// Index of its last call in the history.
    call: Option<usize>,
}

impl Desk {
    fn new(client: usize, books: Arc<Mutex<Books>>) -> Desk {
        Desk { books, standing: Standing::of(client), order: None, call: None }
    }

    /// Handles one line. Returns an answer if the line is a question.
    fn hear(&mut self, line: &str) -> Option<String> {
        let books = Arc::clone(&self.books);
        let mut books = books.lock().expect("nobody panics while writing");
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let understood = match words[..] {
            ["hello"] => {
                books.present += 1;
                Some(None)
            }
            ["turn"] => Some(Some(self.turn(&mut books))),
            ["enter"] => self.enter(&mut books).map(Some),
            ["leave"] => self.leave(&mut books).map(Some),
            ["ask", at, operation, px] => self.ask(&mut books, at, operation, px).map(|()| None),
            ["answer", at, kind, ref text @ ..] => {
                self.answer(&mut books, at, kind, &text.concat()).map(|()| None)
            }
            _ => None,
        };
        understood.unwrap_or_else(|| {
            books.nonsense.push(format!("client {}: {line}", self.standing.client));
            None
        })
    }

    fn turn(&mut self, books: &mut Books) -> String {
        let last = self.call.map(|call| &books.history.calls[call]);
        let next = books.orders.next(&mut self.standing, last);
        let line = next.to_string();
        if let Next::Try(order) | Next::Free(order) = next {
            self.order = Some(order);
        }
        line
    }

    fn ask(&mut self, books: &mut Books, at: &str, operation: &str, px: &str) -> Option<()> {
        let order = self.order.as_ref()?;
        let operation = match operation {
            "claim" => Operation::Claim,
            "extend" => Operation::Extend,
            "release" => Operation::Release,
            _ => return None,
        };
        self.call = Some(books.history.calls.len());
        books.history.calls.push(Call {
            client: self.standing.client,
            server: order.server.clone(),
            operation,
            key: order.key.clone(),
            token: order.token.clone(),
            px: px.parse::<Nanos>().ok()? * MILLISECOND,
            asked: at.parse().ok()?,
            answered: Nanos::MAX,
            answer: Answer::Unanswered,
        });
        Some(())
    }

    fn answer(&mut self, books: &mut Books, at: &str, kind: &str, text: &str) -> Option<()> {
        let call = &mut books.history.calls[self.call?];
        call.answered = at.parse().ok()?;
        call.answer = match kind {
            "yes" => Answer::Yes,
            "no" => Answer::No,
            "error" => Answer::Error(text.to_owned()),
            "lost" => Answer::Lost(text.to_owned()),
            "odd" => Answer::Odd(text.to_owned()),
            _ => return None,
        };
        if call.operation == Operation::Extend && call.answer == Answer::Yes {
            books.witness.prolong(&call.key, &call.token, certain_end(call));
        }
        Some(())
    }

    fn enter(&mut self, books: &mut Books) -> Option<String> {
        let call = &books.history.calls[self.call?];
        let (key, token) = (call.key.clone(), call.token.clone());
        let visit = Visit { key, token, since: now(), until: certain_end(call) };
        Some(if books.witness.enter(visit) { "alone" } else { "crowd" }.to_owned())
    }

    fn leave(&self, books: &mut Books) -> Option<String> {
        let order = self.order.as_ref()?;
        books.witness.leave(&order.key, &order.token);
        Some("left".to_owned())
    }
}

impl Drop for Desk {
    /// A client that disconnects without leaving is no longer inside.
    fn drop(&mut self) {
        let Ok(mut books) = self.books.lock() else { return };
        let _ = self.leave(&mut books);
    }
}

/// End of a lease for the most careful client, whatever it asks: the time to live from the moment
/// of the request, less 1 % and 2 ms for clocks that differ.
fn certain_end(call: &Call) -> Nanos {
    call.asked + (call.px - call.px / 100).saturating_sub(2 * MILLISECOND)
}
