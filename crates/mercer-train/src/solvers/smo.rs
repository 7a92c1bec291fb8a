//! `smo`: sequential minimal optimisation on working sets of hundreds of examples.
//!
//! This file has the main loop ([`SmoRun::run`]). `inner` solves one working set, `select` chooses it, `shrink` leaves examples out,
//! `accuracy` compares the gradient with an f64 one, `newton` moves all variables between their bounds at once where a run starts near
//! the solution, `state` is what a checkpoint holds. Subproblems, checkpoints and warm starts around it are in
//! [`crate::gram_backend`].

mod accuracy;
mod inner;
mod newton;
mod select;
mod shrink;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use mercer_simd::Isa;
use mercer_spec::{Entry, Kind, Parameter, Spec};

pub(crate) use accuracy::LowestPoint;
pub(crate) use state::State;

use super::{
    GramProblem, GramSolver, Method, Solution, Solver, SolverRef, StartPoint, StoppingTest,
};
use crate::TrainError;
use crate::control::{Control, Status, Stop};
use crate::optimality::Optimality;
use accuracy::{Drift, KnownPoint};
use inner::{InnerResult, WorkingSetProblem};

/// Block SMO (\[Wen18\], oneDAL). Each round takes a working set of the worst violators and some of the previous
/// set, computes their kernel rows as one block, solves the small quadratic program by pair steps with
/// second-order selection (\[FCL05\]), and updates the gradient.
///
/// Kernel rows are f32, the gradient is f64. Before the solver ends, the gradient is recomputed from f64 kernel
/// values. If f32 rows are not accurate enough, the solver continues with f64 rows. It never returns a point with a larger objective than
/// the one it started from.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "smo",
    summary: "sequential minimal optimisation (SMO) on working sets, with a kernel cache and shrinking",
    parameters: &[
        Parameter {
            name: "working_set",
            kind: Kind::Integer { low: 2, high: 8192 },
            default: Some("256"),
            help: "variables optimised together in one round",
        },
        Parameter {
            name: "shrinking",
            kind: Kind::Word(&["on", "off"]),
            default: Some("on"),
            help: "whether variables that stay at a bound are left out until the end (shrinking)",
        },
    ],
    variadic: false,
    build: |checked| {
        let shrinking = checked.spec("shrinking").is_none_or(|word| word.name() == "on");
        let working_set = checked.integer("working_set") as usize;
        Ok(Arc::new(Smo { working_set, shrinking, step_limit: STEP_LIMIT }))
    },
};

/// With f32 rows the running violation must fall to this share of the tolerance, so that the recomputed one, which
/// differs by f32 rounding errors, passes as well.
const F32_SHARE: f64 = 0.95;
/// If the gradient from f32 rows is wrong by more than this share of the tolerance, the solver switches to f64.
const DRIFT_SHARE: f64 = 0.25;
/// After this many rounds in a row whose gain is only rounding error, the solver has stalled.
const IDLE_ROUNDS: u32 = 10;
/// Twice LIBSVM's limit. Unscaled data with huge kernel values can be too ill-conditioned for pair steps.
const STEP_LIMIT: StepLimit = StepLimit { steps: 20_000_000, per_variable: 200 };
/// A working set is solved until its violation falls to this share of the initial one: then other variables matter more.
const INNER_REDUCTION: f64 = 0.1;
/// A system over all variables between their bounds is solved once at most this part of a working set has still to leave a bound.
const LEAVING_SHARE: usize = 16;
/// Problems of up to so many working sets are solved as one: rounds cost more than their pair steps.
const WHOLE: usize = 2;

#[derive(Debug)]
struct Smo {
    working_set: usize,
    shrinking: bool,
    step_limit: StepLimit,
}

/// Pair steps of one problem after which the solver gives up: the larger of the two limits.
#[derive(Debug, Clone, Copy)]
struct StepLimit {
    steps: u64,
    per_variable: u64,
}

impl StepLimit {
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

impl GramSolver for Smo {
    fn solve(
        &self,
        problem: &mut GramProblem<'_, '_>,
        control: &mut Control<'_>,
    ) -> Result<Solution, TrainError> {
        SmoRun::new(self, problem).run(control)
    }

    fn solves_whole(&self, variables: usize) -> bool {
        variables <= WHOLE * self.working_set
    }
}

/// One problem being solved.
///
/// Four numberings occur: a *variable* of the quadratic program (`v`; two for each row in a regression), its *row*
/// (`v % rows`), the *example* of the data that the row stands for, and the *slot* of the row among the active ones, which
/// is a column of fetched kernel rows. `beta` is signed: the target times alpha.
struct SmoRun<'r, 'q, 'a> {
    settings: &'r Smo,
    problem: &'r mut GramProblem<'q, 'a>,
    /// The example (row of the data) of each row of the quadratic program.
    examples: Vec<u32>,
    state: State,
    /// Position of each row among the active ones.
    slots: Vec<u32>,
    /// The last point whose `Kβ` of all rows was computed in f64, where a relative gap is asked for.
    known: Option<KnownPoint>,
    /// Whether it starts near the solution, so that few variables move.
    is_near: bool,
}

/// Result of the stopping test.
enum StoppingResult {
    /// Converged, with `Kβ` of all rows.
    Converged(Vec<f64>, Optimality),
    Continue,
}

impl<'r, 'q, 'a> SmoRun<'r, 'q, 'a> {
    fn new(settings: &'r Smo, problem: &'r mut GramProblem<'q, 'a>) -> Self {
        let examples = problem.gram.examples(&problem.view);
        let rows = examples.len();
        let start = std::mem::replace(&mut problem.from, StartPoint::Point(Vec::new()));
        match start {
            StartPoint::Point(beta) => {
                let state = State::new(vec![0.0; rows], beta, problem.gram.is_f64());
                let slots = (0..rows as u32).collect();
                let mut run =
                    Self { settings, problem, examples, state, slots, known: None, is_near: false };
                if run.state.beta.iter().any(|value| *value != 0.0) {
                    run.state.k_beta = run.recompute_k_beta();
                    run.state.lowest.objective = run.objective(&run.state.k_beta);
                }
                run
            }
            StartPoint::Known { beta, k_beta } => {
                let folded = problem.qp.fold(&beta);
                let known = Some(KnownPoint { folded, k_beta: k_beta.clone() });
                let state = State::new(k_beta, beta, problem.gram.is_f64());
                let slots = (0..rows as u32).collect();
                let mut run =
                    Self { settings, problem, examples, state, slots, known, is_near: true };
                run.state.lowest.objective = run.objective(&run.state.k_beta);
                run
            }
            StartPoint::State(state) => {
                let mut run = Self {
                    settings,
                    problem,
                    examples,
                    state: *state,
                    slots: Vec::new(),
                    known: None,
                    is_near: false,
                };
                run.resume();
                run
            }
        }
    }

    /// Restores the precision and the active columns of the Gram matrix as they were when the state was saved.
    fn resume(&mut self) {
        if self.state.is_f64 {
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

    /// The main loop: rounds until the stopping test passes or a limit ends it.
    fn run(mut self, control: &mut Control<'_>) -> Result<Solution, TrainError> {
        let keeps_known = control.relative_gap.is_some()
            && self.problem.stopping_test == StoppingTest::Recomputed;
        if !keeps_known {
            self.known = None;
        } else if self.known.is_none() && self.state.active.len() == self.examples.len() {
            let (folded, k_beta) =
                (self.problem.qp.fold(&self.state.beta), self.state.k_beta.clone());
            self.known = Some(KnownPoint { folded, k_beta });
        }
        loop {
            let scan = select::scan(self.problem.qp, &self.state);
            let (violation, gap) = (scan.violation(), scan.gap(self.problem.qp, &self.state));
            control.report(Status { violation, gap, supports: scan.supports });
            control.save(&self.state)?;
            if let Some(stop) = control.stop() {
                control.save_before_end(&self.state)?;
                return Ok(self.best_so_far(Some(stop)));
            }
            if self.state.steps >= self.settings.step_limit.steps(self.problem.qp.len()) {
                return Ok(self.best_so_far(Some(Stop::GivenUp)));
            }
            // The gradient of a start is of f64 values.
            let mut is_exact = self.state.is_f64 || self.state.rounds == 0;
            if self.is_check_due(control.tolerance) {
                match self.sample_drift(control.tolerance) {
                    Drift::Small => is_exact = true,
                    Drift::Refreshed => continue,
                    Drift::Stalled => return Ok(self.best_so_far(Some(Stop::Stalled))),
                }
            }
            let share = if is_exact { 1.0 } else { F32_SHARE };
            if violation <= share * control.tolerance {
                // A running gap that is too large spares a test that would fail.
                if keeps_known
                    && self.state.active.len() == self.examples.len()
                    && !control.accepts_gap(gap, scan.objective)
                {
                    continue;
                }
                match self.test_stopping(control) {
                    StoppingResult::Converged(k_beta, optimality) => {
                        return Ok(self.solution(k_beta, optimality, None));
                    }
                    StoppingResult::Continue => continue,
                }
            }
            if self.settings.shrinking && !self.problem.shared {
                self.shrink(&scan);
            }
            let InnerResult { gain, is_cut, .. } = self.round(&scan, control);
            if is_cut || self.is_settling(control.tolerance) {
                self.newton_step();
            }
            let objective = scan.objective.abs();
            let is_idle = gain <= 4.0 * f64::EPSILON * objective;
            self.state.idle = if is_idle { self.state.idle + 1 } else { 0 };
            if self.state.idle >= IDLE_ROUNDS {
                if self.state.is_f64 && self.state.active.len() == self.examples.len() {
                    return Ok(self.best_so_far(Some(Stop::Stalled)));
                }
                self.switch_to_f64();
            }
        }
    }

    /// Whether a run that started near the solution has few variables that have still to leave a bound: only then does a step over those
    /// between their bounds come near it.
    fn is_settling(&mut self, tolerance: f64) -> bool {
        let most = self.size() / LEAVING_SHARE;
        self.is_near && select::leaving(self.problem.qp, &self.state, tolerance) <= most
    }

    /// Variables of a working set.
    fn size(&mut self) -> usize {
        let capacity = self.problem.gram.capacity(&self.problem.view);
        self.settings.working_set.min(capacity / 2).max(2)
    }

    /// Whether all variables are one working set.
    fn is_whole(&mut self) -> bool {
        let all_active = self.state.active.len() == self.examples.len();
        all_active && self.problem.qp.len() <= WHOLE * self.size()
    }

    /// One round: working set, kernel rows, pair steps, gradient. Returns what the pair steps did.
    fn round(&mut self, scan: &select::Scan, control: &mut Control<'_>) -> InnerResult {
        let qp = self.problem.qp;
        let size = self.size();
        let is_whole = self.is_whole();
        let (set, share) = if is_whole && self.is_near {
            (select::moving_variables(qp, &self.state, scan), 0.0)
        } else if is_whole {
            (select::all_variables(qp), 0.0)
        } else {
            (select::working_set(qp, &self.state, scan, size), INNER_REDUCTION)
        };
        let row_of = |v: &u32| *v % qp.rows as u32;
        let columns: Vec<u32> = set.iter().map(|v| self.slots[row_of(v) as usize]).collect();
        let chosen: Vec<u32> = set.iter().map(|v| self.examples[row_of(v) as usize]).collect();
        self.fetch(&chosen);
        let table = self.problem.gram.table(&self.problem.view, &chosen, &columns);
        let diagonal = &self.problem.gram.source.diagonal;
        let gradient = set.iter().zip(&columns);
        let gradient =
            gradient.map(|(v, at)| self.state.k_beta[*at as usize] + qp.linear[*v as usize]);
        let mut inner = WorkingSetProblem {
            isa: Isa::current(),
            table: &table,
            diagonal: chosen.iter().map(|row| diagonal[*row as usize]).collect(),
            gradient: gradient.collect(),
            beta: set.iter().map(|v| self.state.beta[*v as usize]).collect(),
            lower: set.iter().map(|v| qp.lower[*v as usize]).collect(),
            upper: set.iter().map(|v| qp.upper[*v as usize]).collect(),
            ends: select::group_ends(qp, &set),
        };
        let result = inner.solve(share, 0.5 * control.tolerance, control.steps_left());
        let beta = inner.beta;
        self.apply(&set, &chosen, &beta);
        control.iterations += result.steps;
        self.state.steps += result.steps;
        self.state.rounds += 1;
        self.state.previous = set;
        result
    }

    /// Computes the kernel rows of these examples that are not cached.
    fn fetch(&mut self, chosen: &[u32]) {
        let mut distinct = chosen.to_vec();
        if self.problem.qp.len() > self.problem.qp.rows {
            distinct.sort_unstable();
            distinct.dedup();
        }
        self.problem.gram.fetch(&self.problem.view, &distinct);
    }

    /// Stores the new coefficients of the working set and adds their changes to the gradient.
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

    /// Tests the present point with a recomputed gradient of all rows, or of a sample if that was asked for. If it
    /// fails, all rows are active again.
    fn test_stopping(&mut self, control: &mut Control<'_>) -> StoppingResult {
        let tolerance = control.tolerance;
        let all_active = self.state.active.len() == self.examples.len();
        if self.problem.stopping_test == StoppingTest::Sampled && all_active && !self.state.is_f64 {
            if self.sample_drift(tolerance) != Drift::Small {
                return StoppingResult::Continue;
            }
            let k_beta = self.state.k_beta.clone();
            let optimality = Optimality::of(self.problem.qp, &self.state.beta, &k_beta);
            return StoppingResult::Converged(k_beta, optimality);
        }
        let k_beta = self.recompute_k_beta();
        let optimality = Optimality::of(self.problem.qp, &self.state.beta, &k_beta);
        let is_sampled = self.problem.stopping_test == StoppingTest::Sampled;
        if optimality.violation <= tolerance && (is_sampled || control.accepts(&optimality)) {
            return StoppingResult::Converged(k_beta, optimality);
        }
        let active = self.state.active.iter().map(|row| k_beta[*row as usize]);
        let drift = active.zip(&self.state.k_beta).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        self.activate_all(k_beta);
        if drift > DRIFT_SHARE * control.tolerance {
            self.switch_to_f64();
        }
        StoppingResult::Continue
    }

    /// Makes all rows active again, with this `Kβ`.
    fn activate_all(&mut self, k_beta: Vec<f64>) {
        self.problem.gram.restore(&self.problem.view);
        self.state.k_beta = k_beta;
        self.state.active = (0..self.examples.len() as u32).collect();
        self.slots.clone_from(&self.state.active);
        self.state.idle = 0;
    }

    fn best_so_far(mut self, stop: Option<Stop>) -> Solution {
        let k_beta = self.recompute_k_beta();
        let k_beta = self.at_lowest(k_beta);
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
