//! What students learn from: the machine's own outputs on rows that the calibration does not see.

use mercer_data::Matrix;
use mercer_machine::{Machine, Output, Scheme, pairs};
use mercer_query::Exact;
use mercer_simd::gemm_nt;

use crate::basis::{Basis, live_row};

/// Outputs beyond this many margins are clipped: students need not tell sure from very sure.
const CLIP: f64 = 1.2;
const CHUNK: usize = 512;

/// Coordinates of rows with what the machine makes of them.
#[derive(Debug)]
pub(crate) struct Lesson {
    pub rows: usize,
    /// Coordinates of each row: those of the basis.
    pub size: usize,
    pub coordinates: Vec<f64>,
    pub outputs: usize,
    /// Clipped outputs of each row.
    pub targets: Vec<f64>,
}

impl Lesson {
    /// Reads the scores of all rows, as [`mercer_query::Plan::scores`] gives them.
    pub(crate) fn new(exact: &Exact, basis: &Basis, rows: &Matrix, scores: &[f64]) -> Self {
        let machine = exact.machine();
        let (live, size) = (exact.packed().live(), basis.rows);
        let mut coordinates = vec![0.0; rows.rows() * size];
        let mut table = vec![0.0; CHUNK * live.len()];
        for (first, out) in (0..).step_by(CHUNK).zip(coordinates.chunks_mut(CHUNK * size)) {
            let count = out.len() / size;
            let table = &mut table[..count * live.len()];
            for (at, place) in table.chunks_exact_mut(live.len()).enumerate() {
                live_row(machine, live, rows.row(first + at), place);
            }
            gemm_nt(count, size, live.len(), table, &basis.values, out);
        }
        let mut targets = outputs(machine, scores);
        let unit = unit(&targets);
        targets.iter_mut().for_each(|t| *t = (*t / unit).clamp(-CLIP, CLIP));
        let outputs = targets.len() / rows.rows().max(1);
        Self { rows: rows.rows(), size, coordinates, outputs, targets }
    }

    /// Coordinates of one row.
    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.coordinates[row * self.size..(row + 1) * self.size]
    }
}

/// The margin in which machines think: 1, or less if most outputs are smaller.
pub(crate) fn unit(outputs: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = outputs.iter().map(|value| value.abs()).collect();
    if sizes.is_empty() {
        return 1.0;
    }
    let middle = sizes.len() / 2;
    let (_, median, _) = sizes.select_nth_unstable_by(middle, f64::total_cmp);
    if *median > 0.0 { median.min(1.0) } else { 1.0 }
}

/// What students are to say: the score, or for each class how it fares in its weakest duel.
fn outputs(machine: &Machine, scores: &[f64]) -> Vec<f64> {
    let count = machine.scores().len();
    if count == 1 {
        return scores.to_vec();
    }
    let classes = machine.classes().len();
    let all = scores.chunks_exact(count);
    all.flat_map(|scores| (0..classes).map(|class| margin(machine, scores, class))).collect()
}

/// By how much a class wins or loses, whichever class has won: its weakest duel, or its lead over the best
/// other class.
pub(crate) fn margin(machine: &Machine, scores: &[f64], class: usize) -> f64 {
    let Output::Classes { names, scheme } = machine.output() else { return scores[0] };
    match scheme {
        Scheme::OneVsOne => {
            let duels =
                pairs(names.len()).zip(scores).filter_map(|((first, second), score)| match class {
                    _ if class == first => Some(*score),
                    _ if class == second => Some(-*score),
                    _ => None,
                });
            duels.fold(f64::INFINITY, f64::min)
        }
        Scheme::OneVsRest => {
            let others = scores.iter().enumerate().filter(|(other, _)| *other != class);
            scores[class] - others.map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max)
        }
    }
}
