//! Rows of six columns as LIBSVM's tools read them, with labels of several kinds.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What rows are labelled with.
#[derive(Clone, Copy)]
pub enum Labels {
    Two,
    Three,
    Values,
    /// Two classes, apart on both sides of a plane: also nearly linear kernels have a margin.
    Apart,
    /// Values, with the origin away from all rows: a one-class machine has a margin with any kernel.
    Away,
}

/// Writes rows of each kind.
pub fn write_rows(folder: &Path, ending: &str, count: usize, seed: u64) {
    for (name, labels) in [
        ("two", Labels::Two),
        ("three", Labels::Three),
        ("values", Labels::Values),
        ("apart", Labels::Apart),
        ("away", Labels::Away),
    ] {
        fs::write(folder.join(format!("{name}{ending}")), rows(labels, count, seed)).unwrap();
    }
}

/// So many rows, drawn from a seed.
pub fn rows(labels: Labels, count: usize, seed: u64) -> String {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    };
    let mut text = String::new();
    for _ in 0..count {
        let shift = if matches!(labels, Labels::Away) { 3.0 } else { 0.0 };
        let mut x: Vec<f64> = (0..6).map(|_| 2.0 * next() + shift).collect();
        let score = x[0] * x[1] + x[2] + 0.2 * next();
        match labels {
            Labels::Two => text.push_str(if score > 0.1 { "1" } else { "-1" }),
            Labels::Three => {
                text.push_str(if score > 0.8 {
                    "7"
                } else if x[3] > 0.0 {
                    "-3"
                } else {
                    "2"
                });
            }
            Labels::Values | Labels::Away => {
                let _ = write!(text, "{score:.6}");
            }
            Labels::Apart => {
                let is_above = x[0] + 2.0 * x[1] - x[2] > 0.0;
                x[1] += if is_above { 0.5 } else { -0.5 };
                text.push_str(if is_above { "1" } else { "-1" });
            }
        }
        for (column, value) in (1..).zip(&x) {
            if matches!(labels, Labels::Apart | Labels::Away) || next() > -0.6 {
                let _ = write!(text, " {column}:{value:.5}");
            }
        }
        text.push('\n');
    }
    text
}
