//! `cargo xtask bench faults`: kills the command as often as wanted and looks at the files it leaves.
//! `cargo test` does the same with few kills; nothing is timed here.

use std::process::ExitCode;

use anyhow::{Context, Result};

use super::Options;
use crate::workspace::{Workspace, run as run_command};

/// Runs the tests of `mercer-cli` about faults with `--kills` kills of each verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let kills = options.kills.as_deref().unwrap_or("100");
    kills.parse::<u64>().with_context(|| format!("--kills {kills} is not a number"))?;
    let words = ["test", "--release", "-p", "mercer-cli", "--test", "it", "--", "--nocapture"];
    let mut command = Workspace::load()?.cargo(words);
    command.args(["--test-threads", "1", "faults::", "a_full_disk"]).env("MERCER_KILLS", kills);
    run_command(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
