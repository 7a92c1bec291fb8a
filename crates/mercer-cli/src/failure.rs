//! Exit codes, error messages and hints. Errors themselves are defined in the libraries.

use std::io;
use std::process::ExitCode;

use mercer::data::DataError;
use mercer::machine::MachineError;
use mercer::query::QueryError;
use mercer::train::{Stop, TrainError};

use serde_json::json;

use crate::args::Verb;
use crate::console::Console;

/// Success.
pub(crate) const DONE: u8 = 0;
/// Something is wrong with the input or the machine.
pub(crate) const ERROR: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// A limit stopped the training before it converged.
pub(crate) const STOPPED: u8 = 3;
/// The constants of a plan are verified, its calibration was not tested.
pub(crate) const UNTESTED: u8 = 4;
/// Nothing was computed of a paper: its data are missing, or nothing of it was selected.
pub(crate) const NOTHING: u8 = 5;
/// Ctrl-C or SIGTERM.
pub(crate) const INTERRUPTED: u8 = 130;

/// A signal stopped the command.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted; nothing was written")
    }
}

impl std::error::Error for Interrupted {}

/// What a command accepts: hints name only what it has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HintContext {
    /// It has the options of a data file: `--input-format`, `--missing`, ...
    has_input_options: bool,
    /// Its files in their order, where data and models can be confused.
    order: Option<&'static str>,
    /// Where a machine goes that the format cannot express.
    wider_format: Option<&'static str>,
}

impl HintContext {
    pub(crate) fn of(verb: &Verb) -> Self {
        let order = match verb {
            Verb::Predict(_) => Some("the model comes first: mercer predict MODEL DATA"),
            Verb::Bench(_) => Some("the model comes first: mercer bench MODEL DATA"),
            Verb::Explain(_) => Some("the model comes first: mercer explain MODEL DATA"),
            _ => None,
        };
        let is_export = matches!(verb, Verb::Export(_));
        Self {
            has_input_options: verb.input().is_some(),
            order,
            wider_format: is_export.then_some("`--format mercer` can store every machine"),
        }
    }

    /// For LIBSVM's commands.
    pub(crate) fn libsvm(order: Option<&'static str>) -> Self {
        let wider = "`mercer train` writes a format that can store every machine";
        Self { has_input_options: false, order, wider_format: Some(wider) }
    }
}

/// Prints the error and a hint, if there is one; with --json also as one object on standard output.
pub(crate) fn report(error: &anyhow::Error, context: HintContext, console: &Console) -> ExitCode {
    if error.chain().any(is_closed_pipe) {
        return ExitCode::from(DONE);
    }
    let message = sentence(error);
    console.error(&message);
    let is_table = message.split(": ").next().is_some_and(is_table);
    let hint = error.chain().find_map(|cause| hint(cause, context, is_table));
    if let Some(hint) = hint {
        console.hint(hint);
    }
    let code = error.chain().find_map(code).unwrap_or(ERROR);
    if console.json {
        print_object(&message, hint, code);
    }
    ExitCode::from(code)
}

/// A failure as the object that --json promises.
pub(crate) fn print_object(message: &str, hint: Option<&str>, code: u8) {
    println!("{}", json!({ "error": message, "hint": hint, "exit_code": code }));
}

/// An error and its causes; one that wraps another may repeat its text.
fn sentence(error: &anyhow::Error) -> String {
    let mut chain: Vec<String> = error.chain().map(ToString::to_string).collect();
    chain.dedup();
    chain.join(": ")
}

/// Whether a name ends as the name of a table.
fn is_table(name: &str) -> bool {
    let endings = ["csv", "tsv", "tab", "arrow", "feather", "ipc", "arrows", "parquet", "pq"];
    let packed = [".gz", ".bz2", ".xz", ".zst"];
    let name = packed.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    name.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
}

fn code(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    match cause.downcast_ref::<TrainError>() {
        Some(TrainError::Stopped(Stop::Cancelled)) => Some(INTERRUPTED),
        Some(TrainError::Stopped(_)) => Some(STOPPED),
        _ if cause.is::<Interrupted>() || cause.is::<mercer_papers::Interrupted>() => {
            Some(INTERRUPTED)
        }
        _ if cause.is::<mercer_papers::NothingComputed>() => Some(NOTHING),
        _ => None,
    }
}

fn is_closed_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    let kind = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    cause.downcast_ref::<io::Error>().is_some_and(kind)
}

fn hint(
    cause: &(dyn std::error::Error + 'static),
    context: HintContext,
    is_table: bool,
) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<DataError>() {
        return data_hint(error, context, is_table);
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        let is_limit =
            error.kind() == io::ErrorKind::FileTooLarge && error.raw_os_error().is_none();
        let has_option = is_limit && context.has_input_options;
        return has_option.then_some("`--max-unpacked` raises the limit");
    }
    if let Some(QueryError::NotFinite { .. } | QueryError::Negative { .. }) = cause.downcast_ref() {
        return Some("`mercer predict --skip-bad-rows` answers the other rows");
    }
    match cause.downcast_ref::<MachineError>()? {
        MachineError::Unrecognised { .. } => context.order,
        MachineError::Inexpressible { .. } => context.wider_format,
        _ => None,
    }
}

/// What helps with bad data: an option of the command, or `mercer convert`, which has them all.
fn data_hint(error: &DataError, context: HintContext, is_table: bool) -> Option<&'static str> {
    if let DataError::NotANumber { token, .. } = error
        && matches!(token.as_str(), "svm_type" | "solver_type")
    {
        return Some("this is a model, not rows: `mercer predict MODEL ROWS` answers with it");
    }
    if !context.has_input_options {
        return match error {
            _ if error.is_index_zero() => {
                Some("`mercer convert --zero-based` rewrites files whose indices start at 0")
            }
            DataError::NotAPair { .. } | DataError::NotANumber { .. } if !is_table => {
                Some("`mercer convert --input-format csv` rewrites tables")
            }
            DataError::Missing { .. } | DataError::MissingAt { .. } => {
                Some("`mercer convert --missing zero`, `mean` or `drop` rewrites the file")
            }
            DataError::UnsortedColumn { column, previous, .. } if column < previous => {
                Some("`mercer convert --sort` rewrites the file")
            }
            DataError::RowsTooLarge { .. } => Some("`--memory 4GiB` raises the limit"),
            _ => None,
        };
    }
    match error {
        _ if error.is_index_zero() => Some("`--zero-based` reads files whose indices start at 0"),
        DataError::NotANumber { .. } if is_table => Some(
            "`--one-hot` turns a column of words into columns of numbers; `--label` names the target column",
        ),
        DataError::NotAPair { .. } | DataError::NotANumber { .. } => {
            Some("`--input-format csv` reads tables; `--label` names their target column")
        }
        DataError::UnsortedColumn { column, previous, .. } if column < previous => {
            Some("`mercer convert --sort` rewrites the file")
        }
        DataError::Missing { .. } | DataError::MissingAt { .. } => {
            Some("`--missing zero`, `mean` or `drop` tells how to treat missing values")
        }
        DataError::RowsTooLarge { .. } => Some("`--memory 4GiB` raises the limit"),
        DataError::NoSuchColumn { .. } => {
            Some("`--label` takes a name, a number starting at 1, `last` or `none`")
        }
        _ => None,
    }
}
