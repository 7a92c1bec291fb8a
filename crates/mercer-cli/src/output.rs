//! Writes predictions: to standard output or, atomically, to a file. What is predicted is decided in
//! `commands/predict.rs`.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use mercer::data::write::AtomicFile;
use mercer::machine::ClassName;
use mercer::query::{Certainty, Decision};
use mercer_report::printable;
use mercer_server::{AnswerLine, LineFormat};

use crate::args::OutputFormat;
use crate::files::is_standard;
use crate::{console, failure, labels};

/// Whether standard output holds the bytes of a result.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// From now on standard output is for the bytes of a result (`-o -`), and lines go to standard error.
pub(crate) fn take_stdout() {
    IS_TAKEN.store(true, Ordering::Relaxed);
}

/// Writes a result to standard output as it is.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes a text to a file that appears when it is complete, or to standard output for `-`.
pub(crate) fn save_text(path: &Path, text: &str) -> anyhow::Result<()> {
    if is_standard(path) {
        return Ok(bytes(text.as_bytes())?);
    }
    mercer_report::save_text(path, text)
}

/// A line on standard output, without characters that act on a terminal. A closed pipe is not an error: the command
/// may still have a file to write.
pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    if IS_TAKEN.load(Ordering::Relaxed) {
        return console::line(&text.to_string());
    }
    own_text(&format!("{}\n", printable(&text.to_string())));
}

/// Text of this program on standard output, tabs and all: nothing in it comes from files or arguments.
pub(crate) fn own_text(text: &str) {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to standard output: {error}");
            std::process::exit(i32::from(failure::ERROR));
        }
        _ => {}
    }
}

/// What is written for each row beside its decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowDetails<'b> {
    /// How many rows the chunk has.
    pub(crate) rows: usize,
    /// Positions in the chunk of the rows that have decisions, increasing.
    pub(crate) positions: &'b [usize],
    /// Ids of all rows of the chunk, if the data have ids.
    pub(crate) ids: Option<&'b [String]>,
    /// Names of the classes that have probabilities.
    pub(crate) classes: &'b [String],
    /// Their probabilities, row after row of those that have decisions.
    pub(crate) probabilities: &'b [f64],
}

/// What there is to write, whatever the format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'b> {
    pub(crate) has_ids: bool,
    /// Labels of the machine.
    pub(crate) labels: &'b [ClassName],
    /// Names of the classes that have probabilities.
    pub(crate) classes: &'b [String],
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
    Terminal(BufWriter<StdoutLock<'static>>),
    File(Box<AtomicFile>),
}

impl PredictionWriter {
    pub(crate) fn open(
        path: Option<&Path>,
        format: Option<OutputFormat>,
        json: bool,
        fields: Fields<'_>,
    ) -> io::Result<Self> {
        let Fields { has_ids, labels, classes } = fields;
        let ending = path.and_then(Path::extension).and_then(|ending| ending.to_str());
        let by_name = match ending {
            Some("csv") => OutputFormat::Csv,
            Some("jsonl") => OutputFormat::Jsonl,
            _ => OutputFormat::Libsvm,
        };
        let format = format.unwrap_or(by_name);
        if format == OutputFormat::Libsvm {
            check_words(labels, classes)?;
        }
        let sink = match path {
            Some(path) if !is_standard(path) => Sink::File(Box::new(AtomicFile::create(path)?)),
            None if json => Sink::Discard,
            _ if io::stdout().is_terminal() => Sink::Terminal(BufWriter::new(io::stdout().lock())),
            _ => Sink::Stdout(BufWriter::new(io::stdout().lock())),
        };
        let mut writer = Self { sink, format, row: 0 };
        if writer.format == OutputFormat::Csv
            && let Some(head) = LineFormat::Csv.head(has_ids, classes)
        {
            writer.line(&head)?;
        }
        if writer.format == OutputFormat::Libsvm && !classes.is_empty() {
            writer.line(&format!("labels {}", classes.join(" ")))?;
        }
        Ok(writer)
    }

    /// Writes decisions, with the names of classes, and the details of their rows.
    pub(crate) fn write(
        &mut self,
        names: &[ClassName],
        decisions: &[Decision],
        details: &RowDetails<'_>,
    ) -> io::Result<()> {
        if matches!(self.sink, Sink::Discard) {
            return Ok(());
        }
        let before = self.row;
        for (at, decision) in decisions.iter().enumerate() {
            let position = details.positions[at];
            let id = details.ids.map(|ids| ids[position].as_str());
            let probabilities = details.of(at);
            self.leave_out(before + position)?;
            self.row += 1;
            let label = labels::text(names, decision.answer);
            let line = self.answer_line(&AnswerLine {
                row: self.row,
                id,
                label: &label,
                low: decision.range.low,
                high: decision.range.high,
                certainty: certainty(decision.certainty),
                cost: decision.cost.multiply_adds,
                classes: details.classes,
                probabilities,
            });
            self.line(&line)?;
        }
        self.leave_out(before + details.rows)
    }

    /// The line of an answer.
    fn answer_line(&self, answer: &AnswerLine<'_>) -> String {
        match self.format {
            OutputFormat::Csv => LineFormat::Csv.line(answer),
            OutputFormat::Jsonl => LineFormat::Jsonl.line(answer),
            OutputFormat::Libsvm => {
                let words =
                    answer.probabilities.iter().map(|probability| format!(" {probability}"));
                // The other certainties are as good as LIBSVM's own answers; this one is not.
                let is_unsettled = answer.certainty == certainty(Certainty::Unsettled);
                let mark = if is_unsettled { " unsettled" } else { "" };
                answer.label.to_owned() + &words.collect::<String>() + mark
            }
        }
    }

    /// Goes to a row; those before it have no answer. Where rows have no number, each is an empty line.
    fn leave_out(&mut self, row: usize) -> io::Result<()> {
        while self.row < row {
            self.row += 1;
            if self.format == OutputFormat::Libsvm {
                self.line("")?;
            }
        }
        Ok(())
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        match &mut self.sink {
            Sink::Discard => Ok(()),
            Sink::Stdout(stream) => writeln!(stream, "{text}"),
            Sink::Terminal(screen) => writeln!(screen, "{}", printable(text)),
            Sink::File(file) => writeln!(file, "{text}"),
        }
    }

    /// Passes on what was written so far, for a reader that waits for it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stdout(stream) | Sink::Terminal(stream) => stream.flush(),
            Sink::Discard | Sink::File(_) => Ok(()),
        }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        match self.sink {
            Sink::Discard => Ok(()),
            Sink::Stdout(mut stream) | Sink::Terminal(mut stream) => stream.flush(),
            Sink::File(file) => file.commit(),
        }
    }
}

/// Fails if a label would not be a line, or a class not a word of the first line.
pub(crate) fn check_words(labels: &[ClassName], classes: &[String]) -> io::Result<()> {
    let breaks_line = |label: &&String| label.contains(['\n', '\r']);
    let is_no_word = |label: &&String| label.contains(char::is_whitespace) || label.is_empty();
    let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
    let (bad, why) = match (labels.iter().find(breaks_line), classes.iter().find(is_no_word)) {
        (Some(label), _) => (label, "holds the end of a line"),
        (None, Some(class)) => (class, "is not one word, as the first line needs it"),
        (None, None) => return Ok(()),
    };
    let text = format!("the label '{bad}' {why}; --format csv and --format jsonl can hold it");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
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
