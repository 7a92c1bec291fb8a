//! `-wi` of `svm-train`: class weights as LIBSVM takes them. A class of weight 0 or less has no multiplier above 0, so a pair
//! with such a class has no vectors and answers its other class.

use mercer::data::{Dataset, Targets};
use mercer::kernel::KernelRef;
use mercer::machine::{ClassName, Machine, MachineError, Output, Scheme, Score, pairs};
use mercer::train::{Expansion, SubproblemReport, Trained};

/// The classes of a C-SVC in LIBSVM's order, with their weights.
#[derive(Debug)]
pub(super) struct ClassWeights {
    classes: Vec<(f64, f64)>,
}

impl ClassWeights {
    /// Weights of one label multiply; a label that no row has is left out with a warning.
    pub(super) fn new(given: &[(f64, f64)], targets: &Targets) -> Self {
        let Targets::Numbers(labels) = targets else { return Self { classes: Vec::new() } };
        let mut classes: Vec<(f64, f64)> = Vec::new();
        for label in labels {
            if !classes.iter().any(|(known, _)| known == label) {
                classes.push((*label, 1.0));
            }
        }
        if matches!(classes[..], [(-1.0, _), (1.0, _)]) {
            classes.swap(0, 1);
        }
        for (label, weight) in given {
            match classes.iter_mut().find(|(known, _)| known == label) {
                Some((_, product)) => *product *= weight,
                None => eprintln!("WARNING: class label {label} specified in weight is not found"),
            }
        }
        Self { classes }
    }

    /// The weight of a class; 1 unless given.
    pub(super) fn of(&self, class: &ClassName) -> f64 {
        let own = self.classes.iter().find(|(label, _)| ClassName::Number(*label) == *class);
        own.map_or(1.0, |(_, weight)| *weight)
    }

    /// Weights for the training, which has the classes of weight above 0.
    pub(super) fn positive(&self) -> Vec<(ClassName, f64)> {
        let positive = self.classes.iter().filter(|(_, weight)| *weight > 0.0);
        positive.map(|(label, weight)| (ClassName::Number(*label), *weight)).collect()
    }

    /// What is trained where a class has no weight above 0; `None` where all have.
    pub(super) fn partial(&self, targets: &Targets) -> Option<PartialTraining> {
        let Targets::Numbers(labels) = targets else { return None };
        if self.classes.iter().all(|(_, weight)| *weight > 0.0) {
            return None;
        }
        let has_weight = |label: f64| self.of(&ClassName::Number(label)) > 0.0;
        let rows = (0..labels.len()).filter(|row| has_weight(labels[*row])).collect();
        let classes = self.classes.iter();
        let classes = classes.map(|(label, weight)| (ClassName::Number(*label), *weight > 0.0));
        Some(PartialTraining { classes: classes.collect(), rows })
    }
}

/// A training of some of the classes.
#[derive(Debug)]
pub(super) struct PartialTraining {
    /// All classes, and whether they are trained.
    classes: Vec<(ClassName, bool)>,
    /// The rows of trained classes.
    rows: Vec<usize>,
}

/// The pairs of classes as LIBSVM trains them.
#[derive(Debug)]
pub(super) struct Solution {
    pub(super) machine: Machine,
    pub(super) subproblems: Vec<SubproblemReport>,
    /// Positions are those of all rows.
    pub(super) expansions: Vec<Expansion>,
}

impl PartialTraining {
    /// The rows to train on; none if fewer than two classes are left.
    pub(super) fn data(&self, data: &Dataset) -> Option<Dataset> {
        (self.trained_classes() > 1).then(|| data.select(&self.rows))
    }

    fn trained_classes(&self) -> usize {
        self.classes.iter().filter(|(_, is_trained)| *is_trained).count()
    }

    /// The share of rows that are answered rightly, given the share among the rows that were trained. Rows of other classes
    /// never are, unless no class was trained: all pairs then answer their second class, and the last class wins.
    pub(super) fn accuracy(&self, trained: Option<f64>, targets: &Targets) -> f64 {
        let all = targets.len() as f64;
        match (trained, self.trained_classes(), targets, self.classes.last()) {
            (Some(share), ..) => share * self.rows.len() as f64 / all,
            (None, 0, Targets::Numbers(labels), Some((last, _))) => {
                let is_last = |label: &&f64| ClassName::Number(**label) == *last;
                labels.iter().filter(is_last).count() as f64 / all
            }
            _ => self.rows.len() as f64 / all,
        }
    }

    /// The machine of all classes: the pairs that were trained, and constant scores for the others.
    pub(super) fn complete(
        &self,
        trained: Option<Trained>,
        data: &Dataset,
        kernel: &KernelRef,
    ) -> Result<Solution, MachineError> {
        let names: Vec<ClassName> = self.classes.iter().map(|(name, _)| name.clone()).collect();
        let (mut subproblems, mut expansions) = (Vec::new(), Vec::new());
        for (first, second) in pairs(names.len()) {
            let found = trained
                .as_ref()
                .and_then(|trained| self.trained_pair(trained, &names[first], &names[second]));
            let (report, expansion) = found.unwrap_or_else(|| self.constant_pair(first, second));
            subproblems.push(report);
            expansions.push(expansion);
        }
        let machine = machine(&expansions, data, kernel, names)?;
        Ok(Solution { machine, subproblems, expansions })
    }

    /// A pair that was trained; the training may have had its classes the other way round.
    fn trained_pair(
        &self,
        trained: &Trained,
        first: &ClassName,
        second: &ClassName,
    ) -> Option<(SubproblemReport, Expansion)> {
        let classes = trained.machine.classes();
        let same = |(a, b): (usize, usize)| (&classes[a], &classes[b]) == (first, second);
        let swapped = |(a, b): (usize, usize)| (&classes[b], &classes[a]) == (first, second);
        let (number, sign) = match pairs(classes.len()).position(same) {
            Some(number) => (number, 1.0),
            None => (pairs(classes.len()).position(swapped)?, -1.0),
        };
        let own = &trained.expansions[number];
        let expansion = Expansion {
            examples: own.examples.iter().map(|row| self.rows[*row as usize] as u32).collect(),
            coefficients: own.coefficients.iter().map(|beta| sign * beta).collect(),
            offset: sign * own.offset,
        };
        Some((trained.report.subproblems[number].clone(), expansion))
    }

    /// LIBSVM's rho is infinite if one of the classes has a weight above 0; any finite one of its sign gives the same answers.
    fn constant_pair(&self, first: usize, second: usize) -> (SubproblemReport, Expansion) {
        let [(first, has_first), (second, has_second)] =
            [&self.classes[first], &self.classes[second]];
        let offset = f64::from(i8::from(*has_second) - i8::from(*has_first));
        let report = SubproblemReport {
            name: format!("{first} against {second}"),
            converged: true,
            iterations: 0,
            objective: 0.0,
            gap: 0.0,
            violation: 0.0,
            supports: 0,
            bounded: 0,
        };
        (report, Expansion { examples: Vec::new(), coefficients: Vec::new(), offset })
    }
}

/// The machine of these sums over examples.
fn machine(
    expansions: &[Expansion],
    data: &Dataset,
    kernel: &KernelRef,
    names: Vec<ClassName>,
) -> Result<Machine, MachineError> {
    let all = expansions.iter().flat_map(|expansion| &expansion.examples);
    let mut used: Vec<u32> = all.copied().collect();
    used.sort_unstable();
    used.dedup();
    let score = |expansion: &Expansion| {
        let mut betas = vec![0.0; used.len()];
        for (example, beta) in expansion.examples.iter().zip(&expansion.coefficients) {
            betas[used.partition_point(|known| known < example)] += beta;
        }
        Score::expansion(&betas, expansion.offset)
    };
    let supports = data.examples.select(used.iter().map(|example| *example as usize));
    let output = Output::Classes { names, scheme: Scheme::OneVsOne };
    Machine::new(kernel.clone(), supports, expansions.iter().map(score).collect(), output)
}
