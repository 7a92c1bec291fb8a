//! Models as Mercer's machines with a plan: made at the first prediction, then shared by all threads. Which models are
//! known is in [`crate::known`].

use std::sync::OnceLock;

use mercer::compile::compile;
use mercer::data::{Matrix, MatrixBuilder};
use mercer::machine::{Answer, ClassName, Machine, Output, Scheme, Score};
use mercer::query::Plan;
use mercer::spec::Spec;

use crate::direct;
use crate::layout::{Fields, kernel_type, svm_node, svm_parameter, svm_type};
use crate::linear::Linear;
use crate::memory::Content;
use crate::workers::Planned;

/// Models with fewer supports are evaluated as LIBSVM does: packing a query takes longer.
pub(crate) const FEW: usize = 24;
/// Entries of a row from which on integers are faster than f64.
const WIDE: usize = 24;
/// Supports from which on their Gaussians are faster in f32.
const MANY: usize = 128;
/// One entry of so many must not be zero.
const LEAST_SHARE: usize = 16;

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
    Planned(Planned),
    /// By one sum over the columns for each score: a linear kernel.
    Linear(Linear),
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
        Self::Planned(Planned::new(plan))
    }

    /// The class, by place, or the value of a row; `None` where only LIBSVM's own way gives an answer.
    pub(crate) fn answer(&self, query: &[svm_node]) -> Option<Answer> {
        match self {
            Self::Direct => None,
            Self::Linear(linear) => linear.answer(query),
            Self::Planned(planned) => planned.answer(query),
        }
    }

    /// The decision values of a row; `None` as above.
    pub(crate) fn values(&self, query: &[svm_node]) -> Option<Vec<f64>> {
        match self {
            Self::Direct => None,
            Self::Linear(linear) => linear.values(query),
            Self::Planned(planned) => planned.values(query),
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

/// The coefficients of all supports, score after score.
pub(crate) fn coefficients(fields: &Fields, content: &Content<'_>) -> Vec<Vec<f64>> {
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
    let has_labels = *machine.output() != Output::Value;
    let planned = if mode == Mode::Certified && has_labels && is_faster_in_low_precision(machine) {
        let cascade = Spec::new("cascade").with(Spec::new("low_precision")).with("exact");
        let sections = compile(machine, &cascade, None).ok();
        sections.and_then(|sections| Plan::fitted_in_pieces(machine, &sections).ok())
    } else {
        // The value of a regression is the exact score.
        None
    };
    planned.unwrap_or_else(|| Plan::exact(machine))
}

/// Whether integers or f32 are faster than f64: products of long rows are, and Gaussians of many supports, whose
/// exponentials are most of the work. Very sparse rows are walked by their entries instead.
fn is_faster_in_low_precision(machine: &Machine) -> bool {
    let supports = machine.supports();
    let (rows, entries) = (supports.rows(), supports.nonzeros());
    let is_dense = entries.saturating_mul(LEAST_SHARE) >= rows.saturating_mul(supports.columns());
    let is_gaussian = machine.kernel().spec().name() == "rbf";
    is_dense && (entries >= WIDE * rows || (is_gaussian && rows >= MANY))
}
