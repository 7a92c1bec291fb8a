//! `cargo xtask bench limits`: do the time limits of `tune` and `search` hold by the clock? Each command may take 10 %
//! more than its limit. No test asserts a time, so this is a measurement; run it on a machine that does nothing else.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use super::Options;
use crate::workspace::{self, Workspace, stdout_of};

/// The seconds that are asked for.
const LIMITS: [f64; 4] = [1.0, 3.0, 10.0, 30.0];
/// What a command may take beyond its limit.
const ALLOWED: f64 = 1.10;

/// Runs both verbs on the digits of `datasets/` under each limit; fails if one takes longer than allowed.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    if !options.built {
        let words = ["build", "--release", "--locked", "-p", "mercer-cli"];
        workspace::run(&mut workspace.cargo(words))?;
    }
    let mercer = workspace.target.join(format!("release/mercer{}", std::env::consts::EXE_SUFFIX));
    let digits = workspace.root.join("datasets/digits");
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let run = |words: &[&str]| -> Result<f64> {
        let start = Instant::now();
        let mut command = workspace.command(&mercer);
        let output = command.current_dir(&digits).args(words).arg("--quiet").output()?;
        let seconds = start.elapsed().as_secs_f64();
        // 3: a limit ended the work before it was done. Where nothing was done it is an error that says so.
        let said = String::from_utf8_lossy(&output.stderr);
        let is_expected = matches!(output.status.code(), Some(0 | 3))
            || said.contains("the time limit was reached");
        anyhow::ensure!(is_expected, "{words:?}: {}: {said}", output.status);
        Ok(seconds)
    };
    let model = text(&folder.path().join("digits.mercer"));
    stdout_of(workspace.command(&mercer).current_dir(&digits).args([
        "import",
        "digits.model",
        "-o",
        &model,
        "--quiet",
    ]))?;
    let out = text(&folder.path().join("out.mercer"));
    let mut too_long = 0;
    println!("verb      limit s  took s  ratio");
    for limit in LIMITS {
        let limit_text = format!("{limit}s");
        let tune = ["tune", &model, "--sample", "queries.svm", "--time-limit", &limit_text];
        let search = ["search", "digits.csv.gz", "--kernel", GAMMAS, "--formulation", PENALTIES];
        let search = [&search[..], &["--time-limit", &limit_text]].concat();
        for words in [&tune[..], &search] {
            let seconds = run(&[words, &["-o", &out]].concat())?;
            let ratio = seconds / limit;
            println!("{:<9} {limit:>7} {seconds:>7.2} {ratio:>6.2}", words[0]);
            too_long += usize::from(ratio > ALLOWED);
        }
    }
    println!("limits: {too_long} runs took more than {ALLOWED} times their limit");
    Ok(if too_long == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A grid that takes longer than every limit.
const GAMMAS: &str = "rbf(gamma={0.0001..10; 40})";
const PENALTIES: &str = "c_svc(C={0.01..10000; 40})";

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
