//! Updates: the machine of all rows from the machine of the original ones, when rows were added or are to be forgotten.
//!
//! The dual coefficients of the original rows are nearly those of the new problem, so the solver starts from them
//! ([`start`]). The original rows are needed: a machine keeps its supports only, and a row that is none can become one.

mod rows;
mod start;

use mercer_data::{Dataset, Targets};
use mercer_machine::{ClassName, Machine, Output, Score};

pub(crate) use start::EarlierMachine;

use crate::gram_backend::GramBackend;
use crate::problem::Problem;
use crate::reduce::ClassPair;
use crate::report;
use crate::solvers::Method;
use crate::training::choose_solver;
use crate::{FormulationRef, Goal, ProblemForm, Progress, TrainError, Trained, Training};
use rows::{JoinedRows, RowIndex};

/// The duality gap at which an update ends, as a share of the objective, unless another is given: two machines of the same rows
/// then agree in their objectives to this share.
pub const UPDATE_GAP: f64 = 1e-6;

/// Rows with their targets, and a weight for each where some are not 1.
#[derive(Debug, Clone, Copy)]
pub struct WeightedRows<'a> {
    /// The rows, prepared (scaled) as the machine expects them.
    pub data: &'a Dataset,
    /// A weight for each row; all are 1 without.
    pub weights: Option<&'a [f64]>,
}

impl<'a> From<&'a Dataset> for WeightedRows<'a> {
    /// Rows of weight 1.
    fn from(data: &'a Dataset) -> Self {
        Self { data, weights: None }
    }
}

/// What changes.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The machine of the original rows.
    pub machine: &'a Machine,
    /// The rows that it was trained on.
    pub original: WeightedRows<'a>,
    /// Rows to add.
    pub added: Option<WeightedRows<'a>>,
    /// Rows to forget, with their targets: each takes away one equal original row, the first that is left.
    pub forgotten: Option<&'a Dataset>,
}

/// The machine of the rows after an update.
#[derive(Debug, Clone)]
pub struct Updated {
    /// The machine, and how its training went.
    pub trained: Trained,
    /// The rows that it was trained on: the original ones that stayed, then the new ones.
    pub data: Dataset,
    /// Their weights, where some are not 1.
    pub weights: Option<Vec<f64>>,
    /// What changed.
    pub report: UpdateReport,
}

/// What an update changed.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateReport {
    /// Rows before.
    pub original: usize,
    /// Rows that were added.
    pub added: usize,
    /// Rows that were forgotten.
    pub forgotten: usize,
    /// Rows after.
    pub rows: usize,
    /// Supports before.
    pub supports_before: usize,
    /// Supports before that are supports still.
    pub stayed: usize,
    /// Supports that are new.
    pub came: usize,
    /// Supports before that are no supports any more.
    pub left: usize,
    /// Why the training started from nothing, where it did.
    pub cold: Option<String>,
    /// Duality gap over |objective|, of the subproblem where it is largest.
    pub relative_gap: f64,
}

/// Trains the machine of the original rows without those to forget, with those to add.
///
/// It minimises what [`crate::train`] on all these rows minimises. Solvers over a Gram matrix (`smo`, `decomposition`) start from
/// the machine and end when the duality gap is at most [`UPDATE_GAP`] of the objective, or the gap given; others start from
/// nothing, and the report says why. Rows, targets and classes come in the order of `Updated::data`.
///
/// The weights of `training` are not used: weights come with the rows.
///
/// # Errors
/// As [`crate::train`]; if the original rows are not those of the machine, rows to forget are not among them, or rows do not fit.
pub fn update(
    update: &Update<'_>,
    formulation: &FormulationRef,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Updated, TrainError> {
    check_goal(update.machine, formulation)?;
    let has_targets = formulation.goal() != Goal::Novelty;
    let JoinedRows { data, weights } = rows::join(update, has_targets)?;
    let rows = WeightedRows { data: &data, weights: weights.as_deref() };
    let (trained, report) =
        retrain(update.machine, update.original, rows, formulation, training, observer)?;
    let report = UpdateReport {
        added: update.added.map_or(0, |rows| rows.data.examples.rows()),
        forgotten: update.forgotten.map_or(0, |rows| rows.examples.rows()),
        ..report
    };
    Ok(Updated { trained, data, weights, report })
}

/// The same where the rows after the update are given: some of them equal original rows, in any order. The report does not count
/// which were added and forgotten.
///
/// # Errors
/// As [`update`].
pub fn retrain(
    machine: &Machine,
    original: WeightedRows<'_>,
    rows: WeightedRows<'_>,
    formulation: &FormulationRef,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Result<(Trained, UpdateReport), TrainError> {
    check_goal(machine, formulation)?;
    let mut training = training.clone().weights(rows.weights.map(<[f64]>::to_vec));
    training.warm = None;
    if let (Output::Classes { scheme, .. }, None) = (machine.output(), training.scheme) {
        training.scheme = Some(*scheme);
    }
    let (trained, cold) = match cold_reason(machine, formulation, &training) {
        Some(reason) => {
            training.relative_gap = None;
            let kernel = machine.kernel();
            (crate::train(rows.data, kernel, formulation, &training, observer)?, Some(reason))
        }
        None => {
            training.relative_gap = training.relative_gap.or(Some(UPDATE_GAP));
            let from = (machine, original);
            (start_from(from, rows.data, formulation, &training, observer)?, None)
        }
    };
    let report = changes(machine, original, rows.data, &trained, cold);
    Ok((trained, report))
}

/// Trains on all rows by a solver over a Gram matrix, from the machine.
fn start_from(
    from: (&Machine, WeightedRows<'_>),
    data: &Dataset,
    formulation: &FormulationRef,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Trained, TrainError> {
    let (machine, original) = from;
    let kernel = machine.kernel();
    // `auto` trains by smo where it starts from a machine.
    let asked = training.clone().warm_start(Some(machine.clone()));
    let (chosen, reason) = choose_solver(data, kernel, formulation, &asked)?;
    let chosen = chosen.into_owned().warm_start(None);
    let Method::Gram(solver) = chosen.solver.method() else {
        let name = chosen.solver.spec().name().to_owned();
        return Err(TrainError::Unsuited { solver: name, reason: no_start().to_owned() });
    };
    let problem = Problem::new(&data.examples, &data.targets, kernel, formulation, &chosen)?;
    let ratios = weight_ratios(original, &problem);
    let examples = &original.data.examples;
    let earlier = EarlierMachine::new(machine, examples, &data.examples, &problem.output, ratios)?;
    let mut control = chosen.control(observer);
    control.subproblems = problem.subproblem_count();
    let fit = GramBackend { solver }.solve_after(&problem, &earlier, &mut control)?;
    let mut trained = report::build_trained(&problem, fit, &control)?;
    trained.report.chosen = reason;
    Ok(trained)
}

fn no_start() -> &'static str {
    "it has no starting point in a machine"
}

fn check_goal(machine: &Machine, formulation: &FormulationRef) -> Result<(), TrainError> {
    let (goal, is) = match machine.output() {
        Output::Classes { .. } => (Goal::Classes, "a classifier"),
        Output::Value => (Goal::Value, "a regression"),
        Output::Novelty => (Goal::Novelty, "a novelty detector"),
    };
    if goal == formulation.goal() {
        return Ok(());
    }
    let reason = format!("it is {is}, which {} does not train", formulation.spec().name());
    Err(TrainError::WarmStart { reason })
}

/// Why the training starts from nothing, if it must.
fn cold_reason(
    machine: &Machine,
    formulation: &FormulationRef,
    training: &Training,
) -> Option<String> {
    if formulation.form() == ProblemForm::LinearSystem {
        let name = formulation.spec().name().to_owned();
        return Some(format!("{name} is a linear system, which has no starting point"));
    }
    let spec = training.solver.spec();
    let name = spec.name();
    let is_expansion = |score: &Score| matches!(score, Score::Expansion { .. });
    match training.solver.method() {
        Method::Gram(_) | Method::Auto if machine.scores().iter().all(is_expansion) => None,
        Method::Gram(_) | Method::Auto => {
            Some("the machine keeps weights, not coefficients of rows".to_owned())
        }
        _ => Some(format!("the solver {name} does not start from a machine")),
    }
}

/// Weight of the original rows over that of the rows after, for each subproblem.
fn weight_ratios(original: WeightedRows<'_>, problem: &Problem<'_>) -> Vec<f64> {
    let weight = |row: usize| original.weights.map_or(1.0, |weights| weights[row]);
    let names: Vec<String> = problem.labels.names.iter().map(ToString::to_string).collect();
    let mut before = vec![0.0; names.len()];
    let mut after = vec![0.0; names.len()];
    let place = |text: &str| names.iter().position(|name| name == text);
    for row in 0..original.data.targets.len() {
        let found = match &original.data.targets {
            Targets::Numbers(all) => place(&ClassName::Number(all[row] + 0.0).to_string()),
            Targets::Names(all) => place(&all[row]),
            Targets::Absent => None,
        };
        found.into_iter().for_each(|class| before[class] += weight(row));
    }
    for (class, weight) in problem.labels.class_of.iter().zip(&problem.weights) {
        after[*class as usize] += weight;
    }
    // Weights of classes are factors of both.
    for (name, factor) in &problem.training.class_weights {
        place(&name.to_string()).into_iter().for_each(|class| before[class] *= factor);
    }
    let rows = (0..original.data.examples.rows()).map(weight).sum::<f64>();
    let all = problem.weights.iter().sum::<f64>();
    let ratio = |number: usize| {
        if names.is_empty() {
            return rows / all;
        }
        let pair = ClassPair::of(&problem.output, number);
        let sum = |weights: &[f64]| {
            (0u32..)
                .zip(weights)
                .filter(|(class, _)| pair.contains(*class))
                .map(|(_, w)| w)
                .sum::<f64>()
        };
        sum(&before) / sum(&after)
    };
    (0..problem.subproblem_count()).map(ratio).collect()
}

fn changes(
    machine: &Machine,
    original: WeightedRows<'_>,
    data: &Dataset,
    trained: &Trained,
    cold: Option<String>,
) -> UpdateReport {
    let before = machine.supports().rows();
    let index = RowIndex::new(machine.supports());
    let after = trained.machine.supports();
    let stayed = after.iter().filter(|row| index.find(*row).is_some()).count();
    let share = |gap: f64, objective: f64| if gap <= 0.0 { 0.0 } else { gap / objective.abs() };
    let gaps = trained.report.subproblems.iter().map(|part| share(part.gap, part.objective));
    UpdateReport {
        original: original.data.examples.rows(),
        added: 0,
        forgotten: 0,
        rows: data.examples.rows(),
        supports_before: before,
        stayed,
        came: after.rows() - stayed,
        left: before - stayed,
        cold,
        relative_gap: gaps.fold(0.0, f64::max),
    }
}
