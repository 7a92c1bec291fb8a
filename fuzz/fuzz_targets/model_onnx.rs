//! Fuzz target `model_onnx`: see `src/bodies.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mercer_fuzz::bodies::run("model_onnx", bytes));
