//! Twice the capacity: what is accepted is answered in time, the rest is refused at once, and memory stays flat.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::load::{CheckedRequest, Form, LoadTest, finished};
use super::measure::Measure;
use super::models::Prepared;
use super::processes::Server;

/// Rows of a request: some milliseconds of work, so that the generator has little to do beside the server.
const ROWS: usize = 32;
/// The queue's bound, in milliseconds: the server's default.
const QUEUE_MS: f64 = 100.0;
/// Connections: more than requests can be under way within the bound.
const CONNECTIONS: usize = 128;

fn latency(run: &Value, status: &str, key: &str) -> Option<f64> {
    run["latency_us"][status][key].as_f64()
}

pub fn run(bench: &mut Bench<'_>, model: &Prepared) -> Result<()> {
    let questions = model.questions(ROWS, true);
    let server = Server::mercer(bench.paths, &[&model.model], &[])?;
    let alone = bench.load(&LoadTest::new(&server.address, None, 2.0, 1), &questions)?;
    let service = latency(&alone, "200", "p99").context("no request was answered")?;
    // The best of three: on a busy machine a single run may be far too low.
    let (mut capacity, mut runs) = (0f64, vec![alone]);
    for _ in 0..3 {
        let full = bench.load(&LoadTest::new(&server.address, None, 3.0, 16), &questions)?;
        let answered = full["answered"].as_f64().unwrap_or_default();
        capacity = capacity.max(answered / full["seconds"].as_f64().unwrap_or(1.0));
        runs.push(full);
    }
    let (rate, seconds) = (2.0 * capacity, bench.seconds(60.0, 10.0));
    let empty = Server::empty(bench.paths, server.body_bytes(&questions[0].request)?)?;
    let job = LoadTest {
        form: Form::Unchecked,
        ..LoadTest::new(&empty.address, Some(rate), seconds.min(10.0), CONNECTIONS)
    };
    let empty_run = bench.load(&job, &questions)?;
    let empty_p99 =
        latency(&empty_run, "200", "p99").context("the empty handler answered nothing")?;

    let job = LoadTest::new(&server.address, Some(rate), seconds, CONNECTIONS);
    let (run, memory) = watched(bench, &server, &job, &questions)?;
    let largest = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let (first, second) = memory.split_at(memory.len() / 2);
    let growth = largest(second) - largest(first);

    let name = &model.name;
    let add = |what: &str, found: f64, unit| {
        Measure::new("overload", format!("{name}: {what}"), found, unit)
    };
    let number = |key: &str| run[key].as_f64().unwrap_or_default();
    let shed_p99 = latency(&run, "429", "p99").unwrap_or_default();
    bench.measures.extend([
        add("capacity, requests of 32 rows", capacity, "requests/s"),
        add("asked", rate, "requests/s"),
        add("accepted", number("answered") / number("seconds"), "requests/s"),
        add("refused with 429", number("shed") / number("seconds"), "requests/s"),
        add("accepted, p50", latency(&run, "200", "p50").unwrap_or_default() / 1e3, "ms"),
        add(
            "accepted, p99; at most the bound plus the service alone",
            latency(&run, "200", "p99").unwrap_or_default() / 1e3,
            "ms",
        )
        .at_most(QUEUE_MS + service / 1e3),
        add("empty handler at the same rate, p99", empty_p99 / 1e3, "ms"),
        add("429, p50", latency(&run, "429", "p50").unwrap_or_default() / 1e3, "ms"),
        add("429, p99; at most the empty handler's plus 5 ms", shed_p99 / 1e3, "ms")
            .at_most(empty_p99 / 1e3 + 5.0),
        add("largest memory of the second half beyond that of the first", growth, "MB")
            .at_most(2.0),
        add("largest memory", largest(&memory), "MB"),
        add("generator late, p99", run["late_us"]["p99"].as_f64().unwrap_or_default() / 1e3, "ms"),
    ]);
    runs.push(run);
    bench.count_wrong("overload", name, &runs);
    Ok(())
}

/// Runs a test, and looks at the server's memory, in MB, four times a second.
fn watched(
    bench: &Bench<'_>,
    server: &Server,
    test: &LoadTest,
    requests: &[CheckedRequest],
) -> Result<(Value, Vec<f64>)> {
    let mut child = bench.generator.start(test, requests)?;
    let mut memory = Vec::new();
    while child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(250));
        memory.push(server.memory_mb()?);
    }
    Ok((finished(child)?, memory))
}
