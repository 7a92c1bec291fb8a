//! Every paper's tables beside ours, on one page.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::json;

use super::{PAPERS, Paper};
use crate::args::Reproduce;
use crate::commands::StopSignal;
use crate::console::Console;
use crate::output::whole;
use crate::report::Page;

/// Runs every paper as a command of its own, so that each prints what it always prints, and gathers the
/// answers in `DIR/index.html`, `DIR/KEY.txt` and `DIR/KEY.svg`.
pub(super) fn run(
    arguments: &Reproduce,
    console: &Console,
    stop: &StopSignal,
) -> anyhow::Result<()> {
    let folder = arguments.report.as_deref().context("give --report DIR, where the page goes")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut page = Page::new("Papers, done again");
    page.text(
        "Each table is what `mercer reproduce KEY` printed on this machine: the paper's figures beside \
         ours, where the paper gives some.",
    );
    let mut failed = Vec::new();
    for (number, paper) in PAPERS.iter().enumerate() {
        stop.check()?;
        let status = console.status();
        status.set_message(format!("{} ({} of {})", paper.key, number + 1, PAPERS.len()));
        let printed = one(paper, arguments, folder);
        status.finish_and_clear();
        page.heading(&format!("{} ({})", paper.title, paper.key));
        match printed {
            Ok(text) => {
                page.terminal(&text);
                let picture = folder.join(format!("{}.svg", paper.key));
                if let Ok(svg) = std::fs::read_to_string(picture) {
                    page.add(&format!("<figure style=\"margin:0\">{svg}</figure>"));
                }
                whole(&folder.join(format!("{}.txt", paper.key)), &text)?;
            }
            Err(error) => {
                console.warn(&format!("{}: {error:#}", paper.key));
                page.text(&format!("Not done: {error:#}"));
                failed.push(paper.key);
            }
        }
    }
    stop.check()?;
    let index = folder.join("index.html");
    whole(&index, &page.finish())?;
    if console.json {
        let keys: Vec<&str> = PAPERS.iter().map(|paper| paper.key).collect();
        println!(
            "{}",
            json!({ "papers": keys, "failed": failed, "report": index.display().to_string() })
        );
    }
    console.summary(&format!(
        "{}: {} of {} papers",
        index.display(),
        PAPERS.len() - failed.len(),
        PAPERS.len()
    ));
    Ok(())
}

/// What the command for one paper prints.
fn one(paper: &Paper, arguments: &Reproduce, folder: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["reproduce", paper.key, "--quiet"]);
    command.arg("--repeats").arg(arguments.repeats.to_string());
    command.arg("--threads").arg(rayon::current_num_threads().to_string());
    command.arg("--svg").arg(folder.join(format!("{}.svg", paper.key)));
    if let Some(data) = &arguments.data {
        command.arg("--data").arg(data);
    }
    if !arguments.only.is_empty() {
        command.arg("--only").arg(arguments.only.join(","));
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
