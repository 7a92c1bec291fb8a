//! `cargo xtask bench builds`: this build of the command beside another one (`--baseline`), in turns, on the same files:
//! training, and answers of the same machines. It says whether a change made anything slower; it measures no peers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::additive::penalty;
use super::train::{TrainingTask, read_tasks, training_rows};
use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

/// Tasks whose machines answer, tasks that are trained, and the set of the additive solver.
const ANSWERED: [&str; 2] = ["mnist38", "mnist10"];
const TRAINED: [&str; 2] = ["mnist38", "a9a"];
const ADDITIVE: &str = "covtype";
/// The stage of the certified plan, which every build has.
const STAGE: &str = "low_precision";
/// How often each build runs each task.
const TURNS: usize = 5;

/// A build of the command, and where it writes.
struct Build {
    name: &'static str,
    program: PathBuf,
    folder: PathBuf,
}

/// Times of one thing measured, in one unit, of the builds in their order.
type Times = BTreeMap<String, [Vec<f64>; 2]>;

/// Prints the best and the median ratio of both builds for each task.
pub fn run(options: &Options) -> Result<ExitCode> {
    let Some(baseline) = &options.baseline else {
        println!("builds: skipped, --baseline FILE names another build of the command");
        return Ok(ExitCode::SUCCESS);
    };
    let workspace = Workspace::load()?;
    workspace::run(&mut workspace.cargo(["build", "--release", "--locked", "-p", "mercer-cli"]))?;
    let ours = workspace.target.join(format!("release/mercer{}", std::env::consts::EXE_SUFFIX));
    let folder = workspace.target.join("bench-builds");
    let build = |name: &'static str, program: PathBuf| {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        // A copy: another build of the workspace must not change what is measured.
        let copy = folder.join("mercer");
        fs::copy(&program, &copy).with_context(|| format!("cannot copy {}", program.display()))?;
        Ok::<_, anyhow::Error>(Build { name, program: copy, folder })
    };
    let builds = [build("baseline", std::path::absolute(baseline)?)?, build("this", ours)?];
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let text = fs::read_to_string(workspace.root.join("benches/tasks.toml"))
        .context("cannot read benches/tasks.toml")?;
    let wanted = |name: &&str| options.tasks.is_empty() || options.tasks.iter().any(|t| t == name);
    let mut times = Times::new();
    let named = |names: &[&'static str]| names.iter().copied().filter(wanted).collect();
    let trained: Vec<&str> = named(&TRAINED);
    for task in ready(&prepared, read_tasks(&text, &trained)?) {
        let arguments = training_arguments(&task, &training_rows(&prepared, &task));
        turns(&builds, &format!("train {}", task.name), &arguments, &mut times)?;
    }
    if wanted(&ADDITIVE) {
        let rows = additive_rows(&workspace, &builds[1], &folder)?;
        let formulation = format!("c_svc(C={})", penalty(&workspace, ADDITIVE)?);
        let words = ["--kernel", "chi2", "--solver", "additive", "--formulation", &formulation];
        turns(&builds, &format!("train {ADDITIVE} additive"), &train(&rows, &words), &mut times)?;
    }
    let answered: Vec<&str> = named(&ANSWERED);
    for task in ready(&prepared, read_tasks(&text, &answered)?) {
        answer(&builds, &prepared, &task, &mut times)?;
    }
    let (table, notes) = (table(&times), notes());
    print!("{table}");
    notes.iter().for_each(|note| println!("{note}"));
    if let Some(file) = &options.write {
        let command = "cargo xtask bench builds --baseline FILE --prepared DIR";
        let page = report::page(&workspace, "Two builds", command, &table, &notes);
        fs::write(file, page).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn notes() -> Vec<String> {
    vec![format!(
        "Best of {TURNS} runs of each build, in turns; the ratio is this build over the baseline, below 1 is faster; the \
         median is of the ratios within a turn; one thread; `{STAGE}` is the plan of certified answers"
    )]
}

/// The tasks whose rows were written; says which were not.
fn ready(prepared: &Path, tasks: Vec<TrainingTask>) -> Vec<TrainingTask> {
    let has_rows = |task: &TrainingTask| {
        let is_there = training_rows(prepared, task).is_file();
        if !is_there {
            println!("builds: {} skipped, benches/peers/rows.py writes its rows", task.name);
        }
        is_there
    };
    tasks.into_iter().filter(has_rows).collect()
}

/// Words of `mercer train` on these rows.
fn train(rows: &Path, words: &[&str]) -> Vec<String> {
    let rows = rows.display().to_string();
    let common = ["train", &rows, "--threads", "1", "--json"];
    common.iter().chain(words).map(|&word| word.to_owned()).collect()
}

fn training_arguments(task: &TrainingTask, rows: &Path) -> Vec<String> {
    let words = ["--kernel", &task.kernel, "--formulation", &task.formulation, "--solver", "smo"];
    train(rows, &words)
}

/// Has the rows of the additive set written as text.
fn additive_rows(workspace: &Workspace, build: &Build, folder: &Path) -> Result<PathBuf> {
    let data = std::env::var_os("MERCER_DATA");
    let data = workspace.root.join(data.map_or_else(|| "../shared/data".into(), PathBuf::from));
    let mut command = workspace.command(&build.program);
    command.args(["reproduce", "yw12", "--quiet", "--only", ADDITIVE, "--write-rows"]);
    workspace::run(command.arg(folder).arg("--data").arg(data))?;
    Ok(folder.join(format!("{ADDITIVE}.train.svm")))
}

/// Runs a training by each build in turns, and keeps the seconds that it reports.
fn turns(builds: &[Build; 2], what: &str, words: &[String], times: &mut Times) -> Result<()> {
    for turn in 1..=TURNS {
        for (place, build) in builds.iter().enumerate() {
            let mut command = Command::new(&build.program);
            command.args(words).arg("-o").arg(build.folder.join("trained.mercer"));
            let said = json(&mut command)?;
            let seconds = said["seconds"].as_f64().context("the report has no seconds")?;
            eprintln!("builds: {what}, turn {turn} of {TURNS}: {} {seconds:.3} s", build.name);
            times.entry(format!("{what}, s")).or_default()[place].push(seconds);
        }
    }
    Ok(())
}

/// Times of exact and of certified answers of the same machine by each build in turns.
fn answer(
    builds: &[Build; 2],
    prepared: &Path,
    task: &TrainingTask,
    times: &mut Times,
) -> Result<()> {
    let model = shared_model(&builds[1], prepared, task)?;
    let queries = prepared.join(format!("{}.test.svm", task.name));
    ensure!(queries.is_file(), "no {}; benches/peers/rows.py writes it", queries.display());
    for build in builds {
        let mut compile = Command::new(&build.program);
        compile.arg("compile").arg(&model).args(["--plan", STAGE, "--quiet", "-o"]);
        workspace::run(compile.arg(build.folder.join("plan.mercer")))?;
    }
    for turn in 1..=TURNS {
        for (place, build) in builds.iter().enumerate() {
            let mut bench = Command::new(&build.program);
            bench.arg("bench").arg(build.folder.join("plan.mercer")).arg(&queries).arg("--json");
            let said = json(&mut bench)?;
            eprintln!("builds: answers of {}, turn {turn} of {TURNS}: {}", task.name, build.name);
            for (key, value) in said.as_object().into_iter().flatten() {
                if let (true, Some(micros)) = (key.contains("_us"), value.as_f64()) {
                    let name = format!("{}: {key}", task.name);
                    times.entry(name).or_default()[place].push(micros);
                }
            }
        }
    }
    Ok(())
}

/// The machine that both builds read: LIBSVM's text, prepared, or trained by this build.
fn shared_model(build: &Build, prepared: &Path, task: &TrainingTask) -> Result<PathBuf> {
    let model = prepared.join(format!("{}.model", task.name));
    if !model.is_file() {
        eprintln!("builds: training {} once", task.name);
        let own = build.folder.join("machine.mercer");
        let mut words = training_arguments(task, &training_rows(prepared, task));
        words.retain(|word| word != "--json");
        let mut command = Command::new(&build.program);
        workspace::run(command.args(words).arg("--quiet").arg("-o").arg(&own))?;
        let mut export = Command::new(&build.program);
        export.arg("export").arg(&own).args(["--format", "libsvm", "--quiet", "-o"]);
        workspace::run(export.arg(&model))?;
    }
    Ok(model)
}

fn json(command: &mut Command) -> Result<Value> {
    serde_json::from_str(&stdout_of(command)?).context("what it printed is not one JSON object")
}

/// Best times of both builds, and their ratios.
fn table(times: &Times) -> String {
    let mut lines = "| measured | baseline | this build | ratio of the best | median ratio |\n\
                     |---|---:|---:|---:|---:|\n"
        .to_owned();
    for (what, [baseline, ours]) in times {
        let best = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        let (old, new) = (best(baseline), best(ours));
        let mut ratios: Vec<f64> = ours.iter().zip(baseline).map(|(new, old)| new / old).collect();
        ratios.sort_by(f64::total_cmp);
        // A key that only one build reports has nothing to compare.
        let Some(median) = ratios.get(ratios.len() / 2) else { continue };
        let ratio = new / old;
        let _ = writeln!(lines, "| {what} | {old:.3} | {new:.3} | {ratio:.3} | {median:.3} |");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_best_times_and_of_turns() {
        let mut times = Times::new();
        times.insert("x, s".to_owned(), [vec![2.0, 4.0, 3.0], vec![1.0, 4.0, 6.0]]);
        times.insert("only one build".to_owned(), [vec![], vec![1.0]]);
        let table = table(&times);
        assert!(table.ends_with("| x, s | 2.000 | 1.000 | 0.500 | 1.000 |\n"), "{table}");
        assert!(!table.contains("only one build"));
    }
}
