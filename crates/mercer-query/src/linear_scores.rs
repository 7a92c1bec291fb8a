//! Scores of machines that are weights alone: all scores of a row in one pass over its values. Other scores are in
//! `exact.rs` and `tables.rs`.

use mercer_data::Row;
use mercer_machine::{Machine, Score};
use mercer_simd::{CHAINS, ChainWeights, Isa};

/// Weights of linear scores, column by column for a group of scores, so that one read of a value serves all of them. Each
/// score is one chain of fused multiply-adds in column order, whatever is computed beside it.
#[derive(Debug)]
pub(crate) struct LinearScores {
    /// One table for each group of scores; the last one is filled up with zeros.
    groups: Vec<Vec<ChainWeights>>,
    /// The weights of the only score, where there is one.
    only: Vec<f64>,
    offsets: Vec<f64>,
}

impl LinearScores {
    /// The scores of a machine, if all are linear.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let mut scores = Vec::new();
        let mut offsets = Vec::new();
        for score in machine.scores() {
            let Score::Linear { weights, offset } = score else { return None };
            scores.push(weights);
            offsets.push(*offset);
        }
        if let [weights] = scores[..] {
            return Some(Self { groups: Vec::new(), only: weights.clone(), offsets });
        }
        let columns = scores.iter().map(|weights| weights.len()).max()?;
        let group = |scores: &[&Vec<f64>]| {
            let mut table = vec![ChainWeights::default(); columns];
            for (lane, weights) in scores.iter().enumerate() {
                for (places, weight) in table.iter_mut().zip(weights.iter()) {
                    places.0[lane] = *weight;
                }
            }
            table
        };
        Some(Self { groups: scores.chunks(CHAINS).map(group).collect(), only: Vec::new(), offsets })
    }

    /// All scores of some rows, one row after the other.
    pub(crate) fn scores<'a>(
        &self,
        isa: Isa,
        rows: impl Iterator<Item = Row<'a>>,
        out: &mut [f64],
    ) {
        let count = self.offsets.len();
        for (row, out) in rows.zip(out.chunks_exact_mut(count)) {
            if self.groups.is_empty() {
                out[0] = linear_score(isa, &self.only, row) - self.offsets[0];
                continue;
            }
            let places = out.chunks_mut(CHAINS).zip(self.offsets.chunks(CHAINS));
            for ((out, offsets), group) in places.zip(&self.groups) {
                let sums = group_sums(isa, group, row);
                for ((place, sum), offset) in out.iter_mut().zip(sums).zip(offsets) {
                    *place = sum - offset;
                }
            }
        }
    }
}

fn group_sums(isa: Isa, group: &[ChainWeights], row: Row<'_>) -> [f64; CHAINS] {
    match row {
        Row::Dense(values) => mercer_simd::chains(isa, group, None, values),
        Row::Sparse { columns, values } => mercer_simd::chains(isa, group, Some(columns), values),
    }
}

/// `w·x` as one chain of fused multiply-adds in column order; zeros change nothing.
pub(crate) fn linear_score(isa: Isa, weights: &[f64], row: Row<'_>) -> f64 {
    match row {
        Row::Dense(values) => mercer_simd::chain(isa, weights.iter().zip(values)),
        Row::Sparse { columns, values } => {
            let pairs = columns.iter().zip(values);
            let common = pairs.map_while(|(column, x)| Some((weights.get(*column as usize)?, x)));
            mercer_simd::chain(isa, common)
        }
    }
}
