//! Decisions and explanations as Python objects; Rust computes them, in `mercer_query`.

use std::ffi::CString;

use mercer::machine::{Answer, Machine, Output};
use mercer::query::{
    Answers, Attribution, Certainty, Decision, Explanation, PredictionSet, QueryOptions, Require,
    SetDecision,
};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Query options as a Python dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PyQueryOptions {
    budget: Option<u64>,
    tolerance: Option<f64>,
    require_certified: bool,
    threshold: Option<f64>,
}

impl PyQueryOptions {
    /// These options, and those of the model where none is given.
    pub(crate) fn over(&self, tuned: QueryOptions) -> QueryOptions {
        QueryOptions {
            budget: self.budget.or(tuned.budget),
            tolerance: self.tolerance.or(tuned.tolerance),
            require: if self.require_certified { Require::Certified } else { tuned.require },
            threshold: self.threshold,
        }
    }
}

/// A warning if answers that have no mark of their own are unsettled.
pub(crate) fn warn_of_unsettled(py: Python<'_>, decisions: &[Decision]) -> PyResult<()> {
    let is_unsettled = |decision: &&Decision| decision.certainty == Certainty::Unsettled;
    let unsettled = decisions.iter().filter(is_unsettled).count();
    if unsettled == 0 {
        return Ok(());
    }
    let text = format!(
        "{unsettled} of {} answers are unsettled: the budget of the model was spent before their label was certain; \
         decide() says which",
        decisions.len()
    );
    let text = CString::new(text)?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)
}

/// Answers, both ends of the ranges, certainties, costs, and how many queries each stage settled.
pub(crate) fn decisions<'py>(
    py: Python<'py>,
    machine: &Machine,
    all: Answers,
) -> PyResult<Bound<'py, PyDict>> {
    let each = || all.decisions.iter();
    let fields = PyDict::new(py);
    fields.set_item("answer", answers(py, machine, each().map(|decision| decision.answer)))?;
    let low: Vec<f64> = each().map(|decision| decision.range.low).collect();
    let high: Vec<f64> = each().map(|decision| decision.range.high).collect();
    let certainty: Vec<u8> = each().map(|decision| rank(decision.certainty)).collect();
    let cost: Vec<u64> = each().map(|decision| decision.cost.multiply_adds).collect();
    fields.set_item("low", PyArray1::from_vec(py, low))?;
    fields.set_item("high", PyArray1::from_vec(py, high))?;
    fields.set_item("certainty", PyArray1::from_vec(py, certainty))?;
    fields.set_item("cost", PyArray1::from_vec(py, cost))?;
    fields.set_item("settled_by_stage", all.settled_by_stage)?;
    fields.set_item("unsettled", all.unsettled)?;
    Ok(fields)
}

/// Attributions as arrays: a row for each query, a column for each column.
pub(crate) fn attributions<'py>(
    py: Python<'py>,
    found: &[Attribution],
) -> PyResult<Bound<'py, PyDict>> {
    let columns = found.first().map_or(0, |row| row.values.len());
    let table = |each: &dyn Fn(&Attribution) -> Vec<f64>| {
        let all: Vec<f64> = found.iter().flat_map(each).collect();
        PyArray1::from_vec(py, all).reshape([found.len(), columns])
    };
    let list = |each: &dyn Fn(&Attribution) -> f64| {
        PyArray1::from_vec(py, found.iter().map(each).collect())
    };
    let place = |class: Option<usize>| class.map_or(-1, |class| class as i64);
    let places = |each: &dyn Fn(&Attribution) -> Option<usize>| {
        PyArray1::from_vec(py, found.iter().map(|row| place(each(row))).collect())
    };
    let fields = PyDict::new(py);
    fields.set_item("values", table(&|row| row.values.clone())?)?;
    fields.set_item("low", table(&|row| row.ranges.iter().map(|range| range.low).collect())?)?;
    fields.set_item("high", table(&|row| row.ranges.iter().map(|range| range.high).collect())?)?;
    fields.set_item("scores", list(&|row| row.score))?;
    fields.set_item("base_values", list(&|row| row.base))?;
    fields.set_item("class", places(&|row| row.explained.class))?;
    fields.set_item("against", places(&|row| row.explained.against))?;
    Ok(fields)
}

/// Prediction sets as arrays.
pub(crate) fn prediction_sets<'py>(
    py: Python<'py>,
    classes: usize,
    sets: &[SetDecision],
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let certainty: Vec<u8> = sets.iter().map(|set| rank(set.certainty)).collect();
    let cost: Vec<u64> = sets.iter().map(|set| set.cost.multiply_adds).collect();
    fields.set_item("certainty", PyArray1::from_vec(py, certainty))?;
    fields.set_item("cost", PyArray1::from_vec(py, cost))?;
    let mut members = vec![false; sets.len() * classes];
    let mut ends = Vec::new();
    for (row, set) in sets.iter().enumerate() {
        match &set.set {
            PredictionSet::Classes(own) => {
                own.iter().for_each(|class| members[row * classes + class] = true);
            }
            PredictionSet::Interval(interval) => ends.extend([interval.low, interval.high]),
        }
    }
    if classes > 0 {
        let members = PyArray1::from_vec(py, members).reshape([sets.len(), classes])?;
        fields.set_item("members", members)?;
    } else {
        fields.set_item("interval", PyArray1::from_vec(py, ends).reshape([sets.len(), 2])?)?;
    }
    Ok(fields)
}

/// The explanation of one row as a dictionary.
pub(crate) fn explanation<'py>(
    py: Python<'py>,
    machine: &Machine,
    explanation: Explanation,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("answer", answers(py, machine, [explanation.decision.answer].into_iter()))?;
    fields.set_item("low", explanation.decision.range.low)?;
    fields.set_item("high", explanation.decision.range.high)?;
    fields.set_item("certainty", rank(explanation.decision.certainty))?;
    fields.set_item("cost", explanation.decision.cost.multiply_adds)?;
    fields.set_item("answered_by", &explanation.stages[explanation.answered_by])?;
    let mut steps = Vec::new();
    for step in &explanation.steps {
        let fields = PyDict::new(py);
        fields.set_item("stage", &explanation.stages[step.stage])?;
        fields.set_item("score", step.score)?;
        fields.set_item("progress", step.progress)?;
        fields.set_item("low", step.range.low)?;
        fields.set_item("high", step.range.high)?;
        fields.set_item("cost", step.cost.multiply_adds)?;
        fields.set_item("is_estimate", step.is_estimate)?;
        steps.push(fields);
    }
    fields.set_item("stages", explanation.stages)?;
    fields.set_item("steps", steps)?;
    Ok(fields)
}

fn rank(certainty: Certainty) -> u8 {
    match certainty {
        Certainty::Unsettled => 0,
        Certainty::Calibrated => 1,
        Certainty::Certified => 2,
        Certainty::Exact => 3,
    }
}

/// Positions of classes, 1 or -1 for novelty, values for regression.
pub(crate) fn answers<'py>(
    py: Python<'py>,
    machine: &Machine,
    answers: impl Iterator<Item = Answer>,
) -> Bound<'py, PyAny> {
    if matches!(machine.output(), Output::Value) {
        let value = |answer: Answer| match answer {
            Answer::Value(value) => value,
            _ => f64::NAN,
        };
        return PyArray1::from_iter(py, answers.map(value)).into_any();
    }
    let code = |answer: Answer| match answer {
        Answer::Class(class) => class as i64,
        Answer::Inlier(is_inlier) => {
            if is_inlier {
                1
            } else {
                -1
            }
        }
        Answer::Value(_) => 0,
    };
    PyArray1::from_iter(py, answers.map(code)).into_any()
}
