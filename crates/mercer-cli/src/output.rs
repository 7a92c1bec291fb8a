//! Where answers go: a file that appears whole, or standard output.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use anyhow::Context;
use mercer::data::write::Whole;
use mercer::machine::Machine;
use mercer::query::{Certainty, Decision};
use serde_json::json;

use crate::args::OutputFormat;
use crate::labels;

/// Writes a text file that appears whole.
pub(crate) fn whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let place = || path.display().to_string();
    let mut file = Whole::create(path).with_context(place)?;
    file.write_all(text.as_bytes()).with_context(place)?;
    file.commit().with_context(place)
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
    File(Box<Whole>),
}

impl Answers {
    pub(crate) fn open(
        path: Option<&Path>,
        format: Option<OutputFormat>,
        json: bool,
        has_ids: bool,
    ) -> io::Result<Self> {
        let ending = path.and_then(Path::extension).and_then(|ending| ending.to_str());
        let by_name = match ending {
            Some("csv") => OutputFormat::Csv,
            Some("jsonl") => OutputFormat::Jsonl,
            _ => OutputFormat::Libsvm,
        };
        let sink = match path {
            Some(path) if path.as_os_str() != "-" => Sink::File(Box::new(Whole::create(path)?)),
            None if json => Sink::Nowhere,
            _ => Sink::Screen(BufWriter::new(io::stdout().lock())),
        };
        let mut answers = Self { sink, format: format.unwrap_or(by_name), row: 0 };
        if answers.format == OutputFormat::Csv {
            let id = if has_ids { "id," } else { "" };
            answers.line(&format!("row,{id}label,low,high,certainty,cost"))?;
        }
        Ok(answers)
    }

    /// Writes decisions, with the ids of their rows where the data have ids.
    pub(crate) fn write(
        &mut self,
        machine: &Machine,
        decisions: &[Decision],
        ids: Option<&[String]>,
    ) -> io::Result<()> {
        if matches!(self.sink, Sink::Nowhere) {
            return Ok(());
        }
        for (at, decision) in decisions.iter().enumerate() {
            let id = ids.map(|ids| ids[at].as_str());
            self.row += 1;
            let label = labels::text(machine, decision.answer);
            let (low, high) = (decision.score.low, decision.score.high);
            let certainty = certainty(decision.certainty);
            let cost = decision.cost.multiply_adds;
            let line = match self.format {
                OutputFormat::Libsvm => label,
                OutputFormat::Csv => {
                    let id = id.map_or(String::new(), |id| quoted(id) + ",");
                    let label = quoted(&label);
                    format!("{},{id}{label},{low},{high},{certainty},{cost}", self.row)
                }
                OutputFormat::Jsonl => {
                    let mut object = json!({
                        "row": self.row, "label": label, "low": low, "high": high,
                        "certainty": certainty, "cost": cost,
                    });
                    if let Some(id) = id {
                        object["id"] = id.into();
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
