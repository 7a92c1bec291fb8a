//! Training by `decomposition` beside `smo`, on the same rows at the same tolerance, in turns.
//! Peers are measured in `train`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use super::train::{TrainingTask, measure, mercer, read_tasks, training_rows};
use super::{Options, report};
use crate::workspace::{self, Workspace};

/// The tasks of the topic; others are measured when they are named.
const USUAL: [&str; 3] = ["a9a", "covtype50k", "mnist8rest20k"];
const SOLVERS: [&str; 3] = ["smo", "decomposition", "auto"];
/// With more rows `smo` takes hours, and the rounds end at a relative gap.
const MOST_ROWS: usize = 250_000;
const BEYOND: [&str; 1] = ["decomposition(gap=1e-3)"];

/// One solver on one task.
struct SolverLine {
    task: String,
    solver: &'static str,
    answer: Value,
}

/// Measures every task whose rows were written; fails if one could not be trained.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let text = fs::read_to_string(workspace.root.join("benches/tasks.toml"))
        .context("cannot read benches/tasks.toml")?;
    let wanted: Vec<&str> = match options.tasks.as_slice() {
        [] => USUAL.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let tasks = read_tasks(&text, &wanted)?;
    let is_ready = |task: &&TrainingTask| training_rows(&prepared, task).is_file();
    let ready: Vec<&TrainingTask> = tasks.iter().filter(is_ready).collect();
    for task in tasks.iter().filter(|task| !is_ready(task)) {
        println!("decomposition: skipped, no rows of {} (benches/peers/rows.py)", task.name);
    }
    if ready.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let build = ["build", "--release", "--locked", "-p", "mercer-train", "--example", "train"];
    workspace::run(&mut workspace.cargo(build))?;
    let counts: Vec<Option<usize>> = match options.rows.as_slice() {
        [] => vec![None],
        rows => rows.iter().copied().map(Some).collect(),
    };
    let (mut lines, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for (task, rows) in ready.iter().flat_map(|task| counts.iter().map(move |rows| (task, *rows))) {
        let count = match rows {
            Some(count) => count,
            None => line_count(&training_rows(&prepared, task))?,
        };
        for solver in if count > MOST_ROWS { &BEYOND[..] } else { &SOLVERS } {
            let shown = rows.map_or_else(String::new, |rows| format!(", {rows} rows"));
            let name = format!("{}{shown}", task.name);
            eprintln!("decomposition: {name}, {solver}");
            let mut command = mercer(&workspace, &prepared, task, rows);
            command.args(["--solver", solver]);
            match measure(&mut command) {
                Ok(answer) => lines.push(SolverLine { task: name, solver, answer }),
                Err(error) => {
                    eprintln!("decomposition: {name}, {solver}: {error:#}");
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    publish(&workspace, options, &table(&lines))?;
    Ok(code)
}

fn line_count(file: &Path) -> Result<usize> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(bytes.iter().filter(|byte| **byte == b'\n').count())
}

/// A Markdown table; ratios are those to `smo` on the same rows.
fn table(lines: &[SolverLine]) -> String {
    let mut text = String::from(
        "| task | solver | CPU s | / smo | objective | off by | gap / objective | supports | peak MB |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let number = |line: &SolverLine, key: &str| line.answer.get(key)?.as_f64();
        let of = |key: &str| number(line, key);
        let base = lines.iter().find(|other| other.task == line.task && other.solver == "smo");
        let base = |key: &str| base.and_then(|base| number(base, key));
        let ratio = of("cpu_seconds").zip(base("cpu_seconds")).map(|(own, smo)| own / smo);
        let off = of("objective").zip(base("objective")).map(|(own, smo)| (own - smo) / smo.abs());
        let gap = of("gap").zip(of("objective")).map(|(gap, objective)| gap / objective.abs());
        let fixed = |value: Option<f64>, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let power =
            |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1e}"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            line.task,
            line.solver,
            fixed(of("cpu_seconds"), 2),
            fixed(ratio, 2),
            fixed(of("objective"), 4),
            power(off),
            power(gap),
            fixed(of("n_support"), 0),
            fixed(of("peak_mb"), 0),
        );
    }
    text
}

/// Prints the table, and writes it where the options say.
fn publish(workspace: &Workspace, options: &Options, table: &str) -> Result<()> {
    print!("{table}");
    let Some(file) = &options.write else { return Ok(()) };
    let notes = ["Tolerance 1e-3, memory 1 GiB; seconds of all threads together".to_owned()];
    let mut command = "cargo xtask bench decomposition --prepared DIR".to_owned();
    command.extend(options.tasks.iter().map(|name| format!(" --task {name}")));
    command.extend(options.rows.iter().map(|count| format!(" --rows {count}")));
    let page = report::page(workspace, "Training by decomposition", &command, table, &notes);
    fs::write(file, page).with_context(|| format!("cannot write {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_to_smo_on_the_same_rows() {
        let line = |task: &str, solver, seconds: f64| SolverLine {
            task: task.to_owned(),
            solver,
            answer: serde_json::json!({"cpu_seconds": seconds, "objective": -2.0, "gap": 0.5}),
        };
        let lines = [line("a", "smo", 4.0), line("b", "smo", 8.0), line("b", "decomposition", 2.0)];
        let text = table(&lines);
        assert!(
            text.contains("| b | decomposition | 2.00 | 0.25 | -2.0000 | 0.0e0 | 2.5e-1 |"),
            "{text}"
        );
    }
}
