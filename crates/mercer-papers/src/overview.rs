//! All papers on one page: `DIR/index.html`, `DIR/KEY.txt` and `DIR/KEY-NAME.svg`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use mercer_report::{Page, save_text};

use crate::{Interrupted, NothingComputed, Options, PAPERS, Paper, Session};

/// What was written: the papers that ran, that failed, and of which nothing was computed.
#[derive(Debug)]
pub struct Overview {
    /// The page.
    pub index: PathBuf,
    /// Keys of the papers that ran.
    pub ran: Vec<&'static str>,
    /// Keys of the papers that failed.
    pub failed: Vec<&'static str>,
    /// Papers whose data are missing, or of which nothing was selected.
    pub left_out: Vec<LeftOut>,
}

/// A paper of which nothing was computed.
#[derive(Debug)]
pub struct LeftOut {
    /// Its key.
    pub paper: &'static str,
    /// Why.
    pub reason: String,
}

/// Runs every paper with `run_paper`, which returns the text of its tables, and writes one page into `folder`.
///
/// The caller decides how a paper is run: the command
/// starts a process for each, so that an interrupt ends it at once.
pub fn overview(
    session: &Session<'_>,
    folder: &Path,
    run_paper: &mut dyn FnMut(&Paper, &Options) -> anyhow::Result<String>,
) -> anyhow::Result<Overview> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut page = Page::new("Papers, computed again");
    page.text(
        "Each table is what `mercer reproduce KEY` printed on this computer: the paper's numbers beside \
         ours, where the paper gives some.",
    );
    let index = folder.join("index.html");
    let mut done = Overview { index, ran: Vec::new(), failed: Vec::new(), left_out: Vec::new() };
    for (number, paper) in PAPERS.iter().enumerate() {
        let status = session.status();
        status.show(&format!("{} ({} of {})", paper.key, number + 1, PAPERS.len()));
        let printed = run_paper(paper, &options_for(session, folder));
        drop(status);
        // After an interrupt, an error of the paper means nothing.
        if session.is_stopped() && number > 0 {
            page.text(&format!(
                "Interrupted during {}; the papers after it were not started.",
                paper.key
            ));
            save_text(&done.index, &page.finish())?;
            let (count, index) = (done.ran.len(), done.index.display());
            let kept = format!("{index} holds {count} of {} papers", PAPERS.len());
            return Err(Interrupted { kept: Some(kept) }.into());
        }
        session.check()?;
        page.heading(&format!("{} ({})", paper.title, paper.key));
        match printed.map_err(|error| (error.downcast_ref().map(why), error)) {
            Ok(text) => {
                section(&mut page, paper, &text, folder)?;
                done.ran.push(paper.key);
            }
            Err((Some(reason), _)) => {
                page.text(&format!("Nothing was computed: {reason}."));
                done.left_out.push(LeftOut { paper: paper.key, reason });
            }
            Err((None, error)) => {
                session.warn(&format!("{}: {error:#}", paper.key));
                page.text(&format!("Failed: {error:#}"));
                done.failed.push(paper.key);
            }
        }
    }
    save_text(&done.index, &page.finish())?;
    Ok(done)
}

fn why(nothing: &NothingComputed) -> String {
    nothing.why.clone()
}

/// The options for one paper, with its figures in the folder.
fn options_for(session: &Session<'_>, folder: &Path) -> Options {
    Options { figures: Some(folder.to_owned()), ..session.options.clone() }
}

/// The table and the figures of one paper.
fn section(page: &mut Page, paper: &Paper, text: &str, folder: &Path) -> anyhow::Result<()> {
    page.terminal(text);
    for path in figures(folder, paper)? {
        let svg = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        page.add(&format!("<figure style=\"margin:0\">{svg}</figure>"));
    }
    save_text(&folder.join(format!("{}.txt", paper.key)), text)
}

/// The files `KEY-NAME.svg` of a paper, by name.
fn figures(folder: &Path, paper: &Paper) -> anyhow::Result<Vec<PathBuf>> {
    let start = format!("{}-", paper.key);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(&start) && path.extension().is_some_and(|end| end == "svg") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
