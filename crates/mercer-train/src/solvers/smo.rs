//! Sequential minimal optimisation on working sets of hundreds of examples.

mod inner;
mod select;
mod shrink;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use mercer_spec::{Entry, Kind, Parameter, Spec};

pub(crate) use state::State;

use super::{
    GramProblem, Method, OnGram, Solution, Solver, SolverRef, StartPoint, Steering, StoppingTest,
};
use crate::TrainError;
use crate::control::{Control, Standing, Stop};
use crate::gram::kernel_sums;
use crate::optimality::Optimality;
use inner::Inner;

/// SMO with blocks (\[Wen18\], oneDAL): each round takes a working set of the worst violators and
/// part of the previous set, computes their kernel rows as one block, solves the small quadratic program by pair
/// steps of second order (\[FCL05\]) and adds the result to the gradient.
///
/// Kernel rows are singles, the gradient is doubles. Before the end the gradient is recomputed from kernel
/// values in doubles; if singles turn out to be too coarse, the solver goes on with rows of doubles.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "smo",
    summary: "sequential minimal optimisation on working sets, with cached rows and shrinking",
    parameters: &[
        Parameter {
            name: "working_set",
            kind: Kind::Integer { low: 2, high: 8192 },
            default: Some("256"),
            help: "examples solved together",
        },
        Parameter {
            name: "shrinking",
            kind: Kind::Word(&["on", "off"]),
            default: Some("on"),
            help: "whether examples that seem settled are left out until the end",
        },
    ],
    variadic: false,
    build: |checked| {
        let shrinking = checked.spec("shrinking").is_none_or(|word| word.name() == "on");
        let working_set = checked.integer("working_set") as usize;
        Ok(Arc::new(Smo { working_set, shrinking, patience: PATIENCE }))
    },
};

/// The running violation must fall to this share of the tolerance, so that the honest one, which differs
/// by the rounding of singles, passes as well.
const SINGLE_SHARE: f64 = 0.95;
/// A gradient in singles that is off by more than this share of the tolerance is not trusted further.
const DRIFT_SHARE: f64 = 0.25;
/// Rounds in a row without a gain above rounding after which nothing more is expected.
const IDLE_ROUNDS: u32 = 10;
/// Twice LIBSVM's own limit. Kernels of huge values on few columns are too badly conditioned for pair steps.
const PATIENCE: Patience = Patience { steps: 20_000_000, per_variable: 200 };
/// Rounds after which the gradient is checked against doubles for the first time; doubled each time.
const FIRST_CHECK: u64 = 64;
/// Rows looked at in such a check.
const SAMPLE: usize = 256;

#[derive(Debug)]
struct Smo {
    working_set: usize,
    shrinking: bool,
    patience: Patience,
}

/// Pair steps of one question after which it is given up: the larger of the two limits.
#[derive(Debug, Clone, Copy)]
struct Patience {
    steps: u64,
    per_variable: u64,
}

impl Patience {
    fn steps(self, variables: usize) -> u64 {
        self.steps.max(self.per_variable * variables as u64)
    }
}

impl Solver for Smo {
    fn spec(&self) -> Spec {
        Spec::new("smo")
            .set("working_set", self.working_set as f64)
            .set("shrinking", if self.shrinking { "on" } else { "off" })
    }

    fn method(&self) -> Method<'_> {
        Method::Gram(self)
    }
}

impl OnGram for Smo {
    fn solve(
        &self,
        problem: &mut GramProblem<'_, '_>,
        control: &mut Steering<'_, '_>,
    ) -> Result<Solution, TrainError> {
        Run::new(self, problem).finish(control.0)
    }
}

/// One question being solved.
struct Run<'r, 'q, 'a> {
    settings: &'r Smo,
    problem: &'r mut GramProblem<'q, 'a>,
    /// Global example of each row of the quadratic program.
    examples: Vec<u32>,
    state: State,
    /// Position of each row among the active ones.
    slots: Vec<u32>,
}

/// What an honest look at the present point says.
enum Verdict {
    Done(Vec<f64>, Optimality),
    GoOn,
}

/// What a sample says of the gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drift {
    /// It can be trusted.
    Small,
    /// It could not, and was replaced by one in doubles.
    Mended,
}

impl<'r, 'q, 'a> Run<'r, 'q, 'a> {
    fn new(settings: &'r Smo, problem: &'r mut GramProblem<'q, 'a>) -> Self {
        let examples = problem.gram.examples(&problem.view);
        let rows = examples.len();
        let begin = std::mem::replace(&mut problem.from, StartPoint::Point(Vec::new()));
        match begin {
            StartPoint::Point(beta) => {
                let state = State::new(vec![0.0; rows], beta, problem.gram.is_f64());
                let slots = (0..rows as u32).collect();
                let mut run = Self { settings, problem, examples, state, slots };
                if run.state.beta.iter().any(|value| *value != 0.0) {
                    run.state.k_beta = run.honest_field();
                }
                run
            }
            StartPoint::Known { beta, k_beta } => {
                let state = State::new(k_beta, beta, problem.gram.is_f64());
                Self { settings, problem, examples, state, slots: (0..rows as u32).collect() }
            }
            StartPoint::State(state) => {
                let mut run =
                    Self { settings, problem, examples, state: *state, slots: Vec::new() };
                run.resume();
                run
            }
        }
    }

    /// Brings rows and columns into the form they had when the state was saved.
    fn resume(&mut self) {
        if self.state.double {
            self.problem.gram.switch_to_f64(self.problem.memory);
        }
        self.problem.gram.restore(&self.problem.view);
        if self.state.active.len() < self.examples.len() {
            self.problem.gram.shrink(&self.problem.view, &self.state.active);
        }
        self.index_slots();
    }

    fn index_slots(&mut self) {
        self.slots = vec![u32::MAX; self.examples.len()];
        for (slot, row) in (0u32..).zip(&self.state.active) {
            self.slots[*row as usize] = slot;
        }
    }

    fn finish(mut self, control: &mut Control<'_>) -> Result<Solution, TrainError> {
        loop {
            let scan = select::scan(self.problem.qp, &self.state);
            let (violation, gap) = (scan.violation(), scan.gap(self.problem.qp, &self.state));
            control.tell(Standing { violation, gap, supports: scan.supports });
            control.save(&self.state)?;
            if let Some(stop) = control.stop() {
                control.save_before_end(&self.state)?;
                return Ok(self.best_so_far(Some(stop)));
            }
            if self.state.steps >= self.settings.patience.steps(self.problem.qp.len()) {
                return Ok(self.best_so_far(Some(Stop::GivenUp)));
            }
            let share = if self.state.double { 1.0 } else { SINGLE_SHARE };
            if violation <= share * control.tolerance {
                match self.look(control.tolerance) {
                    Verdict::Done(k_beta, optimality) => {
                        return Ok(self.solution(k_beta, optimality, None));
                    }
                    Verdict::GoOn => continue,
                }
            }
            if !self.state.double && self.state.rounds >= self.state.next_check {
                self.sample_drift(control.tolerance);
                continue;
            }
            if self.settings.shrinking && !self.problem.shared {
                self.shrink(&scan);
            }
            let gain = self.round(&scan, control);
            let objective = scan.objective.abs();
            let is_idle = gain <= 4.0 * f64::EPSILON * objective;
            self.state.idle = if is_idle { self.state.idle + 1 } else { 0 };
            if self.state.idle >= IDLE_ROUNDS {
                if self.state.double && self.state.active.len() == self.examples.len() {
                    return Ok(self.best_so_far(Some(Stop::Stalled)));
                }
                self.use_doubles();
            }
        }
    }

    /// One working set: kernel rows, pair steps, gradient. Returns by how much the objective fell.
    fn round(&mut self, scan: &select::Scan, control: &mut Control<'_>) -> f64 {
        let qp = self.problem.qp;
        let capacity = self.problem.gram.capacity(&self.problem.view);
        let size = self.settings.working_set.min(capacity / 2).max(2);
        let set = select::working_set(qp, &self.state, scan, size);
        let row_of = |v: &u32| *v % qp.rows as u32;
        let columns: Vec<u32> = set.iter().map(|v| self.slots[row_of(v) as usize]).collect();
        let chosen: Vec<u32> = set.iter().map(|v| self.examples[row_of(v) as usize]).collect();
        let mut distinct = chosen.clone();
        if qp.len() > qp.rows {
            distinct.sort_unstable();
            distinct.dedup();
        }
        self.problem.gram.fetch(&self.problem.view, &distinct);
        let table = self.problem.gram.table(&self.problem.view, &chosen, &columns);
        let diagonal = &self.problem.gram.source.diagonal;
        let gradient = set.iter().zip(&columns);
        let gradient =
            gradient.map(|(v, at)| self.state.k_beta[*at as usize] + qp.linear[*v as usize]);
        let mut inner = Inner {
            table: &table,
            diagonal: chosen.iter().map(|row| diagonal[*row as usize]).collect(),
            gradient: gradient.collect(),
            beta: set.iter().map(|v| self.state.beta[*v as usize]).collect(),
            lower: set.iter().map(|v| qp.lower[*v as usize]).collect(),
            upper: set.iter().map(|v| qp.upper[*v as usize]).collect(),
            ends: select::group_ends(qp, &set),
        };
        let outcome = inner.solve(0.5 * control.tolerance, control.steps_left());
        let beta = inner.beta;
        self.apply(&set, &chosen, &beta);
        control.iterations += outcome.steps;
        self.state.steps += outcome.steps;
        self.state.rounds += 1;
        self.state.previous = set;
        outcome.gain
    }

    /// Takes over the coefficients of the working set and adds their changes to the gradient.
    fn apply(&mut self, set: &[u32], chosen: &[u32], beta: &[f64]) {
        let mut changed: Vec<u32> = Vec::new();
        let mut deltas: Vec<f64> = Vec::new();
        for ((v, example), new) in set.iter().zip(chosen).zip(beta) {
            let delta = new - self.state.beta[*v as usize];
            if delta != 0.0 {
                self.state.beta[*v as usize] = *new;
                changed.push(*example);
                deltas.push(delta);
            }
        }
        let view = &self.problem.view;
        self.problem.gram.add(view, &changed, &deltas, &mut self.state.k_beta);
    }

    /// `Kβ` of all rows from kernel values in doubles.
    fn honest_field(&self) -> Vec<f64> {
        self.honest_sums(&self.examples)
    }

    fn honest_sums(&self, examples: &[u32]) -> Vec<f64> {
        let folded = self.problem.qp.fold(&self.state.beta);
        let used: Vec<usize> = (0..folded.len()).filter(|row| folded[*row] != 0.0).collect();
        let supports: Vec<u32> = used.iter().map(|row| self.examples[*row]).collect();
        let weights: Vec<f64> = used.iter().map(|row| folded[*row]).collect();
        kernel_sums(&self.problem.gram.source, examples, &supports, &weights)
    }

    /// Compares the gradient of some rows with doubles; goes on in doubles if singles are too coarse.
    fn sample_drift(&mut self, tolerance: f64) -> Drift {
        self.state.next_check = 2 * self.state.rounds.max(FIRST_CHECK / 2);
        let step = self.state.active.len().div_ceil(SAMPLE).max(1);
        let places: Vec<usize> = (0..self.state.active.len()).step_by(step).collect();
        let rows = places.iter().map(|at| self.examples[self.state.active[*at] as usize]);
        let honest = self.honest_sums(&rows.collect::<Vec<u32>>());
        let running = places.iter().map(|at| self.state.k_beta[*at]);
        let drift = running.zip(&honest).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if drift > DRIFT_SHARE * tolerance {
            self.use_doubles();
            return Drift::Mended;
        }
        Drift::Small
    }

    /// Takes all rows back with a gradient in doubles, unless a sample of it is enough, and judges the point.
    fn look(&mut self, tolerance: f64) -> Verdict {
        let is_whole = self.state.active.len() == self.examples.len();
        if self.problem.stopping_test == StoppingTest::Sampled && is_whole && !self.state.double {
            if self.sample_drift(tolerance) == Drift::Mended {
                return Verdict::GoOn;
            }
            let k_beta = self.state.k_beta.clone();
            let optimality = Optimality::of(self.problem.qp, &self.state.beta, &k_beta);
            return Verdict::Done(k_beta, optimality);
        }
        let k_beta = self.honest_field();
        let optimality = Optimality::of(self.problem.qp, &self.state.beta, &k_beta);
        if optimality.violation <= tolerance {
            return Verdict::Done(k_beta, optimality);
        }
        let active = self.state.active.iter().map(|row| k_beta[*row as usize]);
        let drift = active.zip(&self.state.k_beta).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        self.take_back(k_beta);
        if drift > DRIFT_SHARE * tolerance {
            self.use_doubles();
        }
        Verdict::GoOn
    }

    /// All rows are active again, with this gradient.
    fn take_back(&mut self, k_beta: Vec<f64>) {
        self.problem.gram.restore(&self.problem.view);
        self.state.k_beta = k_beta;
        self.state.active = (0..self.examples.len() as u32).collect();
        self.slots.clone_from(&self.state.active);
        self.state.idle = 0;
    }

    /// Goes on with kernel rows in doubles and a gradient to match.
    fn use_doubles(&mut self) {
        self.problem.gram.switch_to_f64(self.problem.memory);
        self.state.double = true;
        let k_beta = self.honest_field();
        self.take_back(k_beta);
    }

    fn best_so_far(self, stop: Option<Stop>) -> Solution {
        let k_beta = self.honest_field();
        let optimality = Optimality::of(self.problem.qp, &self.state.beta, &k_beta);
        self.solution(k_beta, optimality, stop)
    }

    fn solution(self, k_beta: Vec<f64>, optimality: Optimality, stop: Option<Stop>) -> Solution {
        if !self.problem.shared {
            self.problem.gram.restore(&self.problem.view);
        }
        Solution { beta: self.state.beta, optimality, k_beta, stop }
    }
}
