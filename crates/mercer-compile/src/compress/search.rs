//! The search for the fewest vectors that reach a goal.
//!
//! How a reduced set is found for one size is the method's task; how it is measured is in `measure.rs`.

use std::collections::BTreeMap;

use mercer_machine::Machine;

use super::measure::{FeatureDistance, SampleAgreement, SampleEvaluator, distance};
use super::{CompressionProblem, CompressorRun, CurvePoint, Goal, ReducedSet, unfit};
use crate::CompileError;

/// A reduced set, measured.
#[derive(Debug)]
pub(super) struct MeasuredMachine {
    pub machine: Machine,
    pub size: usize,
    pub error: FeatureDistance,
    pub agreement: Option<SampleAgreement>,
}

/// Sizes are found to one part in so many.
const FINE: usize = 20;

fn measured(
    problem: &CompressionProblem<'_>,
    set: &ReducedSet,
    evaluator: &SampleEvaluator<'_>,
) -> Result<MeasuredMachine, CompileError> {
    let error = distance(problem, set)?;
    let machine = set.machine(problem.machine)?;
    let agreement = evaluator.evaluate(&set.rows, &machine, &problem.watch)?;
    Ok(MeasuredMachine { size: set.rows.rows(), machine, error, agreement })
}

/// Finds the reduced set that the goal asks for.
pub(super) fn find(
    problem: &CompressionProblem<'_>,
    run: &mut dyn CompressorRun,
    goal: Goal,
    evaluator: &SampleEvaluator<'_>,
) -> Result<MeasuredMachine, CompileError> {
    match goal {
        Goal::ByParameters => {
            let set = run.by_parameters()?.ok_or_else(|| {
                let goals = "--size, --error, --disagreement or --certified";
                unfit("compress", format!("this method needs a goal: {goals}"))
            })?;
            measured(problem, &set, evaluator)
        }
        Goal::Size(size) => measured(problem, &run.at_size(size.max(1))?, evaluator),
        Goal::Error(error) => {
            let start = run.predict_size(error)?;
            let is_enough = |measurement: &MeasuredMachine| measurement.error.relative <= error;
            fewest(
                problem,
                run,
                evaluator,
                start,
                &is_enough,
                &format!("a relative error of {error}"),
            )
        }
        Goal::Disagreement(share) => {
            evaluator.needed("disagreement")?;
            let is_enough = |measurement: &MeasuredMachine| {
                measurement.agreement.is_some_and(|agreement| agreement.disagreement() <= share)
            };
            fewest(problem, run, evaluator, None, &is_enough, &format!("a disagreement of {share}"))
        }
        Goal::Certified(share) => {
            evaluator.needed("certified")?;
            let is_enough = |measurement: &MeasuredMachine| {
                let proved =
                    measurement.agreement.and_then(|agreement| agreement.certified_share());
                proved.is_some_and(|proved| proved >= share)
            };
            fewest(
                problem,
                run,
                evaluator,
                None,
                &is_enough,
                &format!("a certified share of {share}"),
            )
        }
    }
}

/// Multiplies the size by two until it is enough, then halves the interval. With a size to start from, only that
/// one and larger ones are tried.
fn fewest(
    problem: &CompressionProblem<'_>,
    run: &mut dyn CompressorRun,
    evaluator: &SampleEvaluator<'_>,
    start: Option<usize>,
    is_enough: &dyn Fn(&MeasuredMachine) -> bool,
    goal: &str,
) -> Result<MeasuredMachine, CompileError> {
    let most = problem.max_rank();
    let (mut few, mut size) = (start.map_or(0, |size| size - 1), start.unwrap_or(1).min(most));
    let mut best = loop {
        let measurement = measured(problem, &run.at_size(size)?, evaluator)?;
        if is_enough(&measurement) {
            break measurement;
        }
        if size >= most || measurement.size < size {
            let MeasuredMachine { size, error, .. } = measurement;
            let reached = format!("{size} vectors have a relative error of {:.3e}", error.relative);
            return Err(unfit("compress", format!("{goal} is out of reach: {reached}")));
        }
        few = size;
        let step = if start.is_some() { (size / FINE).max(1) } else { size };
        size = (size + step).min(most);
    };
    while best.size > few + 1 && best.size - few > best.size / FINE {
        let middle = few.midpoint(best.size);
        let measurement = measured(problem, &run.at_size(middle)?, evaluator)?;
        if is_enough(&measurement) && measurement.size < best.size {
            best = measurement;
        } else {
            few = middle;
        }
    }
    Ok(best)
}

/// A few smaller sizes, measured; only the one that was found without a sample.
pub(super) fn smaller_sizes(
    problem: &CompressionProblem<'_>,
    run: &mut dyn CompressorRun,
    evaluator: &SampleEvaluator<'_>,
    measurement: &MeasuredMachine,
) -> Result<Vec<CurvePoint>, CompileError> {
    let point = |measurement: &MeasuredMachine| CurvePoint {
        size: measurement.size,
        error: measurement.error.relative,
        agreement: measurement.agreement,
    };
    let mut points = vec![point(measurement)];
    if measurement.agreement.is_none() {
        return Ok(points);
    }
    for share in [2, 4, 8] {
        let size = measurement.size / share;
        if size == 0 {
            break;
        }
        points.push(point(&measured(problem, &run.at_size(size)?, evaluator)?));
    }
    Ok(points)
}

/// All that is known, by size; measured errors replace estimated ones.
pub(super) fn curve(estimated: Vec<(usize, f64)>, smaller_sizes: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut curve: BTreeMap<usize, CurvePoint> = BTreeMap::new();
    for (size, error) in estimated {
        curve.insert(size, CurvePoint { size, error, agreement: None });
    }
    for point in smaller_sizes {
        curve.insert(point.size, *point);
    }
    curve.into_values().collect()
}
