//! Where answers go: a file that appears whole, or standard output.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use mercer::data::write::AtomicFile;
use mercer::machine::Machine;
use mercer::query::{Certainty, Decision};
use serde_json::json;

use crate::args::OutputFormat;
use crate::{failure, labels};

/// A line on standard output. Nobody may be left to read it: the work goes on, for it may end in a file.
pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to standard output: {error}");
            std::process::exit(i32::from(failure::ERROR));
        }
        _ => {}
    }
}

/// What each row carries beside its decision.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beside<'b> {
    /// Ids of the rows, where the data have ids.
    pub(crate) ids: Option<&'b [String]>,
    /// Names of the classes that probabilities are given of.
    pub(crate) classes: &'b [String],
    /// Their probabilities, row after row.
    pub(crate) probabilities: &'b [f64],
}

impl<'b> Beside<'b> {
    fn of(&self, row: usize) -> &'b [f64] {
        let count = self.classes.len();
        &self.probabilities[row * count..(row + 1) * count]
    }
}

/// An open destination.
pub(crate) struct Answers {
    sink: Sink,
    format: OutputFormat,
    row: usize,
}

enum Sink {
    Nowhere,
    Screen(BufWriter<StdoutLock<'static>>),
    File(Box<AtomicFile>),
}

impl Answers {
    pub(crate) fn open(
        path: Option<&Path>,
        format: Option<OutputFormat>,
        json: bool,
        has_ids: bool,
        classes: &[String],
    ) -> io::Result<Self> {
        let ending = path.and_then(Path::extension).and_then(|ending| ending.to_str());
        let by_name = match ending {
            Some("csv") => OutputFormat::Csv,
            Some("jsonl") => OutputFormat::Jsonl,
            _ => OutputFormat::Libsvm,
        };
        let sink = match path {
            Some(path) if path.as_os_str() != "-" => {
                Sink::File(Box::new(AtomicFile::create(path)?))
            }
            None if json => Sink::Nowhere,
            _ => Sink::Screen(BufWriter::new(io::stdout().lock())),
        };
        let mut answers = Self { sink, format: format.unwrap_or(by_name), row: 0 };
        if answers.format == OutputFormat::Csv {
            let id = if has_ids { "id," } else { "" };
            let shares: String = classes
                .iter()
                .map(|class| ",".to_owned() + &quoted(&format!("p({class})")))
                .collect();
            answers.line(&format!("row,{id}label,low,high,certainty,cost{shares}"))?;
        }
        if answers.format == OutputFormat::Libsvm && !classes.is_empty() {
            answers.line(&format!("labels {}", classes.join(" ")))?;
        }
        Ok(answers)
    }

    /// Writes decisions with what stands beside them.
    pub(crate) fn write(
        &mut self,
        machine: &Machine,
        decisions: &[Decision],
        beside: &Beside<'_>,
    ) -> io::Result<()> {
        if matches!(self.sink, Sink::Nowhere) {
            return Ok(());
        }
        for (at, decision) in decisions.iter().enumerate() {
            let id = beside.ids.map(|ids| ids[at].as_str());
            let shares = beside.of(at);
            self.row += 1;
            let label = labels::text(machine, decision.answer);
            let (low, high) = (decision.score.low, decision.score.high);
            let certainty = certainty(decision.certainty);
            let cost = decision.cost.multiply_adds;
            let line = match self.format {
                OutputFormat::Libsvm => {
                    label + &shares.iter().map(|share| format!(" {share}")).collect::<String>()
                }
                OutputFormat::Csv => {
                    let id = id.map_or(String::new(), |id| quoted(id) + ",");
                    let label = quoted(&label);
                    let shares: String = shares.iter().map(|share| format!(",{share}")).collect();
                    format!("{},{id}{label},{low},{high},{certainty},{cost}{shares}", self.row)
                }
                OutputFormat::Jsonl => {
                    let mut object = json!({
                        "row": self.row, "label": label, "low": low, "high": high,
                        "certainty": certainty, "cost": cost,
                    });
                    if let Some(id) = id {
                        object["id"] = id.into();
                    }
                    if !shares.is_empty() {
                        let pairs = beside.classes.iter().cloned().zip(shares.iter().copied());
                        object["probabilities"] = serde_json::Value::Object(
                            pairs.map(|(class, share)| (class, json!(share))).collect(),
                        );
                    }
                    object.to_string()
                }
            };
            self.line(&line)?;
        }
        Ok(())
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        match &mut self.sink {
            Sink::Nowhere => Ok(()),
            Sink::Screen(screen) => writeln!(screen, "{text}"),
            Sink::File(file) => writeln!(file, "{text}"),
        }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        match self.sink {
            Sink::Nowhere => Ok(()),
            Sink::Screen(mut screen) => screen.flush(),
            Sink::File(file) => file.commit(),
        }
    }
}

/// The four words of the promise, as files and JSON write them.
pub(crate) fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Unsettled => "unsettled",
        Certainty::Calibrated => "calibrated",
        Certainty::Certified => "certified",
        Certainty::Exact => "exact",
    }
}

/// A field that survives commas and quotes.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
