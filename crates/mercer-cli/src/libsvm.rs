//! LIBSVM's own commands: `svm-train`, `svm-predict` and `svm-scale` with its flags and its lines, so that
//! scripts, grid.py and easy.py keep working. A program of one of these names (a link to `mercer`) is one.

mod predict;
mod printf;
mod scale;
mod train;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::console::Console;
use crate::failure;

/// One of the three commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    Train,
    Predict,
    Scale,
}

const NAMES: [(&str, Habit); 3] =
    [("svm-train", Habit::Train), ("svm-predict", Habit::Predict), ("svm-scale", Habit::Scale)];

impl Habit {
    /// The command that is meant, with its words: by the name of the program, or by its first word.
    pub(crate) fn of(mut words: impl Iterator<Item = OsString>) -> Option<(Self, Vec<String>)> {
        let program = words.next()?;
        let stem = Path::new(&program).file_stem()?.to_str()?.to_owned();
        let named = |name: &str| NAMES.iter().find(|(known, _)| *known == name).map(|pair| pair.1);
        let text = |word: OsString| word.to_string_lossy().into_owned();
        let mut words = words.map(text);
        let habit = match named(&stem) {
            Some(habit) => habit,
            None => named(&words.next()?)?,
        };
        Some((habit, words.collect()))
    }

    /// Runs it; LIBSVM's exit code is 1 for everything that goes wrong.
    pub(crate) fn run(self, words: &[String], console: &Console) -> ExitCode {
        let done = match self {
            Self::Train => train::run(words),
            Self::Predict => predict::run(words, console),
            Self::Scale => scale::run(words),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => match error.downcast_ref::<Usage>() {
                Some(usage) => {
                    usage.problem.iter().for_each(|problem| eprintln!("{problem}"));
                    println!("{}", usage.text.trim_end());
                    ExitCode::from(failure::ERROR)
                }
                None => failure::report(&error, console),
            },
        }
    }
}

/// A command line that LIBSVM answers with its usage.
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

/// The words of a command line: flags with their values, then files.
struct Words<'w> {
    left: &'w [String],
    usage: &'static str,
}

impl<'w> Words<'w> {
    fn new(words: &'w [String], usage: &'static str) -> Self {
        Self { left: words, usage }
    }

    fn refuse(&self, problem: Option<String>) -> anyhow::Error {
        Usage { problem, text: self.usage }.into()
    }

    /// The next flag without its dash, unless files come next.
    fn flag(&mut self) -> Option<&'w str> {
        let (first, rest) = self.left.split_first()?;
        let flag = first.strip_prefix('-').filter(|flag| !flag.is_empty())?;
        self.left = rest;
        Some(flag)
    }

    fn value(&mut self) -> anyhow::Result<&'w str> {
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
    fn the_name_of_the_program_or_the_first_word_tells() {
        let of = |words: &[&str]| Habit::of(words.iter().map(OsString::from));
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let found = of(&["/usr/bin/svm-train", "-q", "a"]);
        assert_eq!(found, Some((Habit::Train, words(&["-q", "a"]))));
        assert_eq!(of(&["mercer", "svm-scale", "b"]), Some((Habit::Scale, words(&["b"]))));
        assert_eq!(of(&["mercer", "train", "svm-scale"]), None);
        assert_eq!(of(&["mercer"]), None);
    }
}
