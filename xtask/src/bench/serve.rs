//! `cargo xtask bench serve`: `mercer serve` under load from a second process, beside an empty handler and other servers, each figure
//! beside its target. Absolute times say little on a busy machine: targets are ratios within one run, the best of several.

mod changes;
mod generator;
mod http;
mod inline;
mod latency;
mod load;
mod measure;
mod models;
mod overload;
mod peers;
mod processes;
mod reloads;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub use generator::main as load_main;

use self::load::{CheckedRequest, Generator, LoadTest};
use self::measure::Measure;
use self::models::{MACHINES, ServePaths, TrainedMachine};
use super::{Options, report};
use crate::workspace;

/// What is measured, in this order.
const TASKS: [&str; 8] =
    ["start", "one_row", "inline", "rows64", "overload", "reload", "stop", "peers"];
/// Only if it is named: it takes twenty minutes.
const LONG: &str = "soak";

/// A run of the bench.
struct Bench<'a> {
    paths: &'a ServePaths,
    generator: Generator<'a>,
    is_quick: bool,
    soak_seconds: Option<f64>,
    measures: Vec<Measure>,
    notes: Vec<String>,
}

impl Bench<'_> {
    /// Seconds of a run, fewer of a quick one.
    fn seconds(&self, usual: f64, quick: f64) -> f64 {
        if self.is_quick { quick } else { usual }
    }

    fn load(&self, job: &LoadTest, questions: &[CheckedRequest]) -> Result<Value> {
        self.generator.run(job, questions)
    }

    /// A line with the wrong answers of some runs, and a note with the first problem.
    fn count_wrong<'v>(
        &mut self,
        task: &'static str,
        name: &str,
        runs: impl IntoIterator<Item = &'v Value>,
    ) {
        let (mut checked, mut wrong) = (0.0, 0.0);
        for run in runs {
            checked += run["checked"].as_f64().unwrap_or_default();
            wrong += run["wrong"].as_f64().unwrap_or_default();
            let problem = run["first_problem"].as_str();
            if let Some(problem) = problem.filter(|what| !what.starts_with("no connection")) {
                eprintln!("serve: {task}: {name}: {problem}");
            }
        }
        let what = format!("{name}: wrong answers of {checked:.0} checked against mercer predict");
        self.measures.push(Measure::new(task, what, wrong, "").at_most(0.0));
    }

    fn run(&mut self, task: &str, machines: &[TrainedMachine; 2]) -> Result<()> {
        let [two, ten] = machines;
        match task {
            "start" => changes::start(self, two),
            "one_row" => {
                latency::one_row(self, &two.tuned)?;
                latency::one_row(self, &ten.tuned)
            }
            "inline" => inline::run(self, &two.tuned),
            "rows64" => {
                latency::many_rows(self, two)?;
                latency::many_rows(self, ten)
            }
            "overload" => overload::run(self, &ten.exact),
            "reload" => changes::reload(self, two),
            "stop" => changes::stop(self, &ten.exact),
            "peers" => peers::run(self, machines),
            _ => changes::soak(self, two),
        }
    }
}

/// Prints every figure beside its target, and fails if one was measured and is not met.
pub fn run(options: &Options) -> Result<ExitCode> {
    let known = || TASKS.iter().chain([&LONG]);
    if let Some(name) = options.tasks.iter().find(|name| !known().any(|known| known == name)) {
        bail!("no task '{name}'; there are {}", known().copied().collect::<Vec<_>>().join(", "));
    }
    let paths = ServePaths::load()?;
    if !options.built {
        let packages = ["-p", "mercer-cli", "-p", "mercer-server", "-p", "xtask"];
        let targets = ["--bin", "mercer", "--example", "empty_handler", "--bin", "xtask"];
        let mut build = paths.workspace.cargo(["build", "--release", "--locked"]);
        workspace::run(build.args(packages).args(targets))?;
    }
    let mut prepared = Vec::new();
    for task in &MACHINES {
        let Some(machine) = models::prepare(&paths, task)? else { return Ok(ExitCode::SUCCESS) };
        prepared.push(machine);
    }
    let Ok(machines): Result<[TrainedMachine; 2], _> = prepared.try_into() else {
        bail!("two machines")
    };
    let program = format!("release/xtask{}", std::env::consts::EXE_SUFFIX);
    let generator = Generator {
        workspace: &paths.workspace,
        program: paths.workspace.target.join(program),
        folder: paths.folder.clone(),
    };
    let soak_seconds = options.seconds.as_deref().map(str::parse).transpose()?;
    let (measures, notes) = (Vec::new(), Vec::new());
    let mut bench =
        Bench { paths: &paths, generator, is_quick: options.quick, soak_seconds, measures, notes };
    let load_before = busy();
    for task in known() {
        let is_wanted = match options.tasks.as_slice() {
            [] => *task != LONG,
            named => named.iter().any(|name| name == task),
        };
        if is_wanted {
            eprintln!("serve: {task}");
            let first = bench.measures.len();
            bench.run(task, &machines)?;
            print!("{}", measure::table(&bench.measures[first..]));
        }
    }
    bench.notes.push(format!(
        "Load averages of the machine before and after the run, this bench included: {load_before} and {}",
        busy()
    ));
    bench.notes.push(
        "Latency counts from the moment a request was due; the generator is a process on the same machine and takes its share of it"
            .to_owned(),
    );
    bench.notes.iter().for_each(|note| println!("{note}"));
    print!("{}", measure::missed(&bench.measures));
    publish(&bench, options)?;
    let is_missed = bench.measures.iter().any(|measure| measure.is_met() == Some(false));
    Ok(if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The load averages of one and five minutes.
fn busy() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(", ")
}

/// Writes the page, and the same as JSON beside it.
fn publish(bench: &Bench<'_>, options: &Options) -> Result<()> {
    let Some(file) = &options.write else { return Ok(()) };
    let mut command = "cargo xtask bench serve".to_owned();
    command.extend(options.quick.then_some(" --quick"));
    command.extend(options.tasks.iter().map(|task| format!(" --task {task}")));
    command.extend(options.seconds.iter().map(|seconds| format!(" --seconds {seconds}")));
    let table = measure::missed(&bench.measures) + "\n" + &measure::table(&bench.measures);
    let page = report::page(&bench.paths.workspace, "Serving", &command, &table, &bench.notes);
    fs::write(file, page).with_context(|| format!("cannot write {file}"))?;
    let beside = std::path::Path::new(file).with_extension("json");
    let object = measure::object(&bench.measures, &bench.notes);
    let text = serde_json::to_string_pretty(&object)? + "\n";
    fs::write(&beside, text).with_context(|| format!("cannot write {}", beside.display()))
}
