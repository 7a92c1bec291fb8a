//! The rounds of `decomposition`: one quadratic program over all rows being solved.
//! The pieces of a round are in the other files of this folder; subproblems, checkpoints and warm starts around it are
//! in [`crate::gram_backend`].

use mercer_kernel::KernelRef;

use super::changes::{ChangeOptions, Changes, solve_changes_by};
use super::rows::{MemoryRows, TrainingRows};
use super::scores::WeightedSupports;
use super::working_set::{Draw, working_set};
use super::{Decomposition, change_program, kmeans};
use crate::control::{Control, RoundProgress, Status, Stop};
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
/// Supports that are packed at the same time.
const SUPPORTS: usize = 16_384;
/// Clusters have this share of the rows of a full working set.
const CLUSTER_SHARE: f64 = 0.5;

/// One problem being solved. A *row* may have two *variables* (`v % rows` is the row).
pub(super) struct DecompositionRun<'r, 'q, 'a> {
    settings: &'r Decomposition,
    problem: &'r mut GramProblem<'q, 'a>,
    from: StartPoint,
}

/// The state of the loop, apart from where the rows are.
struct Rounds<'r> {
    settings: &'r Decomposition,
    kernel: &'r KernelRef,
    centre: Option<&'r [f64]>,
    rows: &'r dyn TrainingRows,
    qp: &'r Qp,
    stopping_test: StoppingTest,
    memory: usize,
    state: State,
    work: Work,
}

/// What the rounds cost.
#[derive(Debug, Default)]
struct Work {
    kernel_values: u64,
    peak_bytes: usize,
}

/// Changes of some rows, applied to β but not yet to `Kβ`.
#[derive(Debug, Default)]
struct Moved {
    rows: Vec<u32>,
    changes: Vec<f64>,
    stop: Option<Stop>,
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
            None => Box::new(MemoryRows { matrix: source.examples, examples }),
        };
        let mut rounds = Rounds {
            settings,
            kernel: source.kernel,
            centre: source.centre.as_deref(),
            rows: rows.as_ref(),
            qp: problem.qp,
            stopping_test: problem.stopping_test,
            memory: problem.memory,
            state: new_state(Vec::new(), Vec::new()),
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

fn new_state(beta: Vec<f64>, k_beta: Vec<f64>) -> State {
    State {
        active: (0..k_beta.len() as u32).collect(),
        beta,
        k_beta,
        previous: Vec::new(),
        rounds: 0,
        steps: 0,
        next_check: 0,
        next_shrink: 0,
        idle: 0,
        is_f64: true,
    }
}

impl Rounds<'_> {
    /// Takes the start; whether it is the formulation's own.
    fn start(&mut self, from: StartPoint) -> Result<bool, TrainError> {
        Ok(match from {
            StartPoint::Point(beta) => {
                let is_cold = beta == self.qp.start;
                self.state = new_state(beta, vec![0.0; self.rows.len()]);
                self.state.k_beta = self.recompute_k_beta()?;
                is_cold
            }
            StartPoint::Known { beta, k_beta } => {
                self.state = new_state(beta, k_beta);
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
            if optimality.violation <= control.tolerance {
                let solution = self.recomputed(None)?;
                let is_sampled = self.stopping_test == StoppingTest::Sampled;
                if solution.optimality.violation <= control.tolerance
                    && (is_sampled || control.accepts(&solution.optimality))
                {
                    return Ok(solution);
                }
                (self.state.k_beta, optimality) = (solution.k_beta, solution.optimality);
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
            if is_first {
                self.join_clusters(&before.0, &result)?;
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
        let changes = self.solve(&rows, &program, violation, control)?;
        let mut moved = Moved { stop: changes.stop, ..Moved::default() };
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
        let mut moved = Moved::default();
        for rows in kmeans::clusters(self.rows, size, self.settings.seed)? {
            let State { beta, k_beta, .. } = &self.state;
            let program = change_program(self.qp, beta, k_beta, &rows);
            let changes = self.solve(&rows, &program, violation, control)?;
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
        let inner = self.settings.inner();
        let changes = solve_changes_by(inner, self.kernel, &matrix, program, &options)?;
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

    /// Adds the changes of some rows to `Kβ` of all rows.
    fn update_sums(&mut self, moved: &Moved) -> Result<(), TrainError> {
        let mut k_beta = std::mem::take(&mut self.state.k_beta);
        let added = self.add_terms(&moved.rows, &moved.changes, &mut k_beta);
        self.state.k_beta = k_beta;
        added
    }

    /// Adds the changes of all clusters, which were solved without each other, to `Kβ`. If together they overshoot so
    /// far that the objective grows, all are shortened to the best common step, `-F'D / D'KD`.
    fn join_clusters(&mut self, before: &[f64], moved: &Moved) -> Result<(), TrainError> {
        let mut sums = vec![0.0; self.rows.len()];
        self.add_terms(&moved.rows, &moved.changes, &mut sums)?;
        let terms = moved.rows.iter().zip(&moved.changes);
        let curvature: f64 = terms.map(|(row, change)| change * sums[*row as usize]).sum();
        let State { beta, k_beta, .. } = &mut self.state;
        let qp = self.qp;
        let gradient = |v: usize| k_beta[v % qp.rows] + qp.linear[v];
        let slope: f64 = (0..qp.len()).map(|v| (beta[v] - before[v]) * gradient(v)).sum();
        let step = if slope + 0.5 * curvature < 0.0 { 1.0 } else { (-slope / curvature).max(0.0) };
        if step < 1.0 {
            for (value, old) in beta.iter_mut().zip(before) {
                *value = old + step * (*value - old);
            }
        }
        k_beta.iter_mut().zip(&sums).for_each(|(value, sum)| *value += step * sum);
        Ok(())
    }

    /// Adds `Σ weight K(row, ·)` of some rows to the sums of all rows.
    fn add_terms(
        &mut self,
        rows: &[u32],
        weights: &[f64],
        sums: &mut [f64],
    ) -> Result<(), TrainError> {
        for (rows, weights) in rows.chunks(SUPPORTS).zip(weights.chunks(SUPPORTS)) {
            let matrix = self.rows.gather(rows)?;
            let supports = WeightedSupports::new(self.kernel, &matrix, weights, self.centre);
            self.rows.add_sums(&supports, sums)?;
            self.work.kernel_values += (rows.len() * self.rows.len()) as u64;
            self.work.peak_bytes = self.work.peak_bytes.max(supports.bytes() + matrix.bytes());
        }
        Ok(())
    }

    /// `Kβ` of all rows, from β alone.
    fn recompute_k_beta(&mut self) -> Result<Vec<f64>, TrainError> {
        let folded = self.qp.fold(&self.state.beta);
        let used = (0u32..).zip(folded).filter(|(_, beta)| *beta != 0.0);
        let (rows, weights): (Vec<u32>, Vec<f64>) = used.unzip();
        let mut sums = vec![0.0; self.rows.len()];
        self.add_terms(&rows, &weights, &mut sums)?;
        Ok(sums)
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
