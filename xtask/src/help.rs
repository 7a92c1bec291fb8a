//! `cargo xtask help`: what each verb does.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{Args, VERBS, Verb, find_verb};

pub const VERB: Verb =
    Verb { name: "help", usage: "[VERB]", about: "Explains the verbs, or one of them.", run };

fn run(args: Args) -> Result<ExitCode> {
    match args.names()?.as_slice() {
        [] => print_all(),
        [name] => match find_verb(name) {
            Some(verb) => print_verb(verb),
            None => bail!("no verb '{name}'; `cargo xtask help` lists them"),
        },
        _ => bail!("help explains one verb at a time"),
    }
    Ok(ExitCode::SUCCESS)
}

fn print_all() {
    println!(
        "Checks and measurements of the Mercer workspace\n\nUsage: cargo xtask VERB [OPTIONS]"
    );
    for verb in VERBS {
        println!();
        print_verb(verb);
    }
}

/// Prints how a verb is called and what it does.
pub fn print_verb(verb: &Verb) {
    println!("  {}", format!("{} {}", verb.name, verb.usage).trim_end());
    for line in verb.about.lines() {
        println!("      {line}");
    }
}
