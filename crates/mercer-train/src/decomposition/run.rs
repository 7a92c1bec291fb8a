//! The rounds of `decomposition`: one quadratic program over all rows being solved.
//! The pieces of a round are in the other files of this folder; subproblems, checkpoints and warm starts around it are
//! in [`crate::gram_backend`].

use mercer_kernel::KernelRef;

use super::changes::{ChangeOptions, Changes, solve_changes_by};
use super::factor::changes_by_factor;
use super::rows::{MemoryRows, TrainingRows};
use super::working_set::{Draw, working_set};
use super::{Decomposition, change_program, kmeans};
use crate::control::{Control, RoundProgress, Status, Stop};
use crate::gram::F32Rows;
use crate::optimality::Optimality;
use crate::solvers::{GramProblem, Solution, StartPoint, State, StoppingTest};
use crate::{Qp, TrainError};

/// A working set is solved until its violation falls to this share of that of all rows.
const INNER_SHARE: f64 = 0.3;
/// And at least to this.
const INNER_MOST: f64 = 0.1;
/// After this many rounds in a row whose gain is only rounding error, the solver has stalled.
const IDLE_ROUNDS: u32 = 10;
/// Pair steps after which it gives up: as `smo`.
const STEP_LIMIT: u64 = 20_000_000;
const STEPS_PER_VARIABLE: u64 = 200;
/// Changes up to this multiple of the tolerance are added to `Kβ` from f32 kernel values, whose errors of about 1e-6 they
/// multiply.
const MOST_IN_F32: f64 = 1000.0;
/// With `inner=low_rank`, working sets are solved over a factor until the violation is this small.
const FACTOR_UNTIL: f64 = 0.3;
/// And in at most so many rounds.
const FACTOR_ROUNDS: u64 = 30;
/// Clusters have this share of the rows of a full working set.
const CLUSTER_SHARE: f64 = 0.5;

/// One problem being solved. A *row* may have two *variables* (`v % rows` is the row).
pub(super) struct DecompositionRun<'r, 'q, 'a> {
    settings: &'r Decomposition,
    problem: &'r mut GramProblem<'q, 'a>,
    from: StartPoint,
}

/// The state of the loop, apart from where the rows are.
pub(super) struct Rounds<'r> {
    pub(super) settings: &'r Decomposition,
    pub(super) kernel: &'r KernelRef,
    pub(super) centre: Option<&'r [f64]>,
    pub(super) rows: &'r dyn TrainingRows,
    /// How rows become f32, for kernels whose values may be f32 while the sums are only kept and not final.
    pub(super) f32_rows: Option<&'r F32Rows>,
    /// Larger changes are added from f64 kernel values.
    pub(super) most_in_f32: f64,
    pub(super) qp: &'r Qp,
    pub(super) stopping_test: StoppingTest,
    pub(super) memory: usize,
    pub(super) state: State,
    pub(super) work: Work,
}

/// What the rounds cost.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) kernel_values: u64,
    pub(super) peak_bytes: usize,
}

/// Changes of some rows, applied to β but not yet to `Kβ`.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) rows: Vec<u32>,
    pub(super) changes: Vec<f64>,
    /// Whether they were found without all kernel values between them.
    pub(super) may_overshoot: bool,
    pub(super) stop: Option<Stop>,
}

impl<'r, 'q, 'a> DecompositionRun<'r, 'q, 'a> {
    pub(super) fn new(settings: &'r Decomposition, problem: &'r mut GramProblem<'q, 'a>) -> Self {
        let from = std::mem::replace(&mut problem.from, StartPoint::Point(Vec::new()));
        Self { settings, problem, from }
    }

    pub(super) fn run(self, control: &mut Control<'_>) -> Result<Solution, TrainError> {
        let Self { settings, problem, from } = self;
        let source = &problem.gram.source;
        let examples = problem.gram.examples(&problem.view);
        let rows: Box<dyn TrainingRows + '_> = match problem.file {
            Some(file) => Box::new(file.view(&examples)),
            None => Box::new(MemoryRows { source, examples }),
        };
        // Sums that are not recomputed at the end stay in f64.
        let is_recomputed = problem.stopping_test == StoppingTest::Recomputed;
        let f32_rows = is_recomputed.then(|| rows.f32_rows(source.kernel)).flatten();
        let mut rounds = Rounds {
            f32_rows: f32_rows.as_ref(),
            most_in_f32: MOST_IN_F32 * control.tolerance,
            settings,
            kernel: source.kernel,
            centre: source.centre.as_deref(),
            rows: rows.as_ref(),
            qp: problem.qp,
            stopping_test: problem.stopping_test,
            memory: problem.memory,
            state: new_state(Vec::new(), Vec::new(), true),
            work: Work::default(),
        };
        let is_cold = rounds.start(from)?;
        let solution = rounds.run(is_cold, control)?;
        let work = rounds.work;
        drop(rows);
        problem.gram.add_work(work.kernel_values, work.peak_bytes);
        Ok(solution)
    }
}

fn new_state(beta: Vec<f64>, k_beta: Vec<f64>, is_f64: bool) -> State {
    State { next_check: 0, next_shrink: 0, ..State::new(k_beta, beta, is_f64) }
}

impl Rounds<'_> {
    /// Takes the start; whether it is the formulation's own.
    fn start(&mut self, from: StartPoint) -> Result<bool, TrainError> {
        let is_f64 = self.f32_rows.is_none();
        Ok(match from {
            StartPoint::Point(beta) => {
                let is_cold = beta == self.qp.start;
                self.state = new_state(beta, vec![0.0; self.rows.len()], is_f64);
                self.state.k_beta = self.recompute_k_beta()?;
                is_cold
            }
            StartPoint::Known { beta, k_beta } => {
                self.state = new_state(beta, k_beta, is_f64);
                false
            }
            StartPoint::State(state) => {
                let is_cold = state.rounds == 0 && state.beta == self.qp.start;
                self.state = *state;
                is_cold
            }
        })
    }

    /// Rounds until the recomputed violation is within the tolerance or a limit ends it.
    fn run(&mut self, is_cold: bool, control: &mut Control<'_>) -> Result<Solution, TrainError> {
        let by_clusters = is_cold
            && self.settings.starts_by_clusters
            && self.rows.len() > self.size()
            && self.state.rounds == 0;
        let mut moved = 0;
        let mut optimality = Optimality::of(self.qp, &self.state.beta, &self.state.k_beta);
        loop {
            self.report(&optimality, moved, control);
            control.save(&self.state)?;
            if let Some(stop) = control.stop() {
                control.save_before_end(&self.state)?;
                return self.recomputed(Some(stop));
            }
            if self.has_converged(&optimality, control.tolerance) {
                let solution = self.recomputed(None)?;
                let is_sampled = self.stopping_test == StoppingTest::Sampled;
                if self.has_converged(&solution.optimality, control.tolerance)
                    && (is_sampled || control.accepts(&solution.optimality))
                {
                    return Ok(solution);
                }
                (self.state.k_beta, optimality) = (solution.k_beta, solution.optimality);
                self.state.is_f64 = true;
                continue;
            }
            let most = STEP_LIMIT.max(STEPS_PER_VARIABLE * self.qp.len() as u64);
            if self.state.steps >= most {
                return self.recomputed(Some(Stop::GivenUp));
            }
            if self.state.idle >= IDLE_ROUNDS {
                return self.recomputed(Some(Stop::Stalled));
            }
            let before = (self.state.beta.clone(), control.iterations);
            let is_first = by_clusters && self.state.rounds == 0;
            let result = if is_first {
                self.first_round(optimality.violation, control)?
            } else {
                self.round(optimality.violation, control)?
            };
            let is_cut_short = matches!(result.stop, Some(Stop::Cancelled | Stop::TimeLimit));
            if is_cut_short {
                self.save_before(&before, control)?;
            }
            if result.may_overshoot {
                self.update_by_step(&before.0, &result)?;
            } else {
                self.update_sums(&result)?;
            }
            if is_cut_short {
                return self.recomputed(result.stop);
            }
            moved = result.rows.len();
            self.state.rounds += 1;
            let before = std::mem::replace(
                &mut optimality,
                Optimality::of(self.qp, &self.state.beta, &self.state.k_beta),
            );
            let gain = before.objective - optimality.objective;
            let is_idle = gain <= 4.0 * f64::EPSILON * optimality.objective.abs();
            self.state.idle = if is_idle { self.state.idle + 1 } else { 0 };
        }
    }

    /// Saves the state before a round that was cut short, so that a resumed training does the whole round.
    fn save_before(
        &mut self,
        before: &(Vec<f64>, u64),
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let (beta, iterations) = before;
        let made = control.iterations - iterations;
        let after = std::mem::replace(&mut self.state.beta, beta.clone());
        (control.iterations, self.state.steps) = (*iterations, self.state.steps - made);
        let saved = control.save_before_end(&self.state);
        self.state.beta = after;
        (control.iterations, self.state.steps) = (iterations + made, self.state.steps + made);
        saved
    }

    fn has_converged(&self, optimality: &Optimality, tolerance: f64) -> bool {
        let gap = self.settings.gap * optimality.objective.abs();
        optimality.violation <= tolerance || optimality.gap < gap
    }

    fn report(&self, optimality: &Optimality, moved: usize, control: &mut Control<'_>) {
        let supports = self.state.beta.iter().filter(|beta| **beta != 0.0).count();
        control.round = Some(RoundProgress { number: self.state.rounds, moved });
        let Optimality { violation, gap, .. } = *optimality;
        control.report(Status { violation, gap, supports });
    }

    /// Rows of a working set, at most: half of the memory holds their kernel values.
    fn size(&self) -> usize {
        let most = ((self.memory / 2) as f64 / size_of::<f32>() as f64).sqrt() as usize;
        self.settings.working_set.min(most.max(64))
    }

    fn round(&mut self, violation: f64, control: &mut Control<'_>) -> Result<Moved, TrainError> {
        let State { beta, k_beta, rounds, .. } = &self.state;
        let draw = Draw { seed: self.settings.seed, round: *rounds + 2 };
        let rows = working_set(self.qp, beta, k_beta, control.tolerance, self.size(), draw);
        let program = change_program(self.qp, beta, k_beta, &rows);
        let by_factor = self.settings.uses_factor
            && violation > FACTOR_UNTIL
            && self.state.rounds < FACTOR_ROUNDS;
        let changes = self.solve(&rows, &program, violation, by_factor, control)?;
        let (stop, may_overshoot) = (changes.stop, by_factor);
        let mut moved = Moved { may_overshoot, stop, ..Moved::default() };
        self.apply(&rows, &program, &changes.changes, &mut moved);
        Ok(moved)
    }

    /// Solves each cluster alone, all from the same gradient.
    fn first_round(
        &mut self,
        violation: f64,
        control: &mut Control<'_>,
    ) -> Result<Moved, TrainError> {
        let size = ((CLUSTER_SHARE * self.size() as f64) as usize).max(32);
        let mut moved = Moved { may_overshoot: true, ..Moved::default() };
        for rows in kmeans::clusters(self.rows, size, self.settings.seed)? {
            let State { beta, k_beta, .. } = &self.state;
            let program = change_program(self.qp, beta, k_beta, &rows);
            let changes = self.solve(&rows, &program, violation, false, control)?;
            self.apply(&rows, &program, &changes.changes, &mut moved);
            moved.stop = changes.stop.filter(|stop| is_limit(*stop));
            if moved.stop.is_some() {
                break;
            }
        }
        Ok(moved)
    }

    fn solve(
        &mut self,
        rows: &[u32],
        program: &Qp,
        violation: f64,
        by_factor: bool,
        control: &mut Control<'_>,
    ) -> Result<Changes, TrainError> {
        let matrix = self.rows.gather(rows)?;
        let tolerance = control.tolerance;
        let options = ChangeOptions {
            tolerance: (0.5 * tolerance).max((INNER_SHARE * violation).min(INNER_MOST)),
            memory: self.memory,
            time_limit: control.time_limit.map(|limit| limit.saturating_sub(control.elapsed())),
            max_iterations: control.max_iterations.map(|_| control.steps_left()),
            cancel: control.cancel.clone(),
        };
        let changes = if by_factor {
            changes_by_factor(self.kernel, &matrix, program, &options, self.settings.seed)?
        } else {
            solve_changes_by(self.settings.smo(), self.kernel, &matrix, program, &options)?
        };
        control.iterations += changes.iterations;
        self.state.steps += changes.iterations;
        self.work.kernel_values += changes.kernel_values;
        self.work.peak_bytes = self.work.peak_bytes.max(changes.peak_memory_bytes + matrix.bytes());
        Ok(changes)
    }

    /// Adds changes to β. What reaches a limit is set to it; the change of a row is what its variables moved by.
    fn apply(&mut self, rows: &[u32], program: &Qp, changes: &[f64], moved: &mut Moved) {
        let mut sums = vec![0.0; rows.len()];
        let mut has_moved = vec![false; rows.len()];
        for (at, change) in changes.iter().enumerate() {
            if *change == 0.0 {
                continue;
            }
            let place = at % rows.len();
            let v = at / rows.len() * self.qp.rows + rows[place] as usize;
            let old = self.state.beta[v];
            let new = if *change >= program.upper[at] {
                self.qp.upper[v]
            } else if *change <= program.lower[at] {
                self.qp.lower[v]
            } else {
                (old + change).clamp(self.qp.lower[v], self.qp.upper[v])
            };
            self.state.beta[v] = new;
            sums[place] += new - old;
            has_moved[place] |= new != old;
        }
        for ((row, sum), _) in rows.iter().zip(sums).zip(has_moved).filter(|(_, moved)| *moved) {
            if sum != 0.0 {
                moved.rows.push(*row);
                moved.changes.push(sum);
            }
        }
    }

    /// The present point, with optimality from a recomputed `Kβ`.
    fn recomputed(&mut self, stop: Option<Stop>) -> Result<Solution, TrainError> {
        let k_beta = match self.stopping_test {
            StoppingTest::Recomputed => self.recompute_k_beta()?,
            StoppingTest::Sampled => self.state.k_beta.clone(),
        };
        let optimality = Optimality::of(self.qp, &self.state.beta, &k_beta);
        Ok(Solution { beta: self.state.beta.clone(), optimality, k_beta, stop })
    }
}

fn is_limit(stop: Stop) -> bool {
    matches!(stop, Stop::Cancelled | Stop::TimeLimit | Stop::IterationLimit)
}
