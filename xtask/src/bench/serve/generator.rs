//! The load generator, a process of its own (`xtask load JOB`, built with optimisation by `cargo xtask bench serve`). It is open-loop:
//! each request has its moment, whatever became of those before it, and latency counts from that moment. What is asked and
//! what must be answered is a file that `load.rs` writes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::http::{Broken, Connection};
use super::load::{CheckedRequest, Form, LoadTest, Reloads};
use super::reloads::{self, History};
use crate::Args;

/// The last part of a wait is spent looking at the clock: the system wakes threads late by about as much.
const SPIN: Duration = Duration::from_micros(80);

/// What became of a request.
#[derive(Debug, Clone, Copy)]
struct Record {
    /// Nanoseconds from the moment it was due to its response.
    latency: u64,
    /// Nanoseconds since the start at which it was sent and answered.
    sent: u64,
    received: u64,
    status: u16,
    verdict: Verdict,
    /// Microseconds of the plan, where the response tells them.
    compute_us: Option<f64>,
}

/// How an answer compares with the expected ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    NotChecked,
    /// The answer that this model gives.
    Right(u8),
    Wrong,
}

/// What all connections share.
struct Run<'a> {
    job: &'a LoadTest,
    questions: &'a [CheckedRequest],
    start: Instant,
    next: Mutex<u64>,
    is_over: AtomicBool,
    refused: AtomicU64,
    lost: AtomicU64,
    first_problem: Mutex<Option<String>>,
}

/// Runs the job of the file that is named, and prints what came of it.
pub fn main(args: Args) -> Result<ExitCode> {
    let names = args.names()?;
    let path = PathBuf::from(names.first().context("the file of a job is missing")?);
    let (job, questions) = LoadTest::read(&path)?;
    println!("{}", run(&job, &questions)?);
    Ok(ExitCode::SUCCESS)
}

fn run(job: &LoadTest, questions: &[CheckedRequest]) -> Result<Value> {
    let run = Run {
        job,
        questions,
        start: Instant::now(),
        next: Mutex::new(0),
        is_over: AtomicBool::new(false),
        refused: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        first_problem: Mutex::default(),
    };
    let (records, late, history) = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..job.connections).map(|_| scope.spawn(|| run.connection())).collect();
        let history = job.reloads.as_ref().map(|reloads| run.reloads(reloads));
        let (mut records, mut late) = (Vec::new(), Vec::new());
        for thread in threads {
            let (own, own_late) = thread.join().expect("a connection does not panic");
            records.extend(own);
            late.extend(own_late);
        }
        (records, late, history)
    });
    Ok(summary(&run, &records, late, history.transpose()?.as_ref()))
}

impl Run<'_> {
    fn since_start(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn note(&self, what: String) {
        let mut first = self.first_problem.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(what);
    }

    /// The number of the next request and the moment it is due, when that has come; none when the run is over.
    fn next(&self) -> Option<(u64, u64)> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *next;
        *next += 1;
        let due = match self.job.rate {
            Some(rate) => (1e9 * number as f64 / rate) as u64,
            None => self.since_start(),
        };
        let is_over = self.is_over.load(Ordering::Relaxed) || due as f64 > 1e9 * self.job.seconds;
        if is_over {
            return None;
        }
        let moment = self.start + Duration::from_nanos(due);
        let left = moment.saturating_duration_since(Instant::now());
        std::thread::sleep(left.saturating_sub(SPIN));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        Some((number, due))
    }

    fn connection(&self) -> (Vec<Record>, Vec<u64>) {
        let mut connection = Connection::new(&self.job.address);
        let (mut records, mut late) = (Vec::new(), Vec::new());
        // Opening it is not part of the first request.
        drop(connection.open());
        while let Some((number, due)) = self.next() {
            let question = &self.questions[number as usize % self.questions.len()];
            let sent = self.since_start();
            late.push(sent - due);
            match connection.ask(&question.request) {
                Ok(reply) => {
                    let received = self.since_start();
                    let body = &connection.buffer[reply.start..reply.end];
                    let verdict = self.verdict(question, reply.status, body, reply.json_bytes);
                    let (latency, status) = (received - due, reply.status);
                    let json = &body[..reply.json_bytes.unwrap_or(body.len()).min(body.len())];
                    let compute_us = compute_us(json);
                    records.push(Record { latency, sent, received, status, verdict, compute_us });
                }
                Err(Broken::Refused(error)) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    self.note(format!("no connection: {error}"));
                    if self.job.until_closed {
                        self.is_over.store(true, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Broken::Lost(what)) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    self.note(format!("lost after {} ms: {what}", self.since_start() / 1_000_000));
                }
            }
        }
        (records, late)
    }

    fn verdict(
        &self,
        question: &CheckedRequest,
        status: u16,
        body: &[u8],
        json_bytes: Option<usize>,
    ) -> Verdict {
        if status != 200 {
            if status != 429 {
                self.note(format!("status {status}: {}", String::from_utf8_lossy(body)));
            }
            return Verdict::NotChecked;
        }
        let json = &body[..json_bytes.unwrap_or(body.len()).min(body.len())];
        let parsed = || serde_json::from_slice::<Value>(json).unwrap_or_default();
        let model = match self.job.digests.as_slice() {
            [] => 0,
            digests => {
                let digest = &parsed()["parameters"]["digest"];
                let place = digests.iter().position(|known| digest == known.as_str());
                let Some(place) = place else {
                    self.note(format!("an answer of an unknown model: {digest}"));
                    return Verdict::Wrong;
                };
                place
            }
        };
        let is_right = match self.job.form {
            Form::Unchecked => return Verdict::NotChecked,
            Form::Binary => body[json.len()..] == question.expected[model],
            Form::Json => values(&parsed()) == question.expected[model],
            Form::Labels => {
                let found = labels(&parsed());
                !found.is_empty() && question.expected[model].starts_with(&found)
            }
        };
        if is_right {
            return Verdict::Right(model as u8);
        }
        self.note(format!("a wrong answer: {}", String::from_utf8_lossy(json)));
        Verdict::Wrong
    }

    /// Reloads beside the requests; the run ends with the last.
    fn reloads(&self, given: &Reloads) -> Result<History> {
        let mut history = History::default();
        let all = (1..=given.count).try_for_each(|number| {
            std::thread::sleep(Duration::from_secs_f64(given.pause));
            reloads::place(given, number)?;
            let begin = self.since_start();
            reloads::load(given, &self.job.address, number)?;
            history.push(begin, self.since_start(), (number % given.files.len()) as u8);
            Ok(())
        });
        self.is_over.store(true, Ordering::Relaxed);
        all.map(|()| history)
    }
}

/// The outputs of a response as the bytes that the binary form has: whole numbers of labels, then numbers.
fn values(response: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for output in response["outputs"].as_array().into_iter().flatten() {
        let is_label = output["datatype"].as_str().is_none_or(|kind| kind.starts_with("INT"));
        for element in output["data"].as_array().into_iter().flatten() {
            let Some(number) = element.as_f64() else { continue };
            let eight = if is_label { (number as i64).to_le_bytes() } else { number.to_le_bytes() };
            bytes.extend(eight);
        }
    }
    bytes
}

/// The number behind the name `compute_us`, without reading the rest.
fn compute_us(json: &[u8]) -> Option<f64> {
    let name = b"\"compute_us\":";
    let place = json.windows(name.len()).position(|window| window == name)? + name.len();
    let is_digit = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let length = json[place..].iter().take_while(is_digit).count();
    std::str::from_utf8(&json[place..place + length]).ok()?.parse().ok()
}

/// The elements of the first output as whole numbers, whatever their datatype.
fn labels(response: &Value) -> Vec<u8> {
    let data = response["outputs"][0]["data"].as_array().into_iter().flatten();
    data.filter_map(Value::as_f64).flat_map(|label| (label as i64).to_le_bytes()).collect()
}

fn summary(run: &Run<'_>, records: &[Record], late: Vec<u64>, history: Option<&History>) -> Value {
    let mut by_status: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
    let (mut checked, mut wrong, mut not_loaded) = (0u64, 0u64, 0u64);
    for record in records {
        by_status.entry(record.status).or_default().push(record.latency);
        match record.verdict {
            Verdict::NotChecked => continue,
            Verdict::Wrong => wrong += 1,
            Verdict::Right(model) => {
                let is_possible =
                    |history: &History| history.allows(model, record.sent, record.received);
                not_loaded += u64::from(!history.is_none_or(is_possible));
            }
        }
        checked += 1;
    }
    let compute = records.iter().filter_map(|record| Some((1e3 * record.compute_us?) as u64));
    let compute = compute.collect();
    let seconds = run.start.elapsed().as_secs_f64();
    let count = |status: u16| by_status.get(&status).map_or(0, Vec::len);
    let (answered, shed) = (count(200), count(429));
    let failed = records.len() - answered - shed;
    let first_problem = run.first_problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let latencies: serde_json::Map<String, Value> = by_status
        .into_iter()
        .map(|(status, latencies)| (status.to_string(), percentiles(latencies)))
        .collect();
    json!({
        "seconds": seconds,
        "answered": answered, "shed": shed, "failed": failed,
        "refused": run.refused.load(Ordering::Relaxed),
        "lost": run.lost.load(Ordering::Relaxed),
        "checked": checked, "wrong": wrong, "not_loaded": not_loaded,
        "reload_ms": history.map(History::mean_ms),
        "latency_us": latencies, "late_us": percentiles(late), "compute_us": percentiles(compute),
        "first_problem": first_problem,
    })
}

fn percentiles(mut nanoseconds: Vec<u64>) -> Value {
    nanoseconds.sort_unstable();
    let at = |share: f64| {
        let place = (share * nanoseconds.len() as f64) as usize;
        let place = place.min(nanoseconds.len().saturating_sub(1));
        nanoseconds.get(place).map(|time| (*time as f64 / 100.0).round() / 10.0)
    };
    json!({ "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": at(1.0) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one connection: each request the same, after so long.
    fn server(answer: &'static [u8], delay: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|count| count > 0) {
                        std::thread::sleep(delay);
                        stream.write_all(answer).unwrap();
                    }
                });
            }
        });
        address
    }

    fn job(address: String) -> LoadTest {
        LoadTest {
            address,
            form: Form::Binary,
            rate: Some(100.0),
            seconds: 0.2,
            connections: 1,
            until_closed: false,
            digests: Vec::new(),
            reloads: None,
        }
    }

    fn question(expected: &[u8]) -> CheckedRequest {
        let request = b"GET / HTTP/1.1\r\n\r\n".to_vec();
        CheckedRequest { request, expected: vec![expected.to_vec()] }
    }

    #[test]
    fn latency_counts_from_the_moment_a_request_was_due() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let job = job(server(answer, Duration::from_millis(20)));
        let found = run(&job, &[question(b"")]).unwrap();
        // 21 requests, one every 10 ms, over a connection that answers one every 20 ms: the last waits 200 ms.
        assert_eq!(found["answered"], 21, "{found}");
        assert!(found["latency_us"]["200"]["max"].as_f64().unwrap() > 180e3, "{found}");
    }

    #[test]
    fn wrong_answers_and_refusals_are_counted() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\
                       Inference-Header-Content-Length: 2\r\n\r\n{}ab";
        let address = server(answer, Duration::ZERO);
        let found = run(&job(address.clone()), &[question(b"ab")]).unwrap();
        assert_eq!((&found["checked"], &found["wrong"]), (&json!(21), &json!(0)), "{found}");
        let found = run(&job(address), &[question(b"ab"), question(b"ac")]).unwrap();
        assert_eq!((&found["checked"], &found["wrong"]), (&json!(21), &json!(10)), "{found}");
        let closed = LoadTest { until_closed: true, ..job("127.0.0.1:9".to_owned()) };
        let found = run(&closed, &[question(b"")]).unwrap();
        assert_eq!((&found["answered"], &found["refused"]), (&json!(0), &json!(1)), "{found}");
    }

    #[test]
    fn json_and_binary_answers_have_the_same_bytes() {
        let response = json!({ "outputs": [
            { "name": "label", "datatype": "INT64", "data": [3, -8] },
            { "name": "low", "datatype": "FP64", "data": [0.1, 2.0] },
            { "name": "high", "datatype": "FP64", "data": [0.2, 3.0] },
        ]});
        let labels = [3i64, -8].map(i64::to_le_bytes).concat();
        let numbers = [0.1f64, 2.0, 0.2, 3.0].map(f64::to_le_bytes).concat();
        assert_eq!(super::labels(&response), labels);
        assert_eq!(compute_us(b"{\"queue_us\":1.5,\"compute_us\":27.4},\"x\":3}"), Some(27.4));
        assert_eq!(compute_us(b"{}"), None);
        assert_eq!(values(&response), [labels, numbers].concat());
    }
}
