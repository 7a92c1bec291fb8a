//! The scale of each level: slope and shift turn its estimate into a score, the residual RMS is its error.
//!
//! What is accepted, given these scales, is decided by the threshold in `risk.rs`.

use mercer_data::Matrix;
use mercer_machine::{Machine, Scale};
use mercer_query::{Estimate, Plan, Record};

use crate::CompileError;
use crate::distillation_set::unit;

/// The scales of all levels of a plan, from rows with their exact scores.
pub(crate) fn fitted_scales(
    plan: &Plan,
    rows: &Matrix,
    scores: &[f64],
) -> Result<Vec<Scale>, CompileError> {
    let exact = plan.exact_stage();
    let (records, levels) = (plan.records(rows)?, plan.levels().len());
    Ok(scales_of(exact.machine(), &records, scores, levels, exact.cost().multiply_adds))
}

/// As [`fitted_scales`], from the estimates that the levels gave for the rows; `exact` is the cost of an exact answer.
pub(crate) fn scales_of(
    machine: &Machine,
    records: &[Vec<Record>],
    scores: &[f64],
    levels: usize,
    exact: u64,
) -> Vec<Scale> {
    let mut scales = scales(machine, records, scores, levels);
    for (level, scale) in scales.iter_mut().enumerate() {
        scale.residual_rms *= caution(records, level, exact as f64);
    }
    scales
}

/// Exponent of the ratio of costs. The probability of a disagreement falls about as fast as a Gaussian tail, so
/// a few powers of ten in cost are worth a factor of two in the threshold.
const CAUTION: f64 = 0.125;

/// A level after which the next one costs little need not take risks: its residual RMS is multiplied by a power of how
/// much cheaper the next level is than the exact answer. All levels share one threshold, hence one number of allowed
/// disagreements; this spends it where it saves most.
fn caution(records: &[Vec<Record>], level: usize, exact: f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0u32);
    for records in records {
        let mut rest = records.iter().skip_while(|record| record.level != Some(level));
        if let Some(record) = rest.next() {
            let before = record.cost.multiply_adds as f64;
            sum += rest.next().map_or(exact, |next| next.cost.multiply_adds as f64 - before);
            count += 1;
        }
    }
    let next = if count > 0 { sum / f64::from(count) } else { exact };
    (exact / next.clamp(1.0, exact.max(1.0))).powf(CAUTION).max(1.0)
}

/// Fewer samples near a change of label are filled up with the nearest ones.
const LEAST_NEAR: usize = 30;
/// The residual RMS is at least this share of the usual size of a score, so that no level ever stops all queries.
const FLOOR: f64 = 1e-4;

/// The scale of each level from its estimates for rows with their exact scores, one row after the other: near a
/// change of label the score is regressed on the estimate; the residual RMS is that of the regression.
fn scales(machine: &Machine, records: &[Vec<Record>], scores: &[f64], levels: usize) -> Vec<Scale> {
    let count = machine.scores().len();
    let of_level = |level: usize| {
        let pairs =
            records.iter().zip(scores.chunks_exact(count)).filter_map(|(records, scores)| {
                let record = records.iter().find(|record| record.level == Some(level))?;
                let (estimate, truth) = match record.estimate {
                    Estimate::Score(score) => (score, scores[0]),
                    Estimate::Class { class, margin: lead } => {
                        (lead, machine.output().margin(scores, class))
                    }
                };
                let is_useful = estimate.is_finite() && truth.is_finite();
                // A class without a lead is never accepted.
                let has_lead = matches!(record.estimate, Estimate::Score(_)) || estimate > 0.0;
                (is_useful && has_lead).then_some((estimate, truth))
            });
        scale(pairs.collect())
    };
    (0..levels).map(of_level).collect()
}

fn scale(mut pairs: Vec<(f64, f64)>) -> Scale {
    let never = Scale { slope: 0.0, shift: 0.0, residual_rms: 1.0 };
    if pairs.len() < 3 {
        return never;
    }
    let truths: Vec<f64> = pairs.iter().map(|(_, truth)| *truth).collect();
    let usual = (truths.iter().map(|t| t * t).sum::<f64>() / truths.len() as f64).sqrt();
    let unit = unit(&truths);
    pairs.sort_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let near = pairs.partition_point(|(_, truth)| truth.abs() < unit);
    let near =
        if near < LEAST_NEAR { LEAST_NEAR.max(pairs.len() / 5).min(pairs.len()) } else { near };
    let near = &pairs[..near];
    let mean = |values: &dyn Fn(&(f64, f64)) -> f64| {
        near.iter().map(values).sum::<f64>() / near.len() as f64
    };
    let (estimate, truth) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
    let square = mean(&|pair| (pair.0 - estimate).powi(2));
    let slope = mean(&|pair| (pair.0 - estimate) * (pair.1 - truth)) / square;
    let shift = truth - slope * estimate;
    let residual_rms = mean(&|pair| (slope * pair.0 + shift - pair.1).powi(2)).sqrt();
    let residual_rms = residual_rms.max(FLOOR * usual).max(f64::MIN_POSITIVE);
    let scale = Scale { slope, shift, residual_rms };
    let is_sound =
        slope > 0.0 && slope.is_finite() && shift.is_finite() && residual_rms.is_finite();
    if is_sound { scale } else { never }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_before_cheap_ones_are_more_cautious() {
        let record = |level: usize, cost: u64| Record {
            level: Some(level),
            estimate: Estimate::Score(1.0),
            progress: level,
            cost: mercer_query::Cost { multiply_adds: cost },
        };
        let records = vec![vec![record(0, 10), record(1, 20), record(2, 1020)]; 3];
        let found: Vec<f64> = (0..3).map(|level| caution(&records, level, 100_000.0)).collect();
        assert!(found[0] > found[1] && found[1] > found[2] && found[2] == 1.0, "{found:?}");
    }

    #[test]
    fn a_level_that_is_always_right_still_has_a_residual() {
        let pairs = (0..100).map(|n| (f64::from(n) - 50.0, f64::from(n) - 50.0)).collect();
        assert!(scale(pairs).residual_rms > 1e-3);
        let constant = scale((0..100).map(|n| (1.0, f64::from(n))).collect());
        assert_eq!((constant.slope, constant.shift), (0.0, 0.0), "it says nothing about the score");
    }
}
