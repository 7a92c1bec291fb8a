//! `mercer completions`: completion scripts for shells.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::args::{Arguments, Completions};
use crate::failure::DONE;

/// Completions come from the same definitions as the parser.
pub(super) fn run(completions: &Completions) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "mercer", &mut text);
    let mut screen = io::stdout().lock();
    screen.write_all(&text)?;
    screen.flush()?;
    Ok(DONE)
}
