//! What one reproduction is given: options, a stop flag, and the observer that gets its output; and the rows that
//! it has compared so far. The papers themselves are in the other files.

use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use mercer::train::Cancel;
use mercer_report::save_text;
use serde_json::{Map, Value, json};

use crate::{Comparison, Paper};

/// Training rows at most in a quick run.
const QUICK_ROWS: usize = 5000;

/// Receives what a reproduction has to say.
pub trait Observer {
    /// One line of a table or the JSON object: a result.
    fn line(&self, text: &str);

    /// Something is left out or looks wrong.
    fn warn(&self, text: &str);

    /// What is computed now; none when nothing is.
    fn status(&self, text: Option<&str>);
}

/// What to compute.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder with data files that are not part of the program.
    pub data: Option<PathBuf>,
    /// Names of the machines or parts to compute; all if empty.
    pub only: Vec<String>,
    /// Names of the methods to compute; all if empty.
    pub method: Vec<String>,
    /// Timings of which the best counts.
    pub repeats: u32,
    /// Training rows at most, for papers with large sets.
    pub rows: usize,
    /// Instead of measuring, write the rows of the sets into this folder.
    pub write_rows: Option<PathBuf>,
    /// Folder for figures, `KEY-NAME.svg`.
    pub figures: Option<PathBuf>,
    /// Only what takes at most two minutes on two cores.
    pub quick: bool,
    /// One JSON object instead of tables.
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: None,
            only: Vec::new(),
            method: Vec::new(),
            repeats: 5,
            rows: 10_000_000,
            write_rows: None,
            figures: None,
            quick: false,
            json: false,
        }
    }
}

impl Options {
    /// The options for this paper: a quick run is restricted to its smaller parts, few rows and one timing.
    #[must_use]
    pub fn of_paper(mut self, paper: &Paper) -> Self {
        if self.quick {
            self.repeats = 1;
            self.rows = self.rows.min(QUICK_ROWS);
            self.only = paper.quick.iter().map(|name| (*name).to_owned()).collect();
        }
        self
    }
}

/// One reproduction: its options, its stop flag, its observer, and what it has found.
pub struct Session<'s> {
    /// What to compute.
    pub options: Options,
    observer: &'s dyn Observer,
    stop: Arc<AtomicBool>,
    rows: RefCell<Vec<Comparison>>,
    details: RefCell<Map<String, Value>>,
    /// What could not be computed because its files are missing.
    left_out: RefCell<Vec<String>>,
}

impl<'s> Session<'s> {
    /// A reproduction that ends early once `stop` is set.
    pub fn new(options: Options, observer: &'s dyn Observer, stop: Arc<AtomicBool>) -> Self {
        let (rows, details, left_out) = Default::default();
        Self { options, observer, stop, rows, details, left_out }
    }

    /// Fails with [`Interrupted`] if the stop flag is set.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.is_stopped() { Err(Interrupted::default().into()) } else { Ok(()) }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The stop flag, for training.
    pub(crate) fn cancel(&self) -> Cancel {
        Cancel::from_flag(self.stop.clone())
    }

    /// Whether this machine, part or set is to be computed.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let only = &self.options.only;
        only.is_empty() || only.iter().any(|wanted| wanted == name)
    }

    /// Whether this method is to be computed.
    pub(crate) fn wants_method(&self, name: &str) -> bool {
        let methods = &self.options.method;
        methods.is_empty() || methods.iter().any(|wanted| wanted == name)
    }

    /// The folder with data files: `--data`, or else `$MERCER_DATA`.
    pub(crate) fn data(&self) -> Option<PathBuf> {
        let given = self.options.data.clone();
        given.or_else(|| std::env::var_os("MERCER_DATA").map(PathBuf::from))
    }

    /// Adds a row to the results and prints it, below a heading if its data set is another than that of the row
    /// before.
    pub(crate) fn compare(&self, row: Comparison) {
        let is_new = self.rows.borrow().last().is_none_or(|last| last.dataset != row.dataset);
        if is_new {
            self.line(&format!("\n{}\n{}", row.dataset, Comparison::header()));
        }
        self.line(&row.line());
        self.rows.borrow_mut().push(row);
    }

    /// A line of text beside the rows, such as what a column means; nothing if JSON is wanted.
    pub(crate) fn line(&self, text: &str) {
        if !self.options.json {
            self.observer.line(text);
        }
    }

    /// A key of the JSON object beside `comparisons`, for results that are not numbers beside the paper's.
    pub(crate) fn detail(&self, key: &str, value: Value) {
        self.details.borrow_mut().insert(key.to_owned(), value);
    }

    /// Writes the figure `KEY-NAME.svg` if figures are wanted.
    pub(crate) fn figure(&self, paper: &Paper, name: &str, svg: &str) -> anyhow::Result<()> {
        let Some(folder) = &self.options.figures else { return Ok(()) };
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        save_text(&folder.join(format!("{}-{name}.svg", paper.key)), svg)
    }

    /// Whether figures are wanted.
    pub(crate) fn wants_figures(&self) -> bool {
        self.options.figures.is_some()
    }

    /// The one JSON object of a paper, once all its rows are there; nothing if tables are wanted.
    pub(crate) fn finish(&self, paper: &Paper) {
        if !self.options.json {
            return;
        }
        let mut object = self.details.take();
        object.insert("paper".to_owned(), json!(paper.key));
        object.insert("title".to_owned(), json!(paper.title));
        object.insert("comparisons".to_owned(), json!(self.rows.take()));
        self.observer.line(&Value::Object(object).to_string());
    }

    /// Leaves out a machine or set whose files are missing, with a warning.
    pub(crate) fn leave_out(&self, what: &str, missing: &str) {
        let text = format!("{what} is left out: {missing}");
        self.warn(&text);
        self.left_out.borrow_mut().push(text);
    }

    /// Fails with [`NothingComputed`] if no number was computed.
    pub(crate) fn check_computed(&self) -> Result<(), NothingComputed> {
        let is_computed = self.rows.borrow().iter().any(|row| row.ours.is_some());
        if is_computed || self.options.write_rows.is_some() {
            return Ok(());
        }
        let left_out = self.left_out.borrow();
        let why = if left_out.is_empty() {
            "none of its machines or parts was selected".to_owned()
        } else {
            let folder =
                self.data().map_or("a folder".to_owned(), |data| data.display().to_string());
            let left_out = left_out.join("; ");
            format!(
                "{left_out}; put the files into {folder}, and name it with --data DIR or $MERCER_DATA"
            )
        };
        Err(NothingComputed { why })
    }

    pub(crate) fn warn(&self, text: &str) {
        self.observer.warn(text);
    }

    /// A status text that is cleared when the value is dropped.
    pub(crate) fn status(&self) -> Status<'s> {
        Status(self.observer)
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What is computed now, as the observer shows it.
pub(crate) struct Status<'s>(&'s dyn Observer);

impl Status<'_> {
    pub(crate) fn show(&self, text: &str) {
        self.0.status(Some(text));
    }
}

impl Drop for Status<'_> {
    fn drop(&mut self) {
        self.0.status(None);
    }
}

/// A paper of which nothing was computed: its data are missing, or nothing of it was selected.
#[derive(Debug)]
pub struct NothingComputed {
    /// Why, and where data belong.
    pub why: String,
}

impl fmt::Display for NothingComputed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing was computed: {}", self.why)
    }
}

impl std::error::Error for NothingComputed {}

/// The stop flag was set before the reproduction was finished.
#[derive(Debug, Default)]
pub struct Interrupted {
    /// What is kept, in words; none if nothing was written.
    pub kept: Option<String>,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted; {}", self.kept.as_deref().unwrap_or("nothing was written"))
    }
}

impl std::error::Error for Interrupted {}
