//! Machines like trained ones, and queries like their supports.

use mercer_data::Matrix;
use mercer_kernel::parse;
use mercer_machine::{Machine, Output, Score};
use mercer_testkit::generate;

/// A machine of two clouds, one for each sign of the coefficients, as training leaves them.
pub fn trained(kernel: &str, columns: usize, count: usize, output: Output, seed: u64) -> Machine {
    let supports = clouds(count, columns, seed);
    let betas: Vec<f64> =
        (0..count).map(|row| if row % 2 == 0 { 1.0 } else { -1.0 } / count as f64).collect();
    let scores = (0..output.scores()).map(|_| Score::expansion(&betas, 0.01)).collect();
    Machine::new(parse(kernel).unwrap(), supports, scores, output).unwrap()
}

/// Rows of two clouds in turn.
pub fn clouds(count: usize, columns: usize, seed: u64) -> Matrix {
    let noise = generate::values(&generate::dense(count, columns, seed));
    let push = |(at, x): (usize, f64)| {
        let (row, column) = (at / columns, at % columns);
        let centre = if row % 2 == 0 { (column % 3) as f64 } else { (column % 2) as f64 - 0.5 };
        centre + 0.5 * x
    };
    Matrix::dense(columns, noise.into_iter().enumerate().map(push).collect()).unwrap()
}
