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
mod spark;
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn workflows_run_verbs_that_exist_and_cover_tests_wheels_and_site() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.github/workflows");
        let mut called = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            for rest in text.split("cargo xtask ").skip(1) {
                let verb = rest.split_whitespace().next().unwrap_or_default().to_owned();
                assert!(find_verb(&verb).is_some(), "{verb}");
                called.push(verb);
            }
        }
        called.sort();
        assert_eq!(called, ["docs", "test", "wheel"]);
    }

    #[test]
    fn source_files_named_by_the_page_of_papers_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(root.join("docs/papers.md")).unwrap();
        let named: Vec<_> = text.split('`').filter(|word| word.starts_with("crates/")).collect();
        assert!(named.len() > 40, "{}", named.len());
        for path in named {
            assert!(root.join(path).exists(), "{path}");
        }
    }
}
