//! Fuzz target `pipeline`: see `src/bodies.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mercer_fuzz::bodies::run("pipeline", bytes));
