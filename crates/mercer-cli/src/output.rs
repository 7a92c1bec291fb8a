//! Writes predictions: to standard output or, atomically, to a file. What is predicted is decided in
//! `commands/predict.rs`.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use mercer::data::write::AtomicFile;
use mercer::machine::Machine;
use mercer::query::{Certainty, Decision};
use serde_json::json;

use crate::args::OutputFormat;
use crate::{failure, labels};

/// A line on standard output. A closed pipe is not an error: the command may still have a file to write.
pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to standard output: {error}");
            std::process::exit(i32::from(failure::ERROR));
        }
        _ => {}
    }
}

/// What is written for each row beside its decision.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowDetails<'b> {
    /// Ids of the rows, if the data have ids.
    pub(crate) ids: Option<&'b [String]>,
    /// Names of the classes that have probabilities.
    pub(crate) classes: &'b [String],
    /// Their probabilities, row after row.
    pub(crate) probabilities: &'b [f64],
}

impl<'b> RowDetails<'b> {
    fn of(&self, row: usize) -> &'b [f64] {
        let count = self.classes.len();
        &self.probabilities[row * count..(row + 1) * count]
    }
}

/// A file or standard output that predictions are written to.
pub(crate) struct PredictionWriter {
    sink: Sink,
    format: OutputFormat,
    row: usize,
}

enum Sink {
    Discard,
    Stdout(BufWriter<StdoutLock<'static>>),
    File(Box<AtomicFile>),
}

impl PredictionWriter {
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
            None if json => Sink::Discard,
            _ => Sink::Stdout(BufWriter::new(io::stdout().lock())),
        };
        let mut writer = Self { sink, format: format.unwrap_or(by_name), row: 0 };
        if writer.format == OutputFormat::Csv {
            let id = if has_ids { "id," } else { "" };
            let probabilities: String = classes
                .iter()
                .map(|class| ",".to_owned() + &quoted(&format!("p({class})")))
                .collect();
            writer.line(&format!("row,{id}label,low,high,certainty,cost{probabilities}"))?;
        }
        if writer.format == OutputFormat::Libsvm && !classes.is_empty() {
            writer.line(&format!("labels {}", classes.join(" ")))?;
        }
        Ok(writer)
    }

    /// Writes decisions and the details of their rows.
    pub(crate) fn write(
        &mut self,
        machine: &Machine,
        decisions: &[Decision],
        details: &RowDetails<'_>,
    ) -> io::Result<()> {
        if matches!(self.sink, Sink::Discard) {
            return Ok(());
        }
        for (at, decision) in decisions.iter().enumerate() {
            let id = details.ids.map(|ids| ids[at].as_str());
            let probabilities = details.of(at);
            self.row += 1;
            let label = labels::text(machine, decision.answer);
            let (low, high) = (decision.range.low, decision.range.high);
            let certainty = certainty(decision.certainty);
            let cost = decision.cost.multiply_adds;
            let line = match self.format {
                OutputFormat::Libsvm => {
                    label
                        + &probabilities
                            .iter()
                            .map(|probability| format!(" {probability}"))
                            .collect::<String>()
                }
                OutputFormat::Csv => {
                    let id = id.map_or(String::new(), |id| quoted(id) + ",");
                    let label = quoted(&label);
                    let probabilities: String =
                        probabilities.iter().map(|probability| format!(",{probability}")).collect();
                    format!(
                        "{},{id}{label},{low},{high},{certainty},{cost}{probabilities}",
                        self.row
                    )
                }
                OutputFormat::Jsonl => {
                    let mut object = json!({
                        "row": self.row, "label": label, "low": low, "high": high,
                        "certainty": certainty, "cost": cost,
                    });
                    if let Some(id) = id {
                        object["id"] = id.into();
                    }
                    if !probabilities.is_empty() {
                        let pairs =
                            details.classes.iter().cloned().zip(probabilities.iter().copied());
                        object["probabilities"] = serde_json::Value::Object(
                            pairs.map(|(class, probability)| (class, json!(probability))).collect(),
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
            Sink::Discard => Ok(()),
            Sink::Stdout(screen) => writeln!(screen, "{text}"),
            Sink::File(file) => writeln!(file, "{text}"),
        }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        match self.sink {
            Sink::Discard => Ok(()),
            Sink::Stdout(mut screen) => screen.flush(),
            Sink::File(file) => file.commit(),
        }
    }
}

/// The name of a certainty, as files and JSON have it.
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
