//! `cargo xtask fixtures`: writes the files that tests compare with.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace::{self, Workspace};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "fixtures",
    usage: "[--list] [NAME ...]",
    about: "Writes the files that tests compare with anew; look at the difference before you commit.\n\
            NAME    only these\n\
            --list  names them and the commands that make them, and runs nothing",
    run,
};

/// The name of a fixture, and what to say to cargo to make it.
type Fixture = (&'static str, &'static [&'static str]);

/// Every fixture that is made by a program, one line each.
const FIXTURES: &[Fixture] = &[(
    "golden-model",
    &["test", "-p", "mercer-machine", "--lib", "write_the_golden_file", "--", "--ignored"],
)];

fn run(mut args: Args) -> Result<ExitCode> {
    let only_list = args.flag("--list");
    let chosen = choose(FIXTURES, &args.names()?)?;
    if chosen.is_empty() {
        println!("fixtures: there are none to make");
        return Ok(ExitCode::SUCCESS);
    }
    let workspace = Workspace::load()?;
    for (name, words) in chosen {
        println!("{name}: cargo {}", words.join(" "));
        if !only_list {
            workspace::run(&mut workspace.cargo(words.iter().copied()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The fixtures of these names; all of them if none is named.
fn choose(fixtures: &[Fixture], names: &[String]) -> Result<Vec<Fixture>> {
    if names.is_empty() {
        return Ok(fixtures.to_vec());
    }
    let find = |name: &String| match fixtures.iter().find(|(known, _)| known == name) {
        Some(fixture) => Ok(*fixture),
        None => bail!("no fixture '{name}'; `cargo xtask fixtures --list` names them"),
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &[Fixture] = &[("golden", &["test"]), ("other", &["run"])];

    #[test]
    fn all_are_made_unless_some_are_named() {
        assert_eq!(choose(SOME, &[]).unwrap(), SOME);
        assert_eq!(choose(SOME, &["other".to_owned()]).unwrap(), &SOME[1..]);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert!(choose(SOME, &["silver".to_owned()]).is_err());
    }
}
