//! The C library: models, predictions, tuning and training behind a C interface. The header is `include/mercer.h`, a
//! guide `docs/guide/c.md`; everything is computed by the crate `mercer`.
//!
//! Every function returns a status; a sentence about the last error of the calling thread is in `mercer_last_error`.
//! Nothing prints or exits; a panic inside becomes the status `MERCER_INTERNAL`. One model may be used by many
//! threads at the same time.
#![expect(unsafe_code, reason = "pointers of the caller; each block says why it may be read")]

mod answer;
mod failure;
mod model;
mod pointers;
mod rows;
mod train;
mod tune;

pub use answer::*;
pub use failure::*;
pub use model::*;
pub use rows::*;
pub use train::*;
pub use tune::*;

use std::ffi::c_char;

/// Changes when a program that was compiled with another `mercer.h` can no longer use this library.
pub const MERCER_ABI_VERSION: u32 = 1;

/// The `MERCER_ABI_VERSION` of the library that is loaded; compare it with that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn mercer_abi_version() -> u32 {
    MERCER_ABI_VERSION
}

/// The version of the library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn mercer_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
