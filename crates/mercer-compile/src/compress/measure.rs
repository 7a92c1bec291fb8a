//! How far a small machine is from the one it stands for: in feature space, and on a sample.

use mercer_data::Matrix;
use mercer_kernel::bound::{self, gamma};
use mercer_kernel::factor::{Compensated, GramColumns};
use mercer_kernel::{Form, Profile};
use mercer_machine::{Answer, Machine, Output};
use mercer_query::{Certainty, Plan, QueryOptions};

use super::{Points, Teacher, stacked, teacher, unfit};
use crate::fit::compressed;
use crate::{CompileError, Watch};

/// A length in feature space, all scores together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// `|W - W~|`.
    pub absolute: f64,
    /// The same over `|W|`.
    pub relative: f64,
    /// What rounding may have added to or taken from `|W - W~|²`.
    pub rounding: f64,
    /// Largest `|b - b~|`.
    pub offset: f64,
}

/// What a sample says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Queries asked.
    pub queries: usize,
    /// Those that get another label, or a value beyond the tolerance.
    pub others: usize,
    /// Those whose label the vectors prove, with the certificate of the stage `compressed`.
    pub certified: Option<usize>,
    /// Largest difference of a score.
    pub most: f64,
}

impl Judged {
    /// Share of queries with another label.
    pub fn disagreement(&self) -> f64 {
        self.others as f64 / self.queries.max(1) as f64
    }

    /// Share of queries whose label is proved.
    pub fn certified_share(&self) -> Option<f64> {
        self.certified.map(|count| count as f64 / self.queries.max(1) as f64)
    }
}

/// `|W - W~|`, computed from the two lists of vectors as one: equal vectors meet before anything is
/// squared, so that little cancels.
///
/// With coefficients `c` over all distinct rows, `|R|² = Σ c_i <Φ_i, R>`. Each inner product is an exact
/// answer, off by at most `(γ_(n/8 + 8) + ε) s_i C`, `C = Σ|c_i| s_i`, hence `|R|²` by that times `C`.
pub(super) fn distance(teacher: &Teacher<'_>, points: &Points) -> Result<Length, CompileError> {
    let rows = stacked(&teacher.supports, &points.rows);
    let join = |(beta, g): (&Vec<f64>, &Vec<f64>)| -> Vec<f64> {
        beta.iter().copied().chain(g.iter().map(|g| -g)).collect()
    };
    let joined: Vec<Vec<f64>> = teacher.betas.iter().zip(&points.coefficients).map(join).collect();
    let residual = teacher::scored(teacher.machine, rows, &joined)?;
    let offset = |(score, own): (&mercer_machine::Score, &f64)| (score.offset() - own).abs();
    let offsets = teacher.machine.scores().iter().zip(&points.offsets).map(offset);
    let (square, rounding) = squared(teacher, &residual)?;
    Ok(Length {
        absolute: square.max(0.0).sqrt(),
        relative: teacher.relative(square),
        rounding,
        offset: offsets.fold(0.0, f64::max),
    })
}

/// `Σ|R_s|²` of a machine without offsets, and its error.
fn squared(teacher: &Teacher<'_>, residual: &Machine) -> Result<(f64, f64), CompileError> {
    let rows = residual.supports();
    let lists: Vec<Vec<f64>> =
        residual.scores().iter().map(|score| teacher::dense(score, rows.rows())).collect();
    if is_linear(residual) {
        let square = linear_square(rows, &lists);
        return Ok((square, 16.0 * f64::EPSILON * square));
    }
    let plan = Plan::exact(residual);
    let count = lists.len();
    let products = plan.scores(rows)?;
    let kernel = residual.kernel().as_ref();
    let columns = teacher.columns(rows.as_ref().clone());
    let sums = columns.squared_norms();
    let longest = sums.iter().copied().fold(1e-300, f64::max);
    let relative = bound::relative_error(kernel, residual.columns(), columns.is_shifted());
    let absolute = bound::error(kernel, residual.columns(), longest, longest, columns.is_shifted());
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

/// `|Σ c_i x_i|²`, each column summed with all its digits.
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

/// Asks a sample.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    machine: &'a Machine,
    sample: Option<&'a Matrix>,
    tolerance: Option<f64>,
    answers: Vec<Answer>,
    scores: Vec<f64>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        sample: Option<&'a Matrix>,
        tolerance: Option<f64>,
    ) -> Result<Self, CompileError> {
        let (mut answers, mut scores) = (Vec::new(), Vec::new());
        if let Some(sample) = sample {
            scores = Plan::exact(machine).scores(sample)?;
            let count = machine.scores().len().max(1);
            answers = scores.chunks_exact(count).map(|own| machine.verdict(own).answer).collect();
        }
        Ok(Self { machine, sample, tolerance, answers, scores })
    }

    /// The sample, or a sentence that one is needed; values need a tolerance too.
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

    /// How the answers of another machine differ; nothing without a sample.
    pub(super) fn disagreement(&self, other: &Machine) -> Result<Option<Judged>, CompileError> {
        let Some(sample) = self.sample else { return Ok(None) };
        let scores = Plan::exact(other).scores(sample)?;
        let count = other.scores().len().max(1);
        let pairs = self.scores.iter().zip(&scores);
        let most = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let tolerance = self.tolerance.unwrap_or(f64::INFINITY);
        let differs = |(own, scores): &(&Answer, &[f64])| match (own, other.verdict(scores).answer)
        {
            (Answer::Value(a), Answer::Value(b)) => (a - b).abs() > tolerance,
            (own, other) => **own != other,
        };
        let others = self.answers.iter().zip(scores.chunks_exact(count)).filter(differs).count();
        Ok(Some(Judged { queries: sample.rows(), others, certified: None, most }))
    }

    /// The same, and how many labels the vectors prove.
    pub(super) fn judge(
        &self,
        vectors: &Matrix,
        small: &Machine,
        watch: &Watch<'_>,
    ) -> Result<Option<Judged>, CompileError> {
        let Some(mut judged) = self.disagreement(small)? else { return Ok(None) };
        judged.certified = self.certified(vectors, watch)?;
        Ok(Some(judged))
    }

    /// Queries whose label the vectors prove; nothing where the certificate does not fit the machine.
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
        let plan = Plan::load(machine, &sections)?;
        let options = QueryOptions { tolerance: self.tolerance, ..QueryOptions::default() };
        let answers = plan.decide_with(sample, &options)?;
        let proved =
            |decision: &&mercer_query::Decision| decision.certainty == Certainty::Certified;
        Ok(Some(answers.decisions.iter().filter(proved).count()))
    }
}
