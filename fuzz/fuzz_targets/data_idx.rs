//! Fuzz target `data_idx`: see `src/bodies.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mercer_fuzz::bodies::run("data_idx", bytes));
