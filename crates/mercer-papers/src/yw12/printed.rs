//! Classification as \[YW12\] prints it, for its test times (Tables 7 and 9): eq. 9 with a logarithm for each value, eq. 20
//! with a table of logarithms. Machines of Mercer read one table entry for each value instead.

use std::time::Instant;

use mercer::data::Matrix;
use mercer::machine::{Machine, Score};

/// How the logarithm of a value is found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Logarithm {
    /// Computed: eq. 9.
    Computed,
    /// Looked up in a table of so many entries: eq. 20.
    Table(usize),
}

const SHIFT: f32 = 0.05;

/// Rows of four-byte columns and values, as the paper keeps them.
struct Queries {
    starts: Vec<usize>,
    cells: Vec<(u32, f32)>,
}

impl Queries {
    fn new(rows: &Matrix) -> Self {
        let (mut starts, mut cells) = (vec![0], Vec::new());
        for row in rows.iter() {
            cells.extend(row.nonzeros().map(|(column, value)| (column, value as f32)));
            starts.push(cells.len());
        }
        Self { starts, cells }
    }
}

/// Milliseconds that all rows take, the best of some repeats; and the sum of all scores, so that none is left out.
/// `None` if the machine is not one of the paper's polynomials.
pub(super) fn test_time(
    machine: &Machine,
    rows: &Matrix,
    degree: usize,
    logarithm: Logarithm,
    repeats: u32,
) -> Option<(f64, f64)> {
    let stored = machine.bins()?.rank();
    let scores: Option<Vec<&[f32]>> = machine
        .scores()
        .iter()
        .map(|score| match score {
            Score::Additive { weights, .. } => Some(weights.as_slice()),
            _ => None,
        })
        .collect();
    let (scores, queries) = (scores?, Queries::new(rows));
    let table: Vec<f32> = match logarithm {
        Logarithm::Computed => Vec::new(),
        Logarithm::Table(bins) => {
            (0..=bins).map(|entry| (entry as f32 / bins as f32 + SHIFT).ln()).collect()
        }
    };
    let width = ColumnWidth { stored, used: degree + 1 };
    let (mut best, mut total) = (f64::INFINITY, 0.0);
    for _ in 0..repeats.max(1) {
        let started = Instant::now();
        total = match logarithm {
            Logarithm::Computed => sum(&scores, &queries, width, |value| (value + SHIFT).ln()),
            Logarithm::Table(bins) => sum(&scores, &queries, width, |value| {
                table[((bins as f32 * value) as usize).min(bins)]
            }),
        };
        best = best.min(started.elapsed().as_secs_f64());
    }
    Some((1e3 * best, total))
}

/// Numbers that a machine stores for each column, and how many of them are coefficients.
#[derive(Clone, Copy)]
struct ColumnWidth {
    stored: usize,
    used: usize,
}

/// `Σ_j Σ_k a_jk τ(q_j)^k` of all rows and scores, added up.
fn sum(scores: &[&[f32]], queries: &Queries, width: ColumnWidth, tau: impl Fn(f32) -> f32) -> f64 {
    let mut total = 0.0;
    for pair in queries.starts.windows(2) {
        for weights in scores {
            let mut score = 0.0f32;
            for (column, value) in &queries.cells[pair[0]..pair[1]] {
                let own = &weights[*column as usize * width.stored..][..width.used];
                let tau = tau(*value);
                score += own.iter().rev().fold(0.0, |sum, a| sum * tau + a);
            }
            total += f64::from(score);
        }
    }
    total
}
