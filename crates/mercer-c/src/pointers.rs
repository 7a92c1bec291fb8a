//! Pointers of the caller as references, slices and texts. The only file that reads them; nulls are errors.

use std::ffi::{CStr, c_char};

use crate::failure::{Failure, MERCER_ARGUMENT};

fn null(what: &str) -> Failure {
    Failure::new(MERCER_ARGUMENT, format!("{what} is a null pointer"))
}

/// What a pointer points to.
///
/// # Safety
/// A pointer that is not null points to a `T` that nobody changes during the call.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: as the caller of this function promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// Where a result goes.
///
/// # Safety
/// A pointer that is not null may be written, and nobody else uses it during the call.
pub(crate) unsafe fn output<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller of this function promises.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// `length` values; a null pointer is right for none.
///
/// # Safety
/// A pointer that is not null points to that many values, which nobody changes during the call.
pub(crate) unsafe fn slice<'a, T>(
    pointer: *const T,
    length: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    check_length::<T>(length, what)?;
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(what)),
        // SAFETY: as the caller of this function promises; the size was checked above.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(pointer, length) }),
    }
}

/// As [`slice`], for results.
///
/// # Safety
/// A pointer that is not null points to that many values, which nobody else uses during the call.
pub(crate) unsafe fn output_slice<'a, T>(
    pointer: *mut T,
    length: usize,
    what: &str,
) -> Result<&'a mut [T], Failure> {
    check_length::<T>(length, what)?;
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null(what)),
        // SAFETY: as the caller of this function promises; the size was checked above.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(pointer, length) }),
    }
}

/// No object is larger than `isize::MAX` bytes.
fn check_length<T>(length: usize, what: &str) -> Result<(), Failure> {
    let bytes = length.checked_mul(size_of::<T>());
    if bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        return Ok(());
    }
    Err(Failure::new(
        MERCER_ARGUMENT,
        format!("{what}: {length} values are more than memory holds"),
    ))
}

/// A text that ends with NUL.
///
/// # Safety
/// A pointer that is not null points to a text that ends with NUL, which nobody changes during the call.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: as the caller of this function promises.
    unsafe { optional_text(pointer, what) }?.ok_or_else(|| null(what))
}

/// As [`text`]; a null pointer is none.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller of this function promises.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| Failure::new(MERCER_ARGUMENT, format!("{what} is not UTF-8")))
}
