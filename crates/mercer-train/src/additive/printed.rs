//! PmSVM and PmSVM-LUT of \[YW12\] as printed (algorithms 2 and 3), to be measured beside the engine that all other
//! additive solvers share. Options, backend and scores are here; memory layouts in `cells`, the loop in `descent`.

mod cells;
mod descent;

use std::sync::Arc;
use std::time::Instant;

use mercer_data::limits;
use mercer_kernel::{Form, Profile, Term};
use mercer_machine::{Bins, Score, Spacing};
use mercer_spec::Spec;
use rayon::prelude::*;

use self::cells::{PrintedRows, SparseRows};
use self::descent::{PrintedDescent, PrintedPart, PrintedSolution};
use super::factors::{FactorReport, FactorTables, evaluate};
use super::maps::{Nodes, pad, padded, polynomial};
use crate::backend::{Backend, Fit, FitDetails, FittedScores, Prepared, refuse_saved_state};
use crate::control::{Control, Status};
use crate::problem::Problem;
use crate::reduce::ClassPair;
use crate::solvers::{Method, Solver};
use crate::validate::FoldRun;
use crate::{Folds, FormulationRef, LinearReport, Loss, Stop, SubproblemReport, TrainError};

/// Bins of the machine's curves: steps smaller than those of any table of the paper.
const MACHINE_BINS: usize = 1 << 16;

/// The options of the printed algorithms.
///
/// Values lie between 0 and 1, numbers are f32, there is no bias term, and passes end as in the linear solver that the
/// paper builds on (\[HCLKS08\]: random order, shrinking, the difference of the projected gradients). Labels and constant
/// that the print of algorithm 3 forgets are added.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedPmsvm {
    spec: Spec,
    pub(crate) degree: usize,
    pub(crate) nodes: Nodes,
    /// Entries of the look-up tables, with `⌊b x⌋` as the entry of a value (algorithm 3). Without tables, the logarithm
    /// and two kernel values of each non-zero are computed once and kept (algorithm 2).
    pub(crate) bins: Option<usize>,
    pub(crate) seed: u64,
}

impl PrintedPmsvm {
    pub(crate) fn new(
        spec: Spec,
        degree: usize,
        nodes: Nodes,
        bins: Option<usize>,
        seed: u64,
    ) -> Self {
        Self { spec: spec.set("seed", seed as f64), degree, nodes, bins, seed }
    }

    fn unsuited(&self, reason: String) -> TrainError {
        TrainError::Unsuited { solver: format!("{}(as=printed)", self.spec.name()), reason }
    }

    /// C, where the formulation is the hinge loss.
    fn penalty(&self, formulation: &FormulationRef) -> Result<f64, TrainError> {
        match formulation.loss() {
            Some(Loss::Hinge { c }) => Ok(c),
            _ => Err(self.unsuited(format!(
                "the paper minimises c_svc, not {}; leave as=printed out",
                formulation.spec().name()
            ))),
        }
    }
}

impl Solver for PrintedPmsvm {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn method(&self) -> Method<'_> {
        Method::Printed(self)
    }
}

impl Backend for &PrintedPmsvm {
    fn check_formulation(&self, formulation: &FormulationRef) -> Result<(), TrainError> {
        self.penalty(formulation).map(drop)
    }

    fn prepare<'p>(
        &'p self,
        problem: &'p Problem<'p>,
    ) -> Result<Box<dyn Prepared + 'p>, TrainError> {
        self.penalty(problem.formulation)?;
        refuse_saved_state(problem.training)?;
        let Form::Additive(term, finish) = problem.kernel.form() else {
            return Err(self.unsuited(format!("{} is not additive", problem.kernel.spec())));
        };
        if finish.profile() != Profile::Identity || !term.vanishes_at_zero() {
            let spec = problem.kernel.spec();
            let reason = format!("{spec} is not a plain sum of scalar kernels that vanish at zero");
            return Err(self.unsuited(reason));
        }
        let matrix = problem.matrix()?;
        for (number, row) in matrix.iter().enumerate() {
            let outside = row.nonzeros().find(|(_, value)| !(0.0..=1.0).contains(value));
            if let Some((column, value)) = outside {
                return Err(self.unsuited(format!(
                    "example {}, column {} has the value {value}, and the paper's values lie between 0 and 1: scale \
                     them (--scale 'min_max(low=0, high=1)')",
                    number + 1,
                    column + 1
                )));
            }
        }
        let weights = matrix.columns() * padded(self.degree + 1) * problem.subproblem_count();
        limits::check_table("the weights of columns", weights, matrix.nonzeros())
            .map_err(|error| self.unsuited(error.to_string()))?;
        let used = problem.weighted_examples();
        // What the paper's program reads its file into; only what follows counts as preparation.
        let sparse = SparseRows::new(matrix, &used);
        let started = Instant::now();
        let rows = cells::layout(self, sparse, term);
        let preparation = started.elapsed().as_secs_f64();
        Ok(Box::new(PreparedPrinted { problem, solver: self, term, used, rows, preparation }))
    }
}

/// Rows in the layout of the paper.
struct PreparedPrinted<'p> {
    problem: &'p Problem<'p>,
    solver: &'p PrintedPmsvm,
    term: &'p dyn Term,
    /// The example of each row.
    used: Vec<u32>,
    rows: Box<dyn PrintedRows>,
    preparation: f64,
}

impl PreparedPrinted<'_> {
    /// Classes of the subproblems, with their names.
    fn subproblems(&self) -> Vec<(String, ClassPair)> {
        let reduction = self.problem.reduction();
        (0..reduction.count()).map(|n| (reduction.name(n), reduction.classes(n))).collect()
    }

    /// Solves subproblems over the rows that `is_used` selects, as many at once as there are threads.
    fn solve_all(
        &self,
        c: f64,
        classes: &[ClassPair],
        is_used: &(dyn Fn(u32) -> bool + Sync),
        control: &mut Control<'_>,
    ) -> Vec<PrintedSolution> {
        let threads = rayon::current_num_threads().max(1);
        let mut solved = Vec::with_capacity(classes.len());
        for group in classes.chunks(threads) {
            control.start_subproblem(solved.len());
            let must_stop = control.stop_check(group.len());
            let solve = |(at, classes): (usize, &ClassPair)| {
                let part = self.part(c, *classes, is_used);
                let seed = self.solver.seed ^ ((solved.len() + at) as u64 + 1).rotate_left(32);
                let tolerance = self.problem.training.tolerance_used();
                let descent = PrintedDescent { tolerance, seed, must_stop: &must_stop };
                self.rows.solve(&part, &descent)
            };
            let found: Vec<PrintedSolution> = if let [only] = group {
                vec![solve((0, only))]
            } else {
                group.par_iter().enumerate().map(solve).collect()
            };
            control.iterations += found.iter().map(|solution| solution.updates).sum::<u64>();
            let violation = found.iter().map(|solution| solution.violation).fold(0.0, f64::max);
            let supports = found.iter().map(|solution| solution.supports).max().unwrap_or(0);
            control.report(Status { violation, gap: f64::NAN, supports });
            solved.extend(found);
        }
        solved
    }

    /// Rows, signs and penalties of one subproblem.
    fn part(&self, c: f64, classes: ClassPair, is_used: &dyn Fn(u32) -> bool) -> PrintedPart {
        let (labels, weights) = (&self.problem.labels.class_of, &self.problem.weights);
        let mut part = PrintedPart::default();
        for (row, example) in (0u32..).zip(&self.used) {
            let class = labels[*example as usize];
            if is_used(*example) && classes.contains(class) {
                part.rows.push(row);
                part.signs.push(classes.target(class) as f32);
                part.penalties.push((c * weights[*example as usize]) as f32);
            }
        }
        part
    }

    /// The curves of the machine: `Σ_k a_jk τ^k` at each of its bins, where τ is the logarithm as the algorithm sees it.
    fn grid(&self) -> Result<(Arc<Bins>, FactorReport), TrainError> {
        let (count, terms) = (MACHINE_BINS, self.solver.degree + 1);
        let last = (count - 1) as f64;
        let seen = |bin: usize| {
            let value = bin as f64 / last;
            self.solver.bins.map_or(value, |bins| (bins as f64 * value).floor() / bins as f64)
        };
        let values: Vec<f64> = (0..count).map(seen).collect();
        let stored = padded(terms);
        let (_, write) = polynomial(self.term, &values, self.solver.degree, self.solver.nodes);
        let write = pad(&write, terms, stored);
        let mut read = vec![0.0f32; stored];
        for value in &values[1..] {
            let tau = cells::logarithm(*value as f32);
            read.extend((0..stored).map(|k| if k < terms { tau.powi(k as i32) } else { 0.0 }));
        }
        let exact =
            |a: usize, b: usize| self.term.term((a + 1) as f64 / last, (b + 1) as f64 / last);
        let tables = FactorTables { read: &read, write: &write, rank: terms, stored };
        let report = evaluate(&exact, &vec![1; count], tables);
        let spacing = Spacing::Power { top: 1.0, exponent: 1 };
        Ok((Arc::new(Bins::new(spacing, stored, read)?), report))
    }

    fn scores(&self, solved: &[PrintedSolution], stored: usize) -> Vec<Score> {
        let terms = self.solver.degree + 1;
        let score = |solution: &PrintedSolution| {
            let numbers: Vec<f64> = solution.coefficients.iter().map(|a| f64::from(*a)).collect();
            Score::Additive { weights: pad(&numbers, terms, stored), offset: 0.0 }
        };
        solved.iter().map(score).collect()
    }
}

impl Prepared for PreparedPrinted<'_> {
    fn solve(self: Box<Self>, control: &mut Control<'_>) -> Result<Fit, TrainError> {
        let c = self.solver.penalty(self.problem.formulation)?;
        let (names, classes): (Vec<String>, Vec<ClassPair>) =
            self.subproblems().into_iter().unzip();
        let solved = self.solve_all(c, &classes, &|_| true, control);
        let (grid, factor) = self.grid()?;
        let tolerance = self.problem.training.tolerance_used();
        let reports: Vec<SubproblemReport> = names
            .into_iter()
            .zip(&solved)
            .map(|(name, solution)| SubproblemReport {
                converged: solution.violation <= tolerance,
                objective: solution.objective,
                gap: f64::NAN,
                violation: solution.violation,
                supports: solution.supports,
                bounded: solution.bounded,
                iterations: solution.updates,
                ..SubproblemReport::unsolved(name)
            })
            .collect();
        let columns = self.problem.examples.columns();
        let threads = rayon::current_num_threads().clamp(1, solved.len().max(1));
        let state = 4 * (columns * (self.solver.degree + 1) + 3 * self.used.len());
        let details = LinearReport {
            bins: if self.solver.bins.is_some() { "floor" } else { "off" },
            rank: self.solver.degree + 1,
            factor,
            nonzeros: self.rows.nonzeros(),
            example_bytes: self.rows.bytes(),
            weights: None,
            chunks: None,
            preparation: self.preparation,
        };
        let scores = self.scores(&solved, grid.rank());
        let stop = control.stop().or_else(|| {
            let is_open = reports.iter().any(|report| !report.converged);
            is_open.then_some(Stop::GivenUp)
        });
        Ok(Fit {
            stop,
            peak_memory_bytes: self.rows.bytes() + threads * state,
            details: FitDetails { linear: Some(Box::new(details)), ..FitDetails::default() },
            ..Fit::new(FittedScores::Tables { columns, grid, scores }, reports)
        })
    }

    fn cross_validate(
        self: Box<Self>,
        folds: &Folds,
        runs: &mut [FoldRun<'_>],
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let classes: Vec<ClassPair> =
            self.subproblems().into_iter().map(|(_, pair)| pair).collect();
        for run in runs.iter_mut().filter(|run| run.failure.is_none()) {
            let c = self.solver.penalty(run.formulation)?;
            let (started, steps_before) = (Instant::now(), control.iterations);
            for fold in 0..folds.count() as u32 {
                let is_held = |example: u32| folds.of()[example as usize] == fold;
                let solved = self.solve_all(c, &classes, &|example| !is_held(example), control);
                Stop::check_limits(control.stop())?;
                let held: Vec<u32> = (0u32..)
                    .zip(&self.used)
                    .filter(|(_, example)| is_held(**example))
                    .map(|(row, _)| row)
                    .collect();
                let examples: Vec<u32> = held.iter().map(|row| self.used[*row as usize]).collect();
                for solution in &solved {
                    run.converged &= solution.violation <= self.problem.training.tolerance_used();
                    let scores =
                        held.iter().map(|row| self.rows.score(*row, &solution.coefficients));
                    run.add_scores(&examples, scores.map(f64::from));
                }
            }
            run.add_work(started, steps_before, control);
        }
        Ok(())
    }
}
