//! The search for the fewest vectors that reach a goal.
//!
//! How a reduced set is found for one size is the method's task; how it is measured is in `measure.rs`. A size at which a
//! method finds nothing is a point without a result, not the end of the search.

use std::collections::BTreeMap;

use mercer_machine::Machine;

use super::measure::{FeatureDistance, SampleAgreement, SampleEvaluator, distance};
use super::{CompressionProblem, CompressorRun, CurvePoint, Goal, ReducedSet, Tube, unfit};
use crate::CompileError;

/// A reduced set, measured.
#[derive(Debug)]
pub(super) struct MeasuredMachine {
    pub machine: Machine,
    pub size: usize,
    pub error: FeatureDistance,
    pub agreement: Option<SampleAgreement>,
    pub tube: Option<Tube>,
}

/// Sizes are found to one part in so many.
const FINE: usize = 20;

/// A share or an error that a machine has to reach.
#[derive(Debug, Clone, Copy)]
struct Wish {
    measure: Measure,
    limit: f64,
}

#[derive(Debug, Clone, Copy)]
enum Measure {
    Error,
    Disagreement,
    Certified,
}

impl Wish {
    /// What a machine reaches; none if it cannot be measured.
    fn reached(self, machine: &MeasuredMachine) -> Option<f64> {
        match self.measure {
            Measure::Error => Some(machine.error.relative),
            Measure::Disagreement => machine.agreement.map(|agreement| agreement.disagreement()),
            Measure::Certified => {
                machine.agreement.and_then(|agreement| agreement.certified_share())
            }
        }
    }

    /// Whether the first reaches more than the second.
    fn is_better(self, first: f64, second: f64) -> bool {
        if matches!(self.measure, Measure::Certified) { first > second } else { first < second }
    }

    fn is_met(self, machine: &MeasuredMachine) -> bool {
        self.reached(machine).is_some_and(|reached| !self.is_better(self.limit, reached))
    }

    fn name(self) -> &'static str {
        match self.measure {
            Measure::Error => "relative error",
            Measure::Disagreement => "disagreement",
            Measure::Certified => "certified share",
        }
    }
}

/// What was tried without reaching the wish.
#[derive(Debug, Default)]
struct Missed {
    /// The best so far, and its size.
    best: Option<(f64, usize)>,
    /// Why the last size without a result had none.
    reason: Option<String>,
}

impl Missed {
    fn add(&mut self, wish: Wish, machine: &MeasuredMachine) {
        let Some(reached) = wish.reached(machine) else {
            self.reason = Some(format!("its {} cannot be measured", wish.name()));
            return;
        };
        if self.best.is_none_or(|(best, _)| wish.is_better(reached, best)) {
            self.best = Some((reached, machine.size));
        }
    }

    fn error(self, wish: Wish) -> CompileError {
        let (name, limit) = (wish.name(), wish.limit);
        let reached = match (self.best, self.reason) {
            (Some((best, size)), _) => format!("the best is {best:.3e}, with {size} vectors"),
            (None, Some(reason)) => reason,
            (None, None) => "nothing was found at any size".to_owned(),
        };
        unfit("compress", format!("a {name} of {limit:?} is out of reach: {reached}"))
    }
}

/// One method at several sizes of one machine.
pub(super) struct SizeSearch<'s, 'a> {
    pub problem: &'s CompressionProblem<'a>,
    pub run: &'s mut dyn CompressorRun,
    pub evaluator: &'s SampleEvaluator<'a>,
}

impl SizeSearch<'_, '_> {
    fn measured(&mut self, set: &ReducedSet) -> Result<MeasuredMachine, CompileError> {
        let tube = self.run.tube();
        let error = distance(self.problem, set)?;
        let machine = set.machine(self.problem.machine)?;
        let agreement = self.evaluator.evaluate(&set.rows, &machine, &self.problem.watch)?;
        Ok(MeasuredMachine { size: set.rows.rows(), machine, error, agreement, tube })
    }

    /// What the method finds at a size, or why it finds nothing.
    fn at_size(&mut self, size: usize) -> Result<Result<MeasuredMachine, String>, CompileError> {
        match self.run.at_size(size).and_then(|set| self.measured(&set)) {
            Ok(machine) => Ok(Ok(machine)),
            Err(CompileError::Uncompressible { method, reason }) => {
                Ok(Err(format!("{method} finds nothing with {size} vectors or fewer: {reason}")))
            }
            Err(other) => Err(other),
        }
    }

    /// Finds the reduced set that the goal asks for.
    pub(super) fn find(&mut self, goal: Goal) -> Result<MeasuredMachine, CompileError> {
        let wish = |measure, limit| Wish { measure, limit };
        match goal {
            Goal::ByParameters => {
                let set = self.run.by_parameters()?.ok_or_else(|| {
                    let goals = "--size, --error, --disagreement or --certified";
                    unfit("compress", format!("this method needs a goal: {goals}"))
                })?;
                self.measured(&set)
            }
            Goal::Size(size) => {
                let set = self.run.at_size(size.max(1))?;
                self.measured(&set)
            }
            Goal::Error(error) => {
                let start = self.run.predict_size(error)?;
                self.fewest(wish(Measure::Error, error), start)
            }
            Goal::Disagreement(share) => {
                self.evaluator.needed("disagreement")?;
                self.fewest(wish(Measure::Disagreement, share), None)
            }
            Goal::Certified(share) => {
                self.evaluator.needed("certified")?;
                self.fewest(wish(Measure::Certified, share), None)
            }
        }
    }

    /// Multiplies the size by two until it is enough, then halves the interval. With a size to start from, only that
    /// one and larger ones are tried, in steps that grow.
    fn fewest(
        &mut self,
        wish: Wish,
        start: Option<usize>,
    ) -> Result<MeasuredMachine, CompileError> {
        let most = self.problem.max_rank();
        let mut size = start.unwrap_or(1).clamp(1, most);
        let mut step = if start.is_some() { (size / FINE).max(1) } else { size };
        let (mut few, mut missed) = (size - 1, Missed::default());
        let mut best = loop {
            match self.at_size(size)? {
                Ok(machine) if wish.is_met(&machine) => break machine,
                Ok(machine) => missed.add(wish, &machine),
                Err(reason) => missed.reason = Some(reason),
            }
            if size >= self.run.most().unwrap_or(most).min(most) {
                return Err(missed.error(wish));
            }
            few = size;
            size = (size + step).min(most);
            step *= 2;
        };
        while best.size > few + 1 && best.size - few > best.size / FINE {
            let middle = few.midpoint(best.size);
            match self.at_size(middle)? {
                Ok(machine) if wish.is_met(&machine) && machine.size < best.size => best = machine,
                _ => few = middle,
            }
        }
        Ok(best)
    }

    /// A few smaller sizes, measured; only the one that was found without a sample. Sizes at which nothing is found are
    /// left out.
    pub(super) fn smaller_sizes(
        &mut self,
        machine: &MeasuredMachine,
    ) -> Result<Vec<CurvePoint>, CompileError> {
        let point = |machine: &MeasuredMachine| CurvePoint {
            size: machine.size,
            error: machine.error.relative,
            agreement: machine.agreement,
        };
        let mut points = vec![point(machine)];
        if machine.agreement.is_none() {
            return Ok(points);
        }
        for share in [2, 4, 8] {
            let size = machine.size / share;
            if size == 0 {
                break;
            }
            points.extend(self.at_size(size)?.as_ref().ok().map(point));
        }
        Ok(points)
    }
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
