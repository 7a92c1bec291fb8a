//! Linear machines beside LIBLINEAR: the same rows, C, bias and stopping tolerance, one thread.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

const TASKS: [&str; 4] = ["a9a", "w8a", "newsgroups", "sector"];
/// The peer's name of each problem, our formulation, solver and tolerance.
const PROBLEMS: [[&str; 4]; 5] = [
    ["c_svc", "c_svc", "linear", "0.1"],
    ["squared_hinge", "squared_hinge", "linear", "0.1"],
    ["logistic", "logistic", "linear", "0.1"],
    ["squared_hinge_l1", "squared_hinge", "linear(penalty=l1)", "0.01"],
    ["logistic_l1", "logistic", "linear(penalty=l1)", "0.01"],
];
/// Trainings of which the best counts, as the peer's.
const REPEATS: usize = 3;

/// Prints seconds of training (reading not counted) and how far the objectives are apart.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let folder = workspace.target.join("bench-linear");
    let wanted = |name: &&str| options.tasks.is_empty() || options.tasks.iter().any(|t| t == name);
    let tasks: Vec<&str> = TASKS.into_iter().filter(wanted).collect();
    let Some(python) = &options.peers else {
        println!("linear: skipped, --peers PYTHON names an interpreter with liblinear-official");
        return Ok(ExitCode::SUCCESS);
    };
    workspace::run(&mut workspace.cargo(["build", "--release", "--locked", "-p", "mercer-cli"]))?;
    let data = std::env::var_os("MERCER_DATA");
    let data = workspace.root.join(data.map_or_else(|| "../shared/data".into(), PathBuf::from));
    let mut table = String::from(
        "| rows | problem | mercer s | LIBLINEAR s | LIBLINEAR / mercer | objective / LIBLINEAR's |\n\
         |---|---|---:|---:|---:|---:|\n",
    );
    let mut notes = Vec::new();
    for task in tasks {
        // Peer and own in turns, task by task: what else the computer does meets both alike.
        let mut command = workspace.command(python);
        command.arg("benches/peers/linear.py").arg("--data").arg(&data);
        command.arg("--out").arg(&folder).arg(task);
        let peer: Value = serde_json::from_str(&stdout_of(&mut command)?)?;
        notes = report::versions_of(&peer).into_iter().collect();
        for problem in PROBLEMS {
            let theirs = &peer["tasks"][task][problem[0]];
            let (Some(seconds), Some(reached)) =
                (theirs["seconds"].as_f64(), theirs["objective"].as_f64())
            else {
                continue;
            };
            let own = own(&workspace, &folder.join(format!("{task}.svm")), problem)?;
            let _ = writeln!(
                table,
                "| {task} | {} | {:.3} | {seconds:.3} | {:.2} | {:.5} |",
                problem[0],
                own.0,
                seconds / own.0,
                own.1 / reached,
            );
        }
    }
    notes.push(
        "C = 1, bias 1, tolerance 0.1 (0.01 with penalty l1), one thread; word counts as tf-idf of unit length".into(),
    );
    print!("{table}");
    notes.iter().for_each(|note| println!("{note}"));
    if let Some(file) = &options.write {
        let command = "cargo xtask bench linear --peers PYTHON";
        let page = report::page(&workspace, "Linear machines", command, &table, &notes);
        fs::write(file, page).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Best seconds, and the primal objective.
fn own(workspace: &Workspace, rows: &Path, problem: [&str; 4]) -> Result<(f64, f64)> {
    let program = format!("release/mercer{}", std::env::consts::EXE_SUFFIX);
    let (mut best, mut reached) = (f64::INFINITY, f64::NAN);
    for _ in 0..REPEATS {
        let mut command = workspace.command(workspace.target.join(&program));
        command.arg("train").arg(rows).arg("-o").arg(rows.with_extension("mercer"));
        let [_, formulation, solver, tolerance] = problem;
        command.args(["--kernel", "linear", "--solver", solver, "--threads", "1", "--json"]);
        command.args(["--formulation", formulation, "--tolerance", tolerance]);
        let found: Value = serde_json::from_str(&stdout_of(&mut command)?)?;
        let number = |key: &str| found[key].as_f64().with_context(|| format!("no {key}"));
        best = best.min(number("seconds")?);
        reached = number("gap")? - number("objective")?;
    }
    Ok((best, reached))
}
