//! Models exchanged under load, the end of a server under load, its start, and a long run with both requests and exchanges.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Bench;
use super::load::{CheckedRequest, LoadTest, Reloads, finished};
use super::measure::Measure;
use super::models::{Prepared, TrainedMachine};
use super::processes::Server;
use crate::workspace;

/// Seconds between the signal to stop and the end of new connections, and then for requests that have begun.
const DRAIN: f64 = 0.5;
const STOP: f64 = 5.0;
const TOKEN: &str = "a token of the bench only";
/// Names under which exchanged models are served: a soak may run beside the other tasks.
const CHANGING: &str = "changing";
const SOAKED: &str = "soaked";

/// A server whose model is exchanged between two files, and requests with the answers of both.
struct Changing {
    server: Server,
    digests: Vec<String>,
    questions: Vec<CheckedRequest>,
    reloads: Reloads,
}

fn changing(
    bench: &Bench<'_>,
    machine: &TrainedMachine,
    name: &str,
    count: usize,
    pause: f64,
) -> Result<Changing> {
    let both = [&machine.tuned, &machine.exact];
    let target = bench.paths.file(&format!("{name}.mercer"));
    fs::copy(&both[0].model, &target).context("cannot copy the model")?;
    let token_file = bench.paths.file("token");
    fs::write(&token_file, TOKEN)?;
    let separate = Server::mercer(bench.paths, &both.map(|model| model.model.as_path()), &[])?;
    let digest = |model: &&Prepared| {
        let metadata = separate.json(&format!("/v2/models/{}", model.name))?;
        let digest = metadata["properties"]["digest"].as_str();
        Ok(digest.context("the metadata have no digest")?.to_owned())
    };
    let digests = both.iter().map(digest).collect::<Result<Vec<_>>>()?;
    let mut questions = both[0].questions_to(name, 1, true);
    let others = both[1].questions_to(name, 1, true);
    for (question, other) in questions.iter_mut().zip(others) {
        question.expected.extend(other.expected);
    }
    let token = token_file.display().to_string();
    let server = Server::mercer(bench.paths, &[&target], &["--admin-token-file", &token])?;
    let reloads = Reloads {
        count,
        files: both.map(|model| model.model.clone()).to_vec(),
        target,
        path: format!("/v2/repository/models/{name}/load"),
        token: TOKEN.to_owned(),
        pause,
    };
    Ok(Changing { server, digests, questions, reloads })
}

/// Many exchanges while requests run.
pub fn reload(bench: &mut Bench<'_>, machine: &TrainedMachine) -> Result<()> {
    let count = if bench.is_quick { 100 } else { 1000 };
    let Changing { server, digests, questions, reloads } =
        changing(bench, machine, CHANGING, count, 0.0)?;
    let job = LoadTest {
        digests,
        reloads: Some(reloads),
        ..LoadTest::new(&server.address, Some(300.0), 1e4, 8)
    };
    let run = bench.load(&job, &questions)?;
    let number = |key: &str| run[key].as_f64().unwrap_or_default();
    let add = |what: &str, found: f64, unit| Measure::new("reload", what, found, unit);
    bench.measures.extend([
        add("exchanges of a model under 300 requests a second", count as f64, ""),
        add("an exchange, the file read and its plan verified", number("reload_ms"), "ms"),
        add("requests answered", number("answered"), ""),
        add("failed or lost", number("failed") + number("refused") + number("lost"), "")
            .at_most(0.0),
        add("refused with 429", number("shed"), ""),
        add("answers of a model that was not loaded at the time", number("not_loaded"), "")
            .at_most(0.0),
        add(
            "latency, p99",
            run["latency_us"]["200"]["p99"].as_f64().unwrap_or_default() / 1e3,
            "ms",
        ),
    ]);
    bench.count_wrong("reload", CHANGING, [&run]);
    Ok(())
}

/// SIGTERM while requests run: those that were taken are answered, and the server ends with 0.
pub fn stop(bench: &mut Bench<'_>, model: &Prepared) -> Result<()> {
    let questions = model.questions(1, true);
    let config = bench.paths.file("stop.toml");
    fs::write(&config, format!("drain_seconds = {DRAIN}\nstop_seconds = {STOP}\n"))?;
    let config = config.display().to_string();
    let times = if bench.is_quick { 3 } else { 20 };
    let (mut lost, mut answered, mut slowest, mut runs) = (0.0, 0.0, 0f64, Vec::new());
    for _ in 0..times {
        let mut server = Server::mercer(bench.paths, &[&model.model], &["--config", &config])?;
        let job = LoadTest {
            until_closed: true,
            ..LoadTest::new(&server.address, Some(400.0), 30.0, 16)
        };
        let child = bench.generator.start(&job, &questions)?;
        std::thread::sleep(Duration::from_millis(700));
        server.terminate()?;
        let signalled = Instant::now();
        let status = server.wait()?;
        slowest = slowest.max(signalled.elapsed().as_secs_f64());
        ensure!(status.success(), "the server ended with {status}");
        let run = finished(child)?;
        lost +=
            run["lost"].as_f64().unwrap_or_default() + run["failed"].as_f64().unwrap_or_default();
        answered += run["answered"].as_f64().unwrap_or_default();
        if let Some(problem) = run["first_problem"].as_str().filter(|what| what.starts_with("lost"))
        {
            bench.notes.push(format!("stop: {problem}"));
        }
        runs.push(run);
    }
    let add = |what: String, found: f64, unit| Measure::new("stop", what, found, unit);
    bench.measures.extend([
        add(format!("{times} ends by SIGTERM under 400 requests a second: answered"), answered, ""),
        add("requests taken and not answered".to_owned(), lost, "").at_most(0.0),
        add(
            format!("from the signal to the end, with {DRAIN} s for balancers and {STOP} s for requests, at most"),
            slowest,
            "s",
        )
        .at_most(DRAIN + STOP),
    ]);
    bench.count_wrong("stop", &model.name, runs.iter());
    Ok(())
}

/// The start of a server with a small model, and what it holds when nobody asks.
pub fn start(bench: &mut Bench<'_>, machine: &TrainedMachine) -> Result<()> {
    let small: PathBuf = bench.paths.file("digits.mercer");
    let source = bench.paths.workspace.root.join("datasets/digits/digits.model");
    workspace::run(bench.paths.mercer("import").arg(source).arg("-o").arg(&small).arg("--quiet"))?;
    for (name, model) in [("digits", &small), ("mnist38.tuned", &machine.tuned.model)] {
        let (mut started, mut idle) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..5 {
            let server = Server::mercer(bench.paths, &[model], &[])?;
            let stats = server.json("/v2/models/stats")?;
            let bytes = stats["model_stats"][0]["memory_usage"][0]["byte_size"].as_f64();
            let own = bytes.context("the statistics have no memory_usage")? / 1e6;
            started = started.min(1e3 * server.started.as_secs_f64());
            idle = idle.min(server.memory_mb()? - own);
        }
        let add = |what: &str, found: f64, unit| {
            Measure::new("start", format!("{name}: {what}"), found, unit)
        };
        let (time, memory) = (
            add("from the start of the process until it listens, best of 5", started, "ms"),
            add("idle memory beside the bytes of the packed model", idle, "MB"),
        );
        let is_small = name == "digits";
        bench.measures.push(if is_small { time.at_most(100.0) } else { time });
        bench.measures.push(if is_small { memory.at_most(15.0) } else { memory });
    }
    Ok(())
}

/// A long run with requests and an exchange every two seconds: memory and file handles of its halves.
pub fn soak(bench: &mut Bench<'_>, machine: &TrainedMachine) -> Result<()> {
    let seconds = bench.soak_seconds.unwrap_or(if bench.is_quick { 20.0 } else { 1200.0 });
    let count = (seconds / 2.0).ceil() as usize;
    let Changing { server, digests, questions, reloads } =
        changing(bench, machine, SOAKED, count, 2.0)?;
    let job = LoadTest {
        digests,
        reloads: Some(reloads),
        ..LoadTest::new(&server.address, Some(200.0), 1e6, 32)
    };
    let mut child = bench.generator.start(&job, &questions)?;
    let (mut memory, mut handles) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(500));
        // The first fifth fills the allocator and opens connections.
        if start.elapsed().as_secs_f64() > seconds / 5.0 && child.try_wait()?.is_none() {
            memory.push(server.memory_mb()?);
            handles.push(server.handles()? as f64);
        }
    }
    let run: Value = finished(child)?;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let halves = |all: &[f64]| (mean(&all[..all.len() / 2]), mean(&all[all.len() / 2..]));
    let ((before, after), (few, many)) = (halves(&memory), halves(&handles));
    let number = |key: &str| run[key].as_f64().unwrap_or_default();
    let add = |what: &str, found: f64, unit| Measure::new("soak", what, found, unit);
    bench.measures.extend([
        add("seconds of 200 requests a second and an exchange every 2 s", number("seconds"), "s"),
        add("requests answered", number("answered"), ""),
        add("failed or lost", number("failed") + number("refused") + number("lost"), "")
            .at_most(0.0),
        add("refused with 429", number("shed"), ""),
        add("answers of a model that was not loaded at the time", number("not_loaded"), "")
            .at_most(0.0),
        add("memory, mean of the first half, the first fifth of the run left out", before, "MB"),
        add("growth of its mean in the second half", after - before, "MB")
            .at_most((0.02 * before).max(1.0)),
        add("file handles", few, ""),
        add("growth of file handles", many - few, "").at_most(0.5),
    ]);
    bench.count_wrong("soak", SOAKED, [&run]);
    Ok(())
}
