//! Fuzz target `model_own`: see `src/bodies.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mercer_fuzz::bodies::run("model_own", bytes));
