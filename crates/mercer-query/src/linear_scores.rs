//! Scores of machines that are weights alone: all scores of a row in one pass over its values. Other scores are in
//! `exact.rs` and `tables.rs`.

use mercer_data::Row;
use mercer_machine::{Machine, Score};
use mercer_simd::{ChainWeights, Isa};

/// Weights of linear scores. Each score is one chain of fused multiply-adds in column order, whatever is computed beside it.
#[derive(Debug)]
pub(crate) struct LinearScores {
    weights: ScoreWeights,
    offsets: Vec<f64>,
}

#[derive(Debug)]
enum ScoreWeights {
    /// Of the only score.
    One(Vec<f64>),
    /// Of several scores.
    Several(ChainWeights),
}

impl LinearScores {
    /// The scores of a machine, if all are linear.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let mut scores: Vec<&[f64]> = Vec::new();
        let mut offsets = Vec::new();
        for score in machine.scores() {
            let Score::Linear { weights, offset } = score else { return None };
            scores.push(weights);
            offsets.push(*offset);
        }
        let weights = match scores[..] {
            [only] => ScoreWeights::One(only.to_vec()),
            _ => ScoreWeights::Several(ChainWeights::new(&scores)),
        };
        Some(Self { weights, offsets })
    }

    /// All scores of some rows, one row after the other.
    pub(crate) fn scores<'a>(
        &self,
        isa: Isa,
        rows: impl Iterator<Item = Row<'a>>,
        out: &mut [f64],
    ) {
        for (row, out) in rows.zip(out.chunks_exact_mut(self.offsets.len())) {
            match (&self.weights, row) {
                (ScoreWeights::One(weights), _) => out[0] = linear_score(isa, weights, row),
                (ScoreWeights::Several(weights), Row::Dense(values)) => {
                    weights.sums(isa, None, values, out);
                }
                (ScoreWeights::Several(weights), Row::Sparse { columns, values }) => {
                    weights.sums(isa, Some(columns), values, out);
                }
            }
            out.iter_mut().zip(&self.offsets).for_each(|(score, offset)| *score -= offset);
        }
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
