//! Low-rank training beside `smo` and LIBSVM: times, what it costs in accuracy, and how its machines answer.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use super::train::{TrainingTask, measure, mercer, read_tasks, training_rows};
use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

/// What is measured on each task; the first is the exact machine that the others are compared with.
const SOLVERS: [(&str, &[&str]); 3] = [
    (
        "a9a",
        &[
            "smo",
            "low_rank(rank=100, guard=off)",
            "low_rank(rank=256, guard=off)",
            "low_rank(rank=400, guard=off)",
            "low_rank(rank=100)",
            "low_rank(rank=256)",
            "low_rank(rank=400)",
        ],
    ),
    ("mnist38", &["smo", "low_rank(rank=1024, pivots=solution_aware, guard=off)"]),
    ("covtype50k", &["low_rank(rank=256)"]),
];

/// Pivots are drawn: so many seeds are run. The median of the times and the mean of the accuracies count.
const SEEDS: u64 = 3;

/// What was asked of low rank on a9a: within so much of the exact accuracy, so many times faster than LIBSVM
/// and than `smo`.
const TARGETS: [(f64, f64, f64); 2] = [(0.002, 20.0, 4.0), (0.004, 100.0, 10.0)];

/// One program on one task.
struct LowRankLine {
    task: String,
    program: String,
    answer: Value,
    /// Microseconds for each query in a batch, one thread.
    micros: Option<f64>,
}

impl LowRankLine {
    fn number(&self, key: &str) -> Option<f64> {
        self.answer.get(key)?.as_f64()
    }
}

/// Measures every task whose rows were written; fails if Mercer could not train one of them.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let text = fs::read_to_string(workspace.root.join("benches/tasks.toml"))
        .context("cannot read benches/tasks.toml")?;
    let is_wanted =
        |name: &str| options.tasks.is_empty() || options.tasks.iter().any(|wanted| wanted == name);
    let names: Vec<&str> =
        SOLVERS.iter().map(|(name, _)| *name).filter(|name| is_wanted(name)).collect();
    let (ready, missing): (Vec<_>, Vec<_>) = read_tasks(&text, &names)?
        .into_iter()
        .partition(|task| training_rows(&prepared, task).is_file());
    for task in missing {
        let out = workspace.shown(&prepared);
        println!("low_rank: skipped, no rows in {out}: {}", task.name);
        println!(
            "  this writes them: PYTHON benches/peers/rows.py --data DATA --out {out} {}",
            task.name
        );
    }
    if ready.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let build = ["build", "--release", "--locked", "-p", "mercer-train", "--example", "train"];
    workspace::run(&mut workspace.cargo(build))?;
    workspace::run(&mut workspace.cargo(["build", "--release", "--locked", "-p", "mercer-cli"]))?;
    let mut bench = LowRankBench { workspace, prepared, lines: Vec::new(), notes: Vec::new() };
    let mut code = ExitCode::SUCCESS;
    for task in &ready {
        if !bench.own(task) {
            code = ExitCode::FAILURE;
        }
        // The first task alone has targets beside LIBSVM, which takes minutes.
        if let (Some(python), true) = (&options.peers, task.name == SOLVERS[0].0) {
            bench.libsvm(task, python);
        }
    }
    bench.notes.extend(verdicts(&bench.lines));
    bench.publish(options)?;
    Ok(code)
}

struct LowRankBench {
    workspace: Workspace,
    prepared: PathBuf,
    lines: Vec<LowRankLine>,
    notes: Vec<String>,
}

impl LowRankBench {
    /// Our own solvers on a task; `false` if one failed.
    fn own(&mut self, task: &TrainingTask) -> bool {
        let solvers = SOLVERS.iter().find(|(name, _)| *name == task.name);
        let mut is_whole = true;
        for solver in solvers.into_iter().flat_map(|(_, solvers)| *solvers) {
            eprintln!("low_rank: {}, {solver}", task.name);
            match self.one(task, solver) {
                Ok(line) => {
                    let sentence = line.answer.get("guard").and_then(Value::as_str);
                    let note = sentence.map(|text| format!("{}, {solver}: {text}", task.name));
                    self.notes.extend(note);
                    self.lines.push(line);
                }
                Err(error) => {
                    eprintln!("low_rank: {}, {solver}: {error:#}", task.name);
                    self.notes.push(format!("Not measured: {solver} on {}", task.name));
                    is_whole = false;
                }
            }
        }
        is_whole
    }

    /// The training with the median processor time of several seeds, with the mean accuracy of all, and how
    /// its machine answers.
    fn one(&self, task: &TrainingTask, solver: &str) -> Result<LowRankLine> {
        let model = self.workspace.target.join("low_rank.mercer");
        let seeded = |seed: u64| match solver.strip_suffix(')') {
            Some(open) => format!("{open}, seed={seed})"),
            None => solver.to_owned(),
        };
        let seeds = if solver == "smo" { 1 } else { SEEDS };
        let mut answers = Vec::new();
        for seed in 1..=seeds {
            let mut command = mercer(&self.workspace, &self.prepared, task, None);
            command.args(["--solver", &seeded(seed), "--out"]).arg(&model);
            answers.push(measure(&mut command)?);
        }
        let micros = self.micros(&model, &self.queries(task));
        fs::remove_file(&model).ok();
        let (task, program) = (task.name.clone(), solver.to_owned());
        Ok(LowRankLine { task, program, answer: of_seeds(answers)?, micros })
    }

    fn queries(&self, task: &TrainingTask) -> PathBuf {
        self.prepared.join(format!("{}.test.svm", task.name))
    }

    /// Microseconds for each query of a batch, one thread.
    fn micros(&self, model: &Path, queries: &Path) -> Option<f64> {
        let program = format!("release/mercer{}", std::env::consts::EXE_SUFFIX);
        let mut command = self.workspace.command(self.workspace.target.join(program));
        command.arg("bench").arg(model).arg(queries).args(["--json", "--threads", "1"]);
        let answer: Value = serde_json::from_str(&stdout_of(&mut command).ok()?).ok()?;
        answer.get("exact_batch_us")?.as_f64()
    }

    fn libsvm(&mut self, task: &TrainingTask, python: &str) {
        eprintln!("low_rank: {}, LIBSVM", task.name);
        let data = std::env::var_os("MERCER_DATA");
        let data = data.map_or_else(|| "../shared/data".into(), PathBuf::from);
        let data = self.workspace.root.join(data);
        let ask = |script: &str| {
            let mut command = self.workspace.command(python);
            command.arg(format!("benches/peers/{script}")).arg(&task.name);
            command.arg("--data").arg(&data);
            command
        };
        let trained = measure(ask("train.py").args(["--peer", "libsvm"]));
        let answered = stdout_of(ask("predict.py").arg("--models").arg(&self.prepared));
        let answered: Option<Value> =
            answered.ok().and_then(|text| serde_json::from_str(&text).ok());
        let micros = answered.as_ref().and_then(|all| all.get("sklearn_batch_us")?.as_f64());
        if micros.is_none() {
            self.notes.push("Not measured: LIBSVM's answers (no prepared model)".to_owned());
        }
        match trained {
            Ok(answer) => {
                self.notes.extend(report::versions_of(&answer));
                let program = "LIBSVM".to_owned();
                self.lines.push(LowRankLine { task: task.name.clone(), program, answer, micros });
            }
            Err(error) => {
                eprintln!("low_rank: {}: {error:#}", task.name);
                self.notes.push(format!("Not measured: LIBSVM on {}", task.name));
            }
        }
    }

    /// Prints the table, and writes it where the options say.
    fn publish(&self, options: &Options) -> Result<()> {
        let table = table(&self.lines);
        print!("{table}");
        let mut notes = vec![
            "Tolerance 1e-3; ratios are of CPU seconds, of all threads together (2.00: twice as fast as the \
             other). Low rank: three seeds, the median time and the mean accuracy; smo and LIBSVM once"
                .to_owned(),
            "Answers: microseconds for each query of a batch, one thread, exact".to_owned(),
            "Memory: the factor alone is rows x rank x 4 bytes (8 in f64)".to_owned(),
        ];
        notes.extend(self.notes.iter().cloned());
        notes.iter().for_each(|note| println!("{note}"));
        let Some(file) = &options.write else {
            return Ok(());
        };
        let mut command = "cargo xtask bench low_rank --prepared DIR".to_owned();
        command.extend(options.peers.iter().map(|_| " --peers PYTHON"));
        command.extend(options.tasks.iter().map(|name| format!(" --task {name}")));
        let page = report::page(&self.workspace, "Low-rank training", &command, &table, &notes);
        fs::write(file, page).with_context(|| format!("cannot write {file}"))
    }
}

/// The answer with the median time, its accuracy replaced by the mean of all.
fn of_seeds(mut answers: Vec<Value>) -> Result<Value> {
    let number = |answer: &Value, key: &str| answer.get(key).and_then(Value::as_f64);
    let cost = |answer: &Value| {
        number(answer, "cpu_seconds").or_else(|| number(answer, "seconds")).unwrap_or(f64::INFINITY)
    };
    let accuracies: Vec<f64> =
        answers.iter().filter_map(|answer| number(answer, "accuracy")).collect();
    answers.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let middle = answers.len() / 2;
    let mut answer = answers.into_iter().nth(middle).context("nothing was run")?;
    if !accuracies.is_empty() {
        let mean = accuracies.iter().sum::<f64>() / accuracies.len() as f64;
        answer["accuracy"] = mean.into();
    }
    Ok(answer)
}

/// The line of another program on the same task.
fn beside<'a>(
    lines: &'a [LowRankLine],
    line: &LowRankLine,
    program: &str,
) -> Option<&'a LowRankLine> {
    lines.iter().find(|other| other.task == line.task && other.program == program)
}

/// How many times less processor time a line took than another program.
fn faster(lines: &[LowRankLine], line: &LowRankLine, program: &str) -> Option<f64> {
    Some(beside(lines, line, program)?.number("cpu_seconds")? / line.number("cpu_seconds")?)
}

/// How many times faster its machine answers than another's.
fn answers_faster(lines: &[LowRankLine], line: &LowRankLine, program: &str) -> Option<f64> {
    Some(beside(lines, line, program)?.micros? / line.micros?)
}

/// By how much its accuracy is below that of the exact machine.
fn below(lines: &[LowRankLine], line: &LowRankLine) -> Option<f64> {
    Some(beside(lines, line, "smo")?.number("accuracy")? - line.number("accuracy")?)
}

fn table(lines: &[LowRankLine]) -> String {
    let mut text = String::from(
        "| task | program | seconds | CPU s | LIBSVM / this | smo / this | accuracy | below smo | supports | \
         factor MB | peak MB | µs per query | LIBSVM / this |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let cell = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    for line in lines {
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            line.task,
            line.program,
            cell(line.number("seconds"), 2),
            cell(line.number("cpu_seconds"), 2),
            cell(faster(lines, line, "LIBSVM"), 1),
            cell(faster(lines, line, "smo"), 1),
            cell(line.number("accuracy"), 4),
            cell(below(lines, line), 4),
            cell(line.number("n_support"), 0),
            cell(line.number("factor_mb"), 1),
            cell(line.number("peak_mb"), 0),
            cell(line.micros, 2),
            cell(answers_faster(lines, line, "LIBSVM"), 1),
        );
    }
    text
}

/// For each target, the fastest low rank that is accurate enough, guarded and not.
fn verdicts(lines: &[LowRankLine]) -> Vec<String> {
    let mut said = Vec::new();
    for (within, libsvm, smo) in TARGETS {
        for (kind, is_guarded) in [("without the guard", false), ("with the guard", true)] {
            let fits = |line: &&LowRankLine| {
                line.task == SOLVERS[0].0
                    && line.program.starts_with("low_rank")
                    && line.program.contains("guard=off") != is_guarded
                    && below(lines, line).is_some_and(|below| below <= within)
            };
            let speed = |line: &&LowRankLine| line.number("cpu_seconds").unwrap_or(f64::INFINITY);
            let best = lines.iter().filter(fits).min_by(|a, b| speed(a).total_cmp(&speed(b)));
            let Some(best) = best else {
                said.push(format!("Within {within} {kind}: none"));
                continue;
            };
            let times = |value: Option<f64>| {
                value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.1}x"))
            };
            said.push(format!(
                "Within {within} of the exact accuracy, {kind}: {}, {} LIBSVM (asked: {libsvm}x), {} smo \
                 (asked: {smo}x); answers {} as fast as LIBSVM's (asked: 40x)",
                best.program,
                times(faster(lines, best, "LIBSVM")),
                times(faster(lines, best, "smo")),
                times(answers_faster(lines, best, "LIBSVM")),
            ));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(program: &str, seconds: f64, accuracy: f64, micros: f64) -> LowRankLine {
        let answer = json!({ "cpu_seconds": seconds, "seconds": seconds, "accuracy": accuracy });
        let (task, program) = ("a9a".to_owned(), program.to_owned());
        LowRankLine { task, program, answer, micros: Some(micros) }
    }

    #[test]
    fn seeds_give_the_median_time_and_the_mean_accuracy() {
        let one = |seconds: f64, accuracy: f64| line("", seconds, accuracy, 1.0).answer;
        let found = of_seeds(vec![one(3.0, 0.8), one(1.0, 0.9), one(2.0, 1.0)]).unwrap();
        assert_eq!(found["cpu_seconds"], 2.0);
        assert!((found["accuracy"].as_f64().unwrap() - 0.9).abs() < 1e-12);
        assert!(of_seeds(Vec::new()).is_err());
    }

    #[test]
    fn the_fastest_that_is_accurate_enough_is_named() {
        let lines = [
            line("smo", 8.0, 0.851, 70.0),
            line("low_rank(rank=64, guard=off)", 0.4, 0.848, 1.0),
            line("low_rank(rank=300, guard=off)", 1.0, 0.850, 3.0),
            line("LIBSVM", 80.0, 0.851, 600.0),
        ];
        let said = verdicts(&lines);
        assert!(said[0].contains("rank=300") && said[0].contains("80.0x LIBSVM"), "{said:?}");
        assert!(said[0].contains("8.0x smo") && said[0].contains("200.0x as fast"), "{said:?}");
        assert_eq!(said[1], "Within 0.002 with the guard: none");
        assert!(said[2].contains("rank=64") && said[2].contains("20.0x smo"), "{said:?}");
        assert!(table(&lines).contains("| 0.0030 |"), "{}", table(&lines));
    }
}
