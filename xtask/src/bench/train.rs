//! Training: Mercer and, if asked for, its peers, on the same rows at the same tolerance.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figures::{self, Figure};
use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

/// The tasks of the topic; others are measured when they are named.
const USUAL: [&str; 5] = ["mnist38", "mnist8rest20k", "mnist10", "a9a", "covtype50k"];

/// A task of `benches/tasks.toml`.
#[derive(Debug, PartialEq)]
pub(super) struct TrainingTask {
    pub(super) name: String,
    pub(super) kernel: String,
    /// `c_svc(C=10)`.
    pub(super) formulation: String,
}

/// One program on one task.
struct TrainingLine {
    task: String,
    /// The first rows only.
    rows: Option<usize>,
    program: String,
    answer: Value,
}

/// Measures every task whose rows were written; fails if Mercer could not train one of them.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let data = std::env::var_os("MERCER_DATA");
    let data = workspace.root.join(data.map_or_else(|| "../shared/data".into(), PathBuf::from));
    let text = fs::read_to_string(workspace.root.join("benches/tasks.toml"))
        .context("cannot read benches/tasks.toml")?;
    let wanted: Vec<&str> = match options.tasks.as_slice() {
        [] => USUAL.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let (ready, missing): (Vec<_>, Vec<_>) = read_tasks(&text, &wanted)?
        .into_iter()
        .partition(|task| training_rows(&prepared, task).is_file());
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|task| task.name.as_str()).collect();
        let (out, data) = (workspace.shown(&prepared), workspace.shown(&data));
        println!("train: skipped, no rows in {out}: {}", names.join(" "));
        println!(
            "  this writes them: PYTHON benches/peers/rows.py --data {data} --out {out} {}",
            names.join(" ")
        );
    }
    if ready.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let build = ["build", "--release", "--locked", "-p", "mercer-train", "--example", "train"];
    workspace::run(&mut workspace.cargo(build))?;
    let mut lines = Vec::new();
    let mut notes = vec![
        "Tolerance 1e-3, cache 1 GB; seconds of wall clock, and of all threads together".to_owned(),
    ];
    if options.quick {
        notes.push("LIBSVM is left out with --quick".to_owned());
    }
    let mut code = ExitCode::SUCCESS;
    let counts: Vec<Option<usize>> = match options.rows.as_slice() {
        [] => vec![None],
        rows => rows.iter().copied().map(Some).collect(),
    };
    for (task, rows) in ready.iter().flat_map(|task| counts.iter().map(move |rows| (task, *rows))) {
        let name = shown(&task.name, rows);
        eprintln!("train: {name}");
        match measure(&mut mercer(&workspace, &prepared, task, rows)) {
            Ok(answer) => lines.push(TrainingLine::new(task, rows, "mercer", answer)),
            Err(error) => {
                eprintln!("train: {name}: {error:#}");
                code = ExitCode::FAILURE;
                notes.push(format!("Not measured: Mercer on {name}"));
            }
        }
        if let Some(python) = &options.peers {
            // LIBSVM takes minutes on the larger tasks.
            let names = if options.quick { &PEERS[..1] } else { &PEERS[..] };
            let peers = Peers { workspace: &workspace, python, data: &data, names };
            notes.extend(peers.measure(task, rows, &mut lines));
        }
    }
    notes.dedup();
    notes.extend(growth(&lines));
    publish(&workspace, options, &table(&lines), &notes)?;
    let found = lines.iter().filter_map(|line| {
        let name = format!("{}, {}", shown(&line.task, line.rows), line.program);
        Some(Figure { name, value: line.number("seconds")?, unit: "seconds", differs: None })
    });
    figures::write(options, found.collect(), &notes)?;
    Ok(code)
}

impl TrainingLine {
    fn new(task: &TrainingTask, rows: Option<usize>, program: &str, answer: Value) -> Self {
        Self { task: task.name.clone(), rows, program: program.to_owned(), answer }
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.answer.get(key)?.as_f64()
    }
}

/// `a9a`, or `a9a, 8000 rows`.
fn shown(task: &str, rows: Option<usize>) -> String {
    rows.map_or_else(|| task.to_owned(), |rows| format!("{task}, {rows} rows"))
}

/// The exponent of the time in the number of rows, for each task and program measured at several.
fn growth(lines: &[TrainingLine]) -> Vec<String> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for line in lines {
        if !seen.contains(&(&line.task, &line.program)) {
            seen.push((&line.task, &line.program));
        }
    }
    let exponent = |(task, program): (&str, &str)| {
        let own = lines.iter().filter(|line| line.task == task && line.program == program);
        let points: Vec<(f64, f64)> = own
            .filter_map(|line| Some(((line.rows? as f64).ln(), line.number("seconds")?.ln())))
            .collect();
        let slope = slope(&points)?;
        Some(format!("{task}: {program}'s time grows as rows^{slope:.2}"))
    };
    seen.into_iter().filter_map(exponent).collect()
}

/// Of the line of least squares; `None` for fewer than two places.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let joint: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then_some(joint / spread)
}

/// Where the training rows of a task were written.
pub(super) fn training_rows(prepared: &Path, task: &TrainingTask) -> PathBuf {
    prepared.join(format!("{}.train.svm", task.name))
}

/// The tasks of these names, in this order.
pub(super) fn read_tasks(text: &str, wanted: &[&str]) -> Result<Vec<TrainingTask>> {
    let table: toml::Table = text.parse().context("benches/tasks.toml")?;
    let listed = table.get("task").and_then(toml::Value::as_array);
    let listed: Vec<&toml::Value> = listed.into_iter().flatten().collect();
    let find = |name: &&str| {
        let named =
            |task: &&&toml::Value| task.get("name").and_then(toml::Value::as_str) == Some(*name);
        let Some(task) = listed.iter().find(named) else {
            bail!("no task '{name}' in benches/tasks.toml")
        };
        let text = |key: &str| task.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        let number = |key: &str| {
            let value = task.get(key)?;
            value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
        };
        let parameters: Vec<String> = ["C", "nu", "epsilon"]
            .iter()
            .filter_map(|key| Some(format!("{key}={}", number(key)?)))
            .collect();
        Ok(TrainingTask {
            name: (*name).to_owned(),
            kernel: text("kernel").to_owned(),
            formulation: format!("{}({})", text("formulation"), parameters.join(", ")),
        })
    };
    wanted.iter().map(find).collect()
}

/// Our own training of a task, in its own process.
pub(super) fn mercer(
    workspace: &Workspace,
    prepared: &Path,
    task: &TrainingTask,
    rows: Option<usize>,
) -> Command {
    let program = format!("release/examples/train{}", std::env::consts::EXE_SUFFIX);
    let mut command = workspace.command(workspace.target.join(program));
    command.arg(training_rows(prepared, task)).args(["--kernel", &task.kernel]);
    command.args(["--formulation", &task.formulation, "--json", "yes"]);
    command.args(rows.iter().flat_map(|rows| ["--rows".to_owned(), rows.to_string()]));
    let queries = prepared.join(format!("{}.test.svm", task.name));
    if queries.is_file() {
        command.arg("--test").arg(queries);
    }
    command
}

/// The programs that others are compared with.
const PEERS: [&str; 2] = ["intelex", "libsvm"];

struct Peers<'w> {
    workspace: &'w Workspace,
    python: &'w str,
    data: &'w Path,
    names: &'w [&'w str],
}

impl Peers<'_> {
    /// Adds what the peers say; returns notes on what they did not.
    fn measure(
        &self,
        task: &TrainingTask,
        rows: Option<usize>,
        lines: &mut Vec<TrainingLine>,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        for peer in self.names {
            let mut command = self.workspace.command(self.python);
            command.arg("benches/peers/train.py").arg(&task.name).arg("--data").arg(self.data);
            command.args(["--peer", peer]);
            command.args(rows.iter().flat_map(|rows| ["--rows".to_owned(), rows.to_string()]));
            match measure(&mut command) {
                Ok(answer) => {
                    notes.extend(report::versions_of(&answer));
                    lines.push(TrainingLine::new(task, rows, peer, answer));
                }
                Err(error) => {
                    let name = shown(&task.name, rows);
                    eprintln!("train: {name}: {error:#}");
                    notes.push(format!("Not measured: {peer} on {name}"));
                }
            }
        }
        notes
    }
}

/// Runs a program that prints one JSON object with the time it took.
pub(super) fn measure(command: &mut Command) -> Result<Value> {
    let text = stdout_of(command)?;
    let answer: Value =
        serde_json::from_str(&text).context("what it printed is not one JSON object")?;
    if answer.get("seconds").and_then(Value::as_f64).is_none() {
        bail!("what it printed has no seconds");
    }
    Ok(answer)
}

/// A Markdown table: times, ratios to Mercer's (2.00: takes twice as long), and what was found.
fn table(lines: &[TrainingLine]) -> String {
    let mut text = String::from(
        "| task | program | seconds | / mercer | CPU s | / mercer | objective | off by | supports | quality | peak MB |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let same = |own: &&TrainingLine| (&own.task, own.rows) == (&line.task, line.rows);
        let own = lines.iter().filter(same).find(|own| own.program == "mercer");
        let cell = |value: Option<f64>, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let base = |key: &str| own.and_then(|own| own.number(key));
        let ratio = |key: &str| line.number(key).zip(base(key)).map(|(a, b)| a / b);
        let off = line.number("objective").zip(base("objective")).map(|(a, b)| (a - b) / b.abs());
        let quality = line.number("accuracy").or_else(|| line.number("mean_squared_error"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            shown(&line.task, line.rows),
            line.program,
            cell(line.number("seconds"), 2),
            cell(ratio("seconds"), 2),
            cell(line.number("cpu_seconds"), 2),
            cell(ratio("cpu_seconds"), 2),
            cell(line.number("objective"), 3),
            off.map_or_else(String::new, |off| format!("{off:.0e}")),
            cell(line.number("n_support"), 0),
            cell(quality, 4),
            cell(line.number("peak_mb"), 0),
        );
    }
    text
}

/// Prints the table, and writes it where the options say.
fn publish(workspace: &Workspace, options: &Options, table: &str, notes: &[String]) -> Result<()> {
    print!("{table}");
    notes.iter().for_each(|note| println!("{note}"));
    let Some(file) = &options.write else {
        return Ok(());
    };
    let mut command = "cargo xtask bench train --prepared DIR".to_owned();
    command.extend(options.peers.iter().map(|_| " --peers PYTHON"));
    command.extend(options.tasks.iter().map(|name| format!(" --task {name}")));
    command.extend(options.rows.iter().map(|count| format!(" --rows {count}")));
    let page = report::page(workspace, "Training", &command, table, notes);
    fs::write(file, page).with_context(|| format!("cannot write {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_the_slope_in_logarithms() {
        let line = |rows: usize| TrainingLine {
            task: "a".to_owned(),
            rows: Some(rows),
            program: "mercer".to_owned(),
            answer: serde_json::json!({"seconds": 1e-6 * (rows as f64).powi(2)}),
        };
        let lines = [line(1000), line(2000), line(8000)];
        assert_eq!(growth(&lines), ["a: mercer's time grows as rows^2.00"]);
        assert!(growth(&lines[..1]).is_empty());
    }

    #[test]
    fn tasks_become_the_texts_of_kernel_and_formulation() {
        let text = "[[task]]\nname = 'a'\nkernel = 'linear'\nformulation = 'epsilon_svr'\n\
                    C = 10.0\nepsilon = 0.1\n[[task]]\nname = 'b'\n";
        let task = TrainingTask {
            name: "a".to_owned(),
            kernel: "linear".to_owned(),
            formulation: "epsilon_svr(C=10, epsilon=0.1)".to_owned(),
        };
        assert_eq!(read_tasks(text, &["a"]).unwrap(), [task]);
        assert!(read_tasks(text, &["c"]).is_err());
    }
}
