//! `cargo xtask bench abi`: programs that load `libsvm.so`, with Debian's library and with ours, in turns: one row at a
//! time through `svm_predict`, and `svm-train`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

/// Turns of both libraries; the best counts.
const TURNS: usize = 3;

/// A program under both libraries.
struct Line {
    name: String,
    unit: &'static str,
    theirs: f64,
    ours: f64,
    /// With `MERCER_SVM=exact`; nothing for trainings.
    exact: Option<f64>,
    /// At least this many times as fast.
    target: f64,
    note: String,
}

/// Measures what is there: rows that `benches/peers/rows.py` wrote, and machines of its own making.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let has = |program: &str| Command::new(program).output().is_ok();
    if !has("svm-train") || !has("gcc") {
        println!(
            "abi: skipped, svm-train (Debian: libsvm-tools, libsvm-dev) or gcc is not installed"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let build = ["build", "--release", "--locked", "-p", "mercer-libsvm3"];
    workspace::run(&mut workspace.cargo(build))?;
    let home = workspace.target.join("abi");
    fs::create_dir_all(&home)?;
    fs::copy(workspace.target.join("release/libmercer_libsvm3.so"), home.join("libsvm.so.3"))?;
    let compile = |name: &str, libraries: &[&str]| -> Result<PathBuf> {
        let (source, program) = (workspace.root.join("benches/peers"), home.join(name));
        let mut gcc = workspace.command("gcc");
        gcc.args(["-std=c99", "-O2", "-o"]).arg(&program);
        gcc.arg(source.join(format!("{name}.c"))).args(libraries);
        workspace::run(&mut gcc).context("libsvm-dev is needed to link the program")?;
        Ok(program)
    };
    let (program, runner) = (compile("abi", &["-lsvm"])?, compile("run", &[])?);
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let bench = AbiBench { workspace: &workspace, home, program, runner };
    let wants =
        |name: &str| options.tasks.is_empty() || options.tasks.iter().any(|task| task == name);
    let mut lines = Vec::new();
    for (name, supports, columns, target) in [("10 supports", 10, 9, 1.0), ("pixels", 800, 9, 5.0)]
    {
        if wants(name) {
            lines.push(bench.made(name, supports, columns, target)?);
        }
    }
    for (name, parameters) in [("mnist38", "-c 10 -g 0.02"), ("a9a", "-c 1 -g 0.05")] {
        let (train, test) =
            (prepared.join(format!("{name}.train.svm")), prepared.join(format!("{name}.test.svm")));
        if !wants(name) {
            continue;
        }
        if !train.is_file() {
            println!("abi: skipped, no rows of {name} (benches/peers/rows.py)");
            continue;
        }
        lines.extend(bench.trained(name, parameters, &train, &test)?);
    }
    let table = table(&lines);
    println!("{table}");
    if let Some(file) = &options.write {
        let notes =
            ["One row at a time, the best of several turns; labels of both were equal".to_owned()];
        let mut command = "cargo xtask bench abi --prepared DIR".to_owned();
        command.extend(options.tasks.iter().map(|name| format!(" --task '{name}'")));
        let page = report::page(&workspace, "LIBSVM's interface", &command, &table, &notes);
        fs::write(file, page).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a program is run with.
#[derive(Clone, Copy, PartialEq)]
enum Library {
    Debian,
    Ours,
    /// Without the certified plan, which must not be slower.
    OursExact,
}

struct AbiBench<'a> {
    workspace: &'a Workspace,
    home: PathBuf,
    /// Asks `svm_predict` and times it.
    program: PathBuf,
    /// Runs another program and says what it took.
    runner: PathBuf,
}

impl AbiBench<'_> {
    /// A command with our library in front, or with Debian's.
    fn command(&self, program: &Path, library: Library) -> Command {
        let mut command = self.workspace.command(program);
        command.current_dir(&self.home).env_remove("MERCER_SVM");
        match library {
            Library::Debian => {}
            Library::Ours => {
                command.env("LD_LIBRARY_PATH", &self.home);
            }
            Library::OursExact => {
                command.env("LD_LIBRARY_PATH", &self.home).env("MERCER_SVM", "exact");
            }
        }
        command
    }

    /// A machine of random vectors near two spheres, asked 20,000 rows.
    fn made(&self, name: &str, supports: usize, columns: usize, target: f64) -> Result<Line> {
        let mut state = 5u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1u32 << 24)
        };
        let mut row = || {
            (1..=columns).fold(String::new(), |mut text, column| {
                let _ = write!(text, " {column}:{:.6}", next());
                text
            })
        };
        let half = supports / 2;
        let mut model = format!(
            "svm_type c_svc\nkernel_type rbf\ngamma 2\nnr_class 2\ntotal_sv {supports}\nrho 0.01\n\
             label 1 -1\nnr_sv {half} {half}\nSV\n"
        );
        for at in 0..supports {
            let _ = writeln!(model, "{}{} ", if at < half { 1 } else { -1 }, row());
        }
        let rows: String = (0..20_000).map(|_| format!("1{}\n", row())).collect();
        let (model_file, rows_file) = (self.home.join("made.model"), self.home.join("made.rows"));
        fs::write(&model_file, model)?;
        fs::write(&rows_file, rows)?;
        self.predictions(
            &format!("svm_predict, {name}, {columns} columns"),
            &model_file,
            &rows_file,
            target,
        )
    }

    /// `svm-train` with both, then rows through `svm_predict` of LIBSVM's model.
    fn trained(
        &self,
        name: &str,
        parameters: &str,
        train: &Path,
        test: &Path,
    ) -> Result<Vec<Line>> {
        let model = self.home.join(format!("{name}.model"));
        let (mut best, mut kilobytes) = ([f64::INFINITY; 2], [0.0f64; 2]);
        let (debian, ours) = (Library::Debian, Library::Ours);
        for library in [debian, ours, ours, ours] {
            let is_ours = library == ours;
            let mut command = self.command(&self.runner, library);
            let file = if is_ours { self.home.join("own.model") } else { model.clone() };
            command.args(["svm-train", "-q"]).args(parameters.split(' ')).arg(train).arg(file);
            let answer: Value = serde_json::from_str(&stdout_of(&mut command)?)?;
            let number = |key: &str| answer[key].as_f64().with_context(|| format!("no {key}"));
            let place = usize::from(is_ours);
            best[place] = best[place].min(number("seconds")?);
            kilobytes[place] = kilobytes[place].max(number("kilobytes")?);
        }
        let [theirs, ours] = best;
        let name_of = format!("svm-train, {name}");
        let line = Line {
            name: name_of,
            unit: "s",
            theirs,
            ours,
            exact: None,
            target: 8.0,
            note: memory(kilobytes[0], kilobytes[1]),
        };
        let target = if name == "mnist38" { 10.0 } else { 1.0 };
        Ok(vec![line, self.predictions(&format!("svm_predict, {name}"), &model, test, target)?])
    }

    /// Rows one at a time, the libraries in turns; their labels must be equal.
    fn predictions(&self, name: &str, model: &Path, rows: &Path, target: f64) -> Result<Line> {
        let libraries = [Library::Debian, Library::Ours, Library::OursExact];
        let mut best = [f64::INFINITY; 3];
        let (mut labels, mut kilobytes) = ([0.0; 3], [0.0; 3]);
        for _ in 0..TURNS {
            for (place, library) in libraries.into_iter().enumerate() {
                let mut command = self.command(&self.program, library);
                command.args([model, rows]).arg(if library == Library::Debian { "1" } else { "5" });
                let answer: Value = serde_json::from_str(&stdout_of(&mut command)?)?;
                let number = |key: &str| answer[key].as_f64().with_context(|| format!("no {key}"));
                best[place] = best[place].min(number("us")?);
                (labels[place], kilobytes[place]) = (number("labels")?, number("kilobytes")?);
            }
        }
        ensure!(labels.iter().all(|one| *one == labels[0]), "{name}: labels differ");
        let note = memory(kilobytes[0], kilobytes[1]);
        let [theirs, ours, exact] = best;
        let (name, exact) = (name.to_owned(), Some(exact));
        Ok(Line { name, unit: "us", theirs, ours, exact, target, note })
    }
}

/// Largest resident sets of whole processes, at most 2.5 times LIBSVM's as a target.
fn memory(theirs: f64, ours: f64) -> String {
    format!("{:.2} times, {:.1} beside {:.1} MB", ours / theirs, ours / 1024.0, theirs / 1024.0)
}

fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| what | Debian's libsvm | ours | ratio | target | ours, `MERCER_SVM=exact` | memory (at most 2.5) |\n\
         |---|---:|---:|---:|---:|---:|---|\n",
    );
    for Line { name, unit, theirs, ours, exact, target, note } in lines {
        let ratio = theirs / ours;
        let exact = exact.map_or(String::new(), |exact| format!("{exact:.3} {unit}"));
        let _ = writeln!(
            text,
            "| {name} | {theirs:.3} {unit} | {ours:.3} {unit} | {ratio:.1} | {target} | {exact} | {note} |"
        );
    }
    text
}
