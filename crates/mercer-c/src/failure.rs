//! Errors for callers in C: a status, and a sentence for each thread. No other file of this crate catches panics.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use mercer::data::caught;

/// How a call ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "names of the C interface")]
pub enum mercer_status {
    /// Done.
    MERCER_OK = 0,
    /// An argument is wrong: a null pointer, a text that is not UTF-8, a number out of range.
    MERCER_ARGUMENT = 1,
    /// A file cannot be read or written, or is not a model.
    MERCER_FILE = 2,
    /// Rows do not fit the model, or hold what is not a number.
    MERCER_ROWS = 3,
    /// A text such as `rbf(gamma=0.5)` is wrong.
    MERCER_SPEC = 4,
    /// The plan of a model is wrong, or cannot be fitted.
    MERCER_PLAN = 5,
    /// Training failed.
    MERCER_TRAINING = 6,
    /// The model has no such thing, for instance no probabilities.
    MERCER_ABSENT = 7,
    /// A callback asked to stop, and nothing usable was there yet.
    MERCER_CANCELLED = 8,
    /// A mistake in the library; the process goes on.
    MERCER_INTERNAL = 9,
}

pub use mercer_status::*;

/// A status with its sentence.
#[derive(Debug)]
pub(crate) struct Failure {
    status: mercer_status,
    sentence: String,
}

impl Failure {
    pub(crate) fn new(status: mercer_status, sentence: impl ToString) -> Self {
        Self { status, sentence: sentence.to_string() }
    }

    /// For `map_err`.
    pub(crate) fn of<E: ToString>(status: mercer_status) -> impl Fn(E) -> Self {
        move |error| Self::new(status, error)
    }
}

thread_local! {
    static SENTENCE: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function of the interface: errors and panics become a status and a sentence.
pub(crate) fn run(body: impl FnOnce() -> Result<(), Failure>) -> mercer_status {
    // State that a panic leaves half-changed: none is shared, outputs are written last.
    let failure = match caught(body) {
        Ok(Ok(())) => return MERCER_OK,
        Ok(Err(failure)) => failure,
        Err(said) => {
            Failure::new(MERCER_INTERNAL, format!("a mistake in mercer, please report it: {said}"))
        }
    };
    // A sentence may quote a text with a NUL; C would end there.
    let sentence = failure.sentence.replace('\0', "\u{fffd}");
    SENTENCE.with_borrow_mut(|kept| *kept = CString::new(sentence).unwrap_or_default());
    failure.status
}

/// What went wrong in the last call of this thread that did not return `MERCER_OK`; empty before the first one. The text
/// stays until the next such call of the same thread.
#[unsafe(no_mangle)]
pub extern "C" fn mercer_last_error() -> *const c_char {
    SENTENCE.with_borrow(|kept| kept.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: the text of this thread, which ends with NUL and is not changed here.
        unsafe { CStr::from_ptr(mercer_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn panics_become_a_status_with_their_sentence() {
        assert_eq!(run(|| panic!("seven")), MERCER_INTERNAL);
        assert_eq!(last(), "a mistake in mercer, please report it: seven");
        assert_eq!(run(|| Ok(())), MERCER_OK);
        assert_eq!(run(|| Err(Failure::new(MERCER_FILE, "a\0b"))), MERCER_FILE);
        assert_eq!(last(), "a\u{fffd}b");
        assert_eq!(std::thread::spawn(last).join().unwrap(), "");
    }
}
