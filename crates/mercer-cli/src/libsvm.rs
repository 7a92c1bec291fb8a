//! LIBSVM-compatible commands: `svm-train`, `svm-predict` and `svm-scale` with LIBSVM's flags and output, so that
//! scripts, grid.py and easy.py keep working. A link to `mercer` with one of these names runs that command.

mod predict;
mod scale;
mod single_class;
mod train;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::console::Console;
use crate::failure::{self, HintContext};
use crate::output::own_text;

/// A LIBSVM-compatible command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LibsvmCommand {
    Train,
    Predict,
    Scale,
}

const NAMES: [(&str, LibsvmCommand); 3] = [
    ("svm-train", LibsvmCommand::Train),
    ("svm-predict", LibsvmCommand::Predict),
    ("svm-scale", LibsvmCommand::Scale),
];

impl LibsvmCommand {
    /// The command and its arguments: by the name of the program, or by its first argument.
    pub(crate) fn from_arguments(
        mut arguments: impl Iterator<Item = OsString>,
    ) -> Option<(Self, Vec<String>)> {
        let program = arguments.next()?;
        let stem = Path::new(&program).file_stem()?.to_str()?.to_owned();
        let named = |name: &str| NAMES.iter().find(|(known, _)| *known == name).map(|pair| pair.1);
        let text = |argument: OsString| argument.to_string_lossy().into_owned();
        let mut arguments = arguments.map(text);
        let command = match named(&stem) {
            Some(command) => command,
            None => named(&arguments.next()?)?,
        };
        Some((command, arguments.collect()))
    }

    fn hints(self) -> HintContext {
        HintContext::libsvm(match self {
            Self::Predict => Some("the order is: svm-predict test_file model_file output_file"),
            Self::Train | Self::Scale => None,
        })
    }

    /// Runs it; like LIBSVM, the exit code is 1 for every error.
    pub(crate) fn run(self, arguments: &[String], console: &Console) -> ExitCode {
        let done = match self {
            Self::Train => train::run(arguments),
            Self::Predict => predict::run(arguments, console),
            Self::Scale => scale::run(arguments),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => match error.downcast_ref::<Usage>() {
                Some(usage) => {
                    usage.problem.iter().for_each(|problem| eprintln!("{problem}"));
                    own_text(usage.text);
                    ExitCode::from(failure::ERROR)
                }
                None if error.is::<Refused>() => {
                    eprintln!("ERROR: {error}");
                    ExitCode::from(failure::ERROR)
                }
                None => failure::report(&error, self.hints(), console),
            },
        }
    }
}

/// A value that LIBSVM's own check refuses, in its words.
#[derive(Debug)]
struct Refused(&'static str);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Refused {}

/// A wrong command line; LIBSVM prints its usage.
#[derive(Debug)]
struct Usage {
    problem: Option<String>,
    text: &'static str,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.problem.as_deref().unwrap_or("wrong usage"))
    }
}

impl std::error::Error for Usage {}

/// A command line that is parsed from left to right: flags with their values, then files.
struct CommandLine<'a> {
    left: &'a [String],
    usage: &'static str,
}

impl<'a> CommandLine<'a> {
    fn new(arguments: &'a [String], usage: &'static str) -> Self {
        Self { left: arguments, usage }
    }

    fn refuse(&self, problem: Option<String>) -> anyhow::Error {
        Usage { problem, text: self.usage }.into()
    }

    /// The next flag without its dash, unless files come next.
    fn flag(&mut self) -> Option<&'a str> {
        let (first, rest) = self.left.split_first()?;
        let flag = first.strip_prefix('-').filter(|flag| !flag.is_empty())?;
        self.left = rest;
        Some(flag)
    }

    fn value(&mut self) -> anyhow::Result<&'a str> {
        let Some((first, rest)) = self.left.split_first() else {
            return Err(self.refuse(None));
        };
        self.left = rest;
        Ok(first)
    }

    fn number<T: std::str::FromStr>(&mut self, flag: &str) -> anyhow::Result<T> {
        let text = self.value()?;
        let problem = || self.refuse(Some(format!("-{flag} takes a number, not '{text}'")));
        text.parse().map_err(|_| problem())
    }

    fn unknown(&self, flag: &str) -> anyhow::Error {
        self.refuse(Some(format!("Unknown option: -{flag}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_or_the_first_argument_selects_the_command() {
        let of = |words: &[&str]| LibsvmCommand::from_arguments(words.iter().map(OsString::from));
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let found = of(&["/usr/bin/svm-train", "-q", "a"]);
        assert_eq!(found, Some((LibsvmCommand::Train, words(&["-q", "a"]))));
        assert_eq!(of(&["mercer", "svm-scale", "b"]), Some((LibsvmCommand::Scale, words(&["b"]))));
        assert_eq!(of(&["mercer", "train", "svm-scale"]), None);
        assert_eq!(of(&["mercer"]), None);
    }
}
