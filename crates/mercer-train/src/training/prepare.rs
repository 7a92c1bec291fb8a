//! Checks at the door, and targets and weights as solvers need them.

use mercer_data::{Dataset, Targets};
use mercer_kernel::{Domain, Form, KernelRef};
use mercer_machine::{Output, Scheme};
use mercer_simd::Real;

use super::{Training, output};
use crate::gram::Source;
use crate::labels::Labels;
use crate::reduce::{OneVsOne, OneVsRest, Reduction, Whole};
use crate::{FormulationRef, Goal, TrainError};

/// More questions than this are refused.
const MOST_QUESTIONS: usize = 1_000_000;

/// Checked targets and weights.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) labels: Labels,
    /// Weight of each example, class weights included.
    pub(crate) weights: Vec<f64>,
    /// Targets of a regression.
    pub(crate) values: &'a [f64],
    pub(crate) output: Output,
}

/// `kernel` is given where its domain is to be checked.
pub(crate) fn inputs<'a>(
    data: &'a Dataset,
    kernel: Option<&KernelRef>,
    formulation: &FormulationRef,
    training: &Training,
) -> Result<Inputs<'a>, TrainError> {
    if data.examples.rows() > 0 {
        kernel.map_or(Ok(()), |kernel| check_domain(data, kernel))?;
    }
    inputs_of(data.examples.rows(), &data.targets, formulation, training)
}

/// The same of examples that are elsewhere.
pub(crate) fn inputs_of<'a>(
    rows: usize,
    targets: &'a Targets,
    formulation: &FormulationRef,
    training: &Training,
) -> Result<Inputs<'a>, TrainError> {
    if rows == 0 {
        return Err(TrainError::NoExamples);
    }
    let mut weights = example_weights(training, rows)?;
    let goal = formulation.goal();
    let name = || formulation.spec().name().to_owned();
    if goal != Goal::Novelty && targets.len() != rows {
        let found = targets.len();
        return Err(TrainError::TargetCount { formulation: name(), rows, found });
    }
    let labels = match goal {
        Goal::Classes => Labels::new(targets)?,
        _ => Labels { names: Vec::new(), class_of: Vec::new() },
    };
    if goal == Goal::Classes {
        check_classes(&labels, training.scheme_used(), rows)?;
        apply_class_weights(&labels, training, &mut weights)?;
        let members = labels.members(&weights);
        if let Some(class) = members.iter().position(Vec::is_empty) {
            return Err(TrainError::ZeroClass { name: labels.names[class].to_string() });
        }
    }
    if weights.iter().all(|weight| *weight == 0.0) {
        return Err(TrainError::ZeroWeights);
    }
    let values: &[f64] = match (targets, goal) {
        (Targets::Numbers(numbers), Goal::Value) => {
            if let Some(row) = numbers.iter().position(|value| !value.is_finite()) {
                return Err(TrainError::TargetNotFinite { row: row + 1, value: numbers[row] });
            }
            numbers
        }
        (Targets::Names(names), Goal::Value) => {
            let value = names[0].clone();
            return Err(TrainError::NotANumber { formulation: name(), row: 1, value });
        }
        _ => &[],
    };
    let output = output(goal, labels.names.clone(), training.scheme_used());
    Ok(Inputs { labels, weights, values, output })
}

impl Inputs<'_> {
    /// Examples that count.
    pub(crate) fn examples(&self) -> Vec<u32> {
        (0u32..).zip(&self.weights).filter(|(_, w)| **w > 0.0).map(|(example, _)| example).collect()
    }

    /// The class of an example; 0 where there are none.
    pub(crate) fn tag(&self, example: u32) -> u32 {
        self.labels.class_of.get(example as usize).copied().unwrap_or(0)
    }

    /// Targets of these examples, where they are values.
    pub(crate) fn row_targets<T: Real>(&self, examples: &[u32]) -> Vec<T> {
        let target =
            |example: &u32| self.values.get(*example as usize).map(|value| T::from_f64(*value));
        examples.iter().filter_map(target).collect()
    }

    /// Weights of these examples, unless all are 1.
    pub(crate) fn row_weights<T: Real>(&self, examples: &[u32]) -> Option<Vec<T>> {
        let all_one = examples.iter().all(|example| self.weights[*example as usize] == 1.0);
        let weight = |example: &u32| T::from_f64(self.weights[*example as usize]);
        (!all_one).then(|| examples.iter().map(weight).collect())
    }

    pub(crate) fn reduction(&self, scheme: Scheme) -> Box<dyn Reduction + '_> {
        let weights = &self.weights;
        let counted = || (0u32..).zip(weights).filter(|(_, w)| **w > 0.0).map(|(e, _)| e).collect();
        let names = || self.labels.names.iter().map(ToString::to_string).collect();
        match (&self.output, scheme) {
            (Output::Classes { .. }, Scheme::OneVsOne) => Box::new(OneVsOne {
                names: names(),
                members: self.labels.members(weights),
                weights,
            }),
            (Output::Classes { .. }, Scheme::OneVsRest) => Box::new(OneVsRest {
                names: names(),
                class_of: &self.labels.class_of,
                examples: counted(),
                weights,
            }),
            _ => Box::new(Whole { targets: self.values, examples: counted(), weights }),
        }
    }
}

fn example_weights(training: &Training, rows: usize) -> Result<Vec<f64>, TrainError> {
    let Some(weights) = &training.weights else {
        return Ok(vec![1.0; rows]);
    };
    if weights.len() != rows {
        return Err(TrainError::WeightCount { found: weights.len(), rows });
    }
    match weights.iter().position(|weight| !is_weight(*weight)) {
        Some(row) => Err(TrainError::BadWeight {
            place: format!("example {}", row + 1),
            value: weights[row],
        }),
        None => Ok(weights.clone()),
    }
}

fn is_weight(weight: f64) -> bool {
    weight >= 0.0 && weight.is_finite()
}

fn apply_class_weights(
    labels: &Labels,
    training: &Training,
    weights: &mut [f64],
) -> Result<(), TrainError> {
    let mut factors = vec![1.0; labels.names.len()];
    for (name, weight) in &training.class_weights {
        if !is_weight(*weight) {
            let place = format!("class '{name}'");
            return Err(TrainError::BadWeight { place, value: *weight });
        }
        let Some(class) = labels.names.iter().position(|known| known == name) else {
            let known: Vec<String> = labels.names.iter().map(ToString::to_string).collect();
            let (name, known) = (name.to_string(), known.join(", "));
            return Err(TrainError::UnknownClass { name, known });
        };
        factors[class] = *weight;
    }
    for (weight, class) in weights.iter_mut().zip(&labels.class_of) {
        *weight *= factors[*class as usize];
    }
    Ok(())
}

fn check_classes(labels: &Labels, scheme: Scheme, rows: usize) -> Result<(), TrainError> {
    let classes = labels.names.len();
    if classes < 2 {
        return Err(TrainError::OneClass { name: labels.names[0].to_string() });
    }
    let questions = match scheme {
        Scheme::OneVsOne => classes * (classes - 1) / 2,
        Scheme::OneVsRest => classes,
    };
    if questions > MOST_QUESTIONS {
        return Err(TrainError::TooManyClasses { classes, rows, subproblems: questions });
    }
    Ok(())
}

fn check_domain(data: &Dataset, kernel: &KernelRef) -> Result<(), TrainError> {
    // The dot product of two rows of values is not the value of the pair.
    if kernel.spec().name() == "precomputed" && matches!(kernel.form(), Form::Dot(_)) {
        return Err(TrainError::PrecomputedKernel);
    }
    if kernel.domain() == Domain::Real {
        return Ok(());
    }
    for (row, values) in (1..).zip(data.examples.iter()) {
        if let Some((column, value)) = values.nonzeros().find(|(_, value)| *value < 0.0) {
            let (column, kernel) = (column as usize + 1, kernel.spec().name().to_owned());
            return Err(TrainError::Negative { row, column, value, kernel });
        }
    }
    Ok(())
}

/// Refuses kernel values that doubles cannot hold.
pub(crate) fn check_diagonal(source: &Source<'_>) -> Result<(), TrainError> {
    match source.diagonal.iter().position(|value| !value.is_finite()) {
        Some(row) => Err(TrainError::KernelNotFinite { row: row + 1, value: source.diagonal[row] }),
        None => Ok(()),
    }
}

/// A checkpoint that passed its digest but does not fit: the file was tampered with.
pub(super) fn foreign_checkpoint(training: &Training) -> TrainError {
    let path = training.checkpoint.as_ref().map(|checkpoint| checkpoint.path.clone());
    let reason = "its parts do not fit the data".to_owned();
    TrainError::Checkpoint { path: path.unwrap_or_default(), reason }
}
