//! How far a small machine is from the original: in feature space, and on a sample. How vectors are found is in the
//! files of the methods.

use mercer_data::Matrix;
use mercer_kernel::bound::{self, gamma, largest, smaller};
use mercer_kernel::factor::{Compensated, GramColumns};
use mercer_kernel::{Form, Profile};
use mercer_machine::{Answer, Machine, Output};
use mercer_query::{Certainty, Plan, QueryOptions};

use super::{CompressionProblem, ReducedSet, problem, stacked, unfit};
use crate::fit::compressed;
use crate::{CompileError, FittingData, Watch};

/// A distance in feature space, all scores together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeatureDistance {
    /// `|W - W~|`.
    pub absolute: f64,
    /// The same over `|W|`.
    pub relative: f64,
    /// What rounding may have added to or taken from `|W - W~|²`.
    pub rounding: f64,
    /// Largest `|b - b~|`.
    pub offset: f64,
}

impl FeatureDistance {
    /// The distance of two machines of the same kernel and the same number of scores.
    ///
    /// # Errors
    /// If one has no expansions under a semidefinite kernel.
    pub fn between(machine: &Machine, small: &Machine) -> Result<Self, CompileError> {
        let problem = CompressionProblem::new(machine, FittingData::default(), Watch::NOBODY)?;
        let rows = small.supports().as_ref().clone();
        let lists = small.scores().iter().map(|score| problem::dense(score, rows.rows()));
        let (coefficients, offsets) =
            (lists.collect(), small.scores().iter().map(mercer_machine::Score::offset).collect());
        distance(&problem, &ReducedSet { rows, coefficients, offsets })
    }
}

/// Agreement of two machines on a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleAgreement {
    /// Queries of the sample.
    pub queries: usize,
    /// Labels that disagree, or values beyond the tolerance.
    pub disagreements: usize,
    /// Those whose label the vectors prove, with the certificate of the stage `compressed`.
    pub certified: Option<usize>,
    /// Largest difference of a score.
    pub largest_difference: f64,
}

impl SampleAgreement {
    /// Share of queries on which they disagree.
    pub fn disagreement(&self) -> f64 {
        self.disagreements as f64 / self.queries.max(1) as f64
    }

    /// Share of queries whose label is proved.
    pub fn certified_share(&self) -> Option<f64> {
        self.certified.map(|count| count as f64 / self.queries.max(1) as f64)
    }
}

/// `|W - W~|`, computed from the two sets of vectors as one: equal vectors are merged before anything is
/// squared, so that little cancels.
///
/// With coefficients `c` over all distinct rows, `|R|² = Σ c_i <Φ_i, R>`. Each inner product is an exact
/// answer, off by at most `(γ_(n/8 + 8) + ε) s_i C`, `C = Σ|c_i| s_i`, hence `|R|²` by that times `C`.
pub(super) fn distance(
    problem: &CompressionProblem<'_>,
    set: &ReducedSet,
) -> Result<FeatureDistance, CompileError> {
    let rows = stacked(&problem.supports, &set.rows);
    let join = |(beta, g): (&Vec<f64>, &Vec<f64>)| -> Vec<f64> {
        beta.iter().copied().chain(g.iter().map(|g| -g)).collect()
    };
    let joined: Vec<Vec<f64>> = problem.betas.iter().zip(&set.coefficients).map(join).collect();
    let residual = problem::scored(problem.machine, rows, &joined)?;
    let offset = |(score, other): (&mercer_machine::Score, &f64)| (score.offset() - other).abs();
    let offsets = problem.machine.scores().iter().zip(&set.offsets).map(offset);
    let (square, rounding) = squared(problem, &residual)?;
    Ok(FeatureDistance {
        absolute: square.max(0.0).sqrt(),
        relative: problem.relative_error(square),
        rounding,
        offset: offsets.fold(0.0, f64::max),
    })
}

/// `Σ|R_s|²` of a machine without offsets, and its error.
fn squared(
    problem: &CompressionProblem<'_>,
    residual: &Machine,
) -> Result<(f64, f64), CompileError> {
    let rows = residual.supports();
    let lists: Vec<Vec<f64>> =
        residual.scores().iter().map(|score| problem::dense(score, rows.rows())).collect();
    if is_linear(residual) {
        let square = linear_square(rows, &lists);
        return Ok((square, 16.0 * f64::EPSILON * square));
    }
    let plan = Plan::exact(residual);
    let count = lists.len();
    let products = plan.scores(rows)?;
    let kernel = residual.kernel().as_ref();
    let columns = problem.columns(rows.as_ref().clone());
    let norms = columns.squared_norms();
    let longest = largest(norms.iter().copied());
    let shortest = norms.iter().copied().fold(longest, smaller);
    let (width, is_shifted) = (residual.columns(), columns.is_shifted());
    let relative = bound::relative_error(kernel, width, [shortest, longest], is_shifted);
    let error = |u: f64, v: f64| bound::error(kernel, width, u, v, is_shifted);
    let absolute =
        largest([error(longest, longest), error(longest, shortest), error(shortest, shortest)]);
    let chain = gamma(rows.rows() as f64 / 8.0 + 12.0);
    let (mut square, mut rounding) = (Compensated::default(), 0.0);
    for (score, list) in lists.iter().enumerate() {
        let (mut size, mut plain) = (0.0, 0.0);
        for (row, c) in list.iter().enumerate() {
            square.add_product(*c, products[row * count + score]);
            size += c.abs() * columns.diagonal()[row].abs().sqrt();
            plain += c.abs();
        }
        let from_kernel = match relative {
            Some(relative) => relative * size * size,
            None => absolute * plain * plain,
        };
        rounding += (chain * size * size + from_kernel) * 1.01;
    }
    let square = square.value();
    Ok((square, rounding + 4.0 * f64::EPSILON * square.abs()))
}

pub(super) fn is_linear(machine: &Machine) -> bool {
    matches!(machine.kernel().form(), Form::Dot(finish) if finish.profile() == Profile::Identity)
}

/// `|Σ c_i x_i|²`, each column in compensated summation.
fn linear_square(rows: &Matrix, lists: &[Vec<f64>]) -> f64 {
    let mut square = 0.0;
    for list in lists {
        let mut weights = vec![Compensated::default(); rows.columns()];
        for (row, c) in rows.iter().zip(list) {
            row.nonzeros().for_each(|(column, x)| weights[column as usize].add_product(*c, x));
        }
        square += weights.iter().map(|w| w.value() * w.value()).sum::<f64>();
    }
    square
}

/// Compares machines with the original on a sample.
#[derive(Debug)]
pub(super) struct SampleEvaluator<'a> {
    machine: &'a Machine,
    sample: Option<&'a Matrix>,
    tolerance: Option<f64>,
    answers: Vec<Answer>,
    scores: Vec<f64>,
}

impl<'a> SampleEvaluator<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        sample: Option<&'a Matrix>,
        tolerance: Option<f64>,
    ) -> Result<Self, CompileError> {
        let (mut answers, mut scores) = (Vec::new(), Vec::new());
        if let Some(sample) = sample {
            scores = Plan::exact(machine).scores(sample)?;
            let count = machine.scores().len().max(1);
            answers =
                scores.chunks_exact(count).map(|scores| machine.verdict(scores).answer).collect();
        }
        Ok(Self { machine, sample, tolerance, answers, scores })
    }

    /// An error without a sample; values need a tolerance too.
    pub(super) fn needed(&self, goal: &'static str) -> Result<(), CompileError> {
        if self.sample.is_none_or(|sample| sample.rows() == 0) {
            return Err(unfit("compress", format!("--{goal} needs queries to count (--sample)")));
        }
        if matches!(self.machine.output(), Output::Value) && self.tolerance.is_none() {
            let reason = format!("--{goal} of a regression needs a tolerance (--value-tolerance)");
            return Err(unfit("compress", reason));
        }
        Ok(())
    }

    /// How the answers of another machine differ; none without a sample.
    pub(super) fn disagreement(
        &self,
        other: &Machine,
    ) -> Result<Option<SampleAgreement>, CompileError> {
        let Some(sample) = self.sample else { return Ok(None) };
        let scores = Plan::exact(other).scores(sample)?;
        let count = other.scores().len().max(1);
        let pairs = self.scores.iter().zip(&scores);
        let largest_difference = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let tolerance = self.tolerance.unwrap_or(f64::INFINITY);
        let differs =
            |(exact, scores): &(&Answer, &[f64])| match (exact, other.verdict(scores).answer) {
                (Answer::Value(a), Answer::Value(b)) => (a - b).abs() > tolerance,
                (exact, other) => **exact != other,
            };
        let pairs = self.answers.iter().zip(scores.chunks_exact(count));
        let (queries, disagreements) = (sample.rows(), pairs.filter(differs).count());
        Ok(Some(SampleAgreement { queries, disagreements, certified: None, largest_difference }))
    }

    /// The same, and how many labels the vectors prove.
    pub(super) fn evaluate(
        &self,
        vectors: &Matrix,
        small: &Machine,
        watch: &Watch<'_>,
    ) -> Result<Option<SampleAgreement>, CompileError> {
        let Some(mut agreement) = self.disagreement(small)? else { return Ok(None) };
        agreement.certified = self.certified(vectors, watch)?;
        Ok(Some(agreement))
    }

    /// Queries whose label the vectors prove; none where the certificate does not fit the machine.
    fn certified(
        &self,
        vectors: &Matrix,
        watch: &Watch<'_>,
    ) -> Result<Option<usize>, CompileError> {
        let Some(sample) = self.sample else { return Ok(None) };
        let machine = self.machine;
        let sections = match compressed::sections(machine, vectors, watch) {
            Ok(sections) => sections,
            Err(CompileError::Unfit { .. }) => return Ok(None),
            Err(other) => return Err(other),
        };
        let plan = Plan::fitted(machine, &sections)?;
        let options = QueryOptions { tolerance: self.tolerance, ..QueryOptions::default() };
        let answers = plan.decide_with(sample, &options)?;
        let proved =
            |decision: &&mercer_query::Decision| decision.certainty == Certainty::Certified;
        Ok(Some(answers.decisions.iter().filter(proved).count()))
    }
}
