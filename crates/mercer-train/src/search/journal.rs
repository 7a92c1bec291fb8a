//! The candidates that a search has validated so far, in a file that always holds whole lines.
//! Checkpoints of a single training are in [`crate::checkpoint`].

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use mercer_data::Dataset;
use mercer_data::write::AtomicFile;

use super::{Candidate, Search};
use crate::TrainError;
use crate::digest;

const NAME: &str = "mercer search 1";

/// Candidates by what they are; written after each addition if there is a file.
#[derive(Debug)]
pub(super) struct Journal {
    path: Option<PathBuf>,
    head: String,
    candidates: Vec<Candidate>,
}

impl Journal {
    /// # Errors
    /// If the file is there and belongs to another search.
    pub(super) fn open(options: &Search, data: &Dataset) -> Result<Self, TrainError> {
        let mut journal =
            Self { path: options.journal.clone(), head: String::new(), candidates: vec![] };
        let Some(path) = &options.journal else { return Ok(journal) };
        let Search { folds, seed, given_folds, .. } = options;
        let what = format!("{folds} folds, seed {seed}, {given_folds:?}");
        let digest = digest::of(&what, &data.examples, &data.targets, &options.training)?;
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        journal.head = format!("{NAME}\t{digest}");
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(journal),
            Err(error) => return Err(journal.trouble(&error.to_string())),
        };
        let mut lines = text.lines();
        if lines.next() != Some(&journal.head) {
            let reason = "it belongs to other data, folds or options; give another file";
            return Err(journal.trouble(reason));
        }
        for (number, line) in (2..).zip(lines) {
            match parse(line) {
                Some(candidate) => journal.candidates.push(candidate),
                None => return Err(journal.trouble(&format!("line {number} is damaged"))),
            }
        }
        Ok(journal)
    }

    /// Candidates with this kernel and these formulations, if the journal has all of them.
    pub(super) fn find(
        &self,
        rows: usize,
        kernel: &str,
        formulations: &[String],
    ) -> Option<Vec<Candidate>> {
        let candidate_of = |formulation: &String| {
            let is_same = |candidate: &&Candidate| {
                (candidate.rows, candidate.kernel.as_str()) == (rows, kernel)
                    && candidate.formulation == *formulation
            };
            self.candidates.iter().find(is_same).cloned()
        };
        formulations.iter().map(candidate_of).collect()
    }

    pub(super) fn add(&mut self, candidates: &[Candidate]) -> Result<(), TrainError> {
        if self.path.is_none() {
            return Ok(());
        }
        self.candidates.extend_from_slice(candidates);
        self.write().map_err(|error| self.trouble(&error.to_string()))
    }

    fn write(&self) -> std::io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut text = format!("{}\n", self.head);
        self.candidates.iter().for_each(|candidate| text.push_str(&line(candidate)));
        let mut file = AtomicFile::create(path)?;
        file.write_all(text.as_bytes())?;
        file.commit()
    }

    fn trouble(&self, reason: &str) -> TrainError {
        let path = self.path.clone().unwrap_or_default();
        TrainError::Checkpoint { path, reason: reason.to_owned() }
    }
}

/// Rows, kernel, formulation, `converged` or `open`, seconds, the folds or the words of a failure, `end`.
fn line(candidate: &Candidate) -> String {
    let Candidate { kernel, formulation, rows, folds, seconds, converged } = candidate;
    let state = if *converged { "converged" } else { "open" };
    let mut text = format!("{rows}\t{kernel}\t{formulation}\t{state}\t{seconds:?}");
    match folds {
        Ok(folds) => folds.iter().for_each(|value| {
            let _ = write!(text, "\t{value:?}");
        }),
        Err(reason) => {
            let _ = write!(text, "\tfailed\t{}", reason.replace(['\t', '\n'], " "));
        }
    }
    text.push_str("\tend\n");
    text
}

fn parse(line: &str) -> Option<Candidate> {
    let mut words = line.split('\t');
    let rows = words.next()?.parse().ok()?;
    let (kernel, formulation) = (words.next()?.to_owned(), words.next()?.to_owned());
    let converged = match words.next()? {
        "converged" => true,
        "open" => false,
        _ => return None,
    };
    let seconds = words.next()?.parse().ok()?;
    let rest: Vec<&str> = words.collect();
    let folds = match rest.as_slice() {
        ["failed", reason, "end"] => Err((*reason).to_owned()),
        [values @ .., "end"] if !values.is_empty() => {
            Ok(values.iter().map(|value| value.parse().ok()).collect::<Option<_>>()?)
        }
        _ => return None,
    };
    Some(Candidate { kernel, formulation, rows, folds, seconds, converged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were() {
        let candidate = Candidate {
            kernel: "rbf(gamma=0.1)".to_owned(),
            formulation: "c_svc(C=3)".to_owned(),
            rows: 40,
            folds: Ok(vec![0.1, 1.0 / 3.0]),
            seconds: 0.25,
            converged: true,
        };
        assert_eq!(parse(line(&candidate).trim_end()), Some(candidate.clone()));
        let failed = Candidate { folds: Err("nu = 2 is infeasible".to_owned()), ..candidate };
        assert_eq!(parse(line(&failed).trim_end()), Some(failed));
        let bad =
            ["", "4\tk\tf\topen\t1\tend", "4\tk\tf\tyes\t1\t2\tend", "4\tk\tf\topen\t1\tx\tend"];
        for bad in bad.into_iter().chain(["4\tk\tf\topen\t1\t2"]) {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
