//! Widths of plans before their test, to compare plans by.
//!
//! Every stage is asked once what it makes of some rows; what a plan makes of them is put together from
//! that. Other labels are too rare to be counted on so few rows. But a guess does not know on which side of
//! a change of label a query lies, so each row near one stands for many: with the errors that it met and the
//! true scores of other rows near a change, on either side. On those, other labels are counted.
//!
//! Nothing is promised by such a threshold: the test alone decides what a plan may do, and a threshold foretold
//! badly costs speed only.

use std::collections::HashMap;

use mercer_machine::{Answer, Calibration, Counts, Machine, Scale};
use mercer_query::{Cost, Estimate, Plan, QueryOptions, Record};

use super::parts::Judged;
use crate::CompileError;
use crate::distillation_set::unit;
use crate::risk::{self, Effect, Opinion, Target, tally, thresholds};

/// Rows are near a change of label within this share of the usual margin. Found on MNIST (3 against 8, even
/// against odd, ten classes), where thresholds foretold so were 0.7 to 1.3 times those of the test.
const NEAR: f64 = 0.5;
/// Fewer rows near a change of label are filled up with the next ones.
const LEAST_NEAR: usize = 40;
/// True scores that each of them is given.
const PARTNERS: usize = 16;
/// Plans are compared on the wide side of what is foretold: one that is fast there loses little if the threshold
/// turns out narrow, but not the other way round. Too much doubt favours plans that are good with what should not be
/// left open, so it falls with the root of the rows near a change of label: a hundred of them add a tenth.
const DOUBT: f64 = 1.0;
/// And only so much of what the test forgives is counted on: a good stage may give a handful of other labels on these
/// rows, and one less would let it settle everything.
const COUNTED_ON: f64 = 0.85;

/// What one stage makes of each row, asked alone.
#[derive(Debug)]
enum Heard {
    /// It proves: which rows it closes, and what it costs.
    Proofs { closed: Vec<bool>, cost: u64 },
    /// It estimates on so many levels.
    Guesses { records: Vec<Vec<Record>>, levels: usize },
}

/// Foretells thresholds; remembers what it heard of each stage.
#[derive(Debug)]
pub(super) struct Foreteller<'a> {
    machine: &'a Machine,
    part: &'a Judged,
    target: Target,
    /// Share of other labels that the last test forgives as often as not.
    aim: f64,
    heard: HashMap<usize, Heard>,
}

impl<'a> Foreteller<'a> {
    /// For plans that will be tested on so many rows.
    pub(super) fn new(
        machine: &'a Machine,
        part: &'a Judged,
        target: Target,
        tested: usize,
    ) -> Self {
        let aim = target.typical(tested);
        Self { machine, part, target, aim, heard: HashMap::new() }
    }

    /// Whether this stage was heard before.
    pub(super) fn knows(&self, stage: usize) -> bool {
        self.heard.contains_key(&stage)
    }

    /// Asks a stage, given as a plan of nothing else.
    pub(super) fn hear(&mut self, stage: usize, alone: &Plan) -> Result<(), CompileError> {
        let rows = &self.part.rows;
        let levels = alone.levels().len();
        let records = alone.records(rows)?;
        let is_silent = levels == 0 && records.iter().all(Vec::is_empty);
        let heard = if is_silent {
            let answers = alone.decide_with(rows, &QueryOptions::default())?;
            let closed: Vec<bool> = answers.settled_by.iter().map(|stage| *stage == 0).collect();
            let own = answers.decisions.iter().zip(&closed).filter(|(_, closed)| **closed);
            let cost = own.map(|(answer, _)| answer.cost.multiply_adds).max().unwrap_or(0);
            Heard::Proofs { closed, cost }
        } else {
            Heard::Guesses { records, levels }
        };
        self.heard.insert(stage, heard);
        Ok(())
    }

    /// A calibration for the plan of these stages, all heard before: it serves to compare, not to promise.
    pub(super) fn calibration(&self, stages: &[usize], exact: u64) -> Calibration {
        let (records, levels) = self.records(stages);
        let scores = &self.part.scores;
        let scales = risk::scales_of(self.machine, &records, scores, levels, exact);
        let imagined = self.imagined(&records, &scales);
        let near = (imagined.len() / PARTNERS).max(1) as f64;
        let threshold = (1.0 + DOUBT / near.sqrt()) * boldest(&imagined, self.allowed());
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

    /// Other labels that the imagined queries may get.
    fn allowed(&self) -> f64 {
        COUNTED_ON * self.aim * (self.part.rows.rows() * PARTNERS) as f64
    }

    /// What the levels make of queries near a change of label: the errors of one row, the true score of
    /// another.
    fn imagined(&self, records: &[Vec<Record>], scales: &[Scale]) -> Vec<Vec<Opinion>> {
        let count = self.machine.scores().len();
        let rows = records.iter().zip(self.part.scores.chunks_exact(count));
        let mut rows: Vec<Seen> = rows
            .map(|(records, scores)| Seen::new(self.machine, records, scores, scales))
            .collect();
        let unit = unit(&rows.iter().map(|row| row.truth).collect::<Vec<_>>());
        let near = rows.iter().filter(|row| row.truth.abs() < NEAR * unit).count();
        let near = near.max(LEAST_NEAR).min(rows.len());
        // The order among equals is that of the sample, so the same for every plan.
        rows.sort_by(|a, b| a.truth.abs().total_cmp(&b.truth.abs()));
        rows.truncate(near);
        let mut imagined = Vec::with_capacity(near * PARTNERS);
        for (place, row) in rows.iter().enumerate() {
            for partner in 0..PARTNERS {
                let truth = rows[(place + 1 + partner * near / PARTNERS) % near].truth;
                let truth = if partner % 2 == 0 { truth } else { -truth };
                imagined.push(row.with_truth(truth, scales));
            }
        }
        imagined
    }

    /// What the levels of a plan make of the rows, if none of them stops a query, and how many there are.
    fn records(&self, stages: &[usize]) -> (Vec<Vec<Record>>, usize) {
        let heard: Vec<&Heard> = stages.iter().map(|stage| &self.heard[stage]).collect();
        let rows = self.part.rows.rows();
        let all = (0..rows).map(|row| together(&heard, row)).collect();
        let levels = heard.iter().map(|heard| match heard {
            Heard::Proofs { .. } => 0,
            Heard::Guesses { levels, .. } => *levels,
        });
        (all, levels.sum())
    }
}

/// What stages make of one row, one after the other.
fn together(stages: &[&Heard], row: usize) -> Vec<Record> {
    let mut all: Vec<Record> = Vec::new();
    let (mut first, mut spent) = (0, 0);
    for stage in stages {
        match stage {
            Heard::Proofs { closed, .. } if closed[row] => break,
            Heard::Proofs { cost, .. } => spent += cost,
            Heard::Guesses { records, levels } => {
                let later = |record: &Record| Record {
                    level: record.level.map(|level| level + first),
                    cost: Cost { multiply_adds: spent + record.cost.multiply_adds },
                    ..*record
                };
                all.extend(records[row].iter().map(later));
                let Some(last) = all.last() else { continue };
                if last.level.is_none() {
                    break;
                }
                spent = spent.max(last.cost.multiply_adds);
                first += levels;
            }
        }
    }
    all
}

/// A row's true score, or the margin of its class, and by how much each level that weighs it is off.
struct Seen {
    truth: f64,
    errors: Vec<(usize, f64)>,
}

impl Seen {
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
                    // Seen from the class that wins.
                    if winner == Some(class) { error } else { -error }
                }
            };
            error.is_finite().then_some((level, error))
        };
        Self { truth, errors: records.iter().filter_map(error).collect() }
    }

    /// What the levels would make of a query that they err on as on this one.
    fn with_truth(&self, truth: f64, scales: &[Scale]) -> Vec<Opinion> {
        let opinion = |(level, error): &(usize, f64)| {
            let value = truth + error;
            Opinion {
                strength: value.abs() / scales[*level].residual_rms,
                is_right: (value > 0.0) == (truth > 0.0),
                effect: Effect::None,
            }
        };
        self.errors.iter().map(opinion).collect()
    }
}

/// The boldest threshold at which no more queries than allowed get another label, nor at any wider one.
fn boldest(queries: &[Vec<Opinion>], allowed: f64) -> f64 {
    let is_allowed = |threshold: &f64| tally(queries, *threshold).others as f64 <= allowed;
    let mut thresholds = thresholds().peekable();
    let widest = thresholds.peek().copied().unwrap_or(f64::INFINITY);
    thresholds.take_while(is_allowed).last().unwrap_or(widest)
}

#[cfg(test)]
mod tests {
    use mercer_data::{Matrix, synthetic};
    use mercer_machine::{Model, Output, Score};

    use super::*;
    use crate::Compiler;

    fn crescents(rows: usize, seed: u64) -> Matrix {
        synthetic::banana(rows, seed).examples
    }

    fn machine() -> Machine {
        let weights: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
        let scores = vec![Score::expansion(&weights, 0.05)];
        Machine::new(kernel, crescents(200, 1), scores, Output::Novelty).unwrap()
    }

    /// A foreteller that has heard each stage of a compiled plan by itself, and the plan.
    fn told<'a>(
        machine: &'a Machine,
        part: &'a Judged,
        target: Target,
        spec: &str,
    ) -> (Foreteller<'a>, Plan) {
        let sample = crescents(3000, 2);
        let compiler = Compiler::new(machine).sample(&sample).target(target);
        let sections = compiler.run(&spec.parse().unwrap()).unwrap().sections;
        let mut teller = Foreteller::new(machine, part, target, 20_000);
        for (number, section) in sections.sections.iter().enumerate() {
            let mut alone = sections.clone();
            alone.sections = vec![section.clone()];
            alone.calibration = None;
            teller.hear(number, &Plan::load(machine, &alone).unwrap()).unwrap();
        }
        (teller, Plan::of(&Model { plan: Some(sections), ..Model::from(machine.clone()) }).unwrap())
    }

    fn part(machine: &Machine, rows: Matrix) -> Judged {
        let scores = Plan::exact(machine).scores(&rows).unwrap();
        Judged { rows, scores }
    }

    const SPEC: &str = "cascade(linear, student(2), compressed(k=40), exact)";

    #[test]
    fn stages_heard_alone_make_what_the_plan_makes_of_a_row() {
        let machine = machine();
        let part = part(&machine, crescents(300, 5));
        let target = Target { risk: 0.05, ..Target::default() };
        let (teller, plan) = told(&machine, &part, target, SPEC);
        let (records, levels) = teller.records(&[0, 1, 2]);
        assert_eq!(levels, plan.levels().len());
        let guesses = |records: &[Vec<Record>]| -> Vec<Vec<(Option<usize>, Estimate)>> {
            let said = |record: &Record| (record.level, record.estimate);
            records.iter().map(|row| row.iter().map(said).collect()).collect()
        };
        assert_eq!(guesses(&records), guesses(&plan.records(&part.rows).unwrap()));
        // What a proof has closed is not weighed any more.
        let (records, _) = teller.records(&[2, 0, 1]);
        let open = records.iter().filter(|records| !records.is_empty()).count();
        assert!(open < 300, "compressed closes some");
    }

    #[test]
    fn a_width_told_from_few_rows_is_about_that_of_a_large_test() {
        let machine = machine();
        let target = Target { risk: 0.01, ..Target::default() };
        let rows = crescents(20_000, 6);
        let mut logarithms = Vec::new();
        for seed in 10..15 {
            let few = part(&machine, crescents(600, seed));
            let (teller, plan) = told(&machine, &few, target, "cascade(linear, student(2), exact)");
            let exact = plan.exact_stage().cost().multiply_adds;
            let calibration = teller.calibration(&[0, 1], exact);
            let scores = plan.scores(&rows).unwrap();
            let scales = calibration.scales.clone();
            let tested = risk::test(&plan, &rows, (&scores, None), scales, &target).unwrap();
            logarithms.push((calibration.threshold / tested.threshold).ln());
        }
        let ratios: Vec<f64> = logarithms.iter().map(|x| x.exp()).collect();
        let usual = (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp();
        assert!(ratios.iter().all(|ratio| (0.4..2.5).contains(ratio)), "{ratios:?}");
        assert!((0.6..1.6).contains(&usual), "{usual} of {ratios:?}");
    }
}
