//! Requests that use each key in turn, where `redis-benchmark` can only pick random keys.

use std::time::Instant;

use anyhow::Result;
use hdrhistogram::Histogram;

use crate::deployment::{self, Deployment};
use crate::load::{Cost, Run};

/// The requests `0..requests`. Connection `c` of `n` sends `c`, `c + n`, `c + 2n`, and so on.
pub(crate) struct Sweep<F> {
    pub(crate) connections: u32,
    pub(crate) pipeline: u32,
    pub(crate) requests: u32,
    /// Returns the request with this number.
    pub(crate) request: F,
}

impl<F: Fn(u32) -> redis::Cmd + Sync> Sweep<F> {
    /// Sends all requests and measures the run.
    pub(crate) fn run(&self, deployment: &Deployment) -> Result<Run> {
        let ((seconds, latency_us), cost) = Cost::of(deployment, self.requests, || {
            let started = Instant::now();
            let latency_us = self.send_to(deployment.port)?;
            Ok((started.elapsed().as_secs_f64(), latency_us))
        })?;
        let quantile_ms = |quantile| latency_us.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Run {
            requests: self.requests,
            per_second: f64::from(self.requests) / seconds,
            p50_ms: quantile_ms(0.5),
            p99_ms: quantile_ms(0.99),
            cost,
        })
    }

    /// Sends all requests. Returns the latency of each pipeline's replies, in microseconds.
    ///
    /// # Errors Returns an error if any of the replies is an error.
    pub(crate) fn send_to(&self, port: u16) -> Result<Histogram<u64>> {
        std::thread::scope(|threads| {
            let share = |index| threads.spawn(move || self.send_share(index, port));
            let shares: Vec<_> = (0..self.connections).map(share).collect();
            let mut all = Histogram::new(3)?;
            for share in shares {
                all.add(share.join().expect("a connection does not panic")?)?;
            }
            Ok(all)
        })
    }

    /// Sends one connection's share of the requests.
    fn send_share(&self, index: u32, port: u16) -> Result<Histogram<u64>> {
        let mut connection = deployment::connection(port)?;
        let mut latency_us = Histogram::new(3)?;
        let numbers: Vec<u32> = (index..self.requests).step_by(self.connections as usize).collect();
        for numbers in numbers.chunks(self.pipeline as usize) {
            let mut pipe = redis::pipe();
            for &number in numbers {
                pipe.add_command((self.request)(number)).ignore();
            }
            let sent = Instant::now();
            pipe.exec(&mut connection)?;
            latency_us.record(sent.elapsed().as_micros() as u64)?;
        }
        Ok(latency_us)
    }
}

/// A command, with [`KEY`] as a placeholder for the key.
pub(crate) type Words = &'static [&'static str];

/// Placeholder for the key in [`Words`].
pub(crate) const KEY: &str = "KEY";

/// Returns the command `words` for the key with this number.
pub(crate) fn with_key(words: &[&str], number: u32) -> redis::Cmd {
    let key = key(number);
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(if *word == KEY { &key } else { *word });
    }
    command
}

/// Returns the key that `redis-benchmark` makes of `key:__rand_int__`, with twelve digits.
pub(crate) fn key(number: u32) -> String {
    format!("key:{number:012}")
}
