//! Checks and measurements of this workspace: `cargo xtask help` lists the verbs; each is a file of this folder.
//! Nothing here is part of the product.

mod args;
mod bench;
mod bits;
mod clib;
mod debian;
mod docs;
mod edges;
mod fixtures;
mod help;
mod page;
mod publish;
mod r_package;
mod sanitize;
mod shape;
mod source;
mod test;
mod test_binaries;
mod wheel;
mod words;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};
use args::Args;

/// Something `cargo xtask` can do.
struct Verb {
    name: &'static str,
    /// What may follow the name on the command line.
    usage: &'static str,
    /// What it does; the first line is a sentence of its own.
    about: &'static str,
    run: fn(Args) -> Result<ExitCode>,
}

/// Every verb, in the order in which `help` shows them.
const VERBS: &[Verb] = &[
    test::VERB,
    edges::VERB,
    words::VERB,
    shape::VERB,
    bits::VERB,
    bench::VERB,
    fixtures::VERB,
    clib::VERB,
    docs::VERB,
    wheel::VERB,
    publish::VERB,
    sanitize::VERB,
    help::VERB,
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_else(|| "help".to_owned());
    match start(&name, Args::new(words)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(name: &str, args: Args) -> Result<ExitCode> {
    // The load generator of `bench serve`, which only that starts.
    if name == "load" {
        return bench::load_main(args);
    }
    let name = if matches!(name, "--help" | "-h") { "help" } else { name };
    let Some(verb) = find_verb(name) else {
        bail!("no verb '{name}'; `cargo xtask help` lists them");
    };
    if args.asks_for_help() {
        help::print_verb(verb);
        return Ok(ExitCode::SUCCESS);
    }
    (verb.run)(args)
}

fn find_verb(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name == name)
}
