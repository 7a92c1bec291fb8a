//! Updates of models that need no estimator, and rows that are kept with a model. Estimators, whose parameters may change between
//! two updates, go through `train.rs`.

use std::sync::Arc;

use mercer::data::{Dataset, Targets};
use mercer::machine::{Model, Provenance, TrainingRows};
use mercer::spec::Spec;
use mercer::train::{
    Cancel, FormulationRef, Progress, Training, Update, Updated, WeightedRows, formulation, solver,
    update,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::ToPyErr;
use crate::machine_parts::PyClassName;
use crate::model::PyModel;
use crate::rows::Rows;
use crate::train::{Listener, Numbers, TrainingError, changes, now_and_then, report, train_beside};

/// Rows with their targets, as a Python dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LabelledTask<'py> {
    rows: Rows<'py>,
    /// Values of a regression, or names of classes that are numbers.
    numbers: Option<Numbers>,
    /// Names of classes.
    names: Option<Vec<String>>,
    weights: Option<Numbers>,
}

/// What changes, as a Python dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ChangeTask<'py> {
    added: Option<LabelledTask<'py>>,
    forgotten: Option<LabelledTask<'py>>,
    /// Those that the model keeps, if none.
    original: Option<LabelledTask<'py>>,
    /// That of the model, if none.
    formulation: Option<String>,
    keep_rows: bool,
    threads: usize,
}

/// Rows of a training, apart from the interpreter.
struct Labelled {
    data: Dataset,
    weights: Option<Vec<f64>>,
}

impl Labelled {
    fn weighted(&self) -> WeightedRows<'_> {
        WeightedRows { data: &self.data, weights: self.weights.as_deref() }
    }
}

impl LabelledTask<'_> {
    fn targets(&self) -> Targets {
        match (&self.numbers, &self.names) {
            (Some(Numbers(values)), _) => Targets::Numbers(values.clone()),
            (None, Some(names)) => Targets::Names(names.clone()),
            (None, None) => Targets::Absent,
        }
    }

    fn weights(&self) -> Option<Vec<f64>> {
        self.weights.as_ref().map(|Numbers(values)| values.clone())
    }

    /// Rows as they are given to `predict`.
    fn prepared(&self, py: Python<'_>, model: &PyModel) -> PyResult<Labelled> {
        let examples = model.prepared(py, &self.rows)?;
        let data = Dataset { examples, targets: self.targets(), names: None };
        Ok(Labelled { data, weights: self.weights() })
    }
}

/// The model with the rows that its machine was trained on: as the machine got them.
#[pyfunction]
pub(crate) fn with_kept_rows(
    py: Python<'_>,
    model: PyRef<'_, PyModel>,
    kept: LabelledTask<'_>,
    class_weights: Vec<(PyClassName, f64)>,
) -> PyResult<PyModel> {
    let examples = kept.rows.view().matrix(None).map_err(|error| error.raise(py))?;
    let factors = class_weights.into_iter().map(|(name, factor)| (name.into(), factor)).collect();
    let rows = TrainingRows::new(examples, kept.targets(), kept.weights())
        .and_then(|rows| rows.with_options(None, factors))
        .map_err(|error| error.raise(py))?;
    model.changed(py, |model| Model { training: Some(Arc::new(rows)), ..model })
}

/// The model of other rows, and its training report.
#[pyfunction]
pub(crate) fn update_model<'py>(
    py: Python<'py>,
    model: PyRef<'py, PyModel>,
    change: ChangeTask<'py>,
) -> PyResult<(PyModel, Bound<'py, PyDict>)> {
    let before = model.model();
    let what = formulation_of(py, before, change.formulation.as_deref())?;
    let original = match &change.original {
        Some(rows) => rows.prepared(py, &model)?,
        None => kept(before)?,
    };
    let prepared = |rows: &Option<LabelledTask<'_>>| {
        rows.as_ref().map(|rows| rows.prepared(py, &model)).transpose()
    };
    let (added, forgotten) = (prepared(&change.added)?, prepared(&change.forgotten)?);
    let cancel = Cancel::new();
    let training = settings(py, before, change.original.is_none())?.cancel(cancel.clone());
    let asked = Update {
        machine: &before.machine,
        original: original.weighted(),
        added: added.as_ref().map(Labelled::weighted),
        forgotten: forgotten.as_ref().map(|rows| &rows.data),
    };
    let mut rows_after = None;
    let work = |tell: &mut dyn FnMut(&Progress)| {
        let updated = update(&asked, &what, &training, &mut now_and_then(tell));
        let Updated { trained, data, weights, report } = updated.map_err(TrainingError::Train)?;
        rows_after = Some(Labelled { data, weights });
        Ok((trained, None, Some(report)))
    };
    let mut listener = Listener { observer: None, cancel: &cancel, raised: None };
    let outcome = train_beside(py, change.threads, work, &mut listener)?;
    if let Some(error) = listener.raised {
        return Err(error);
    }
    let (trained, _, changed) = outcome.map_err(|error| error.raise(py))?;
    let fields = report(py, &trained)?;
    if let Some(changed) = &changed {
        let counts = changes(py, changed)?;
        counts.set_item("added", changed.added)?;
        counts.set_item("forgotten", changed.forgotten)?;
        fields.set_item("update", counts)?;
    }
    let keeps = change.keep_rows || before.training.is_some();
    let kept = match rows_after {
        Some(rows) if keeps => Some(Arc::new(rows_to_keep(py, rows, &training)?)),
        _ => None,
    };
    let fresh = Model {
        input: before.input.clone(),
        provenance: provenance(&what),
        training: kept,
        ..Model::from(trained.machine)
    };
    Ok((PyModel::new(py, fresh)?, fields))
}

fn provenance(what: &FormulationRef) -> Provenance {
    Provenance {
        origin: "mercer".to_owned(),
        formulation: Some(what.spec().to_string()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        source_supports: None,
        parent: None,
    }
}

/// What is minimised: as given, or as the model says.
fn formulation_of(py: Python<'_>, model: &Model, given: Option<&str>) -> PyResult<FormulationRef> {
    let stored = model.provenance.formulation.as_deref();
    let is_whole = |text: &str| {
        let named = text.parse::<Spec>().is_ok_and(|spec| !spec.named().is_empty());
        named || model.provenance.origin == "mercer"
    };
    let text = given.or(stored.filter(|text| is_whole(text))).ok_or_else(|| {
        PyValueError::new_err(
            "the model does not say what was minimised, or not with which parameters; give formulation, such as 'c_svc(C=1)'",
        )
    })?;
    formulation(text).map_err(|error| error.raise(py))
}

fn kept(model: &Model) -> PyResult<Labelled> {
    let kept = model.training.as_ref().ok_or_else(|| {
        PyValueError::new_err(
            "the original rows are needed: the model holds its support vectors only, and a row that is none can become one; give \
             original=(X, y), or keep the rows with the model (fit(..., keep_rows=True), `mercer train --keep-rows`)",
        )
    })?;
    let data =
        Dataset { examples: kept.examples().clone(), targets: kept.targets().clone(), names: None };
    Ok(Labelled { data, weights: kept.weights().map(<[f64]>::to_vec) })
}

/// The options that the kept rows were trained with.
fn settings(py: Python<'_>, model: &Model, is_kept: bool) -> PyResult<Training> {
    let mut training = Training::default();
    let Some(kept) = model.training.as_ref().filter(|_| is_kept) else { return Ok(training) };
    if let Some(text) = kept.solver() {
        training = training.solver(solver(text).map_err(|error| error.raise(py))?);
    }
    Ok(training.class_weights(kept.class_weights().to_vec()))
}

fn rows_to_keep(py: Python<'_>, rows: Labelled, training: &Training) -> PyResult<TrainingRows> {
    let solver = training.is_solver_given().then(|| training.solver_spec().to_string());
    TrainingRows::new(rows.data.examples, rows.data.targets, rows.weights)
        .and_then(|rows| rows.with_options(solver, training.class_weights_given().to_vec()))
        .map_err(|error| error.raise(py))
}
