//! The `redis` crate as the ordinary client, with timeouts long enough for a loaded machine.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Value};

use super::PATIENCE;

pub async fn connection(address: &str) -> MultiplexedConnection {
    url_connection(&format!("redis://{address}/")).await
}

/// Connects with longer timeouts than the crate's own (1 s to connect, 500 ms to answer), which
/// would turn a busy machine into failures.
pub async fn url_connection(url: &str) -> MultiplexedConnection {
    let client = Client::open(url).expect("a Redis URL");
    let patient = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    client
        .get_multiplexed_async_connection_with_config(&patient)
        .await
        .unwrap_or_else(|error| panic!("no connection to {url}: {error}"))
}

/// Sends the words of `line`; error replies come back as `Err`.
pub async fn value(
    connection: &mut MultiplexedConnection,
    words: &[&str],
) -> redis::RedisResult<Value> {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query_async(connection).await
}

/// Sends the words and expects an integer.
pub async fn int(connection: &mut MultiplexedConnection, words: &[&str]) -> i64 {
    match value(connection, words).await {
        Ok(Value::Int(number)) => number,
        other => panic!("{words:?} should answer an integer, not {other:?}"),
    }
}

/// Sends the words and expects a string, a status or nil.
pub async fn text(connection: &mut MultiplexedConnection, words: &[&str]) -> Option<String> {
    match value(connection, words).await {
        Ok(Value::Nil) => None,
        Ok(Value::Okay) => Some("OK".to_owned()),
        Ok(Value::SimpleString(status)) => Some(status),
        Ok(Value::BulkString(bytes)) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => panic!("{words:?} should answer a string or nil, not {other:?}"),
    }
}
