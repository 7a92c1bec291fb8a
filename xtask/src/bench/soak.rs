//! `cargo xtask bench soak`: the laws of certificates for as long as wanted.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use super::Options;
use crate::workspace::{Workspace, run as run_command};

/// Runs the soak of the compile room, which prints how far it has come; Ctrl-C stops it.
pub fn run(options: &Options) -> Result<ExitCode> {
    let text = options.pairs.as_deref().unwrap_or("1e9");
    let pairs: f64 = text.parse().with_context(|| format!("--pairs {text} is not a number"))?;
    ensure!((1.0..=1e15).contains(&pairs), "--pairs {text} is not between 1 and 1e15");
    let workspace = Workspace::load()?;
    let words =
        ["test", "--release", "-p", "mercer-compile", "--test", "certify", "--", "--ignored"];
    let mut command = workspace.cargo(words);
    command.args(["--exact", "soak", "--nocapture"]).env("MERCER_SOAK", text);
    run_command(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
