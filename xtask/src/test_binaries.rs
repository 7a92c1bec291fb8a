//! Builds every test binary of the workspace, runs each as `cargo test` does, and prints how long each took.
//! Examples in the documentation are not binaries; `cargo test --doc` runs them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::{self, Workspace};

/// A program with tests.
#[derive(Debug, PartialEq, Eq)]
pub struct Binary {
    /// Folder of the package, where it runs.
    pub folder: PathBuf,
    /// `mercer-train lib`, `mercer-cli it`.
    pub name: String,
    pub program: PathBuf,
}

/// Builds all test binaries and the command. Examples are left to clippy, which compiles them without linking.
pub fn build(workspace: &Workspace) -> Command {
    let words = ["test", "--workspace", "--lib", "--bins", "--tests", "--locked", "--no-run"];
    workspace.cargo(words)
}

/// Runs all test binaries; fails at the end if one of them failed, and names those.
pub fn run_all(workspace: &Workspace) -> Result<()> {
    let started = Instant::now();
    let mut build = build(workspace);
    let lines =
        workspace::stdout_with_errors(build.args(["--message-format", "json-render-diagnostics"]))?;
    let binaries = binaries_of(&lines);
    println!("-- build of {} test binaries: {:.1} s", binaries.len(), seconds(started));
    if binaries.is_empty() {
        bail!("cargo built no test binary");
    }
    let (mut times, mut failed) = (Vec::new(), Vec::new());
    for Binary { folder, name, program } in &binaries {
        println!("-- {name}");
        let started = Instant::now();
        let mut command = Command::new(program);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
        let status = command.status().with_context(|| format!("cannot start {name}"))?;
        times.push((seconds(started), name));
        if !status.success() {
            failed.push(name.as_str());
        }
    }
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("-- seconds of each test binary");
    times.iter().for_each(|(seconds, name)| println!("{seconds:8.1}  {name}"));
    if failed.is_empty() { Ok(()) } else { bail!("tests failed in {}", failed.join(", ")) }
}

fn seconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64()
}

/// Test binaries among what cargo says it built, one JSON object in a line.
pub fn binaries_of(lines: &str) -> Vec<Binary> {
    lines.lines().filter_map(binary_of).collect()
}

fn binary_of(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let program = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = message["package_id"].as_str()?.rsplit('/').next()?.split('#').next()?.to_owned();
    let (target, kind) = (message["target"]["name"].as_str()?, &message["target"]["kind"][0]);
    let part = if kind == "test" { target } else { kind.as_str()? };
    Some(Binary { folder, name: format!("{package} {part}"), program })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_with_tests_are_run() {
        let message = |test: bool, executable: &str| {
            format!(
                "{{\"manifest_path\":\"/a/crates/b/Cargo.toml\",\"executable\":{executable},\
                 \"package_id\":\"path+file:///a/crates/b#0.1.0\",\"profile\":{{\"test\":{test}}},\
                 \"target\":{{\"name\":\"it\",\"kind\":[\"test\"]}}}}"
            )
        };
        let lines = [
            message(true, "\"/t/it-1\""),
            message(false, "\"/t/b\""),
            message(true, "null"),
            "warning: text".to_owned(),
        ];
        let (folder, program) = (PathBuf::from("/a/crates/b"), PathBuf::from("/t/it-1"));
        let expected = Binary { folder, name: "b it".to_owned(), program };
        assert_eq!(binaries_of(&lines.join("\n")), [expected]);
    }
}
