//! Attributions: how much each column moved a score away from its mean over background rows.
//!
//! They are Shapley values of the game `v(S) = mean over background rows z of f(x in the columns S, z elsewhere)`, the
//! interventional one; no column is sampled. How they are computed depends on the kernel: sums over columns in
//! `separable.rs`, products in `products.rs`, powers of dot products in `powers.rs`; the bounds of rounding are in `certify/shapley.rs`.

mod powers;
mod products;
mod separable;

use std::sync::Arc;

use mercer_data::Matrix;
use mercer_data::limits::{NUMBERS_PER_VALUE, SMALL_TABLE, filled};
use mercer_data::scale::Map;
use mercer_kernel::{ExponentialForm, Form, Profile};
use mercer_machine::{Answer, Machine, Model, Output, Scheme, Score, pairs};
use rayon::prelude::*;

use crate::certify::shapley;
use crate::{Interval, Plan, QueryError};
use powers::PowerKernel;
use products::{Exponent, Products};
use separable::Separable;

/// Powers up to this degree are attributed.
pub const MAX_ATTRIBUTED_DEGREE: u32 = 16;

/// How much each column moved one score of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribution {
    /// Which score is explained.
    pub explained: ExplainedScore,
    /// The score of the row.
    pub score: f64,
    /// The mean score of the background rows.
    pub base: f64,
    /// The contribution of each column. They add up to `score - base`, up to rounding.
    pub values: Vec<f64>,
    /// A range for each column that contains its Shapley value in real arithmetic; from the least to the largest number where
    /// nothing is known.
    pub ranges: Vec<Interval>,
}

/// A score that is explained: positive values speak for `class`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplainedScore {
    /// Its position among the machine's scores.
    pub position: usize,
    /// Whether it is the machine's score with the other sign.
    pub is_negated: bool,
    /// The class that positive scores speak for; none for regression and novelty.
    pub class: Option<usize>,
    /// The class that negative scores speak for; none where that is all the others.
    pub against: Option<usize>,
}

/// Numbers of work for each column, on all threads.
const WORK: usize = 32;

/// Which score to explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScoreChoice {
    /// The one score; of several classes that of the winner against the runner-up (one-vs-one), or of the winner (one-vs-rest).
    #[default]
    Deciding,
    /// That of a class: against another one (two classes, one-vs-one), or against all others (one-vs-rest).
    Class {
        /// The class.
        class: usize,
        /// The other one.
        against: Option<usize>,
    },
}

/// Attributes the scores of a machine to columns, given background rows.
#[derive(Debug)]
pub struct Attributor<'a> {
    plan: Arc<Plan>,
    machine: &'a Machine,
    /// Columns of dense background rows; sparse ones may have any number.
    dense_width: Option<usize>,
    background: Arc<Dense>,
    background_scores: Vec<f64>,
    method: Method<'a>,
}

#[derive(Debug)]
enum Method<'a> {
    Separable(Separable<'a>),
    Products(Products<'a>),
    Powers(PowerKernel),
}

/// Rows with all their columns.
#[derive(Debug)]
struct Dense {
    columns: usize,
    values: Vec<f64>,
}

impl Dense {
    /// # Errors
    /// If the memory cannot be allocated.
    fn new(rows: &Matrix, columns: usize) -> Result<Self, QueryError> {
        let mut dense = Self::zeros(rows.rows(), columns)?;
        for (row, out) in rows.iter().zip(dense.values.chunks_exact_mut(usize::max(columns, 1))) {
            row.write_dense(out);
        }
        Ok(dense)
    }

    fn zeros(rows: usize, columns: usize) -> Result<Self, QueryError> {
        let numbers = rows.saturating_mul(columns);
        let values = filled("the dense copy of the rows", numbers, 0.0);
        Ok(Self { columns, values: values.map_err(|_| QueryError::NoMemory { numbers })? })
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> + Clone {
        self.values.chunks_exact(usize::max(self.columns, 1))
    }
}

/// Refuses rows that claim far more columns than their values justify: each row is made dense, beside numbers of work.
fn check_width(rows: usize, columns: usize, stored: usize) -> Result<(), QueryError> {
    let numbers = rows.saturating_add(WORK).saturating_mul(columns);
    let limit = usize::max(SMALL_TABLE, stored.saturating_mul(NUMBERS_PER_VALUE));
    if numbers <= limit { Ok(()) } else { Err(QueryError::WideAttributions { numbers, limit }) }
}

/// Contributions of all columns with bounds on their errors.
#[derive(Debug, Clone, PartialEq)]
struct Contributions {
    values: Vec<f64>,
    errors: Vec<f64>,
}

impl<'a> Attributor<'a> {
    /// As [`Attributor::new`], for the machine of a model; rows are those that its scaling returns, column by column.
    ///
    /// # Errors
    /// Also if the model divides each row by its length: a column then depends on all others.
    pub fn of(model: &'a Model, background: &Matrix) -> Result<Self, QueryError> {
        match &model.input.scaling {
            Some(scaling) if matches!(scaling.map(), Map::UnitNorm(_)) => {
                Err(QueryError::ScaledByRow { scaling: scaling.spec().to_string() })
            }
            _ => Self::new(&model.machine, background),
        }
    }

    /// Rows and background rows are as the machine gets them: scaled.
    ///
    /// # Errors
    /// If there are no background rows, they are of another width than the machine, they take more memory than there is, or the
    /// kernel is none whose Shapley values are known.
    pub fn new(machine: &'a Machine, background: &Matrix) -> Result<Self, QueryError> {
        if background.rows() == 0 {
            return Err(QueryError::NoBackground);
        }
        if !background.is_sparse() && background.columns() < machine.columns() {
            let (found, expected) = (background.columns(), machine.columns());
            return Err(QueryError::BackgroundWidth { found, expected });
        }
        let columns = std::cmp::max(machine.columns(), background.columns());
        let stored = background.nonzeros() + machine.supports().nonzeros();
        check_width(background.rows(), columns, stored)?;
        let plan = Arc::new(Plan::exact(machine));
        let dense_width = (!background.is_sparse()).then_some(background.columns());
        let background_scores = plan.scores(background)?;
        let background = Arc::new(Dense::new(background, columns)?);
        let method = method(machine, &background)?;
        Ok(Self { plan, machine, dense_width, background, background_scores, method })
    }

    /// The attributions of all rows, in order.
    ///
    /// # Errors
    /// If rows are of another width than the background, a row lies outside the kernel's domain, a number overflows, or there
    /// is no score of the class asked for.
    pub fn attribute(
        &self,
        rows: &Matrix,
        choice: ScoreChoice,
    ) -> Result<Vec<Attribution>, QueryError> {
        match self.dense_width {
            Some(found) if !rows.is_sparse() && found != rows.columns() => {
                return Err(QueryError::BackgroundWidth { found, expected: rows.columns() });
            }
            _ if rows.columns() > self.background.columns => {
                let wide = self.background.rows().len() + rows.rows();
                check_width(wide, rows.columns(), rows.nonzeros())?;
                return self.widened(rows.columns())?.attribute(rows, choice);
            }
            _ => {}
        }
        let columns = self.background.columns;
        let stored = rows.nonzeros() + self.machine.supports().nonzeros();
        check_width(rows.rows(), columns, stored)?;
        let scores = self.plan.scores(rows)?;
        let dense = Dense::new(rows, columns)?;
        let count = self.machine.scores().len();
        let each = |(row, (x, scores)): (usize, (&[f64], &[f64]))| {
            let explained = explained(self.machine.output(), scores, choice)?;
            self.of_row(x, scores, explained)
                .ok_or(QueryError::NotFinite { row: row + 1, value: f64::INFINITY })
        };
        let all: Vec<_> = dense.rows().zip(scores.chunks_exact(count)).enumerate().collect();
        all.into_par_iter().map(each).collect()
    }

    /// The same for rows with more columns, which hold zeros in the background.
    fn widened(&self, columns: usize) -> Result<Self, QueryError> {
        let mut background = Dense::zeros(self.background.rows().len(), columns)?;
        for (wide, row) in background.values.chunks_exact_mut(columns).zip(self.background.rows()) {
            wide[..row.len()].copy_from_slice(row);
        }
        let background = Arc::new(background);
        Ok(Self {
            plan: self.plan.clone(),
            machine: self.machine,
            dense_width: None,
            method: method(self.machine, &background)?,
            background,
            background_scores: self.background_scores.clone(),
        })
    }

    /// `None` if a number overflows.
    fn of_row(&self, x: &[f64], scores: &[f64], explained: ExplainedScore) -> Option<Attribution> {
        let score = &self.machine.scores()[explained.position];
        let found = match &self.method {
            Method::Separable(separable) => separable.of_row(explained.position, x),
            Method::Products(products) => products.of_row(self.machine, score, x, &self.background),
            Method::Powers(powers) => powers.of_row(self.machine, score, x, &self.background),
        };
        let sign = if explained.is_negated { -1.0 } else { 1.0 };
        let (count, own) = (scores.len(), explained.position);
        let background = self.background_scores.iter().skip(own).step_by(count);
        let base = background.sum::<f64>() / self.background.rows().len() as f64;
        let values: Vec<f64> = found.values.iter().map(|value| 0.0 + sign * value).collect();
        let is_finite = base.is_finite() && values.iter().all(|value| value.is_finite());
        let ranges = values.iter().zip(&found.errors).map(|(v, error)| shapley::range(*v, *error));
        let ranges = ranges.collect();
        let (score, base) = (sign * scores[own], 0.0 + sign * base);
        is_finite.then_some(Attribution { explained, score, base, values, ranges })
    }
}

/// How a machine's Shapley values are computed.
fn method<'a>(machine: &'a Machine, background: &Arc<Dense>) -> Result<Method<'a>, QueryError> {
    let unknown = || {
        let kernel = machine.kernel().spec().to_string();
        QueryError::NotAttributable { kernel, degree: MAX_ATTRIBUTED_DEGREE }
    };
    let is_expansion =
        machine.scores().iter().any(|score| matches!(score, Score::Expansion { .. }));
    if !is_expansion {
        return Ok(Method::Separable(Separable::new(machine, None, background)));
    }
    let form = machine.kernel().form();
    let Some(finish) = form.finish() else { return Err(unknown()) };
    if let Some(exponential) = finish.exponential() {
        let exponent = match (form, exponential) {
            (Form::Additive(term, _), ExponentialForm::OfSum { gamma }) => {
                Exponent::Term { term, gamma }
            }
            (Form::Additive(term, _), ExponentialForm::OfDistance { gamma }) => {
                Exponent::Distance { term, gamma }
            }
            (_, ExponentialForm::OfDistance { gamma }) => Exponent::Square { gamma },
            (_, ExponentialForm::OfSum { .. }) => return Err(unknown()),
        };
        return Ok(Method::Products(Products::new(exponent)));
    }
    match (form, finish.profile()) {
        (Form::Dot(_), Profile::Identity) => {
            Ok(Method::Separable(Separable::new(machine, None, background)))
        }
        (Form::Additive(term, _), Profile::Identity) => {
            Ok(Method::Separable(Separable::new(machine, Some(term), background)))
        }
        (Form::Dot(_), Profile::Power { scale, shift, degree })
            if degree <= MAX_ATTRIBUTED_DEGREE =>
        {
            Ok(Method::Powers(PowerKernel::new(scale, shift, degree)))
        }
        _ => Err(unknown()),
    }
}

/// The score that is explained for a row with these scores.
fn explained(
    output: &Output,
    scores: &[f64],
    choice: ScoreChoice,
) -> Result<ExplainedScore, QueryError> {
    let plain = ExplainedScore { position: 0, is_negated: false, class: None, against: None };
    let Output::Classes { names, scheme } = output else {
        return match choice {
            ScoreChoice::Deciding => Ok(plain),
            ScoreChoice::Class { .. } => Err(QueryError::NoScoreOfClass),
        };
    };
    let winner = match output.answer(scores) {
        Answer::Class(class) => class,
        _ => 0,
    };
    let is_paired = scores.len() == 1 || *scheme == Scheme::OneVsOne;
    let (class, against) = match choice {
        ScoreChoice::Deciding if scores.len() == 1 => (0, Some(1)),
        ScoreChoice::Deciding if is_paired => {
            (winner, Some(runner_up(scores, names.len(), winner)))
        }
        ScoreChoice::Deciding => (winner, None),
        ScoreChoice::Class { class, against: None } if names.len() == 2 => {
            (class, Some(1 - usize::min(class, 1)))
        }
        ScoreChoice::Class { class, against } => (class, against),
    };
    let of_pair =
        |first: usize, second: usize| pairs(names.len()).position(|pair| pair == (first, second));
    let found = match against {
        _ if class >= names.len() => None,
        Some(against) if is_paired && class != against => {
            let pair = (usize::min(class, against), usize::max(class, against));
            of_pair(pair.0, pair.1).map(|position| (position, class > against))
        }
        None if !is_paired => Some((class, false)),
        _ => None,
    };
    let (position, is_negated) = found.ok_or(QueryError::NoScoreOfClass)?;
    Ok(ExplainedScore { position, is_negated, class: Some(class), against })
}

/// The class with most votes beside the winner; of equal ones that whose score against the winner is best, then the first.
fn runner_up(scores: &[f64], classes: usize, winner: usize) -> usize {
    let mut votes = vec![0u32; classes];
    let mut against_winner = vec![0.0; classes];
    for ((first, second), score) in pairs(classes).zip(scores) {
        votes[if *score > 0.0 { first } else { second }] += 1;
        if second == winner {
            against_winner[first] = *score;
        } else if first == winner {
            against_winner[second] = -score;
        }
    }
    let others = (0..classes).filter(|class| *class != winner);
    let better = |best: usize, class: usize| {
        let (a, b) = (votes[class], votes[best]);
        if a > b || (a == b && against_winner[class] > against_winner[best]) { class } else { best }
    };
    others.reduce(better).unwrap_or(winner)
}
