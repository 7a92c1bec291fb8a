//! The rows that basis points are chosen from and evaluated on.

use std::ops::Range;

use mercer_data::{Matrix, MatrixBuilder, Row, draw};
use mercer_kernel::factor::{Factor, KernelColumns};
use mercer_machine::Score;
use mercer_query::Exact;

use super::settings::AnytimeSettings;

/// Kernel columns kept while basis points are chosen.
const COLUMN_BYTES: usize = 256 << 20;
/// Queries looked at, at most.
const MOST_WITNESSES: usize = 2000;
/// Training rows to draw from, at most.
const MOST_EXTRAS: usize = 20_000;

/// Everything that basis points are chosen from and evaluated on, as rows of one factor: supports, other
/// training rows, and queries of the sample.
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
        let extras = add(training, MOST_EXTRAS, settings.seed);
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
