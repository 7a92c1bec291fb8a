//! `mercer man`: manual pages.

use std::fs;
use std::io::{self, Write};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man as ManualPage;
use mercer_report::save_text;
use serde_json::json;

use crate::args::{Arguments, Man};
use crate::console::Console;
use crate::failure::DONE;

/// Manual pages come from the same definitions as the parser.
pub(super) fn run(man: &Man, console: &Console) -> anyhow::Result<u8> {
    let mut command = Arguments::command().version(env!("CARGO_PKG_VERSION"));
    command.build();
    let Some(folder) = &man.to else {
        if console.json {
            println!("{}", json!({ "page": page(&command, "mercer")? }));
            return Ok(DONE);
        }
        let mut screen = io::stdout().lock();
        screen.write_all(page(&command, "mercer")?.as_bytes())?;
        screen.flush()?;
        return Ok(DONE);
    };
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help");
    let named = verbs.map(|verb| (format!("mercer-{}", verb.get_name()), verb));
    for (name, command) in [("mercer".to_owned(), &command)].into_iter().chain(named) {
        let file = format!("{name}.1");
        save_text(&folder.join(&file), &page(command, &name)?)?;
        files.push(file);
    }
    if console.json {
        println!("{}", json!({ "files": files }));
    }
    console.summary(&format!("{}: {} manual pages", folder.display(), files.len()));
    Ok(DONE)
}

/// One page in roff. It has no date, so that the same program prints the same page.
fn page(command: &Command, name: &str) -> anyhow::Result<String> {
    let version = format!("mercer {}", env!("CARGO_PKG_VERSION"));
    let title = name.to_uppercase();
    let mut text = Vec::new();
    let command = command.clone().display_name(name.to_owned());
    ManualPage::new(command).title(title).section("1").source(version).render(&mut text)?;
    Ok(String::from_utf8(text)?)
}
