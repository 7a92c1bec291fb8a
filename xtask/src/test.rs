//! `cargo xtask test`: everything that must pass before a change is ready, with the seconds of each step.
//! It measures no speed; that is `cargo xtask bench`.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace, find_python};
use crate::{Args, Verb, debian, docs, edges, page, r_package, shape, spark, test_binaries, words};

pub const VERB: Verb = Verb {
    name: "test",
    usage: "[--full] [--only STEP ...] [--skip STEP ...]",
    about: "Checks everything, in this order, and stops at the first step that fails.\n\
            packages  programs of others that tests run (LIBSVM's tools, valgrind, Chromium, node), from Debian; skipped if that is not possible\n\
            fmt     cargo fmt --all --check\n\
            clippy  cargo clippy on all targets, warnings are errors; a check without default features\n\
            edges   cargo xtask edges\n\
            words   cargo xtask words\n\
            shape   cargo xtask shape\n\
            links   cargo xtask docs --links: links between the pages of the repository\n\
            test    cargo test, with the examples in the documentation; seconds of each test binary\n\
            doc     cargo doc, warnings are errors\n\
            deny    cargo deny check (deny.toml); skipped if cargo-deny is not installed\n\
            msrv    cargo check with the Rust version of Cargo.toml; skipped if rustup does not have it; only with --full,\n\
            \u{20}       or if named: it compiles all dependencies once more\n\
            python  pip install ./python[test] and pytest, in target/python-venv\n\
            spark   the tests of `mercer.spark` in a local session, on Spark Connect and on a local cluster, in target/spark-venv;\n\
            \u{20}       skipped if Java 17 or pyspark cannot be had; only with --full, or if named: it takes minutes\n\
            r       R CMD build and R CMD check of r/, in target/r; skipped if R or a package it needs is not installed\n\
            page    the page of `mercer serve`, that of `mercer play` and reports in Chromium, by playwright-core; skipped if they cannot be had;\n\
            \u{20}       a script that fails is run once more, and that is said\n\
            --full  every step, as before a release",
    run,
};

/// One thing to check.
struct Step {
    name: &'static str,
    /// What is run, for the heading.
    heading: &'static str,
    /// Whether it runs only with `--full`, or if it is named.
    is_full: bool,
    run: fn(&Workspace) -> Result<Outcome>,
}

/// How a step that did not fail ended.
enum Outcome {
    Passed,
    /// Not run, and why.
    Skipped(&'static str),
}

const STEPS: &[Step] = &[
    Step {
        name: "packages",
        heading: "apt-get install of programs that tests run",
        is_full: false,
        run: packages,
    },
    Step { name: "fmt", heading: "cargo fmt --all --check", is_full: false, run: fmt },
    Step {
        name: "clippy",
        heading: "cargo clippy --workspace --all-targets",
        is_full: false,
        run: clippy,
    },
    Step { name: "edges", heading: "cargo xtask edges", is_full: false, run: check_edges },
    Step { name: "words", heading: "cargo xtask words", is_full: false, run: check_words },
    Step { name: "shape", heading: "cargo xtask shape", is_full: false, run: check_shape },
    Step { name: "links", heading: "cargo xtask docs --links", is_full: false, run: check_links },
    Step { name: "test", heading: "cargo test --workspace", is_full: false, run: test },
    Step { name: "doc", heading: "cargo doc --workspace --no-deps", is_full: false, run: doc },
    Step { name: "deny", heading: "cargo deny check", is_full: false, run: deny },
    Step { name: "msrv", heading: "cargo +MSRV check --workspace", is_full: true, run: msrv },
    Step {
        name: "python",
        heading: "pip install ./python[test], pytest",
        is_full: false,
        run: python,
    },
    Step {
        name: "spark",
        heading: "pytest python/tests_spark, for each session of Spark",
        is_full: true,
        run: check_spark,
    },
    Step { name: "r", heading: "R CMD build r, R CMD check", is_full: false, run: r_package },
    Step {
        name: "page",
        heading: "the page of `mercer serve` in a browser",
        is_full: false,
        run: check_page,
    },
];

fn run(mut args: Args) -> Result<ExitCode> {
    let (only, skip) = (args.values("--only")?, args.values("--skip")?);
    let is_full = args.flag("--full");
    args.finish()?;
    let steps = choose(&only, &skip, is_full)?;
    let workspace = Workspace::load()?;
    let (mut passed, mut skipped, mut seconds_of) = (0, Vec::new(), Vec::new());
    for (place, step) in steps.iter().enumerate() {
        println!("== {}: {}", step.name, step.heading);
        let started = Instant::now();
        let outcome = (step.run)(&workspace);
        let seconds = started.elapsed().as_secs_f64();
        seconds_of.push(format!("{} {seconds:.0} s", step.name));
        match outcome {
            Ok(Outcome::Passed) => {
                passed += 1;
                println!("== {}: passed in {seconds:.1} s\n", step.name);
            }
            Ok(Outcome::Skipped(reason)) => {
                skipped.push(step.name);
                println!("== {}: skipped, {reason}\n", step.name);
            }
            Err(error) => {
                println!("== {}: failed in {seconds:.1} s: {error:#}\n", step.name);
                let left = steps[place + 1..].iter().map(|step| step.name).collect::<Vec<_>>();
                println!("{passed} passed, 1 failed ({}){}", step.name, listed("not run", &left));
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    println!("seconds: {}", seconds_of.join(", "));
    println!("{passed} passed, 0 failed{}", listed("skipped", &skipped));
    Ok(ExitCode::SUCCESS)
}

/// `, 2 skipped (doc, python)`, or nothing.
fn listed(what: &str, names: &[&str]) -> String {
    match names.len() {
        0 => String::new(),
        count => format!(", {count} {what} ({})", names.join(", ")),
    }
}

/// The steps named by `only`, or all that are usual, without those named by `skip`.
fn choose(only: &[String], skip: &[String], is_full: bool) -> Result<Vec<&'static Step>> {
    let named = |names: &[String], step: &Step| names.iter().any(|name| name == step.name);
    for name in only.iter().chain(skip) {
        if !STEPS.iter().any(|step| step.name == name) {
            let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            bail!("no step '{name}'; there are {}", known.join(", "));
        }
    }
    let is_usual = |step: &Step| only.is_empty() && (is_full || !step.is_full);
    let wanted = |step: &&Step| (is_usual(step) || named(only, step)) && !named(skip, step);
    Ok(STEPS.iter().filter(wanted).collect())
}

fn packages(workspace: &Workspace) -> Result<Outcome> {
    Ok(debian::install(workspace)?.map_or(Outcome::Passed, Outcome::Skipped))
}

fn fmt(workspace: &Workspace) -> Result<Outcome> {
    need_component(workspace, "fmt", "rustfmt")?;
    run_cargo(workspace, &["fmt", "--all", "--check"])
}

fn clippy(workspace: &Workspace) -> Result<Outcome> {
    need_component(workspace, "clippy", "clippy")?;
    let what = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    run_cargo(workspace, &what)?;
    run_cargo(workspace, &["check", "--locked", "-p", "mercer-cli", "--no-default-features"])
}

fn check_edges(workspace: &Workspace) -> Result<Outcome> {
    edges::check(workspace)?;
    Ok(Outcome::Passed)
}

fn check_words(workspace: &Workspace) -> Result<Outcome> {
    words::must_hold(workspace)?;
    Ok(Outcome::Passed)
}

fn check_shape(workspace: &Workspace) -> Result<Outcome> {
    shape::must_hold(workspace)?;
    Ok(Outcome::Passed)
}

fn check_links(workspace: &Workspace) -> Result<Outcome> {
    docs::links::must_hold(workspace)?;
    Ok(Outcome::Passed)
}

fn test(workspace: &Workspace) -> Result<Outcome> {
    test_binaries::run_all(workspace)?;
    run_cargo(workspace, &["test", "--workspace", "--locked", "--doc"])
}

fn doc(workspace: &Workspace) -> Result<Outcome> {
    let mut command = workspace.cargo(["doc", "--workspace", "--no-deps", "--locked"]);
    workspace::run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}

/// Licences, sources and duplicates need no network; advisories are checked where their database can be had.
fn deny(workspace: &Workspace) -> Result<Outcome> {
    if !workspace::succeeds(&mut workspace.cargo(["deny", "--version"])) {
        return Ok(Outcome::Skipped(
            "cargo-deny is not installed; `cargo install cargo-deny` does it",
        ));
    }
    run_cargo(workspace, &["deny", "check", "licenses", "bans", "sources"])?;
    if workspace::succeeds(&mut workspace.cargo(["deny", "fetch"])) {
        return run_cargo(workspace, &["deny", "check", "advisories"]);
    }
    println!("the database of advisories cannot be had here; they are not checked");
    Ok(Outcome::Passed)
}

/// The oldest compiler that is promised.
fn msrv(workspace: &Workspace) -> Result<Outcome> {
    let packages = workspace.metadata["packages"].as_array().context("packages")?;
    let version = packages.iter().find_map(|package| package["rust_version"].as_str());
    let version = version.context("Cargo.toml states no rust-version")?;
    // rustup keeps `1.89` and `1.89.0` apart.
    let names = [version.to_owned(), format!("{version}.0")];
    let starts = |name: &&String| {
        let mut command = workspace.command("rustup");
        workspace::succeeds(command.args(["run", name, "cargo", "--version"]))
    };
    let Some(name) = names.iter().find(starts) else {
        return Ok(Outcome::Skipped("rustup does not have the toolchain of rust-version"));
    };
    let mut command = workspace.command("rustup");
    command.args(["run", name, "cargo", "check", "--workspace", "--all-targets", "--locked"]);
    command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    workspace::run(command.env("CARGO_TARGET_DIR", workspace.target.join("msrv")))?;
    Ok(Outcome::Passed)
}

fn run_cargo(workspace: &Workspace, words: &[&str]) -> Result<Outcome> {
    workspace::run(&mut workspace.cargo(words.iter().copied()))?;
    Ok(Outcome::Passed)
}

/// Fails with what to do if a part of the Rust toolchain is missing.
fn need_component(workspace: &Workspace, subcommand: &str, component: &str) -> Result<()> {
    if !workspace::succeeds(&mut workspace.cargo([subcommand, "--version"])) {
        bail!("{component} is missing; `rustup component add {component}` installs it");
    }
    Ok(())
}

fn python(workspace: &Workspace) -> Result<Outcome> {
    if !workspace.root.join("python/pyproject.toml").is_file() {
        return Ok(Outcome::Skipped("there is no python/pyproject.toml"));
    }
    let home = workspace.target.join("python-venv");
    let mut make = workspace.command(find_python(workspace)?);
    workspace::run(make.args(["-m", "venv"]).arg(&home))
        .context("cannot make a virtual environment")?;
    let python = home.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let mut pip = workspace.command(&python);
    // What the step `test` built is used again.
    pip.args(install).arg("./python[test]");
    pip.env("MATURIN_PEP517_ARGS", "--profile dev --features workspace-features");
    workspace::run(&mut pip)?;
    let has_tests = workspace.root.join("python/tests").is_dir();
    let tests = if has_tests { "python/tests" } else { "python" };
    // Some tests run the command: the one that the step `test` built, since other selections of packages build all
    // of it again with other features.
    workspace::run(&mut test_binaries::build(workspace))?;
    let command = format!("debug/mercer{}", std::env::consts::EXE_SUFFIX);
    let mut pytest = workspace.command(&python);
    pytest
        .args(["-m", "pytest", "--numprocesses", "auto", tests])
        .env("MERCER_COMMAND", workspace.target.join(command));
    workspace::run(&mut pytest)?;
    Ok(Outcome::Passed)
}

fn r_package(workspace: &Workspace) -> Result<Outcome> {
    Ok(r_package::check(workspace)?.map_or(Outcome::Passed, Outcome::Skipped))
}

fn check_spark(workspace: &Workspace) -> Result<Outcome> {
    Ok(spark::check(workspace)?.map_or(Outcome::Passed, Outcome::Skipped))
}

fn check_page(workspace: &Workspace) -> Result<Outcome> {
    Ok(page::check(workspace)?.map_or(Outcome::Passed, Outcome::Skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(only: &[&str], skip: &[&str]) -> Vec<&'static str> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let steps = choose(&owned(only), &owned(skip), false).unwrap();
        steps.into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn all_steps_run_unless_told_otherwise() {
        assert_eq!(
            chosen(&[], &[]),
            [
                "packages", "fmt", "clippy", "edges", "words", "shape", "links", "test", "doc",
                "deny", "python", "r", "page"
            ]
        );
    }

    #[test]
    fn steps_keep_their_order() {
        assert_eq!(chosen(&["doc", "fmt"], &[]), ["fmt", "doc"]);
        assert_eq!(
            chosen(&[], &["test", "python"]),
            [
                "packages", "fmt", "clippy", "edges", "words", "shape", "links", "doc", "deny",
                "r", "page"
            ]
        );
        assert_eq!(chosen(&["fmt"], &["fmt"]), [""; 0]);
    }

    #[test]
    fn long_steps_run_if_named_or_with_full() {
        assert_eq!(chosen(&["msrv"], &[]), ["msrv"]);
        assert_eq!(chosen(&["spark"], &[]), ["spark"]);
        assert_eq!(choose(&[], &[], true).unwrap().len(), STEPS.len());
    }

    #[test]
    fn an_unknown_step_is_an_error() {
        assert!(choose(&["lint".to_owned()], &[], false).is_err());
        assert!(choose(&[], &["lint".to_owned()], false).is_err());
    }

    #[test]
    fn every_step_is_explained() {
        for step in STEPS {
            assert!(VERB.about.lines().any(|line| line.starts_with(step.name)), "{}", step.name);
        }
    }
}
