//! The rows that basis points are chosen from and evaluated on.

use std::collections::HashSet;
use std::ops::Range;

use mercer_data::{Matrix, MatrixBuilder, Row, draw};
use mercer_kernel::factor::{Factor, KernelColumns};
use mercer_machine::Score;
use mercer_query::Exact;

use super::settings::AnytimeSettings;
use crate::repeats::fingerprint;

/// Kernel columns kept while basis points are chosen.
const COLUMN_BYTES: usize = 256 << 20;
/// Queries looked at, at most.
const MOST_WITNESSES: usize = 2000;
/// Training rows to draw from, at most.
const MOST_EXTRAS: usize = 20_000;

/// Everything that basis points are chosen from and evaluated on, as rows of one factor: supports, training
/// rows that are no supports, and queries of the sample.
#[derive(Debug)]
pub(super) struct Pool {
    pub rows: Matrix,
    pub supports: Range<usize>,
    pub extras: Range<usize>,
    pub witnesses: Range<usize>,
    /// `<Φ_i, W_s>` of all rows, score after score.
    products: Vec<Vec<f64>>,
    squares: Vec<f64>,
    pub offsets: Vec<f64>,
}

impl Pool {
    pub(super) fn new(
        exact: &Exact,
        training: Option<&Matrix>,
        sample: Option<&Matrix>,
        settings: &AnytimeSettings,
    ) -> Self {
        let machine = exact.machine();
        let supports = machine.supports();
        let mut builder = MatrixBuilder::new();
        supports.iter().for_each(|row| builder.push_row(row));
        let mut add = |rows: Option<&Matrix>, most: usize, seed: u64| {
            let first = builder.rows();
            if let Some(rows) = rows {
                for row in draw(rows.rows(), most, seed) {
                    push_within(&mut builder, rows.row(row), machine.columns());
                }
            }
            first..builder.rows()
        };
        let others = training.map(|training| without_supports(supports, training));
        let extras = add(others.as_ref(), MOST_EXTRAS, settings.seed);
        // Residuals of all supports against all witnesses are kept.
        let most = (20_000_000 / supports.rows().max(1)).clamp(50, MOST_WITNESSES);
        let witnesses = add(sample, most, settings.seed + 1);
        let rows = builder.finish(machine.columns()).compact();
        let (products, squares) = products(exact, &rows);
        let offsets = machine.scores().iter().map(Score::offset).collect();
        let supports = 0..supports.rows();
        Self { rows, supports, extras, witnesses, products, squares, offsets }
    }

    /// A factor of all rows that follows all scores.
    pub(super) fn factor(&self, exact: &Exact, floor: f64) -> Factor<KernelColumns> {
        let machine = exact.machine();
        let kernel = machine.kernel().clone();
        let columns = KernelColumns::new(kernel, self.rows.clone(), machine.centre(), COLUMN_BYTES);
        let targets = self.products.iter().zip(&self.squares);
        targets.fold(Factor::new(columns, floor), |factor, (products, square)| {
            factor.with_target(products, *square)
        })
    }

    /// The score of a row.
    pub(super) fn score(&self, score: usize, row: usize) -> f64 {
        self.products[score][row] - self.offsets[score]
    }
}

/// Training rows that are not supports: supports are candidates already (\[DeCoste03\], section 4).
fn without_supports(supports: &Matrix, training: &Matrix) -> Matrix {
    let known: HashSet<u64> = supports.iter().map(fingerprint).collect();
    let others =
        (0..training.rows()).filter(|row| !known.contains(&fingerprint(training.row(*row))));
    training.select(others)
}

/// Columns beyond those of the machine meet zeros only, or, for distances, make all supports farther alike.
fn push_within(builder: &mut MatrixBuilder, row: Row<'_>, columns: usize) {
    for (column, value) in row.nonzeros().take_while(|(column, _)| (*column as usize) < columns) {
        builder.push(column, value);
    }
    builder.end_row();
}

/// Inner products of all rows with each score's point, and its squared length; good to rounding.
fn products(exact: &Exact, rows: &Matrix) -> (Vec<Vec<f64>>, Vec<f64>) {
    let machine = exact.machine();
    let count = machine.scores().len();
    let mut products = vec![Vec::with_capacity(rows.rows()); count];
    let mut scratch = exact.scratch();
    for first in (0..rows.rows()).step_by(exact.block()) {
        let range = first..(first + exact.block()).min(rows.rows());
        let mut out = vec![0.0; range.len() * count];
        exact.scores(range.map(|row| rows.row(row)), &mut scratch, &mut out);
        for scores in out.chunks_exact(count) {
            for ((list, score), value) in products.iter_mut().zip(machine.scores()).zip(scores) {
                list.push(value + score.offset());
            }
        }
    }
    let square = |(score, products): (&Score, &Vec<f64>)| match score {
        Score::Expansion { supports, coefficients, .. } => {
            let named = supports.iter().zip(coefficients);
            named.map(|(support, beta)| beta * products[*support as usize]).sum()
        }
        Score::Linear { .. } | Score::Additive { .. } => 0.0,
    };
    let squares = machine.scores().iter().zip(&products).map(square).collect();
    (products, squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_machine::{Machine, Output};

    /// \[DeCoste03\]: all supports and at most 59 rows that are *not* supports. Sonar has 43 of those; drawing from
    /// all training rows gave supports twice.
    #[test]
    fn other_training_rows_are_no_supports() {
        let values: Vec<f64> = (0..40).map(|n| f64::from(n) / 7.0).collect();
        let training = Matrix::dense(2, values).unwrap();
        let supports = training.select([1, 4, 5, 19]);
        let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
        let scores = vec![Score::expansion(&[1.0, -1.0, 0.5, -0.5], 0.0)];
        let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
        let exact = Exact::new(&machine);
        let spec = "anytime(order=min_wz_n)".parse().unwrap();
        let arguments = mercer_query::entries::ANYTIME.check(&spec).unwrap();
        let settings = AnytimeSettings::new(&arguments, false);
        for rows in [training.clone(), training.to_sparse()] {
            let pool = Pool::new(&exact, Some(&rows), None, &settings);
            assert_eq!((pool.supports.len(), pool.extras.len()), (4, 16));
            let known: HashSet<u64> = machine.supports().iter().map(fingerprint).collect();
            for row in pool.extras.clone() {
                assert!(!known.contains(&fingerprint(pool.rows.row(row))), "row {row}");
            }
        }
    }
}
