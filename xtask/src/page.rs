//! The step `page` of `cargo xtask test`: the page of `mercer serve` and `mercer play`, and reports, in a real browser.
//! It is skipped where node, Chromium or the npm packages cannot be had.

use std::path::PathBuf;

use anyhow::Result;

use crate::workspace::{self, Workspace};
use crate::{debian, test_binaries};

/// What is installed by npm, below the target directory.
const PACKAGES: [&str; 2] = ["playwright-core@1", "axe-core@4"];
const SCRIPTS: [&str; 3] = [
    "crates/mercer-server/page/tests/browser.mjs",
    "crates/mercer-play/page/tests/play.mjs",
    "crates/mercer-cli/tests/reports.mjs",
];

/// Runs the tests. Returns why they were not run, if they were not.
pub fn check(workspace: &Workspace) -> Result<Option<&'static str>> {
    let starts = |program: &str| workspace::succeeds(workspace.command(program).arg("--version"));
    let browser = || browsers().into_iter().find(|name| starts(name));
    if !starts("node") || browser().is_none() {
        debian::install(workspace)?;
    }
    if !starts("node") {
        return Ok(Some("node is not installed; Debian's package nodejs has it"));
    }
    let Some(browser) = browser() else {
        return Ok(Some("Chromium is not installed; Debian's package chromium has it"));
    };
    let Some(modules) = modules(workspace) else {
        return Ok(Some("npm cannot install playwright-core and axe-core here"));
    };
    // The command that the step `test` built: other selections of packages build all of it again with other features.
    workspace::run(&mut test_binaries::build(workspace))?;
    let command = format!("debug/mercer{}", std::env::consts::EXE_SUFFIX);
    for script in SCRIPTS {
        let mut node = workspace.command("node");
        node.arg(script)
            .env("MERCER_COMMAND", workspace.target.join(&command))
            .env("MERCER_PAGE_MODULES", &modules)
            .env("MERCER_PAGE_SCREENSHOTS", workspace.target.join("page-screenshots"))
            .env("CHROMIUM", which(&browser));
        if let Err(error) = workspace::run(&mut node) {
            // A browser on a loaded machine may miss a time limit; what fails twice is wrong.
            println!("page: {script} failed ({error:#}) and is run once more");
            workspace::run(&mut node)?;
            println!(
                "page: {script} passed the second time only: what failed above is not reliable, or the machine was busy"
            );
        }
    }
    Ok(None)
}

/// `$CHROMIUM`, then the names that distributions give it.
fn browsers() -> Vec<String> {
    let named = std::env::var("CHROMIUM").ok();
    named.into_iter().chain(["chromium", "chromium-browser"].map(str::to_owned)).collect()
}

/// The file of a program: playwright does not search the path.
fn which(program: &str) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(program));
    files.find(|file| file.is_file()).unwrap_or_else(|| program.into())
}

/// The folder with the npm packages, if they are there or can be installed.
fn modules(workspace: &Workspace) -> Option<PathBuf> {
    let folder = workspace.target.join("page-npm");
    let has = |name: &str| folder.join("node_modules").join(name).is_dir();
    if has("playwright-core") && has("axe-core") {
        return Some(folder);
    }
    std::fs::create_dir_all(&folder).ok()?;
    std::fs::write(folder.join("package.json"), "{ \"private\": true }\n").ok()?;
    let mut npm = workspace.command("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
    npm.arg(&folder).args(PACKAGES);
    workspace::succeeds(&mut npm).then_some(folder)
}
