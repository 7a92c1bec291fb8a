//! Predicts the acceptance threshold that the test will give a plan, so that plans can be compared before the test.
//!
//! The estimates of every stage for some rows are computed once and cached; those of a plan are put together from them.
//! Disagreements are too rare to be counted on so few rows. But the error of an estimate hardly depends on the side of
//! the change of label on which a query lies. So each row near a change of label is used many times: its errors are added
//! to the true scores of other such rows, on either side. Disagreements are counted on these simulated queries.
//!
//! Such a threshold promises nothing: the test alone decides what a plan may do (`validate.rs`), and a threshold
//! predicted badly costs speed only.

use std::collections::HashMap;

use mercer_machine::{Answer, Calibration, Counts, Machine, Scale};
use mercer_query::{Cost, Estimate, Plan, QueryOptions, Record};

use super::policy::PredictionPolicy;
use super::sample::ScoredRows;
use crate::CompileError;
use crate::distillation_set::unit;
use crate::risk::{self, LabelEffect, LevelDecision, Target, count_disagreements, thresholds};

/// The results of one stage alone, for each row.
#[derive(Debug)]
enum CachedStage {
    /// A certifying stage: which rows it settles, and the multiply-adds of one row.
    Certifying { settled: Vec<bool>, cost: u64 },
    /// An estimating stage: its estimates, and the number of its levels.
    Estimating { records: Vec<Vec<Record>>, levels: usize },
}

/// Predicts thresholds; caches the estimates of each stage.
#[derive(Debug)]
pub(super) struct ThresholdPredictor<'a> {
    machine: &'a Machine,
    sample: &'a ScoredRows,
    policy: &'a PredictionPolicy,
    target: Target,
    /// Rate of disagreements at which the test passes with probability one half.
    rate: f64,
    cached: HashMap<usize, CachedStage>,
}

impl<'a> ThresholdPredictor<'a> {
    /// For plans that will be tested on so many rows.
    pub(super) fn new(
        machine: &'a Machine,
        sample: &'a ScoredRows,
        target: Target,
        tested: usize,
        policy: &'a PredictionPolicy,
    ) -> Self {
        let rate = target.median_rate(tested);
        Self { machine, sample, policy, target, rate, cached: HashMap::new() }
    }

    /// Whether the estimates of this stage are cached.
    pub(super) fn has(&self, stage: usize) -> bool {
        self.cached.contains_key(&stage)
    }

    /// Computes and caches the estimates of a stage, given as a plan of nothing else.
    pub(super) fn add(&mut self, stage: usize, alone: &Plan) -> Result<(), CompileError> {
        let rows = &self.sample.rows;
        let levels = alone.levels().len();
        let records = alone.records(rows)?;
        let certifies = levels == 0 && records.iter().all(Vec::is_empty);
        let results = if certifies {
            let answers = alone.decide_with(rows, &QueryOptions::default())?;
            let settled: Vec<bool> = answers.answered_by.iter().map(|stage| *stage == 0).collect();
            let by_stage = answers.decisions.iter().zip(&settled).filter(|(_, settled)| **settled);
            let cost = by_stage.map(|(answer, _)| answer.cost.multiply_adds).max().unwrap_or(0);
            CachedStage::Certifying { settled, cost }
        } else {
            CachedStage::Estimating { records, levels }
        };
        self.cached.insert(stage, results);
        Ok(())
    }

    /// The predicted calibration of the plan of these stages, all cached: it serves to compare plans only.
    pub(super) fn calibration(&self, stages: &[usize], exact: u64) -> Calibration {
        let (records, levels) = self.records(stages);
        let scores = &self.sample.scores;
        let scales = risk::scales_of(self.machine, &records, scores, levels, exact);
        let simulated = self.simulated(&records, &scales);
        let near = (simulated.len() / self.policy.partners).max(1) as f64;
        // Plans are compared on the safe side: one that is fast at a high threshold loses little if the threshold
        // turns out low, but not the other way round. Too large a margin would favour plans that are good with
        // queries that should not be left open.
        let margin = 1.0 + self.policy.safety_margin / near.sqrt();
        let threshold = margin * least_threshold(&simulated, self.allowed());
        let Target { risk, delta, .. } = self.target;
        let (counts, queries) = (Counts::Disagreements, records.len() as u64);
        Calibration {
            threshold,
            risk,
            delta,
            queries,
            disagreements: 0,
            counts,
            bound: 1.0,
            scales,
        }
    }

    /// Disagreements that the simulated queries may have. Not all that the test allows are used: a good stage may have
    /// a handful of disagreements on these rows, and with one less it would answer every query.
    fn allowed(&self) -> f64 {
        let queries = self.sample.rows.rows() * self.policy.partners;
        self.policy.used_allowance * self.rate * queries as f64
    }

    /// Level decisions for simulated queries near a change of label: the errors of one row, the true score of another.
    fn simulated(&self, records: &[Vec<Record>], scales: &[Scale]) -> Vec<Vec<LevelDecision>> {
        let PredictionPolicy { near, least_near, partners, .. } = *self.policy;
        let count = self.machine.scores().len();
        let rows = records.iter().zip(self.sample.scores.chunks_exact(count));
        let mut rows: Vec<RowErrors> = rows
            .map(|(records, scores)| RowErrors::new(self.machine, records, scores, scales))
            .collect();
        let unit = unit(&rows.iter().map(|row| row.truth).collect::<Vec<_>>());
        let near = rows.iter().filter(|row| row.truth.abs() < near * unit).count();
        let near = near.max(least_near).min(rows.len());
        // The order among equals is that of the sample, so the same for every plan.
        rows.sort_by(|a, b| a.truth.abs().total_cmp(&b.truth.abs()));
        rows.truncate(near);
        let mut simulated = Vec::with_capacity(near * partners);
        for (place, row) in rows.iter().enumerate() {
            for partner in 0..partners {
                let truth = rows[(place + 1 + partner * near / partners) % near].truth;
                let truth = if partner % 2 == 0 { truth } else { -truth };
                simulated.push(row.with_truth(truth, scales));
            }
        }
        simulated
    }

    /// The estimates of a plan for each row if none of them stops a query, and the number of its levels.
    fn records(&self, stages: &[usize]) -> (Vec<Vec<Record>>, usize) {
        let cached: Vec<&CachedStage> = stages.iter().map(|stage| &self.cached[stage]).collect();
        let rows = self.sample.rows.rows();
        let all = (0..rows).map(|row| joined_records(&cached, row)).collect();
        let levels = cached.iter().map(|cached| match cached {
            CachedStage::Certifying { .. } => 0,
            CachedStage::Estimating { levels, .. } => *levels,
        });
        (all, levels.sum())
    }
}

/// The estimates of stages for one row, one stage after the other.
fn joined_records(stages: &[&CachedStage], row: usize) -> Vec<Record> {
    let mut all: Vec<Record> = Vec::new();
    let (mut first_level, mut spent) = (0, 0);
    for stage in stages {
        match stage {
            CachedStage::Certifying { settled, .. } if settled[row] => break,
            CachedStage::Certifying { cost, .. } => spent += cost,
            CachedStage::Estimating { records, levels } => {
                let after_earlier_stages = |record: &Record| Record {
                    level: record.level.map(|level| level + first_level),
                    cost: Cost { multiply_adds: spent + record.cost.multiply_adds },
                    ..*record
                };
                all.extend(records[row].iter().map(after_earlier_stages));
                let Some(last) = all.last() else { continue };
                if last.level.is_none() {
                    break;
                }
                spent = spent.max(last.cost.multiply_adds);
                first_level += levels;
            }
        }
    }
    all
}

/// A row's true score, or the margin of its class, and the error of each level that may be accepted.
struct RowErrors {
    truth: f64,
    errors: Vec<(usize, f64)>,
}

impl RowErrors {
    fn new(machine: &Machine, records: &[Record], scores: &[f64], scales: &[Scale]) -> Self {
        let winner = match machine.verdict(scores).answer {
            Answer::Class(class) if scores.len() > 1 => Some(class),
            _ => None,
        };
        let truth = winner.map_or(scores[0], |class| machine.output().margin(scores, class));
        let error = |record: &Record| {
            let level = record.level.filter(|level| scales[*level].slope > 0.0)?;
            let (value, _) = record.estimate.scaled(&scales[level]);
            let error = match record.estimate {
                Estimate::Score(_) => value - scores[0],
                Estimate::Class { class, .. } => {
                    let error = value - machine.output().margin(scores, class);
                    // With the sign that it has for the class that wins.
                    if winner == Some(class) { error } else { -error }
                }
            };
            error.is_finite().then_some((level, error))
        };
        Self { truth, errors: records.iter().filter_map(error).collect() }
    }

    /// The decisions of the levels for a query with another true score and the errors of this row.
    fn with_truth(&self, truth: f64, scales: &[Scale]) -> Vec<LevelDecision> {
        let decision = |(level, error): &(usize, f64)| {
            let value = truth + error;
            LevelDecision {
                margin: value.abs() / scales[*level].residual_rms,
                agrees: (value > 0.0) == (truth > 0.0),
                effect: LabelEffect::None,
            }
        };
        self.errors.iter().map(decision).collect()
    }
}

/// The least threshold at which no more queries than allowed disagree, nor at any higher one.
fn least_threshold(queries: &[Vec<LevelDecision>], allowed: f64) -> f64 {
    let is_allowed =
        |threshold: &f64| count_disagreements(queries, *threshold).disagreements as f64 <= allowed;
    let mut thresholds = thresholds().peekable();
    let highest = thresholds.peek().copied().unwrap_or(f64::INFINITY);
    thresholds.take_while(is_allowed).last().unwrap_or(highest)
}

#[cfg(test)]
mod tests {
    use mercer_data::{Matrix, synthetic};
    use mercer_machine::{Output, Score};

    use super::*;
    use crate::Compiler;
    use crate::risk::References;
    use crate::tune::TunePolicy;

    fn crescents(rows: usize, seed: u64) -> Matrix {
        synthetic::banana(rows, seed).examples
    }

    fn machine() -> Machine {
        let weights: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
        let scores = vec![Score::expansion(&weights, 0.05)];
        Machine::new(kernel, crescents(200, 1), scores, Output::Novelty).unwrap()
    }

    /// A predictor with the estimates of each stage of a compiled plan, and the plan.
    fn predictor<'a>(
        machine: &'a Machine,
        rows: &'a ScoredRows,
        target: Target,
        spec: &str,
    ) -> (ThresholdPredictor<'a>, Plan) {
        const POLICY: PredictionPolicy = TunePolicy::DEFAULT.prediction;
        let sample = crescents(3000, 2);
        let compiler = Compiler::new(machine).sample(&sample).target(target);
        let sections = compiler.run(&spec.parse().unwrap()).unwrap().sections;
        let mut predictor = ThresholdPredictor::new(machine, rows, target, 20_000, &POLICY);
        for (number, section) in sections.sections.iter().enumerate() {
            let mut alone = sections.clone();
            alone.spec = format!("cascade({}, exact)", section.spec);
            alone.sections = vec![section.clone()];
            alone.calibration = None;
            predictor.add(number, &Plan::fitted(machine, &alone).unwrap()).unwrap();
        }
        (predictor, Plan::fitted(machine, &sections).unwrap())
    }

    fn scored(machine: &Machine, rows: Matrix) -> ScoredRows {
        let scores = Plan::exact(machine).scores(&rows).unwrap();
        ScoredRows { rows, scores }
    }

    const SPEC: &str = "cascade(linear, student(2), compressed(k=40), exact)";

    #[test]
    fn estimates_of_stages_alone_are_joined_to_those_of_the_plan() {
        let machine = machine();
        let rows = scored(&machine, crescents(300, 5));
        let target = Target { risk: 0.05, ..Target::default() };
        let (predictor, plan) = predictor(&machine, &rows, target, SPEC);
        let (records, levels) = predictor.records(&[0, 1, 2]);
        assert_eq!(levels, plan.levels().len());
        let estimates = |records: &[Vec<Record>]| -> Vec<Vec<(Option<usize>, Estimate)>> {
            let estimate = |record: &Record| (record.level, record.estimate);
            records.iter().map(|row| row.iter().map(estimate).collect()).collect()
        };
        assert_eq!(estimates(&records), estimates(&plan.records(&rows.rows).unwrap()));
        // What is settled by a proof is not estimated any more.
        let (records, _) = predictor.records(&[2, 0, 1]);
        let open = records.iter().filter(|records| !records.is_empty()).count();
        assert!(open < 300, "compressed settles some");
    }

    #[test]
    fn a_threshold_predicted_from_few_rows_is_about_that_of_a_large_test() {
        let machine = machine();
        let target = Target { risk: 0.01, ..Target::default() };
        let rows = crescents(20_000, 6);
        let mut logarithms = Vec::new();
        for seed in 10..15 {
            let few = scored(&machine, crescents(600, seed));
            let (predictor, plan) =
                predictor(&machine, &few, target, "cascade(linear, student(2), exact)");
            let exact = plan.exact_stage().cost().multiply_adds;
            let calibration = predictor.calibration(&[0, 1], exact);
            let scores = plan.scores(&rows).unwrap();
            let scales = calibration.scales.clone();
            let references = References { scores: &scores, labels: None };
            let tested = risk::calibrate(&plan, &rows, references, scales, &target).unwrap();
            logarithms.push((calibration.threshold / tested.threshold).ln());
        }
        let ratios: Vec<f64> = logarithms.iter().map(|x| x.exp()).collect();
        let usual = (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp();
        assert!(ratios.iter().all(|ratio| (0.4..2.5).contains(ratio)), "{ratios:?}");
        assert!((0.6..1.6).contains(&usual), "{usual} of {ratios:?}");
    }
}
