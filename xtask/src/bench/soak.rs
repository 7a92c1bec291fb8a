//! `cargo xtask bench soak`: damaged files and properties of certificates, as many as wanted.
//! Tests run the same with few; nothing is timed here.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use super::Options;
use crate::workspace::{Workspace, run as run_command};

/// Damages files, then runs the soak of the compile crate; both print how far they have come, Ctrl-C stops.
pub fn run(options: &Options) -> Result<ExitCode> {
    let variants = number("--variants", options.variants.as_deref().unwrap_or("1e6"))?;
    let pairs = number("--pairs", options.pairs.as_deref().unwrap_or("1e9"))?;
    let workspace = Workspace::load()?;
    if variants >= 1.0 {
        let packages = ["-p", "mercer-data", "-p", "mercer-machine", "--test", "mutations"];
        let mut command = workspace.cargo(["test", "--release"].into_iter().chain(packages));
        command.args(["--", "--nocapture"]).env("MERCER_MUTATIONS", format!("{variants:.0}"));
        run_command(&mut command)?;
    }
    if pairs >= 1.0 {
        let words =
            ["test", "--release", "-p", "mercer-compile", "--test", "it", "--", "--ignored"];
        let mut command = workspace.cargo(words);
        let count = format!("{pairs:e}");
        command.args(["--exact", "soak::soak", "--nocapture"]).env("MERCER_SOAK", count);
        // Fused multiply-adds of the reference in one instruction: the same numbers, several times as many.
        command.env("RUSTFLAGS", "-C target-cpu=native");
        command.env("CARGO_TARGET_DIR", workspace.target.join("soak"));
        command.env("CARGO_PROFILE_RELEASE_LTO", "off");
        run_command(&mut command)?;
    }
    Ok(ExitCode::SUCCESS)
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
