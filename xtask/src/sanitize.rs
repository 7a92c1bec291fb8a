//! `cargo xtask sanitize`: the tests of the crate with `unsafe` code under the address sanitizer. Not part of
//! `cargo xtask test`: everything is compiled once more.

use std::process::ExitCode;

use anyhow::Result;

use crate::workspace::{self, Workspace};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "sanitize",
    usage: "",
    about: "Runs the tests of mercer-simd under the address sanitizer, into target/sanitize.\n\
            Needs Linux on x86-64 or ARM; the option of the compiler is unstable and is allowed by RUSTC_BOOTSTRAP.",
    run,
};

fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    let workspace = Workspace::load()?;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command =
        workspace.cargo(["test", "-p", "mercer-simd", "--locked", "--lib", "--test", "it"]);
    // With a target, build scripts and macros are compiled without the sanitizer.
    command.args(["--target", &target]).env("CARGO_TARGET_DIR", workspace.target.join("sanitize"));
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    workspace::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
