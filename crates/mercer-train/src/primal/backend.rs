//! Backend of the primal reformulation: the dual problem first, then other coefficients of the same W for each
//! subproblem. The steps are in `columns` (annealing) and `basis` (zero penalty).

use std::collections::HashMap;

use mercer_data::Matrix;
use mercer_machine::Output;

use super::columns::{Annealed, Candidates};
use super::{Attractor, PointStatus, Primal, PrimalReport, SparseExpansion, same_hyperplane};
use crate::backend::{Backend, Fit, FittedScores, Prepared};
use crate::control::Control;
use crate::gram::{Source, kernel_sums};
use crate::gram_backend::GramBackend;
use crate::problem::Problem;
use crate::reduce::{BinarySubproblem, Reduction};
use crate::solvers::Method;
use crate::validate::FoldRun;
use crate::{Expansion, Folds, Goal, ProblemForm, TrainError, assemble};

/// Scores may change by this much at the examples, of the largest or of 1: else a basis without preferences is tried,
/// and at last the dual coefficients stay.
const SAME_SCORE: f64 = 1e-7;
/// A coefficient this near to the largest of its sign is at its bound.
const AT_BOUND: f64 = 1e-9;

impl Primal {
    fn gram_backend(&self) -> GramBackend<'_> {
        let Method::Gram(solver) = self.smo.method() else {
            unreachable!("smo works on kernel values of pairs")
        };
        GramBackend { solver }
    }

    fn suits(&self, problem: &Problem<'_>) -> Result<(), String> {
        let (kernel, formulation) = (problem.kernel, problem.formulation);
        if !kernel.is_positive_semidefinite() {
            let spec = kernel.spec();
            return Err(format!("{spec} is not proved positive semidefinite, so W does not exist"));
        }
        if formulation.form() != ProblemForm::QuadraticProgram {
            let name = formulation.spec().name().to_owned();
            return Err(format!("{name} is no quadratic program over the Gram matrix"));
        }
        let refusal = self.attractor.regression_refusal().map(str::to_owned);
        refusal.filter(|_| formulation.goal() == Goal::Value).map_or(Ok(()), Err)
    }
}

impl Backend for &Primal {
    fn prepare<'p>(
        &'p self,
        problem: &'p Problem<'p>,
    ) -> Result<Box<dyn Prepared + 'p>, TrainError> {
        let unsuited = |reason| TrainError::Unsuited { solver: "primal".to_owned(), reason };
        self.suits(problem).map_err(unsuited)?;
        let source = problem.kernel_source()?;
        Ok(Box::new(PreparedPrimal { problem, solver: self, source }))
    }
}

/// Examples whose kernel values are known to be finite.
struct PreparedPrimal<'p> {
    problem: &'p Problem<'p>,
    solver: &'p Primal,
    source: Source<'p>,
}

impl Prepared for PreparedPrimal<'_> {
    fn solve(self: Box<Self>, control: &mut Control<'_>) -> Result<Fit, TrainError> {
        let mut fit = self.solver.gram_backend().solve_from(self.problem, None, control)?;
        let FittedScores::Expansions { example_sets, expansions } = fit.scores else {
            unreachable!("the dual problem gives expansions")
        };
        let reformulation = Reformulation::new(&self, &example_sets, &expansions)?;
        let (expansions, report) = reformulation.run(expansions, control);
        for (subproblem, expansion) in fit.subproblems.iter_mut().zip(&expansions) {
            if subproblem.supports != expansion.examples.len() {
                subproblem.supports = expansion.examples.len();
                subproblem.bounded = 0;
            }
        }
        fit.scores = FittedScores::Expansions { example_sets, expansions };
        fit.details.primal = Some(Box::new(report));
        Ok(fit)
    }

    /// Scores are those of the dual solution, so its folds are.
    fn cross_validate(
        self: Box<Self>,
        folds: &Folds,
        runs: &mut [FoldRun<'_>],
        control: &mut Control<'_>,
    ) -> Result<(), TrainError> {
        let backend = self.solver.gram_backend();
        let prepared = backend.prepare(self.problem)?;
        prepared.cross_validate(folds, runs, control)
    }
}

/// The dual solution, to be expressed by other coefficients.
struct Reformulation<'r> {
    prepared: &'r PreparedPrimal<'r>,
    reduction: Reduction<'r>,
    /// Examples that may get coefficients. With several subproblems those of the dual solution, so that no
    /// subproblem adds a vector to the machine.
    allowed: Vec<bool>,
    dual_supports: usize,
}

/// One subproblem with the coefficients of its dual solution.
struct DualSolution<'r> {
    candidates: Candidates<'r>,
    /// Coefficient and whether the attractor draws it to zero, of each candidate.
    betas: Vec<f64>,
    is_drawn: Vec<bool>,
}

/// Other coefficients of a subproblem.
struct Reformulated {
    rows: Vec<usize>,
    coefficients: Vec<f64>,
    error: f64,
    score_change: f64,
}

impl<'r> Reformulation<'r> {
    fn new(
        prepared: &'r PreparedPrimal<'r>,
        example_sets: &[Vec<u32>],
        expansions: &[Expansion],
    ) -> Result<Self, TrainError> {
        let problem = prepared.problem;
        let scores = FittedScores::Expansions {
            example_sets: example_sets.to_vec(),
            expansions: expansions.to_vec(),
        };
        let dual_supports = assemble::machine(problem, scores, None)?.0.supports().rows();
        let is_single = expansions.len() == 1;
        let mut allowed = vec![is_single; problem.matrix()?.rows()];
        for example in expansions.iter().flat_map(|expansion| &expansion.examples) {
            allowed[*example as usize] = true;
        }
        Ok(Self { prepared, reduction: problem.reduction(), allowed, dual_supports })
    }

    fn run(
        &self,
        expansions: Vec<Expansion>,
        control: &mut Control<'_>,
    ) -> (Vec<Expansion>, PrimalReport) {
        let mut report = PrimalReport {
            attractor: self.prepared.solver.attractor.name(),
            dual_supports: self.dual_supports,
            drawn: [0; 2],
            priced: 0,
            pricings: 0,
            error: 0.0,
            score_change: 0.0,
            unchanged: 0,
        };
        let changed = (0..).zip(expansions).map(|(number, expansion)| {
            control.start_subproblem(number);
            self.subproblem(number, expansion, &mut report, control)
        });
        (changed.collect(), report)
    }

    /// Other coefficients for one subproblem, if there are fewer.
    fn subproblem(
        &self,
        number: usize,
        expansion: Expansion,
        report: &mut PrimalReport,
        control: &mut Control<'_>,
    ) -> Expansion {
        let dual = self.dual(&self.reduction.subproblem(number), &expansion);
        let count =
            |rows: &mut dyn Iterator<Item = usize>| rows.filter(|row| dual.is_drawn[*row]).count();
        let supports = dual.supports();
        report.drawn[0] += count(&mut supports.iter().copied());
        let mut found = None;
        if control.stop().is_none() && dual.has_dependent_supports(control) {
            let annealed = dual.candidates.anneal(self.prepared.solver.lambda, control);
            found = annealed.and_then(|annealed| {
                report.priced += annealed.priced;
                report.pricings += annealed.pricings;
                dual.at_zero_penalty(&annealed, control)
            });
        }
        let Some(found) = found.filter(|found| found.rows.len() < supports.len()) else {
            report.drawn[1] += count(&mut supports.iter().copied());
            report.unchanged += 1;
            return expansion;
        };
        report.drawn[1] += count(&mut found.rows.iter().copied());
        report.error = report.error.max(found.error);
        report.score_change = report.score_change.max(found.score_change);
        let examples = found.rows.iter().map(|row| dual.candidates.examples[*row]).collect();
        Expansion { examples, coefficients: found.coefficients, offset: expansion.offset }
    }

    /// The candidates of a subproblem, with scores and coefficients of the dual solution. Equal examples are one
    /// candidate.
    fn dual(&self, binary: &BinarySubproblem, expansion: &Expansion) -> DualSolution<'_> {
        let all = binary.examples(self.reduction.example_sets());
        let places: Vec<usize> =
            (0..all.len()).filter(|place| self.allowed[all[*place] as usize]).collect();
        let examples: Vec<u32> = places.iter().map(|place| all[*place]).collect();
        let mut by_example = vec![0.0; self.allowed.len()];
        for (example, beta) in expansion.examples.iter().zip(&expansion.coefficients) {
            by_example[*example as usize] = *beta;
        }
        let betas: Vec<f64> = examples.iter().map(|row| by_example[*row as usize]).collect();
        let source = &self.prepared.source;
        let products = kernel_sums(source, &examples, &expansion.examples, &expansion.coefficients);
        let scores: Vec<f64> = products.iter().map(|product| product - expansion.offset).collect();
        let targets: Vec<f64> = places.iter().map(|place| binary.targets[*place]).collect();
        let weights: Vec<f64> = places.iter().map(|place| binary.weights[*place]).collect();
        let drawn = self.drawn(&betas, &scores, &targets, &weights);
        let firsts = first_of_equals(source.examples, &examples);
        let (mut total, mut is_drawn) = (vec![0.0; examples.len()], vec![true; examples.len()]);
        for (row, first) in firsts.iter().enumerate() {
            total[*first] += betas[row];
            is_drawn[*first] &= drawn[row] || (betas[row] == 0.0 && *first != row);
        }
        let kept: Vec<usize> = (0..examples.len()).filter(|row| firsts[*row] == *row).collect();
        let is_drawn: Vec<bool> = kept.iter().map(|row| is_drawn[*row]).collect();
        let candidates = Candidates {
            source,
            examples: kept.iter().map(|row| examples[*row]).collect(),
            products: kept.iter().map(|row| products[*row]).collect(),
            weights: is_drawn.iter().map(|is_drawn| Attractor::weight(*is_drawn)).collect(),
            memory: self.prepared.problem.training.memory / 4,
        };
        DualSolution { candidates, betas: kept.iter().map(|row| total[*row]).collect(), is_drawn }
    }

    /// Whether the attractor draws the coefficient of each example to zero.
    fn drawn(&self, betas: &[f64], scores: &[f64], targets: &[f64], weights: &[f64]) -> Vec<bool> {
        let share = |row: usize| betas[row] / weights[row];
        let largest = |sign: f64| (0..betas.len()).map(|row| sign * share(row)).fold(0.0, f64::max);
        let bounds = [largest(1.0), largest(-1.0)];
        let is_drawn = |row: usize| {
            let beta = share(row);
            let bound = bounds[usize::from(beta < 0.0)];
            let is_free = beta != 0.0 && beta.abs() < (1.0 - AT_BOUND) * bound;
            self.prepared.solver.attractor.draws(match self.prepared.problem.output {
                Output::Value => PointStatus::of_regression(is_free),
                Output::Novelty => PointStatus::of_novelty(scores[row], is_free),
                Output::Classes { .. } => {
                    PointStatus::of_classifier(targets[row] * scores[row], is_free)
                }
            })
        };
        (0..betas.len()).map(is_drawn).collect()
    }
}

/// For each example the place of the first one that is equal to it.
fn first_of_equals(matrix: &Matrix, examples: &[u32]) -> Vec<usize> {
    let mut known: HashMap<Vec<(u32, u64)>, usize> = HashMap::new();
    let key = |example: &u32| {
        let row = matrix.row(*example as usize);
        row.nonzeros().map(|(column, value)| (column, value.to_bits())).collect::<Vec<_>>()
    };
    let place = |(place, example)| *known.entry(key(example)).or_insert(place);
    examples.iter().enumerate().map(place).collect()
}

impl DualSolution<'_> {
    /// Candidates with a coefficient.
    fn supports(&self) -> Vec<usize> {
        (0..self.betas.len()).filter(|row| self.betas[*row] != 0.0).collect()
    }

    /// Whether a basis of the supports has fewer vectors: else their coefficients are the only ones.
    fn has_dependent_supports(&self, control: &Control<'_>) -> bool {
        let supports = self.supports();
        let sizes: Vec<f64> = self.betas.iter().map(|beta| beta.abs()).collect();
        let basis = self.basis(&supports, &vec![false; sizes.len()], &sizes, control);
        basis.is_some_and(|basis| basis.rows.len() < supports.len())
    }

    /// A basis of the supports and of what annealing left; where that has more vectors than a basis of the supports
    /// alone, the latter.
    fn at_zero_penalty(&self, annealed: &Annealed, control: &Control<'_>) -> Option<Reformulated> {
        let mut sizes: Vec<f64> = self.betas.iter().map(|beta| beta.abs()).collect();
        let mut is_annealed = vec![false; sizes.len()];
        for (row, g) in annealed.rows.iter().zip(&annealed.coefficients) {
            sizes[*row] = sizes[*row].max(g.abs());
            is_annealed[*row] = true;
        }
        let supports = self.supports();
        let both: Vec<usize> =
            (0..sizes.len()).filter(|row| self.betas[*row] != 0.0 || is_annealed[*row]).collect();
        let basis = |pool: &[usize]| self.basis(pool, &is_annealed, &sizes, control);
        let mut found = basis(&both)?;
        if both.len() > supports.len() {
            let other = basis(&supports)?;
            if other.rows.len() <= found.rows.len() {
                found = other;
            }
        }
        self.measured(found)
            .or_else(|| self.measured(self.basis_of(&supports, |_| 0, &sizes, control)?))
    }

    /// A basis of some candidates: those that are not drawn to zero first, of equal ones those that annealing left.
    fn basis(
        &self,
        pool: &[usize],
        is_annealed: &[bool],
        sizes: &[f64],
        control: &Control<'_>,
    ) -> Option<SparseExpansion> {
        let preference =
            |row: usize| 2 * usize::from(self.is_drawn[row]) + usize::from(!is_annealed[row]);
        self.basis_of(pool, preference, sizes, control)
    }

    /// A basis of some candidates; those of smaller preference first.
    fn basis_of(
        &self,
        pool: &[usize],
        preference: impl Fn(usize) -> usize,
        sizes: &[f64],
        control: &Control<'_>,
    ) -> Option<SparseExpansion> {
        let betas: Vec<f64> = pool.iter().map(|row| self.betas[*row]).collect();
        let preferences: Vec<usize> = pool.iter().map(|row| preference(*row)).collect();
        let sizes = pool.iter().map(|row| sizes[*row]).collect();
        let columns = self.candidates.columns(pool);
        let mut go_on = |_: usize| control.stop().is_none();
        let found = same_hyperplane(columns, &[betas], &preferences, sizes, &mut go_on)?;
        let rows = found.rows.iter().map(|place| pool[*place]).collect();
        Some(SparseExpansion { rows, ..found })
    }

    /// How far the new coefficients are from the dual solution; none if scores change.
    fn measured(&self, found: SparseExpansion) -> Option<Reformulated> {
        let SparseExpansion { rows, coefficients } = found;
        let coefficients = coefficients.into_iter().next()?;
        let mut change = self.betas.clone();
        rows.iter().zip(&coefficients).for_each(|(row, g)| change[*row] -= g);
        let changed: Vec<usize> = (0..change.len()).filter(|row| change[*row] != 0.0).collect();
        let values: Vec<f64> = changed.iter().map(|row| change[*row]).collect();
        let all: Vec<usize> = (0..change.len()).collect();
        let differences = self.candidates.sums(&all, &changed, &values);
        let square = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let norm = square(&self.betas, &self.candidates.products);
        let error = (square(&change, &differences).max(0.0) / norm).sqrt();
        let largest = |values: &[f64]| values.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let score_change = largest(&differences);
        let is_same = score_change <= SAME_SCORE * largest(&self.candidates.products).max(1.0);
        is_same.then_some(Reformulated { rows, coefficients, error, score_change })
    }
}
