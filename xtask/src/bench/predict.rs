//! Answering queries: Mercer and, if asked for, its peers, on the same machines and queries.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::report::{self, Series};
use super::{Options, figures};
use crate::workspace::{self, Workspace, stdout_of};

/// A task of `benches/tasks.toml` that measures answering.
#[derive(Debug, PartialEq)]
struct PredictionTask {
    name: String,
}

impl PredictionTask {
    fn model(&self, prepared: &Path) -> PathBuf {
        prepared.join(format!("{}.model", self.name))
    }

    fn queries(&self, prepared: &Path) -> PathBuf {
        prepared.join(format!("{}.test.svm", self.name))
    }

    fn is_prepared(&self, prepared: &Path) -> bool {
        self.model(prepared).is_file() && self.queries(prepared).is_file()
    }
}

/// Where everything is.
struct Paths {
    workspace: Workspace,
    prepared: PathBuf,
    data: PathBuf,
}

/// Measures every prepared task; fails if Mercer could not answer one of them.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let data = std::env::var_os("MERCER_DATA");
    let data = workspace.root.join(data.map_or_else(|| "../shared/data".into(), PathBuf::from));
    let paths = Paths { workspace, prepared, data };

    let tasks = prepared_tasks(&paths, options)?;
    if tasks.is_empty() {
        println!("predict: skipped, no task is prepared");
        return Ok(ExitCode::SUCCESS);
    }
    let workspace = &paths.workspace;
    workspace::run(&mut workspace.cargo(["build", "--release", "--locked", "-p", "mercer-cli"]))?;

    let python = options.peers.as_deref().map(program).transpose()?;
    let (mut series, mut notes, mut code) = (Vec::new(), Vec::new(), ExitCode::SUCCESS);
    for task in &tasks {
        eprintln!("predict: {}", task.name);
        match ours(&paths, task, options) {
            Ok((answer, note)) => {
                series.extend(report::series_of("mercer", &task.name, &answer));
                notes.extend(note);
            }
            Err(error) => {
                code = ExitCode::FAILURE;
                notes.push(not_measured(task, "Mercer", &error));
            }
        }
        let Some(python) = &python else { continue };
        match measure(&mut peers(&paths, python, task, options.quick)) {
            Ok(answer) => {
                series.extend(report::series_of("", &task.name, &answer));
                notes.extend(report::versions_of(&answer));
            }
            Err(error) => notes.push(not_measured(task, "the peers", &error)),
        }
    }
    notes.sort();
    notes.dedup();
    publish(&paths, options, &series, &notes)?;
    figures::write(options, report::figures(&series), &notes)?;
    Ok(code)
}

/// Prints why a task has no times, and returns a note that names no folder of this machine.
fn not_measured(task: &PredictionTask, whose: &str, error: &anyhow::Error) -> String {
    eprintln!("predict: {}: {error:#}", task.name);
    format!("Not measured: {whose} on {}", task.name)
}

/// Prints the table, and writes it where the options say.
fn publish(paths: &Paths, options: &Options, rows: &[Series], notes: &[String]) -> Result<()> {
    let table = report::table(rows);
    print!("{table}");
    for note in notes {
        println!("{note}");
    }
    let Some(file) = &options.write else {
        return Ok(());
    };
    // Names of folders on this machine are nobody else's business.
    let mut command = "cargo xtask bench predict --prepared DIR".to_owned();
    command.extend(options.peers.iter().map(|_| " --peers PYTHON"));
    command.extend(options.tasks.iter().map(|name| format!(" --task {name}")));
    command.extend(options.contract.iter().map(|text| format!(" --contract '{text}'")));
    let page = report::page(&paths.workspace, "Answering queries", &command, &table, notes);
    fs::write(file, page).with_context(|| format!("cannot write {file}"))
}

/// The tasks that can be measured; prints what is missing for the others, and what makes it.
fn prepared_tasks(paths: &Paths, options: &Options) -> Result<Vec<PredictionTask>> {
    let file = paths.workspace.root.join("benches/tasks.toml");
    let text = fs::read_to_string(&file).context("cannot read benches/tasks.toml")?;
    let mut tasks = read_tasks(&text)?;
    if let Some(name) = options.tasks.iter().find(|name| !tasks.iter().any(|t| t.name == **name)) {
        bail!("no task '{name}' in benches/tasks.toml measures answering");
    }
    tasks.retain(|task| options.tasks.is_empty() || options.tasks.contains(&task.name));

    let (ready, missing): (Vec<_>, Vec<_>) =
        tasks.into_iter().partition(|task| task.is_prepared(&paths.prepared));
    if !missing.is_empty() {
        let shown = |path: &Path| paths.workspace.shown(path);
        let names = missing.iter().map(|task| task.name.as_str()).collect::<Vec<_>>().join(" ");
        let (data, out) = (shown(&paths.data), shown(&paths.prepared));
        let python = options.peers.as_deref().unwrap_or("PYTHON");
        println!("predict: skipped, not prepared in {out}: {names}");
        println!(
            "  this makes them: {python} benches/peers/prepare.py --data {data} --out {out} {names}"
        );
    }
    Ok(ready)
}

/// The tasks with `predictor = true`; whatever else is in the file is not looked at.
fn read_tasks(text: &str) -> Result<Vec<PredictionTask>> {
    let table: toml::Table = text.parse().context("benches/tasks.toml")?;
    let listed = table.get("task").and_then(toml::Value::as_array).into_iter().flatten();
    let predicts = |task: &&toml::Value| {
        task.get("predictor").and_then(toml::Value::as_bool).unwrap_or_default()
    };
    let name = |task: &toml::Value| task.get("name")?.as_str().map(str::to_owned);
    Ok(listed.filter(predicts).filter_map(name).map(|name| PredictionTask { name }).collect())
}

/// What `mercer bench` says of a task, and under a contract the plan that was found first.
fn ours(
    paths: &Paths,
    task: &PredictionTask,
    options: &Options,
) -> Result<(Value, Option<String>)> {
    let Some(contract) = &options.contract else {
        let (model, queries) = (task.model(&paths.prepared), task.queries(&paths.prepared));
        return Ok((measure(mercer(paths, "bench").arg(model).arg(queries).arg("--json"))?, None));
    };
    let folder = paths.workspace.target.join("bench-predict");
    fs::create_dir_all(&folder).context("cannot make a folder for the parts of the queries")?;
    let [sample, queries, model] = ["sample.svm", "queries.svm", "mercer"]
        .map(|end| folder.join(format!("{}.{end}", task.name)));
    let text = fs::read_to_string(task.queries(&paths.prepared)).context("the queries")?;
    let lines: Vec<&str> = text.lines().collect();
    let (first, second) = lines.split_at(lines.len() * 3 / 5);
    fs::write(&sample, first.join("\n") + "\n")?;
    fs::write(&queries, second.join("\n") + "\n")?;
    let mut tune = mercer(paths, "tune");
    tune.arg(task.model(&paths.prepared)).arg("--sample").arg(&sample);
    let training = paths.prepared.join(format!("{}.train.svm", task.name));
    if training.is_file() {
        tune.arg("--training").arg(training);
    }
    let limit = if options.quick { "60s" } else { "240s" };
    tune.args(["--contract", contract, "--time-limit", limit, "-o"]).arg(&model).arg("--quiet");
    workspace::run(&mut tune)?;
    let answer = measure(mercer(paths, "bench").arg(&model).arg(&queries).arg("--json"))?;
    let plan = answer.get("plan").and_then(Value::as_str);
    let differs = answer.get("disagreements").and_then(Value::as_u64);
    let differs = differs
        .map(|count| format!(", {count} disagreements with exact in {} labels", second.len()));
    let note = format!(
        "{}: `{}` under {contract}{}",
        task.name,
        plan.unwrap_or("exact"),
        differs.unwrap_or_default()
    );
    Ok((answer, Some(note)))
}

fn mercer(paths: &Paths, verb: &str) -> Command {
    let program = paths.workspace.target.join(format!("release/mercer{EXE_SUFFIX}"));
    let mut command = paths.workspace.command(program);
    command.arg(verb);
    command
}

/// A program given by name as it is, one given by path with its whole path: it runs in the root.
fn program(given: &str) -> Result<PathBuf> {
    let path = PathBuf::from(given);
    Ok(if path.components().count() > 1 { std::path::absolute(path)? } else { path })
}

fn peers(paths: &Paths, python: &Path, task: &PredictionTask, quick: bool) -> Command {
    let mut command = paths.workspace.command(python);
    command.arg("benches/peers/predict.py").arg("--data").arg(&paths.data);
    command.arg("--models").arg(&paths.prepared).arg(&task.name);
    command.args(quick.then_some(["--slow-rows", "200"]).into_iter().flatten());
    command
}

/// Runs a program that prints one JSON object with at least one time.
fn measure(command: &mut Command) -> Result<Value> {
    let text = stdout_of(command)?;
    let answer = serde_json::from_str(&text).context("what it printed is not one JSON object")?;
    if report::series_of("", "", &answer).is_empty() {
        bail!("what it printed has no key such as exact_batch_us or exact_single_us");
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tasks_that_predict_are_measured() {
        let text = "[[task]]\nname = 'a'\npredictor = true\nC = 1\n\
                    [[task]]\nname = 'b'\n\
                    [[task]]\npredictor = true\n\
                    [[task]]\nname = 'c'\npredictor = true\nnew = { x = 1 }\n";
        let names: Vec<_> = read_tasks(text).unwrap().into_iter().map(|task| task.name).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(read_tasks("title = 'none'").unwrap(), []);
    }
}
