//! What LIBSVM prints while it trains: through the hook of the caller, else to the standard output, as LIBSVM does.

use std::ffi::{CString, c_char};
use std::sync::{Mutex, PoisonError};

/// A function of the caller that takes a text.
pub type PrintFunction = Option<unsafe extern "C" fn(*const c_char)>;

static HOOK: Mutex<PrintFunction> = Mutex::new(None);

/// Texts go to this function from now on; none means the standard output.
pub(crate) fn set(function: PrintFunction) {
    *HOOK.lock().unwrap_or_else(PoisonError::into_inner) = function;
}

/// Prints a text.
pub(crate) fn info(text: &str) {
    let Ok(text) = CString::new(text) else { return };
    let hook = *HOOK.lock().unwrap_or_else(PoisonError::into_inner);
    match hook {
        // SAFETY: the caller gave the function for texts that end with NUL.
        Some(hook) => unsafe { hook(text.as_ptr()) },
        // SAFETY: the format takes one text; null means all streams. The C library's own buffer keeps the order.
        None => unsafe {
            libc::printf(c"%s".as_ptr(), text.as_ptr());
            libc::fflush(std::ptr::null_mut());
        },
    }
}
