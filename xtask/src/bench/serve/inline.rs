//! Requests that the thread which has read them answers itself beside the same ones handed to a worker: what the hand-over takes, and
//! how long a request may be for which it is saved (`inline_us`).

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::load::LoadTest;
use super::measure::Measure;
use super::models::Prepared;
use super::processes::Server;

/// Rows of a request, from the shortest on.
const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Requests per second where latency is measured.
const RATE: f64 = 200.0;
const CONNECTIONS: usize = 8;
const ROUNDS: usize = 3;

/// The best of some runs.
struct Best {
    p50_us: f64,
    p99_us: f64,
    rate: f64,
}

pub fn run(bench: &mut Bench<'_>, model: &Prepared) -> Result<()> {
    let start = |name: &str, inline_us: f64| {
        let path = bench.paths.file(name);
        fs::write(&path, format!("inline_us = {inline_us:.1}\n"))?;
        let path = path.to_str().context("the target directory has a name that is no text")?;
        Server::mercer(bench.paths, &[&model.model], &["--config", path])
    };
    let servers = [start("inline.toml", 1e6)?, start("queued.toml", 0.0)?];
    let mut all = Vec::new();
    for rows in ROWS {
        let questions = model.questions(rows, true);
        let mut best = [0, 1].map(|_| Best { p50_us: f64::MAX, p99_us: f64::MAX, rate: 0.0 });
        for _ in 0..ROUNDS {
            for (best, server) in best.iter_mut().zip(&servers) {
                let seconds = bench.seconds(2.0, 1.0);
                let job = LoadTest::new(&server.address, Some(RATE), seconds, CONNECTIONS);
                let paced = bench.load(&job, &questions)?;
                let fast = bench.load(&LoadTest { rate: None, seconds: 1.0, ..job }, &questions)?;
                let latency =
                    |key: &str| paced["latency_us"]["200"][key].as_f64().unwrap_or(f64::MAX);
                best.p50_us = best.p50_us.min(latency("p50"));
                best.p99_us = best.p99_us.min(latency("p99"));
                let number = |key: &str| fast[key].as_f64().unwrap_or_default();
                best.rate = best.rate.max(number("answered") / number("seconds"));
                all.extend([paced, fast]);
            }
        }
        add(bench, &model.name, rows, &best);
    }
    let card: Value = servers[0].json(&format!("/v2/models/{}/card", model.name))?;
    let mean = card["mean_us"].as_f64().context("the card has no mean_us")?;
    let what = format!("{}: a row is expected to take", model.name);
    bench.measures.push(Measure::new("inline", what, mean, "us"));
    bench.count_wrong("inline", &model.name, &all);
    Ok(())
}

fn add(bench: &mut Bench<'_>, name: &str, rows: usize, best: &[Best; 2]) {
    let [inline, queued] = best;
    let measure = |what: &str, found: f64, unit| {
        Measure::new("inline", format!("{name}: {rows} rows, {what}"), found, unit)
    };
    bench.measures.extend([
        measure("where it was read, p50", inline.p50_us, "us"),
        measure("by a worker, p50", queued.p50_us, "us"),
        measure("where it was read, p99", inline.p99_us, "us"),
        measure("by a worker, p99", queued.p99_us, "us"),
        measure("rate where it was read over that of workers", inline.rate / queued.rate, ""),
    ]);
}
