//! Other servers with the same machine: MLServer and FastAPI, both over scikit-learn, in an environment of their own
//! (`target/serve-venv`). Requests per second at equal p99: what a peer bears at seven tenths of its capacity gives the p99, and
//! the largest rate at which `mercer serve` keeps it is compared.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::load::{CheckedRequest, Form, LoadTest};
use super::measure::Measure;
use super::models::{MACHINES, Prepared, ServePaths, TrainedMachine};
use super::processes::Server;
use crate::workspace::{self, stdout_of};

const CONNECTIONS: usize = 16;
/// The share of its capacity at which a peer's p99 is taken.
const SHARE: f64 = 0.7;
const PACKAGES: [&str; 5] =
    ["mlserver==1.7.1", "mlserver-sklearn==1.7.1", "fastapi", "uvicorn[standard]", "scikit-learn"];
const INTELEX: &str = "scikit-learn-intelex";

/// What a peer bore.
struct Borne {
    rate: f64,
    p50_us: f64,
    p99_us: f64,
}

pub fn run(bench: &mut Bench<'_>, machines: &[TrainedMachine; 2]) -> Result<()> {
    let Some(python) = environment(bench) else { return Ok(()) };
    for (task, machine) in MACHINES.iter().zip(machines) {
        for is_intelex in [false, true] {
            let kind = if is_intelex { "sklearnex" } else { "scikit-learn" };
            let folder = bench.paths.file(&format!("{}-{kind}", task.name));
            if let Err(error) = fitted(bench.paths, &python, task.name, &folder, is_intelex) {
                bench.notes.push(format!("Not measured: {kind} on {}", task.name));
                eprintln!("serve: peers: {error:#}");
                continue;
            }
            let name = format!("{}: MLServer with {kind}", task.name);
            let mut command = bench.paths.workspace.command(python.with_file_name("mlserver"));
            command.arg("start").arg(&folder);
            let questions = machine.tuned.peer_questions("/v2/models/svc/infer", true);
            let served = (&mut command, port(&folder)?, "/v2/health/ready");
            compare(bench, &name, served, &questions, machine, !is_intelex)?;
        }
        let folder = bench.paths.file(&format!("{}-scikit-learn", task.name));
        let free = free_port()?;
        let mut command = script(bench.paths, &python);
        command.arg("fastapi").arg("--model").arg(folder.join("model.joblib"));
        command.arg("--port").arg(free.to_string());
        let questions = machine.tuned.peer_questions("/predict", false);
        let name = format!("{}: FastAPI with scikit-learn", task.name);
        compare(bench, &name, (&mut command, free, "/ready"), &questions, machine, false)?;
    }
    Ok(())
}

/// The interpreter of the environment, made if it is not there; none if it cannot be.
fn environment(bench: &mut Bench<'_>) -> Option<PathBuf> {
    let workspace = &bench.paths.workspace;
    let home = workspace.target.join("serve-venv");
    let python = home.join("bin/python");
    let pip = || {
        let mut command = workspace.command(&python);
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        command
    };
    if !python.is_file() {
        let made = workspace::run(workspace.command("python3").args(["-m", "venv"]).arg(&home));
        if let Err(error) = made.and_then(|()| workspace::run(pip().args(PACKAGES))) {
            drop(std::fs::remove_dir_all(&home));
            println!("serve: peers skipped, their packages cannot be installed");
            eprintln!("serve: peers: {error:#}");
            bench.notes.push(
                "Not measured: MLServer and FastAPI, their packages could not be installed"
                    .to_owned(),
            );
            return None;
        }
        // Where it does not run, the notes say so later.
        drop(workspace::run(pip().arg(INTELEX)));
    }
    let versions = "import importlib.metadata as m; print(', '.join(n + ' ' + m.version(n) for n in \
                    ('mlserver', 'fastapi', 'uvicorn', 'scikit-learn', 'numpy')))";
    if let Ok(said) = stdout_of(workspace.command(&python).args(["-c", versions])) {
        bench.notes.push(format!("Peers: {}", said.trim()));
    }
    Some(python)
}

fn script(paths: &ServePaths, python: &Path) -> Command {
    let mut command = paths.workspace.command(python);
    command.arg("benches/peers/serve.py");
    command
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Trains the peer's machine unless that was done.
fn fitted(
    paths: &ServePaths,
    python: &Path,
    task: &str,
    folder: &Path,
    is_intelex: bool,
) -> Result<()> {
    if folder.join("model-settings.json").is_file() {
        return Ok(());
    }
    let mut fit = script(paths, python);
    fit.arg("fit").arg("--rows").arg(paths.file(&format!("{task}.train.npy")));
    fit.arg("--labels").arg(paths.file(&format!("{task}.train.labels.npy")));
    fit.arg("--out").arg(folder).arg("--port").arg(free_port()?.to_string());
    fit.args(is_intelex.then_some("--intelex"));
    stdout_of(&mut fit).map(drop)
}

/// The port that MLServer's settings name.
fn port(folder: &Path) -> Result<u16> {
    let text = std::fs::read_to_string(folder.join("settings.json"))?;
    let settings: Value = serde_json::from_str(&text)?;
    settings["http_port"].as_u64().and_then(|port| port.try_into().ok()).context("no http_port")
}

/// A peer beside `mercer serve`, one after the other.
fn compare(
    bench: &mut Bench<'_>,
    name: &str,
    served: (&mut Command, u16, &str),
    questions: &[CheckedRequest],
    machine: &TrainedMachine,
    is_target: bool,
) -> Result<()> {
    let (command, port, ready) = served;
    let log = bench.paths.file("peer.log");
    let peer = match Server::other(command, port, ready, &log) {
        Ok(peer) => peer,
        Err(error) => {
            bench.notes.push(format!("Not measured: {name}"));
            eprintln!("serve: peers: {name}: {error:#}, see {}", log.display());
            return Ok(());
        }
    };
    let job =
        LoadTest { form: Form::Labels, ..LoadTest::new(&peer.address, None, 3.0, CONNECTIONS) };
    let borne = at_share(bench, name, &job, questions)?;
    drop(peer);
    let Some(borne) = borne else {
        bench.notes.push(format!("Not measured: {name}, it answered nothing"));
        return Ok(());
    };
    let add = |what: &str, found: f64, unit| {
        Measure::new("peers", format!("{name}: {what}"), found, unit)
    };
    bench.measures.extend([
        add("rate at seven tenths of its capacity", borne.rate, "requests/s"),
        add("its p50 there", borne.p50_us / 1e3, "ms"),
        add("its p99 there", borne.p99_us / 1e3, "ms"),
    ]);
    for is_binary in [true, false] {
        let rate = rate_within(bench, &machine.tuned, is_binary, borne.p99_us)?;
        let what = if is_binary { "bytes" } else { "JSON" };
        let row =
            add(&format!("rate of mercer at that p99, {what}, over it"), rate / borne.rate, "");
        bench.measures.push(if is_target && is_binary { row.at_least(30.0) } else { row });
    }
    Ok(())
}

/// A peer's rate and latency at a share of its capacity.
fn at_share(
    bench: &mut Bench<'_>,
    name: &str,
    job: &LoadTest,
    questions: &[CheckedRequest],
) -> Result<Option<Borne>> {
    let full = bench.load(job, questions)?;
    if full["answered"].as_f64().unwrap_or_default() == 0.0 {
        eprintln!("serve: peers: {full}");
        return Ok(None);
    }
    let capacity = rate_of(&full);
    let rate = SHARE * capacity;
    let seconds = bench.seconds(10.0, 5.0);
    let run = bench.load(&LoadTest { rate: Some(rate), seconds, ..job.clone() }, questions)?;
    let latency = |key: &str| run["latency_us"]["200"][key].as_f64().unwrap_or(f64::INFINITY);
    let (checked, wrong) = (run["checked"].as_f64(), run["wrong"].as_f64());
    if let (Some(checked), Some(wrong)) = (checked, wrong) {
        let share = 100.0 * wrong / checked.max(1.0);
        bench.notes.push(format!(
            "{name}: {share:.2} % of {checked:.0} labels are not those of mercer predict; it trained a machine of its own"
        ));
    }
    Ok(Some(Borne { rate, p50_us: latency("p50"), p99_us: latency("p99") }))
}

fn rate_of(run: &Value) -> f64 {
    run["answered"].as_f64().unwrap_or_default() / run["seconds"].as_f64().unwrap_or(1.0)
}

/// The largest rate at which `mercer serve` keeps that p99.
fn rate_within(bench: &Bench<'_>, model: &Prepared, is_binary: bool, p99_us: f64) -> Result<f64> {
    let server = Server::mercer(bench.paths, &[&model.model], &[])?;
    let questions = model.questions(1, is_binary);
    let form = if is_binary { Form::Binary } else { Form::Json };
    let job = LoadTest { form, ..LoadTest::new(&server.address, None, 3.0, CONNECTIONS) };
    let capacity = rate_of(&bench.load(&job, &questions)?);
    for share in [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1] {
        let rate = share * capacity;
        let run = bench.load(&LoadTest { rate: Some(rate), ..job.clone() }, &questions)?;
        let found = run["latency_us"]["200"]["p99"].as_f64().unwrap_or(f64::INFINITY);
        let all =
            run["failed"].as_f64().unwrap_or_default() + run["shed"].as_f64().unwrap_or_default();
        if found <= p99_us && all == 0.0 {
            return Ok(rate_of(&run));
        }
    }
    Ok(0.0)
}
