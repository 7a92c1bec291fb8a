//! Every paper's tables beside ours, on one page.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::{PAPERS, Paper};
use crate::args::Reproduce;
use crate::commands::StopSignal;
use crate::console::Console;
use crate::failure::InterruptedAfter;
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
    let index = folder.join("index.html");
    let mut failed = Vec::new();
    for (number, paper) in PAPERS.iter().enumerate() {
        let status = console.status();
        status.set_message(format!("{} ({} of {})", paper.key, number + 1, PAPERS.len()));
        let printed = one(paper, arguments, folder, stop);
        status.finish_and_clear();
        // Not a paper that failed, but one that was told to stop.
        if stop.check().is_err() && number > 0 {
            page.text(&format!(
                "Interrupted at {}; the papers after it were not begun.",
                paper.key
            ));
            whole(&index, &page.finish())?;
            let done = number - failed.len();
            let kept = format!("{} holds {done} of {} papers", index.display(), PAPERS.len());
            return Err(InterruptedAfter(kept).into());
        }
        stop.check()?;
        page.heading(&format!("{} ({})", paper.title, paper.key));
        match printed {
            Ok(text) if text.trim().is_empty() => {
                page.text("Nothing was asked of it: none of its machines is among those named, or their data are missing.");
            }
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

/// How often it is asked whether to stop.
const PAUSE: Duration = Duration::from_millis(50);
/// Most rows to learn from where it shall be quick.
const FEW_ROWS: usize = 5000;

/// What the command for one paper prints.
fn one(
    paper: &Paper,
    arguments: &Reproduce,
    folder: &Path,
    stop: &StopSignal,
) -> anyhow::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["reproduce", paper.key, "--quiet"]);
    let (mut repeats, mut rows) = (arguments.repeats, arguments.rows);
    if arguments.quick {
        (repeats, rows) = (1, rows.min(FEW_ROWS));
    }
    command.arg("--repeats").arg(repeats.to_string()).arg("--rows").arg(rows.to_string());
    command.arg("--threads").arg(rayon::current_num_threads().to_string());
    command.arg("--svg").arg(folder.join(format!("{}.svg", paper.key)));
    if let Some(data) = &arguments.data {
        command.arg("--data").arg(data);
    }
    let only = if arguments.quick { paper.quick.join(",") } else { arguments.only.join(",") };
    if !only.is_empty() {
        command.arg("--only").arg(only);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = std::thread::scope(|scope| {
        let (out, err) = (scope.spawn(|| text(out)), scope.spawn(|| text(err)));
        while child.try_wait()?.is_none() {
            if stop.check().is_err() {
                child.kill()?;
            }
            std::thread::sleep(PAUSE);
        }
        Ok::<_, anyhow::Error>((out.join().unwrap_or_default(), err.join().unwrap_or_default()))
    })?;
    anyhow::ensure!(child.wait()?.success(), "{}", err.trim());
    Ok(out)
}

/// All that comes out of a pipe.
fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What came before an error is still worth showing.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
