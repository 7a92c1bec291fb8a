//! Makes Rust of `proto/inference.proto`, without the program `protoc`, and the description that the reflection service
//! gives to clients.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/inference.proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.open_files(["inference.proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    tonic_prost_build::configure()
        .build_client(false)
        .bytes(".inference.ModelInferRequest.raw_input_contents")
        .compile_fds(compiler.file_descriptor_set())?;
    std::fs::write(out.join("inference.bin"), compiler.encode_file_descriptor_set())?;
    Ok(())
}
