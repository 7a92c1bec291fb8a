//! `cargo xtask docs`: the documentation site, by mdBook, from the pages of the repository and from what the program says of
//! itself. Texts are written in `docs/`; nothing here contains any.

mod components;
mod html_links;
pub mod links;
mod markdown;
mod python_api;
mod staging;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "docs",
    usage: "[--links] [--command FILE]",
    about: "Builds the documentation site in target/docs/site and checks all of its links.\n\
            Pages come from docs/ (docs/SUMMARY.md is the table of contents) and the root; options of each verb from\n\
            `mercer VERB --help`, kernels, solvers and stages from `mercer list --json`, the Python reference from docstrings.\n\
            --links         only checks the links between the pages of the repository; builds nothing\n\
            --command FILE  the command `mercer` that is asked; built if not given\n\
            mdBook is installed in target/tools if it is not on the path, griffe in target/docs/venv.",
    run,
};

/// The version that is installed.
const MDBOOK: &str = "0.5.4";

fn run(mut args: Args) -> Result<ExitCode> {
    let (only_links, command) = (args.flag("--links"), args.value("--command")?);
    args.finish()?;
    let workspace = Workspace::load()?;
    let checked = links::must_hold(&workspace)?;
    println!("docs: {checked} links between pages of the repository hold");
    if only_links {
        return Ok(ExitCode::SUCCESS);
    }
    let command = match command {
        Some(file) => std::path::absolute(file)?,
        None => build_command(&workspace)?,
    };
    let home = workspace.target.join("docs");
    let (source, site) = (home.join("src"), home.join("site"));
    clear(&source)?;
    clear(&site)?;
    let pages = staging::stage(&workspace, &command, &home)?;
    let mdbook = mdbook(&workspace)?;
    workspace::run(Command::new(&mdbook).arg("build").arg(&home))?;
    let links = html_links::must_hold(&site)?;
    println!("docs: {pages} pages, {links} links hold: {}", site.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}

/// The command `mercer`, built as tests have it.
fn build_command(workspace: &Workspace) -> Result<PathBuf> {
    workspace::run(&mut workspace.cargo(["build", "--locked", "-p", "mercer-cli"]))?;
    Ok(workspace.target.join(format!("debug/mercer{}", std::env::consts::EXE_SUFFIX)))
}

fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// mdBook of the path, or the one that this installs. It is built without optimisation: it runs once.
fn mdbook(workspace: &Workspace) -> Result<PathBuf> {
    let is_right = |program: &Path| {
        workspace::stdout_of(workspace.command(program).arg("--version"))
            .is_ok_and(|said| said.trim() == format!("mdbook v{MDBOOK}"))
    };
    let tools = workspace.target.join("tools");
    let own = tools.join(format!("bin/mdbook{}", std::env::consts::EXE_SUFFIX));
    if let Some(found) = [PathBuf::from("mdbook"), own.clone()].into_iter().find(|p| is_right(p)) {
        return Ok(found);
    }
    let words = ["install", "mdbook", "--version", MDBOOK, "--locked", "--debug"];
    let mut install = workspace.cargo(words);
    install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
    install.arg("--target-dir").arg(tools.join("build"));
    workspace::run(&mut install).context("mdBook cannot be installed")?;
    if !is_right(&own) {
        bail!("{} is not mdBook {MDBOOK}", own.display());
    }
    Ok(own)
}
