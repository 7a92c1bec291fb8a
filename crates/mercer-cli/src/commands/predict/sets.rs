//! `mercer predict --sets`: prediction sets and intervals, chunk by chunk. What they promise was calibrated by `tune --coverage`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use anyhow::Context;
use mercer::data::read::Chunks;
use mercer::data::write::AtomicFile;
use mercer::machine::{Answer, ClassName, Conformal, Model};
use mercer::query::{
    Certainty, EmptySets, PredictionSet, QueryError, QueryOptions, SetDecision, SetOptions,
};
use mercer_report::printable;
use serde_json::{Value, json};

use crate::args::{OutputFormat, Predict};
use crate::commands::{StopSignal, input_options, trust};
use crate::console::Console;
use crate::failure::DONE;
use crate::files::is_standard;
use crate::labels;
use crate::output::certainty;
use crate::queries::Queries;

/// Sums over all chunks.
#[derive(Default)]
struct SetTally {
    queries: usize,
    by_ranges: usize,
    size: f64,
    multiply_adds: u64,
    seconds: f64,
    targets: usize,
    covered: usize,
}

pub(super) fn run(
    predict: &Predict,
    model: &Model,
    stop: &StopSignal,
    console: &Console,
) -> anyhow::Result<u8> {
    let conformal = believed(predict, model, console)?;
    let plan = trust::load(&predict.model, model, predict.plan, console)?;
    let tolerance = predict.query.value_tolerance.or(QueryOptions::of(model, &plan).tolerance);
    let empty = if predict.empty_sets { EmptySets::Allowed } else { EmptySets::Never };
    let options = SetOptions { tolerance, empty };
    let source = || predict.input.data.display().to_string();
    let format = SetFormat::of(predict)?;
    let mut chunks =
        Queries::open(&predict.input.data, input_options(&predict.input), model, console)?;
    let mut writer = Writer::open(predict, format, console)?;
    let mut tally = SetTally::default();
    while let Some(chunk) = chunks.next_chunk(4096).with_context(source)? {
        stop.check()?;
        let start = Instant::now();
        let sets = plan.predict_sets(&chunk.examples, &conformal, &options);
        let sets = sets.map_err(|error| error.after_rows(tally.queries)).with_context(source)?;
        tally.seconds += start.elapsed().as_secs_f64();
        for (at, set) in sets.iter().enumerate() {
            let id = chunks.ids().map(|ids| ids[at].as_str());
            writer.line(tally.queries + at + 1, id, set, model.machine.classes())?;
        }
        tally.add(&sets, labels::answers(&model.machine, &chunk.targets));
    }
    anyhow::ensure!(tally.queries > 0, "{}: the file holds no rows", source());
    writer.finish()?;
    if console.json {
        println!("{}", tally.object(&conformal));
    } else {
        console.summary(&tally.sentence(&conformal));
    }
    Ok(DONE)
}

/// The calibration of the model, if sets may be made with it.
fn believed(predict: &Predict, model: &Model, console: &Console) -> anyhow::Result<Conformal> {
    let name = predict.model.display();
    let conformal = trust::sets(model, predict.plan).with_context(|| {
        format!(
            "{name}: the model has no prediction sets; `mercer tune --coverage 0.9` calibrates them on a sample"
        )
    })?;
    if !conformal.is_believed() {
        anyhow::bail!(
            "{name}: {}; `mercer verify --sample DATA` tests them on rows with targets, `mercer tune --coverage` calibrates \
             them again, --trust-plan believes them",
            QueryError::UntestedSets
        );
    }
    if !conformal.is_of_user() {
        console.warn(&format!(
            "{name}: its prediction sets are believed without a test (--trust-plan)"
        ));
    }
    Ok(conformal)
}

impl SetTally {
    fn add(&mut self, sets: &[SetDecision], targets: Option<Vec<Option<Answer>>>) {
        for set in sets {
            self.size += set.set.size();
            self.multiply_adds += set.cost.multiply_adds;
            self.by_ranges += usize::from(set.certainty == Certainty::Certified);
        }
        self.queries += sets.len();
        let Some(targets) = targets else { return };
        for (set, target) in sets.iter().zip(targets) {
            self.targets += usize::from(target.is_some());
            self.covered += usize::from(target.is_some_and(|target| set.set.contains(target)));
        }
    }

    fn object(&self, conformal: &Conformal) -> Value {
        let queries = self.queries as f64;
        let mut object = json!({
            "queries": self.queries, "seconds": self.seconds, "coverage": conformal.coverage(),
            "mean_size": self.size / queries, "certified": self.by_ranges,
            "certified_share": self.by_ranges as f64 / queries,
            "mean_cost": self.multiply_adds as f64 / queries,
        });
        if self.targets > 0 {
            object["covered_share"] = json!(self.covered as f64 / self.targets as f64);
        }
        object
    }

    fn sentence(&self, conformal: &Conformal) -> String {
        let queries = self.queries as f64;
        let mut text = format!(
            "{} queries, mean size {:.4}; {:.1} % by ranges alone; {:.1} us each; coverage {} promised",
            self.queries,
            self.size / queries,
            100.0 * self.by_ranges as f64 / queries,
            1e6 * self.seconds / queries,
            conformal.coverage(),
        );
        if self.targets > 0 {
            let share = self.covered as f64 / self.targets as f64;
            let _ = write!(text, ", {share:.4} of {} targets covered", self.targets);
        }
        text
    }
}

/// Where sets go: a file that appears when it is complete, standard output, or nowhere.
struct Writer {
    sink: Option<SetSink>,
    format: SetFormat,
}

enum SetSink {
    /// Standard output beside messages.
    Terminal,
    /// Standard output that was asked for by `-o -`: it takes the rows alone.
    Stdout,
    File(Box<AtomicFile>),
}

/// How sets are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SetFormat {
    Csv,
    Jsonl,
}

impl SetFormat {
    fn of(predict: &Predict) -> anyhow::Result<Self> {
        let ending = predict.output.as_ref().and_then(|path| path.extension());
        Ok(match predict.format {
            Some(OutputFormat::Libsvm) => {
                anyhow::bail!("--sets writes csv or jsonl: LIBSVM's format has one label a line")
            }
            Some(OutputFormat::Jsonl) => Self::Jsonl,
            None if ending.is_some_and(|ending| ending == "jsonl") => Self::Jsonl,
            Some(OutputFormat::Csv) | None => Self::Csv,
        })
    }
}

impl Writer {
    fn open(predict: &Predict, format: SetFormat, console: &Console) -> anyhow::Result<Self> {
        let sink = match &predict.output {
            Some(path) if !is_standard(path) => {
                let file = AtomicFile::create(path).with_context(|| path.display().to_string())?;
                Some(SetSink::File(Box::new(file)))
            }
            Some(_) => Some(SetSink::Stdout),
            None if console.json => None,
            None => Some(SetSink::Terminal),
        };
        let mut writer = Self { sink, format };
        if format == SetFormat::Csv {
            let id = if predict.input.id.is_some() { "id," } else { "" };
            writer.write(&format!("row,{id}set,certainty,cost"))?;
        }
        Ok(writer)
    }

    fn line(
        &mut self,
        row: usize,
        id: Option<&str>,
        set: &SetDecision,
        classes: &[ClassName],
    ) -> anyhow::Result<()> {
        let (word, cost) = (certainty(set.certainty), set.cost.multiply_adds);
        let names = |positions: &[usize]| -> Vec<String> {
            positions.iter().map(|class| classes[*class].to_string()).collect()
        };
        if self.format == SetFormat::Jsonl {
            let mut object = json!({ "row": row, "certainty": word, "cost": cost });
            match &set.set {
                PredictionSet::Classes(positions) => object["set"] = json!(names(positions)),
                PredictionSet::Interval(interval) => {
                    object["interval"] = json!({ "low": interval.low, "high": interval.high });
                }
            }
            if let Some(id) = id {
                object["id"] = json!(id);
            }
            return self.write(&object.to_string());
        }
        let text = match &set.set {
            PredictionSet::Classes(positions) => names(positions).join("|"),
            PredictionSet::Interval(interval) => format!("{}|{}", interval.low, interval.high),
        };
        let id = id.map_or(String::new(), |id| quoted(id) + ",");
        self.write(&format!("{row},{id}{},{word},{cost}", quoted(&text)))
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        match &mut self.sink {
            None => {}
            Some(SetSink::Terminal) => crate::output::line(format_args!("{}", printable(text))),
            Some(SetSink::Stdout) => writeln!(std::io::stdout().lock(), "{text}")?,
            Some(SetSink::File(file)) => writeln!(file, "{text}")?,
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        match self.sink {
            Some(SetSink::File(file)) => Ok(file.commit()?),
            _ => Ok(()),
        }
    }
}

/// A field of a table, quoted where it must be.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}
