//! `mercer completions`: completion scripts for shells.

use std::io::{self, Write};

use clap::CommandFactory;
use serde_json::json;

use crate::args::{Arguments, Completions};
use crate::console::Console;
use crate::failure::DONE;

/// Completions come from the same definitions as the parser.
pub(super) fn run(completions: &Completions, console: &Console) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "mercer", &mut text);
    if console.json {
        let script = String::from_utf8(text)?;
        println!("{}", json!({ "shell": completions.shell.to_string(), "script": script }));
        return Ok(DONE);
    }
    let mut screen = io::stdout().lock();
    screen.write_all(&text)?;
    screen.flush()?;
    Ok(DONE)
}
