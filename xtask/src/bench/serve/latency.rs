//! Small requests beside an empty handler, JSON beside bytes, and requests of 64 rows beside the rate of `mercer bench`.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::load::{CheckedRequest, Form, LoadTest};
use super::measure::Measure;
use super::models::{Prepared, TrainedMachine};
use super::processes::Server;

/// Runs of each series, in turns; the best counts.
const ROUNDS: usize = 3;
/// Requests per second where latency is measured: far below what any series can bear.
const RATE: f64 = 500.0;
const CONNECTIONS: usize = 8;
/// Rows of a large request.
const ROWS: usize = 64;

/// The best of a number over several runs.
fn least_of(runs: &[Value], keys: &[&str]) -> Result<f64> {
    let find = |run: &Value| keys.iter().fold(run, |value, key| &value[key]).as_f64();
    let least = runs.iter().filter_map(find).fold(f64::INFINITY, f64::min);
    least.is_finite().then_some(least).context("no request was answered")
}

/// Microseconds of a query, alone and in batches on all threads.
pub fn plan_times(bench: &Value) -> Result<(f64, f64)> {
    let number = |key: &str| {
        let of_plan = bench[format!("plan_{key}")].as_f64();
        of_plan.or_else(|| bench[format!("exact_{key}")].as_f64())
    };
    let single = number("single_us").context("mercer bench printed no single_us")?;
    let batch = number("batch_us_all_threads").or_else(|| number("batch_us"));
    Ok((single, batch.context("mercer bench printed no batch_us")?))
}

/// One row per request: an empty handler, bytes and JSON in turns.
pub fn one_row(bench: &mut Bench<'_>, model: &Prepared) -> Result<()> {
    let (bytes, json) = (model.questions(1, true), model.questions(1, false));
    let server = Server::mercer(bench.paths, &[&model.model], &[])?;
    let empty = Server::empty(bench.paths, server.body_bytes(&bytes[0].request)?)?;
    let seconds = bench.seconds(5.0, 2.0);
    let series: [(&str, &Server, &[CheckedRequest], Form); 3] = [
        ("empty handler", &empty, &bytes, Form::Unchecked),
        ("bytes", &server, &bytes, Form::Binary),
        ("JSON", &server, &json, Form::Json),
    ];
    let (mut paced, mut fast) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    let mut single = f64::INFINITY;
    for _ in 0..ROUNDS {
        single = single.min(plan_times(&model.bench(bench.paths)?)?.0);
        for (place, (_, server, questions, form)) in series.iter().enumerate() {
            let job = LoadTest {
                form: *form,
                ..LoadTest::new(&server.address, Some(RATE), seconds, CONNECTIONS)
            };
            paced[place].push(bench.load(&job, questions)?);
            let job = LoadTest { rate: None, seconds: 2.0, ..job };
            fast[place].push(bench.load(&job, questions)?);
        }
    }
    let name = &model.name;
    let add = |what: String, found: f64, unit: &'static str| {
        Measure::new("one_row", format!("{name}: {what}"), found, unit)
    };
    let own = least_of(&paced[1], &["compute_us", "p50"])?;
    let mut rows = vec![
        add("plan alone, in a loop (mercer bench)".to_owned(), single, "us"),
        add("plan in the server, p50 by its own clock".to_owned(), own, "us"),
    ];
    let mut found = [[0.0; 2]; 3];
    for (place, (what, ..)) in series.iter().enumerate() {
        for (at, key) in ["p50", "p99"].into_iter().enumerate() {
            found[place][at] = least_of(&paced[place], &["latency_us", "200", key])?;
            let row = add(format!("{what}, {key} at {RATE} a second"), found[place][at], "us");
            rows.push(match place {
                0 => row,
                1 => row.at_most(1.5 * found[0][at] + own),
                _ => row.at_most(3.0 * found[1][at]),
            });
        }
        let rate = |run: &Value| Some(run["answered"].as_f64()? / run["seconds"].as_f64()?);
        let best = fast[place].iter().filter_map(rate).fold(0.0, f64::max);
        rows.push(add(
            format!("{what}, as fast as {CONNECTIONS} connections go"),
            best,
            "requests/s",
        ));
    }
    bench.measures.extend(rows);
    bench.count_wrong("one_row", name, paced.iter().chain(&fast).flatten());
    Ok(())
}

/// Requests of 64 rows, as fast as they are answered, beside the batch rate of `mercer bench`; then JSON of 64 rows, and how fast it is read.
pub fn many_rows(bench: &mut Bench<'_>, machine: &TrainedMachine) -> Result<()> {
    for model in [&machine.exact, &machine.tuned] {
        let questions = model.questions(ROWS, true);
        let server = Server::mercer(bench.paths, &[&model.model], &[])?;
        let empty = Server::empty(bench.paths, server.body_bytes(&questions[0].request)?)?;
        let (mut share, mut of_empty, mut runs) = (0f64, 0f64, Vec::new());
        for _ in 0..ROUNDS {
            let (_, batch) = plan_times(&model.bench(bench.paths)?)?;
            let of_batch = |run: &Value| {
                let rows = ROWS as f64 * run["answered"].as_f64().unwrap_or_default();
                1e-6 * batch * rows / run["seconds"].as_f64().unwrap_or(1.0)
            };
            let job = LoadTest::new(&server.address, None, bench.seconds(4.0, 2.0), 4);
            let run = bench.load(&job, &questions)?;
            share = share.max(of_batch(&run));
            runs.push(run);
            let job = LoadTest {
                form: Form::Unchecked,
                ..LoadTest::new(&empty.address, None, bench.seconds(2.0, 1.0), 4)
            };
            of_empty = of_empty.max(of_batch(&bench.load(&job, &questions)?));
        }
        let name = &model.name;
        let what =
            format!("{name}: rows/s over those of mercer bench, both threads, generator beside");
        bench.measures.push(Measure::new("rows64", what, share, "").at_least(0.8));
        // Who sends and reads a row has so much less time for its answer: both take their turns on the same cores.
        let left = 1.0 / (1.0 + 1.0 / of_empty);
        let what = format!(
            "{name}: what sending and reading alone (the empty handler) leave of that rate"
        );
        bench.measures.push(Measure::new("rows64", what, left, ""));
        bench.count_wrong("rows64", name, runs.iter());
    }
    json_rate(bench, &machine.tuned)
}

/// Bytes of JSON bodies over the time in which they became rows, as the server's own statistics have it.
fn json_rate(bench: &mut Bench<'_>, model: &Prepared) -> Result<()> {
    let questions = model.questions(ROWS, false);
    let mut best = 0f64;
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        let server = Server::mercer(bench.paths, &[&model.model], &[])?;
        let job = LoadTest {
            form: Form::Json,
            ..LoadTest::new(&server.address, None, bench.seconds(2.0, 1.0), 1)
        };
        let run = bench.load(&job, &questions)?;
        let stats = server.json(&format!("/v2/models/{}/stats", model.name))?;
        let input = &stats["model_stats"][0]["inference_stats"]["compute_input"];
        let nanoseconds = input["ns"].as_f64().context("the statistics have no compute_input")?;
        let count = input["count"].as_f64().unwrap_or_default();
        let body: usize = questions.iter().map(|question| question.request.len()).sum();
        let mean = body as f64 / questions.len() as f64;
        best = best.max(1e3 * mean * count / nanoseconds);
        runs.push(run);
    }
    let what = format!("{}: JSON of 64 rows of 784 columns to rows, one thread", model.name);
    bench.measures.push(Measure::new("rows64", what, best, "MB/s").at_least(200.0));
    bench.count_wrong("rows64", "JSON", runs.iter());
    Ok(())
}
