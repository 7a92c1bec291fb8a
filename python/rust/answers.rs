//! What was decided, as Python sees it.

use mercer::machine::{Answer, Machine, Output};
use mercer::query::{Answers, Certainty, Decision, Explanation, QueryOptions, Require};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What the asker allows and demands.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Demand {
    budget: Option<u64>,
    tolerance: Option<f64>,
    require_certified: bool,
}

impl From<&Demand> for QueryOptions {
    fn from(demand: &Demand) -> Self {
        let require = if demand.require_certified { Require::Certified } else { Require::Nothing };
        Self { budget: demand.budget, tolerance: demand.tolerance, require }
    }
}

/// Answers, both ends of the ranges, certainties, costs, and how many queries each stage settled.
pub(crate) fn decisions<'py>(
    py: Python<'py>,
    machine: &Machine,
    all: Answers,
) -> PyResult<Bound<'py, PyDict>> {
    let each = || all.decisions.iter();
    let fields = PyDict::new(py);
    fields.set_item("answer", answers(py, machine, &all.decisions))?;
    let low: Vec<f64> = each().map(|decision| decision.score.low).collect();
    let high: Vec<f64> = each().map(|decision| decision.score.high).collect();
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

/// How one row was answered, step by step.
pub(crate) fn explanation<'py>(
    py: Python<'py>,
    machine: &Machine,
    told: Explanation,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("answer", answers(py, machine, &[told.decision]))?;
    fields.set_item("low", told.decision.score.low)?;
    fields.set_item("high", told.decision.score.high)?;
    fields.set_item("certainty", rank(told.decision.certainty))?;
    fields.set_item("cost", told.decision.cost.multiply_adds)?;
    fields.set_item("settled_by", &told.stages[told.settled_by])?;
    let mut steps = Vec::new();
    for step in &told.steps {
        let fields = PyDict::new(py);
        fields.set_item("stage", &told.stages[step.stage])?;
        fields.set_item("score", step.score)?;
        fields.set_item("progress", step.progress)?;
        fields.set_item("low", step.range.low)?;
        fields.set_item("high", step.range.high)?;
        fields.set_item("cost", step.cost.multiply_adds)?;
        steps.push(fields);
    }
    fields.set_item("stages", told.stages)?;
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
    decisions: &[Decision],
) -> Bound<'py, PyAny> {
    if matches!(machine.output(), Output::Value) {
        let value = |decision: &Decision| match decision.answer {
            Answer::Value(value) => value,
            _ => f64::NAN,
        };
        return PyArray1::from_iter(py, decisions.iter().map(value)).into_any();
    }
    let code = |decision: &Decision| match decision.answer {
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
    PyArray1::from_iter(py, decisions.iter().map(code)).into_any()
}
