//! The distillation set: rows with the clipped scores of the machine, to which students are fitted. The calibration does
//! not use these rows.

use mercer_data::Matrix;
use mercer_machine::Machine;
use mercer_query::Exact;
use mercer_simd::gemm_nt;

use crate::basis::{PrincipalBasis, live_row};

/// Outputs beyond this many margins are clipped: only their sign matters.
const CLIP: f64 = 1.2;
const CHUNK: usize = 512;

/// Coordinates of rows, with the scores of the machine as targets.
#[derive(Debug)]
pub(crate) struct DistillationSet {
    pub rows: usize,
    /// Coordinates of each row: those of the basis.
    pub size: usize,
    pub coordinates: Vec<f64>,
    pub outputs: usize,
    /// Clipped outputs of each row.
    pub targets: Vec<f64>,
}

impl DistillationSet {
    /// Reads the scores of all rows, as [`mercer_query::Plan::scores`] gives them.
    pub(crate) fn new(
        exact: &Exact,
        basis: &PrincipalBasis,
        rows: &Matrix,
        scores: &[f64],
    ) -> Self {
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

/// The scale of margins: 1, or the median size of the outputs if that is less.
pub(crate) fn unit(outputs: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = outputs.iter().map(|value| value.abs()).collect();
    if sizes.is_empty() {
        return 1.0;
    }
    let middle = sizes.len() / 2;
    let (_, median, _) = sizes.select_nth_unstable_by(middle, f64::total_cmp);
    if *median > 0.0 { median.min(1.0) } else { 1.0 }
}

/// What students are to predict: the score, or the margin of each class.
fn outputs(machine: &Machine, scores: &[f64]) -> Vec<f64> {
    let count = machine.scores().len();
    if count == 1 {
        return scores.to_vec();
    }
    let (classes, output) = (machine.classes().len(), machine.output());
    let all = scores.chunks_exact(count);
    all.flat_map(|scores| (0..classes).map(|class| output.margin(scores, class))).collect()
}
