//! The step `spark` of `cargo xtask test`: the tests of `mercer.spark` on real Spark processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{self, Workspace, find_python};

/// Sessions that the tests run in, each in a process of its own: MERCER_SPARK of `python/tests_spark/conftest.py`.
const MODES: [&str; 3] = ["local", "connect", "cluster"];
/// What the tests need beside the package.
const PACKAGES: [&str; 3] = ["pyspark[connect]==4.*", "pytest>=8", "dask[array]"];
/// Fails if one of them is missing.
const IMPORTS: &str = "import pyspark, pytest, grpc_status, zstandard, dask.array";
/// The oldest Java that Spark 4 runs on.
const OLDEST_JAVA: u32 = 17;

/// Runs the tests; `Some` says why they were not run.
pub fn check(workspace: &Workspace) -> Result<Option<&'static str>> {
    let version = workspace::stdout_of(workspace.command("java").arg("--version"));
    if version.ok().and_then(|text| java_of(&text)).is_none_or(|java| java < OLDEST_JAVA) {
        return Ok(Some("there is no Java 17 or later (Debian: openjdk-17-jre-headless)"));
    }
    let Some(python) = environment(workspace)? else {
        return Ok(Some("pyspark cannot be installed here"));
    };
    for mode in MODES {
        println!("session: {mode}");
        let mut pytest = workspace.command(&python);
        pytest.args(["-m", "pytest", "--quiet", "--durations=5", "python/tests_spark"]);
        pytest.env("MERCER_SPARK", mode);
        workspace::run(&mut pytest).with_context(|| format!("in the session '{mode}'"))?;
    }
    Ok(None)
}

/// The Python of a virtual environment with pyspark and the package; `None` if pyspark cannot be had.
fn environment(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let home = workspace.target.join("spark-venv");
    let mut make = workspace.command(find_python(workspace)?);
    workspace::run(make.args(["-m", "venv"]).arg(&home))
        .context("cannot make a virtual environment")?;
    let python = home.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let is_there = workspace::succeeds(workspace.command(&python).args(["-c", IMPORTS]));
    if !is_there && workspace::run(pip(workspace, &python).args(PACKAGES)).is_err() {
        return Ok(None);
    }
    let mut package = pip(workspace, &python);
    package.arg("./python[spark]");
    // What the step `test` built is used again.
    package.env("MATURIN_PEP517_ARGS", "--profile dev --features workspace-features");
    workspace::run(&mut package)?;
    Ok(Some(python))
}

fn pip(workspace: &Workspace, python: &Path) -> Command {
    let mut command = workspace.command(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

/// 17 of `openjdk 17.0.15 2025-04-15`, what `java --version` prints since Java 9.
fn java_of(text: &str) -> Option<u32> {
    let version = text.split_whitespace().nth(1)?;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::java_of;

    #[test]
    fn the_version_of_java_is_read() {
        assert_eq!(java_of("openjdk 17.0.15 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(java_of("java 21-ea 2023-09-19"), Some(21));
        assert_eq!(java_of(""), None);
        assert_eq!(java_of("openjdk version"), None);
    }
}
