//! `cargo xtask bench soak`: damaged files, an attack on certificates and the calibrated promise, as much as wanted.
//! Tests run the same with few; nothing is timed here.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};

use super::Options;
use crate::test_binaries::binaries_of;
use crate::workspace::{Workspace, run as run_command, stdout_with_errors};

/// Damages files, then attacks certificates, then counts broken promises; each prints how far it has come. Ctrl-C ends
/// the attack with what it found so far.
pub fn run(options: &Options) -> Result<ExitCode> {
    let count = |flag: &str, given: &Option<String>, usual: &str| {
        // One machine is asked for: nothing else runs unless it is named.
        let usual = if options.machine.is_some() { "0" } else { usual };
        number(flag, given.as_deref().unwrap_or(usual))
    };
    let variants = count("--variants", &options.variants, "1e6")?;
    let pairs = count("--pairs", &options.pairs, "1e9")?;
    let plans = count("--plans", &options.plans, "2000")?;
    let workspace = Workspace::load()?;
    if variants >= 1.0 {
        let packages = ["-p", "mercer-data", "-p", "mercer-machine", "--test", "mutations"];
        let mut command = workspace.cargo(["test", "--release"].into_iter().chain(packages));
        command.args(["--", "--nocapture"]).env("MERCER_MUTATIONS", format!("{variants:.0}"));
        run_command(&mut command)?;
    }
    if pairs < 1.0 && plans < 1.0 && options.machine.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    // The child hears Ctrl-C as well, and ends by itself.
    let is_interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&is_interrupted))
        .context("cannot listen to Ctrl-C")?;
    let program = build(&workspace)?;
    let test = |name: &str| {
        let mut command = Command::new(&program);
        command.current_dir(workspace.root.join("crates/mercer-compile"));
        command.args(["--ignored", "--exact", name, "--nocapture"]);
        for (variable, value) in
            [("MERCER_SOAK_SEED", &options.seed), ("MERCER_SOAK_MACHINE", &options.machine)]
        {
            if let Some(value) = value {
                command.env(variable, value);
            }
        }
        command
    };
    if pairs >= 1.0 || options.machine.is_some() {
        run_command(test("attack::soak").env("MERCER_SOAK", format!("{pairs:e}")))?;
    }
    if plans >= 1.0 && !is_interrupted.load(Ordering::Relaxed) {
        let name = "promise::promises_are_broken_by_at_most_delta_of_all_plans";
        run_command(test(name).env("MERCER_PLANS", format!("{plans:.0}")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The test program of the compile crate.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let words = ["test", "--no-run", "-p", "mercer-compile", "--test", "it"];
    let lines = stdout_with_errors(&mut optimised(workspace, words))?;
    let built = binaries_of(&lines).pop().context("cargo built no test binary")?;
    Ok(built.program)
}

/// Cargo with these words, which says in JSON what it builds, optimised for this processor.
fn optimised<'a>(workspace: &Workspace, words: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = workspace.cargo(words);
    command.args(["--release", "--locked", "--message-format", "json-render-diagnostics"]);
    // Fused multiply-adds of the reference in one instruction: the same numbers, several times as many.
    command.env("RUSTFLAGS", "-C target-cpu=native");
    command.env("CARGO_TARGET_DIR", workspace.target.join("soak"));
    command.env("CARGO_PROFILE_RELEASE_LTO", "off");
    command
}

/// A count such as 1e6; 0 leaves that part out.
fn number(flag: &str, text: &str) -> Result<f64> {
    let number: f64 = text.parse().with_context(|| format!("{flag} {text} is not a number"))?;
    ensure!((0.0..=1e15).contains(&number), "{flag} {text} is not between 0 and 1e15");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn counts_may_be_written_with_an_exponent() {
        assert_eq!(number("--pairs", "1e6").unwrap(), 1e6);
        assert_eq!(number("--pairs", "0").unwrap(), 0.0);
        assert!(number("--pairs", "-1").is_err() && number("--pairs", "many").is_err());
    }
}
