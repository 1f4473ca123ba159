//! A client over the redis crate that knows nothing about the proxy.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisResult, Value};
use tokio::time::sleep;

use super::ledger::{Ledger, Order};
use super::object::Answer;
use crate::rust_client::{self, connect};

/// Connections of a client, one for each server.
#[derive(Default)]
pub(crate) struct Client(HashMap<String, MultiplexedConnection>);

/// Carries out the ledger's orders until the end.
pub(crate) async fn run(ledger: Ledger, number: usize) {
    let mut client = Client::default();
    while let Some(order) = ledger.order(number) {
        let answer = client.ask(&order).await;
        ledger.answer(number, &order, answer);
        sleep(Duration::from_millis(order.rest_ms)).await;
    }
}

impl Client {
    /// Sends an order, over a new connection if need be. Drops a connection that gives no reply.
    pub(crate) async fn ask(&mut self, order: &Order) -> Answer {
        let server = &order.server;
        if !self.0.contains_key(server) {
            match connect(server, Duration::from_millis(order.patience_ms)).await {
                Ok(connection) => self.0.insert(server.clone(), connection),
                Err(error) => return Answer::NotSent(error.to_string()),
            };
        }
        let connection = self.0.get_mut(server).expect("one was made");
        match send(connection, &order.commands).await {
            Ok(Value::ServerError(error)) => {
                Answer::Error(rust_client::failure(&error.into()).text)
            }
            Ok(value) => Answer::Told(value),
            Err(error) if error.code().is_some() => {
                Answer::Error(rust_client::failure(&error).text)
            }
            Err(error) => {
                self.0.remove(server);
                Answer::Lost(error.to_string())
            }
        }
    }
}

/// Sends one command, or several as a transaction, whose one answer is that of `EXEC`.
async fn send(
    connection: &mut MultiplexedConnection,
    commands: &[Vec<String>],
) -> RedisResult<Value> {
    if let [command] = commands {
        return command_of(command).query_async(connection).await;
    }
    let mut transaction = redis::pipe();
    transaction.atomic();
    for command in commands {
        transaction.add_command(command_of(command));
    }
    let queued = commands.len() + 1;
    let mut answers = connection.req_packed_commands(&transaction, queued, 1).await?;
    Ok(answers.pop().unwrap_or(Value::Nil))
}

fn command_of(words: &[String]) -> Cmd {
    let mut command = redis::cmd(&words[0]);
    command.arg(&words[1..]);
    command
}
