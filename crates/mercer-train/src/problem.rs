//! The training problem: examples, kernel and formulation, with targets and weights checked.
//! How several classes become binary subproblems is in [`crate::reduce`]; how they are solved in
//! [`crate::backend`].

use mercer_data::{Matrix, Targets};
use mercer_kernel::{Domain, Form, KernelRef};
use mercer_machine::{Output, Scheme};
use mercer_simd::Real;

use crate::gram::Source;
use crate::labels::Labels;
use crate::reduce::{self, Reduction};
use crate::row_source::RowSource;
use crate::{FormulationRef, Goal, TrainError, Training};

/// More subproblems than this are refused.
const MAX_SUBPROBLEMS: usize = 1_000_000;

/// What is trained, on which examples, with which options.
pub(crate) struct Problem<'p> {
    pub(crate) examples: &'p dyn RowSource,
    pub(crate) targets: &'p Targets,
    pub(crate) kernel: &'p KernelRef,
    pub(crate) formulation: &'p FormulationRef,
    pub(crate) training: &'p Training,
    /// Classes and the class of each example; empty without classes.
    pub(crate) labels: Labels,
    /// Weight of each example, class weights included.
    pub(crate) weights: Vec<f64>,
    /// Targets of a regression; empty otherwise.
    pub(crate) values: &'p [f64],
    pub(crate) output: Output,
}

impl<'p> Problem<'p> {
    /// # Errors
    /// If there are no examples, or targets, weights and formulation do not fit together.
    pub(crate) fn new(
        examples: &'p dyn RowSource,
        targets: &'p Targets,
        kernel: &'p KernelRef,
        formulation: &'p FormulationRef,
        training: &'p Training,
    ) -> Result<Self, TrainError> {
        let rows = examples.rows();
        if rows == 0 {
            return Err(TrainError::NoExamples);
        }
        let mut weights = example_weights(training, rows)?;
        let (goal, scheme) = (formulation.goal(), training.scheme_used());
        if goal != Goal::Novelty && targets.len() != rows {
            let (formulation, found) = (formulation.spec().name().to_owned(), targets.len());
            return Err(TrainError::TargetCount { formulation, rows, found });
        }
        let labels = match goal {
            Goal::Classes => Labels::new(targets)?,
            _ => Labels { names: Vec::new(), class_of: Vec::new() },
        };
        if goal == Goal::Classes {
            check_classes(&labels, scheme, rows)?;
            apply_class_weights(&labels, training, &mut weights)?;
            let members = labels.members(&weights);
            if let Some(class) = members.iter().position(Vec::is_empty) {
                return Err(TrainError::ZeroClass { name: labels.names[class].to_string() });
            }
        }
        if weights.iter().all(|weight| *weight == 0.0) {
            return Err(TrainError::ZeroWeights);
        }
        let values = regression_targets(targets, formulation)?;
        let output = match goal {
            Goal::Classes => Output::Classes { names: labels.names.clone(), scheme },
            Goal::Value => Output::Value,
            Goal::Novelty => Output::Novelty,
        };
        Ok(Self {
            examples,
            targets,
            kernel,
            formulation,
            training,
            labels,
            weights,
            values,
            output,
        })
    }

    /// The examples as a matrix in memory.
    ///
    /// # Errors
    /// If they are read in pieces.
    pub(crate) fn matrix(&self) -> Result<&'p Matrix, TrainError> {
        self.examples.as_matrix().ok_or_else(|| needs_matrix(self.training))
    }

    /// The examples as kernel values need them.
    ///
    /// # Errors
    /// If the kernel is not defined on them, or has a value there that f64 cannot hold.
    pub(crate) fn kernel_source(&self) -> Result<Source<'p>, TrainError> {
        let matrix = self.matrix()?;
        check_domain(0, matrix, self.kernel)?;
        let source = Source::new(self.kernel, matrix);
        match source.diagonal.iter().position(|value| !value.is_finite()) {
            Some(row) => {
                let value = source.diagonal[row];
                Err(TrainError::KernelNotFinite { row: row + 1, value })
            }
            None => Ok(source),
        }
    }

    /// Examples of weight above zero.
    pub(crate) fn weighted_examples(&self) -> Vec<u32> {
        (0u32..).zip(&self.weights).filter(|(_, w)| **w > 0.0).map(|(example, _)| example).collect()
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

    /// How many binary subproblems there are.
    pub(crate) fn subproblem_count(&self) -> usize {
        match &self.output {
            Output::Classes { names, scheme } => reduce::subproblem_count(names.len(), *scheme),
            _ => 1,
        }
    }

    /// The binary subproblems.
    pub(crate) fn reduction(&self) -> Reduction<'_> {
        Reduction::new(self)
    }
}

/// A solver that cannot read examples in pieces.
pub(crate) fn needs_matrix(training: &Training) -> TrainError {
    let solver = training.solver.spec().name().to_owned();
    TrainError::Unsuited { solver, reason: "it needs all examples in memory".to_owned() }
}

/// The targets as numbers, where the formulation is a regression.
fn regression_targets<'p>(
    targets: &'p Targets,
    formulation: &FormulationRef,
) -> Result<&'p [f64], TrainError> {
    match (targets, formulation.goal()) {
        (Targets::Numbers(numbers), Goal::Value) => {
            match numbers.iter().position(|value| !value.is_finite()) {
                Some(row) => Err(TrainError::TargetNotFinite { row: row + 1, value: numbers[row] }),
                None => Ok(numbers),
            }
        }
        (Targets::Names(names), Goal::Value) => {
            let (formulation, value) = (formulation.spec().name().to_owned(), names[0].clone());
            Err(TrainError::NotANumber { formulation, row: 1, value })
        }
        _ => Ok(&[]),
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
        let Some(class) = labels.names.iter().position(|class| class == name) else {
            let classes: Vec<String> = labels.names.iter().map(ToString::to_string).collect();
            let (name, known) = (name.to_string(), classes.join(", "));
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
    let subproblems = reduce::subproblem_count(classes, scheme);
    if subproblems > MAX_SUBPROBLEMS {
        return Err(TrainError::TooManyClasses { classes, rows, subproblems });
    }
    Ok(())
}

/// Refuses rows where the kernel is not defined; `first` is the number of the first of them.
pub(crate) fn check_domain(
    first: usize,
    examples: &Matrix,
    kernel: &KernelRef,
) -> Result<(), TrainError> {
    // The dot product of two rows of values is not the value of the pair.
    if kernel.spec().name() == "precomputed" && matches!(kernel.form(), Form::Dot(_)) {
        return Err(TrainError::PrecomputedKernel);
    }
    if kernel.domain() == Domain::Real {
        return Ok(());
    }
    for (row, values) in (first + 1..).zip(examples.iter()) {
        if let Some((column, value)) = values.nonzeros().find(|(_, value)| *value < 0.0) {
            let (column, kernel) = (column as usize + 1, kernel.spec().name().to_owned());
            return Err(TrainError::Negative { row, column, value, kernel });
        }
    }
    Ok(())
}
