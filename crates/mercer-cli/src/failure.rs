//! Exit codes, error messages and hints. Errors themselves are defined in the libraries.

use std::io;
use std::process::ExitCode;

use mercer::data::DataError;
use mercer::machine::MachineError;
use mercer::query::QueryError;
use mercer::train::{Stop, TrainError};

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

/// Prints the error and a hint, if there is one.
pub(crate) fn report(error: &anyhow::Error, console: &Console) -> ExitCode {
    if error.chain().any(is_closed_pipe) {
        return ExitCode::from(DONE);
    }
    console.error(error);
    if let Some(hint) = error.chain().find_map(hint) {
        console.hint(hint);
    }
    ExitCode::from(error.chain().find_map(code).unwrap_or(ERROR))
}

fn code(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    match cause.downcast_ref::<TrainError>() {
        Some(TrainError::Stopped(Stop::Cancelled)) => Some(INTERRUPTED),
        Some(TrainError::Stopped(_)) => Some(STOPPED),
        _ if cause.is::<Interrupted>() || cause.is::<mercer_papers::Interrupted>() => {
            Some(INTERRUPTED)
        }
        _ => None,
    }
}

fn is_closed_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    let kind = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    cause.downcast_ref::<io::Error>().is_some_and(kind)
}

fn hint(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<DataError>() {
        return match error {
            DataError::BadIndex { low: 1, token, .. } if token == "0" => {
                Some("`--zero-based` reads files whose indices start at 0")
            }
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
        };
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        let is_limit =
            error.kind() == io::ErrorKind::FileTooLarge && error.raw_os_error().is_none();
        return is_limit.then_some("`--max-unpacked` raises the limit");
    }
    if let Some(QueryError::NotFinite { .. } | QueryError::Negative { .. }) = cause.downcast_ref() {
        return Some("`mercer predict --skip-bad-rows` answers the other rows");
    }
    match cause.downcast_ref::<MachineError>()? {
        MachineError::Unrecognised { .. } => {
            Some("the model comes first: mercer predict MODEL DATA")
        }
        MachineError::Inexpressible { .. } => {
            Some("the mercer format (`mercer import`) can store every machine")
        }
        _ => None,
    }
}
