//! ONNX models with one SVMClassifier or SVMRegressor (`ai.onnx.ml`, version 1), in and out; machines of tables by standard
//! operators in f64, out alone.
//!
//! Both operators compute `Σ coefficient K + rho`, so rho is our `-b`, and a positive sum votes for the first
//! class of a pair. The *scores* a runtime prints for two classes are `[-f, f]`: their first column is
//! not the score of the first class (sklearn-onnx issue 990). Labels are not touched by this.
//! All attributes are 32-bit floats.

mod read;
mod tables;
mod wire;
mod write;

use super::Format;

pub(super) static FORMAT: Format = Format {
    name: "onnx",
    summary: "ONNX-ML SVMClassifier or SVMRegressor, in 32-bit floats; tables by standard operators, in f64 (written only)",
    recognise: |bytes| bytes.first() == Some(&0x08) && wire::has_graph(bytes),
    read: read::read,
    write: write::write,
};

/// The domain of both operators.
const DOMAIN: &str = "ai.onnx.ml";

/// Numbers of the fields used, as onnx.proto names them.
mod field {
    pub(super) mod model {
        pub(in super::super) const IR_VERSION: u32 = 1;
        pub(in super::super) const PRODUCER: u32 = 2;
        pub(in super::super) const GRAPH: u32 = 7;
        pub(in super::super) const OPSET: u32 = 8;
    }
    pub(super) mod opset {
        pub(in super::super) const DOMAIN: u32 = 1;
        pub(in super::super) const VERSION: u32 = 2;
    }
    pub(super) mod graph {
        pub(in super::super) const NODE: u32 = 1;
        pub(in super::super) const NAME: u32 = 2;
        pub(in super::super) const INITIALIZER: u32 = 5;
        pub(in super::super) const INPUT: u32 = 11;
        pub(in super::super) const OUTPUT: u32 = 12;
    }
    pub(super) mod node {
        pub(in super::super) const INPUT: u32 = 1;
        pub(in super::super) const OUTPUT: u32 = 2;
        pub(in super::super) const NAME: u32 = 3;
        pub(in super::super) const OPERATOR: u32 = 4;
        pub(in super::super) const ATTRIBUTE: u32 = 5;
        pub(in super::super) const DOMAIN: u32 = 7;
    }
    pub(super) mod tensor {
        pub(in super::super) const DIMENSIONS: u32 = 1;
        pub(in super::super) const KIND: u32 = 2;
        pub(in super::super) const TEXTS: u32 = 6;
        pub(in super::super) const NAME: u32 = 8;
        pub(in super::super) const RAW: u32 = 9;
    }
    pub(super) mod attribute {
        pub(in super::super) const NAME: u32 = 1;
        pub(in super::super) const INTEGER: u32 = 3;
        pub(in super::super) const TEXT: u32 = 4;
        pub(in super::super) const FLOATS: u32 = 7;
        pub(in super::super) const INTEGERS: u32 = 8;
        pub(in super::super) const TEXTS: u32 = 9;
        pub(in super::super) const KIND: u32 = 20;
    }
}

#[cfg(test)]
mod tests;
