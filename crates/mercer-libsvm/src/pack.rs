//! Models as Mercer's machines with a plan: made at the first prediction, then shared by all threads. Which models are
//! known is in [`crate::known`].

use std::sync::OnceLock;

use mercer::compile::compile;
use mercer::data::{Matrix, MatrixBuilder};
use mercer::machine::{Answer, ClassName, Machine, Output, Scheme, Score};
use mercer::query::{Plan, QueryOptions};
use mercer::spec::Spec;

use crate::direct;
use crate::layout::{Fields, kernel_type, svm_node, svm_parameter, svm_type};
use crate::memory::Content;

/// Models with fewer supports are evaluated as LIBSVM does: packing a query takes longer.
pub(crate) const FEW: usize = 24;
/// Entries of a row from which on integers are faster than f64.
const WIDE: usize = 24;

/// How models answer: `MERCER_SVM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// LIBSVM's own sums.
    Off,
    /// Every answer is evaluated exactly, on packed rows.
    Exact,
    /// Labels by a plan whose answers are proved; decision values exactly.
    Certified,
}

impl Mode {
    /// The one that the environment asks for.
    pub(crate) fn current() -> Self {
        static MODE: OnceLock<Mode> = OnceLock::new();
        *MODE.get_or_init(|| match std::env::var("MERCER_SVM").as_deref() {
            Ok("off") => Self::Off,
            Ok("exact") => Self::Exact,
            _ => Self::Certified,
        })
    }
}

/// Writes a line to the standard error output where `MERCER_SVM_LOG` is set: what a user asked for, not an error.
pub(crate) fn log(line: impl FnOnce() -> String) {
    static IS_ON: OnceLock<bool> = OnceLock::new();
    let is_on = || std::env::var_os("MERCER_SVM_LOG").is_some_and(|value| value != "0");
    if *IS_ON.get_or_init(is_on) {
        eprintln!("mercer: {}", line());
    }
}

/// How a model is answered.
#[derive(Debug)]
pub(crate) enum Pack {
    /// In LIBSVM's own way.
    Direct,
    /// By a plan.
    Planned(Box<Plan>),
    /// By one sum over the columns for each score: a linear kernel.
    Linear(Linear),
}

/// The scores of a linear kernel: `w · x - rho`.
#[derive(Debug)]
pub(crate) struct Linear {
    /// One number for each index, score after score.
    weights: Vec<Vec<f64>>,
    /// The same sums of absolute values.
    sizes: Vec<Vec<f64>>,
    rho: Vec<f64>,
    output: LinearOutput,
}

#[derive(Debug, Clone, Copy)]
enum LinearOutput {
    Classes(usize),
    Novelty,
    Value,
}

/// Scores within this share of their terms are left to LIBSVM's own sums, whose rounding decides: 1e6 roundings.
const TIE: f64 = 1e6 * f64::EPSILON;
/// Indices of a linear model at most: beyond them a table of weights is not worth its memory.
const MOST_WEIGHTS: usize = 1 << 24;

impl Linear {
    /// `None` if a row is not regular, or indices are very large.
    fn new(fields: &Fields, content: &Content<'_>) -> Option<Self> {
        if !content.supports.iter().all(|row| is_regular(row)) {
            return None;
        }
        let last = content.supports.iter().filter_map(|row| row.last()).map(|node| node.index);
        let width = usize::try_from(last.max().unwrap_or(0)).ok()? + 1;
        let betas = coefficients(fields, content);
        if width.checked_mul(betas.len())? > MOST_WEIGHTS {
            return None;
        }
        let zeros = vec![vec![0.0; width]; betas.len()];
        let (mut weights, mut sizes) = (zeros.clone(), zeros);
        for (score, betas) in betas.iter().enumerate() {
            for (row, beta) in content.supports.iter().zip(betas).filter(|(_, beta)| **beta != 0.0)
            {
                for node in *row {
                    let term = beta * node.value;
                    weights[score][node.index as usize] += term;
                    sizes[score][node.index as usize] += term.abs();
                }
            }
        }
        let output = match fields.param.svm_type {
            svm_type::ONE_CLASS => LinearOutput::Novelty,
            _ if fields.param.is_classification() => LinearOutput::Classes(fields.class_count()),
            _ => LinearOutput::Value,
        };
        let finite = weights.iter().flatten().chain(content.rho).all(|value| value.is_finite());
        finite.then(|| Self { weights, sizes, rho: content.rho.to_vec(), output })
    }

    /// The scores of a regular row; `None` if one may have the other sign.
    fn values(&self, query: &[svm_node]) -> Option<Vec<f64>> {
        if !is_regular(query) {
            return None;
        }
        let score = |at: usize| {
            let (weights, sizes) = (&self.weights[at], &self.sizes[at]);
            let (mut sum, mut size) = (0.0, 0.0);
            for node in query.iter().take_while(|node| (node.index as usize) < weights.len()) {
                let index = node.index as usize;
                sum += weights[index] * node.value;
                size += sizes[index] * node.value.abs();
            }
            let (score, size) = (sum - self.rho[at], size + self.rho[at].abs());
            (score.is_finite() && score.abs() > TIE * size).then_some(score)
        };
        (0..self.rho.len()).map(score).collect()
    }

    fn answer(&self, query: &[svm_node]) -> Option<Answer> {
        let values = self.values(query)?;
        Some(match self.output {
            LinearOutput::Classes(classes) => Answer::Class(direct::vote(classes, &values)),
            LinearOutput::Novelty => Answer::Inlier(values[0] > 0.0),
            LinearOutput::Value => Answer::Value(values[0]),
        })
    }
}

impl Pack {
    /// The pack of a model that is whole.
    pub(crate) fn new(fields: &Fields, content: &Content<'_>, mode: Mode) -> Self {
        if mode == Mode::Off || fields.param.kernel_type == kernel_type::PRECOMPUTED {
            return Self::Direct;
        }
        if fields.param.kernel_type == kernel_type::LINEAR
            && let Some(linear) = Linear::new(fields, content)
        {
            log(|| {
                format!(
                    "a linear model of {} vectors is answered by its weights",
                    content.supports.len()
                )
            });
            return Self::Linear(linear);
        }
        let Some(machine) = machine(fields, content) else {
            log(|| "a model that no machine can be made of is evaluated as LIBSVM does".to_owned());
            return Self::Direct;
        };
        let plan = plan(&machine, mode);
        log(|| {
            format!("a model of {} vectors is answered by {}", content.supports.len(), plan.spec())
        });
        Self::Planned(Box::new(plan))
    }

    /// The class, by place, or the value of a row; `None` where only LIBSVM's own way gives an answer.
    pub(crate) fn answer(&self, query: &[svm_node]) -> Option<Answer> {
        match self {
            Self::Direct => None,
            Self::Linear(linear) => linear.answer(query),
            Self::Planned(plan) => {
                let answers = plan.decide_with(&row(query)?, &QueryOptions::default()).ok()?;
                answers.decisions.first().map(|decision| decision.answer)
            }
        }
    }

    /// The decision values of a row; `None` as above.
    pub(crate) fn values(&self, query: &[svm_node]) -> Option<Vec<f64>> {
        match self {
            Self::Direct => None,
            Self::Linear(linear) => linear.values(query),
            Self::Planned(plan) => plan.scores(&row(query)?).ok(),
        }
    }
}

/// The kernel of a parameter; `None` where Mercer has none such.
pub(crate) fn kernel(param: &svm_parameter) -> Option<mercer::kernel::KernelRef> {
    let svm_parameter { degree, gamma, coef0, .. } = param;
    let text = match param.kernel_type {
        kernel_type::LINEAR => "linear".to_owned(),
        kernel_type::POLY => format!("polynomial(degree={degree}, gamma={gamma}, coef0={coef0})"),
        kernel_type::RBF => format!("rbf(gamma={gamma})"),
        kernel_type::SIGMOID => format!("sigmoid(gamma={gamma}, coef0={coef0})"),
        _ => return None,
    };
    mercer::kernel::parse(&text).ok()
}

/// Whether a row is as LIBSVM wants it: indices from 0 that increase, numbers that are finite.
pub(crate) fn is_regular(row: &[svm_node]) -> bool {
    row.first().is_none_or(|node| node.index >= 0)
        && row.windows(2).all(|pair| pair[0].index < pair[1].index)
        && row.iter().all(|node| node.value.is_finite())
}

/// Rows as a matrix, index for column; `None` if one is not regular.
pub(crate) fn matrix<'a>(rows: impl Iterator<Item = &'a [svm_node]>) -> Option<Matrix> {
    let mut builder = MatrixBuilder::new();
    for row in rows {
        if !is_regular(row) {
            return None;
        }
        let columns = row.iter().map(|node| node.index as u32);
        builder.push_entries(columns, row.iter().map(|node| node.value));
    }
    let columns = builder.width();
    Some(builder.finish(columns))
}

fn row(query: &[svm_node]) -> Option<Matrix> {
    matrix(std::iter::once(query))
}

/// The coefficients of all supports, score after score.
fn coefficients(fields: &Fields, content: &Content<'_>) -> Vec<Vec<f64>> {
    if !fields.param.is_classification() {
        return vec![content.coefficients[0].to_vec()];
    }
    let starts = direct::starts(content);
    let of_pair = |(first, second): (usize, usize)| {
        let mut betas = vec![0.0; content.supports.len()];
        for (class, column) in [(first, second - 1), (second, first)] {
            let places = starts[class]..starts[class + 1];
            betas[places.clone()].copy_from_slice(&content.coefficients[column][places]);
        }
        betas
    };
    mercer::machine::pairs(fields.class_count()).map(of_pair).collect()
}

fn machine(fields: &Fields, content: &Content<'_>) -> Option<Machine> {
    let supports = matrix(content.supports.iter().copied())?;
    let kernel = kernel(&fields.param)?;
    let output = match fields.param.svm_type {
        svm_type::ONE_CLASS => Output::Novelty,
        _ if fields.param.is_classification() => {
            // Places, not labels: labels are read when an answer is given.
            let names = (0..fields.class_count()).map(|place| ClassName::Number(place as f64));
            Output::Classes { names: names.collect(), scheme: Scheme::OneVsOne }
        }
        _ => Output::Value,
    };
    let betas = coefficients(fields, content);
    let scores = betas.iter().zip(content.rho).map(|(betas, rho)| Score::expansion(betas, *rho));
    Machine::new(kernel, supports, scores.collect(), output).ok()
}

/// A plan that is no slower than the exact one on the average, chosen without a sample.
fn plan(machine: &Machine, mode: Mode) -> Plan {
    let stage = match machine.output() {
        // The answer is the exact score.
        Output::Value => None,
        _ if mode != Mode::Certified => None,
        _ if machine.supports().nonzeros() >= WIDE * machine.supports().rows() => {
            Some("low_precision")
        }
        _ => None,
    };
    let planned = stage.and_then(|stage| {
        let cascade = Spec::new("cascade").with(Spec::new(stage)).with("exact");
        let sections = compile(machine, &cascade, None).ok()?;
        Plan::fitted(machine, &sections).ok()
    });
    planned.unwrap_or_else(|| Plan::exact(machine))
}
