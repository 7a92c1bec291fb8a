//! Papers, done again: one file each, one line in `PAPERS`.

mod all;
mod decoste03;
mod dm03;
mod fs01;
mod og98;
mod tasks;
mod yw12;

use anyhow::Context;

use super::StopSignal;
use crate::args::Reproduce;
use crate::console::Console;
use crate::failure::DONE;

/// A paper whose tables this program makes anew.
struct Paper {
    /// Its key in `docs/papers.md`, in small letters.
    key: &'static str,
    title: &'static str,
    /// Its smaller machines, for `all --quick`.
    quick: &'static [&'static str],
    run: fn(&Reproduce, &Console, &StopSignal) -> anyhow::Result<()>,
}

static PAPERS: &[&Paper] =
    &[&decoste03::PAPER, &dm03::PAPER, &fs01::PAPER, &og98::PAPER, &yw12::PAPER];

/// Keys and titles, for `mercer list`.
pub(super) fn papers() -> Vec<(String, &'static str)> {
    PAPERS.iter().map(|paper| (paper.key.to_owned(), paper.title)).collect()
}

pub(super) fn run(arguments: &Reproduce, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    if arguments.paper == "all" {
        all::run(arguments, console, &stop)?;
        return Ok(DONE);
    }
    let paper = PAPERS.iter().find(|paper| paper.key == arguments.paper).with_context(|| {
        let known: Vec<String> =
            PAPERS.iter().map(|paper| format!("{} ({})", paper.key, paper.title)).collect();
        format!("there is no paper '{}'; known are {}", arguments.paper, known.join(", "))
    })?;
    console.info(paper.title);
    (paper.run)(arguments, console, &stop)?;
    Ok(DONE)
}
