//! Gives clients in other languages their orders from the ledger and takes their answers.
//! `clients/README.md` describes the lines.

use std::net::SocketAddr;

use redis::Value;
use serde_json::Value as Json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::ledger::Ledger;
use super::object::Answer;

/// Serves the clients with these numbers as they connect, until it is dropped.
pub(crate) async fn open(
    ledger: &Ledger,
    numbers: std::ops::Range<usize>,
) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the address of a listener");
    let (ledger, mut desks) = (ledger.clone(), JoinSet::new());
    desks.spawn(async move {
        let mut served = JoinSet::new();
        for number in numbers {
            let Ok((stream, _)) = listener.accept().await else { break };
            served.spawn(serve(stream, ledger.clone(), number));
        }
        served.join_all().await;
    });
    (address, desks)
}

/// A client that leaves in the middle of a call leaves it open.
async fn serve(stream: TcpStream, ledger: Ledger, number: usize) {
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Some(order) = ledger.order(number) {
        let line = serde_json::to_string(&order).expect("an order in JSON") + "\n";
        if write.write_all(line.as_bytes()).await.is_err() {
            return;
        }
        let Ok(Some(line)) = lines.next_line().await else { return };
        ledger.answer(number, &order, answer(&line));
    }
}

fn answer(line: &str) -> Answer {
    match serde_json::from_str::<(String, Json)>(line) {
        Ok((kind, Json::String(text))) if kind == "error" => Answer::Error(text),
        Ok((kind, Json::String(text))) if kind == "lost" => Answer::Lost(text),
        Ok((kind, told)) if kind == "told" => Answer::Told(value(told)),
        other => panic!("a client says {line}: {other:?}"),
    }
}

fn value(told: Json) -> Value {
    match told {
        Json::Null => Value::Nil,
        Json::Bool(true) => Value::Okay,
        Json::Number(number) => Value::Int(number.as_i64().expect("an integer")),
        Json::String(text) => Value::BulkString(text.into_bytes()),
        Json::Array(items) => Value::Array(items.into_iter().map(value).collect()),
        other => panic!("no command answers {other}"),
    }
}
