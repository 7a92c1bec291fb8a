//! The step `r` of `cargo xtask test`: builds and checks the R package on the C library that the step `test` built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace};
use crate::{clib, test_binaries};

/// Packages that the tests compare with, or that make the vignette.
const PACKAGES: [&str; 5] = ["e1071", "kernlab", "testthat", "knitr", "rmarkdown"];

/// Runs `R CMD build` and `R CMD check`; returns why not if R or a package that it needs is not installed.
pub fn check(workspace: &Workspace) -> Result<Option<&'static str>> {
    if !cfg!(target_os = "linux") {
        return Ok(Some("the C library is installed on Linux only"));
    }
    let has = PACKAGES.map(|name| format!("requireNamespace('{name}', quietly = TRUE)")).join(", ");
    let ask = format!("quit(status = if (all(c({has}))) 0 else 1)");
    if !workspace::succeeds(workspace.command("Rscript").args(["-e", "1"])) {
        return Ok(Some("R is not installed (Debian: r-base-dev)"));
    }
    if !workspace::succeeds(workspace.command("Rscript").args(["-e", &ask])) {
        return Ok(Some(
            "R lacks e1071, kernlab, testthat, knitr or rmarkdown (Debian: r-cran-...)",
        ));
    }
    let folder = workspace.target.join("r");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let prefix = folder.join("prefix");
    clib::install(workspace, &built_library(workspace)?, &prefix)?;
    let run = |words: &[&str]| workspace::run(r(workspace, &folder, &prefix).args(words));
    let package = workspace.root.join("r");
    run(&["CMD", "build", &package.display().to_string()])?;
    let archive = archive_in(&folder)?;
    // `build` has just run the vignette.
    run(&["CMD", "check", "--no-manual", "--no-vignettes", &archive])?;
    must_be_clean(&folder.join("mercer.Rcheck/00check.log"))?;
    Ok(None)
}

/// R in a folder of its own, with the library, the repository and a cache that is not the user's.
fn r(workspace: &Workspace, folder: &Path, prefix: &Path) -> Command {
    let mut command = workspace.command("R");
    command
        .current_dir(folder)
        .env("MERCER_PREFIX", prefix)
        // Tests that need a suggested package skip themselves where it is missing.
        .env("_R_CHECK_FORCE_SUGGESTS_", "false")
        .env("MERCER_REPOSITORY", &workspace.root)
        .env("MERCER_CACHE_DIR", folder.join("cache"));
    command
}

/// The shared library that belongs to the tests of mercer-c; other selections of packages would build all of it again.
fn built_library(workspace: &Workspace) -> Result<PathBuf> {
    workspace::run(&mut test_binaries::build(workspace))?;
    let library = workspace.target.join("debug/deps/libmercer_c.so");
    if !library.is_file() {
        bail!("cargo built no {}", library.display());
    }
    Ok(library)
}

/// The name of the package that `R CMD build` wrote.
fn archive_in(folder: &Path) -> Result<String> {
    let names =
        fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().find(|name| name.ends_with(".tar.gz")).context("R CMD build wrote no package")
}

/// `R CMD check` fails on errors alone; warnings are failures here.
fn must_be_clean(log: &Path) -> Result<()> {
    let text = fs::read_to_string(log).with_context(|| log.display().to_string())?;
    let status = status_of(&text).context("R CMD check wrote no status")?;
    if status.contains("ERROR") || status.contains("WARNING") {
        bail!("R CMD check: {status} ({})", log.display());
    }
    Ok(())
}

fn status_of(log: &str) -> Option<&str> {
    log.lines().rev().find_map(|line| line.strip_prefix("Status: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_last_line_of_the_log() {
        let log = "* checking tests ... OK\n* DONE\nStatus: 1 WARNING, 1 NOTE\n";
        assert_eq!(status_of(log), Some("1 WARNING, 1 NOTE"));
        assert_eq!(status_of("* DONE\n"), None);
    }
}
