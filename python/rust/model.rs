//! Models as Python sees them: bytes, files, answers, scores, decisions. How arrays become rows is in `rows.rs`.

use std::path::PathBuf;
use std::sync::Arc;

use mercer::compile::conformalize;
use mercer::data::Matrix;
use mercer::data::write::AtomicFile;
use mercer::machine::{
    Answer, Calibration, Input, Machine, MachineError, Model, Output, Probabilities, Scheme, file,
};
use mercer::query::{
    Attributor, EmptySets, Plan, QueryError, QueryOptions, ScoreChoice, SetOptions, write_c,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::answers::{self, PyQueryOptions, answers};
use crate::errors::ToPyErr;
use crate::machine_parts::{self, MachineParts, PyClassName, Weights};
use crate::plans::{self, CompileLimits, CompressOptions, Sample, TuneOptions};
use crate::queries::{self, AnswerError, Queries};
use crate::rows::Rows;
use crate::threads;
use crate::trust::{self, PlanSource};

/// A machine with its plan. It never changes.
#[pyclass(frozen, module = "mercer._mercer", name = "Model")]
pub(crate) struct PyModel {
    model: Arc<Model>,
    plan: Plan,
    source: PlanSource,
}

impl PyModel {
    /// A model whose plan was fitted here, or has none.
    pub(crate) fn new(py: Python<'_>, model: Model) -> PyResult<Self> {
        Self::from_source(py, model, PlanSource::Fitted)
    }

    /// A model whose plan is believed as far as its source allows; warns of stages that are left out.
    fn from_source(py: Python<'_>, model: Model, source: PlanSource) -> PyResult<Self> {
        let plan = py.detach(|| source.load(&model)).map_err(|error| error.raise(py))?;
        trust::warn(py, &model, &plan)?;
        Ok(Self { model: Arc::new(model), plan, source })
    }

    /// Lets later sessions of this user know a plan that is believed.
    fn remember(&self, format: &str) {
        if format == "mercer" {
            self.source.remember(&self.model);
        }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.model.machine
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The same machine and plan in a model with other parts.
    pub(crate) fn changed(
        &self,
        py: Python<'_>,
        change: impl FnOnce(Model) -> Model,
    ) -> PyResult<Self> {
        Self::from_source(py, change(self.model.as_ref().clone()), self.source)
    }

    fn queries(&self) -> Queries<'_> {
        Queries { model: &self.model, plan: &self.plan }
    }

    pub(crate) fn prepared(&self, py: Python<'_>, rows: &Rows<'_>) -> PyResult<Matrix> {
        self.queries().matrix(rows.view(), Vec::new()).map_err(|error| error.raise(py))
    }

    /// Targets as answers: positions of classes, or values.
    fn answers_of(&self, targets: &[f64]) -> Vec<Option<Answer>> {
        let is_value = matches!(self.machine().output(), Output::Value);
        let target = |target: &f64| {
            let class = Answer::Class(*target as usize);
            Some(if is_value { Answer::Value(*target) } else { class })
        };
        targets.iter().map(target).collect()
    }

    /// Runs work on rows without the lock; on more threads than one only if there are many rows.
    fn query<T: Send>(
        &self,
        py: Python<'_>,
        rows: &Rows<'_>,
        threads: usize,
        work: impl FnOnce(&Matrix) -> Result<T, QueryError> + Send,
    ) -> PyResult<T> {
        let view = rows.view();
        let run = || {
            let rows = self.queries().matrix(view, Vec::new())?;
            work(&rows).map_err(AnswerError::Query)
        };
        queries::detached(py, view.rows(), threads, run).map_err(|error| error.raise(py))
    }
}

#[pymethods]
impl PyModel {
    /// Reads a model of any known kind.
    #[staticmethod]
    #[pyo3(signature = (bytes, trust_plan=false))]
    fn from_bytes(py: Python<'_>, bytes: &[u8], trust_plan: bool) -> PyResult<Self> {
        let model = py.detach(|| file::from_bytes(bytes)).map_err(|error| error.raise(py))?;
        let source = PlanSource::of_file(&model, trust_plan);
        Self::from_source(py, trust::with_known_sets(model, trust_plan), source)
    }

    /// Reads a model file of any known kind.
    #[staticmethod]
    #[pyo3(signature = (path, trust_plan=false))]
    fn load(py: Python<'_>, path: PathBuf, trust_plan: bool) -> PyResult<Self> {
        let model = py.detach(|| file::load(&path)).map_err(|error| match error {
            MachineError::Io(error) => match error.raw_os_error() {
                Some(number) => PyOSError::new_err((number, error.to_string(), path)),
                None => PyOSError::new_err(error.to_string()),
            },
            other => other.raise(py),
        })?;
        let source = PlanSource::of_file(&model, trust_plan);
        Self::from_source(py, trust::with_known_sets(model, trust_plan), source)
    }

    /// A machine from its parts.
    #[staticmethod]
    fn build(py: Python<'_>, parts: MachineParts<'_>) -> PyResult<Self> {
        let model = parts.model(py)?;
        Self::new(py, model)
    }

    /// The model in one of the formats.
    fn to_bytes<'py>(&self, py: Python<'py>, format: &str) -> PyResult<Bound<'py, PyBytes>> {
        let format = known(format)?;
        let bytes = py.detach(|| file::to_bytes(&self.model, format));
        self.remember(format.name);
        Ok(PyBytes::new(py, &bytes.map_err(|error| error.raise(py))?))
    }

    /// Writes the model to a file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf, format: &str) -> PyResult<()> {
        let format = known(format)?;
        py.detach(|| file::save(&self.model, format, &path)).map_err(|error| match error {
            MachineError::Io(error) => PyOSError::new_err(format!("{}: {error}", path.display())),
            other => other.raise(py),
        })?;
        self.remember(format.name);
        Ok(())
    }

    /// The plan as a C file: bytes, or a file, whole or not at all.
    #[pyo3(signature = (path=None))]
    fn plan_in_c<'py>(
        &self,
        py: Python<'py>,
        path: Option<PathBuf>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let options = QueryOptions::of(&self.model, &self.plan);
        let write = |out: &mut dyn std::io::Write| write_c(&self.model, &self.plan, &options, out);
        let Some(path) = path else {
            let mut bytes = Vec::new();
            py.detach(|| write(&mut bytes)).map_err(|error| error.raise(py))?;
            return Ok(Some(PyBytes::new(py, &bytes)));
        };
        let save = || -> Result<(), MachineError> {
            let mut file = AtomicFile::create_private(&path)?;
            write(&mut file)?;
            Ok(file.commit()?)
        };
        py.detach(save).map_err(|error| match error {
            MachineError::Io(error) => PyOSError::new_err(format!("{}: {error}", path.display())),
            other => other.raise(py),
        })?;
        Ok(None)
    }

    /// Pickled models are bytes of our own format.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = py.get_type::<Self>().getattr("from_bytes")?;
        Ok((make, (self.to_bytes(py, "mercer")?,)))
    }

    /// Text of the kernel.
    #[getter]
    fn kernel(&self) -> String {
        self.machine().kernel().spec().to_string()
    }

    /// `value`, `novelty`, `one_vs_one` or `one_vs_rest`.
    #[getter]
    fn output(&self) -> &'static str {
        match self.machine().output() {
            Output::Value => "value",
            Output::Novelty => "novelty",
            Output::Classes { scheme: Scheme::OneVsOne, .. } => "one_vs_one",
            Output::Classes { scheme: Scheme::OneVsRest, .. } => "one_vs_rest",
        }
    }

    /// Names of the classes, by position.
    #[getter]
    fn classes(&self) -> Vec<PyClassName> {
        self.machine().classes().iter().map(PyClassName::from).collect()
    }

    /// Columns that rows must have, where known.
    #[getter]
    fn features(&self) -> Option<usize> {
        self.model.input.features
    }

    /// Number of distinct support vectors.
    #[getter]
    fn supports(&self) -> usize {
        self.machine().supports().rows()
    }

    /// Number of scores.
    #[getter]
    fn scores_count(&self) -> usize {
        self.machine().scores().len()
    }

    /// Text of the plan.
    #[getter]
    fn plan(&self) -> String {
        self.plan.spec().to_string()
    }

    /// Stages of its file that are not believed and do not run, a sentence each.
    #[getter]
    fn left_out(&self) -> Vec<String> {
        self.plan.left_out().iter().map(ToString::to_string).collect()
    }

    /// How far the plan is believed: `exact` (none), `fitted`, `known`, `verified`, `not verified` or `trusted`.
    #[getter]
    fn verification(&self) -> &'static str {
        match &self.model.plan {
            None => "exact",
            Some(_) => self.source.state(&self.plan),
        }
    }

    /// Verifies the plan without a limit of work, its calibration on a sample, and the prediction sets on the sample with its
    /// targets; returns the model with what is believed then, and the report as JSON.
    #[pyo3(signature = (sample=None, targets=None, threads=0))]
    fn verify(
        &self,
        py: Python<'_>,
        sample: Option<Rows<'_>>,
        targets: Option<Vec<f64>>,
        threads: usize,
    ) -> PyResult<(Self, String)> {
        let sample = sample.as_ref().map(|rows| self.prepared(py, rows)).transpose()?;
        let (source, mut report) = trust::verify(py, &self.model, sample.as_ref(), threads)?;
        let mut model = self.model.as_ref().clone();
        if let (Some(rows), Some(targets)) = (&sample, targets) {
            (model.conformal, report["sets_test"]) =
                trust::verify_sets(py, &self.model, rows, &self.answers_of(&targets))?;
        }
        Ok((Self::from_source(py, model, source)?, report.to_string()))
    }

    /// What made it, and what was minimised.
    #[getter]
    fn provenance(&self) -> (String, Option<String>, String) {
        let from = &self.model.provenance;
        (from.origin.clone(), from.formulation.clone(), from.version.clone())
    }

    /// Multiply-adds of one exact answer.
    #[getter]
    fn exact_cost(&self) -> u64 {
        self.plan.exact_stage().cost().multiply_adds
    }

    /// A and B of each score, where probabilities are known.
    #[getter]
    fn sigmoids(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        self.model.probabilities.as_ref().and_then(Probabilities::sigmoids)
    }

    /// The same machine under another plan, fitted to a sample of queries where stages need one.
    /// Fitting ends with an error after `seconds`, where they are given.
    #[pyo3(signature = (text, sample=None, threads=0, seconds=None))]
    fn with_plan(
        &self,
        py: Python<'_>,
        text: &str,
        sample: Option<Rows<'_>>,
        threads: usize,
        seconds: Option<f64>,
    ) -> PyResult<Self> {
        let sample = sample.as_ref().map(|rows| self.prepared(py, rows)).transpose()?;
        let (machine, limits) = (self.machine(), CompileLimits { threads, seconds });
        let sections = plans::compile_plan(py, machine, text, sample.as_ref(), limits)?;
        Self::new(py, Model { plan: Some(sections), ..self.model.as_ref().clone() })
    }

    /// The same machine under the fastest plan that satisfies a contract, chosen on a sample.
    #[pyo3(signature = (sample, options, threads=0))]
    fn tune(
        &self,
        py: Python<'_>,
        sample: Rows<'_>,
        options: TuneOptions<'_>,
        threads: usize,
    ) -> PyResult<Self> {
        let prepare = |rows: &Rows<'_>| self.prepared(py, rows);
        let labels = options.targets.as_ref().map(|targets| self.answers_of(targets));
        let sample = Sample { rows: &sample, labels };
        let sections = plans::tune_plan(py, self.machine(), &sample, &options, &prepare, threads)?;
        Self::new(py, Model { plan: Some(sections), ..self.model.as_ref().clone() })
    }

    /// A smaller machine that approximates this one, and its report as JSON.
    #[pyo3(signature = (options, threads=0))]
    fn compress(
        &self,
        py: Python<'_>,
        options: CompressOptions<'_>,
        threads: usize,
    ) -> PyResult<(Self, String)> {
        let prepare = |rows: &Rows<'_>| self.prepared(py, rows);
        let (small, report) = plans::compress(py, &self.model, &options, &prepare, threads)?;
        Ok((Self::new(py, small)?, report))
    }

    /// The same machine for rows that are first scaled to `(x - centre) factor`, or to unit length by a norm.
    fn with_scaling(
        &self,
        py: Python<'_>,
        centres: Vec<f64>,
        factors: Vec<f64>,
        norm: Option<&str>,
    ) -> PyResult<Self> {
        let input = machine_parts::scaled(&self.model.input, centres, factors, norm);
        let input = input.map_err(|error| error.raise(py))?;
        Self::from_source(py, Model { input, ..self.model.as_ref().clone() }, self.source)
    }

    /// The same machine for rows whose columns have these names.
    fn with_names(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Self> {
        let input = Input { names: Some(names), ..self.model.input.clone() };
        Self::from_source(py, Model { input, ..self.model.as_ref().clone() }, self.source)
    }

    /// Names of the columns, where known.
    #[getter]
    fn names(&self) -> Option<Vec<String>> {
        self.model.input.names.clone()
    }

    /// Text of the scaling that rows get first, where there is one.
    #[getter]
    fn scaling(&self) -> Option<String> {
        self.model.input.scaling.as_ref().map(|scaling| scaling.spec().to_string())
    }

    /// Weights, one row for each score, and offsets, where all scores are linear.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Option<Weights<'py>>> {
        machine_parts::weights(py, self.machine())
    }

    /// The tuning report as JSON with the keys of the command, where the plan was tuned.
    #[getter]
    fn tuning(&self) -> Option<String> {
        let tuning = self.model.plan.as_ref()?.tuning.as_ref()?;
        Some(tuning.to_json().to_string())
    }

    /// The calibrated risk of answers without proof: eps, delta, queries tested, disagreements and the bound.
    #[getter]
    fn calibration(&self) -> Option<(f64, f64, u64, u64, f64)> {
        let Calibration { risk, delta, queries, disagreements, bound, .. } =
            self.plan.calibration()?;
        Some((*risk, *delta, *queries, *disagreements, *bound))
    }

    /// Answers: positions of classes, 1 or -1 for novelty, values for regression.
    #[pyo3(signature = (rows, threads=0))]
    fn answers<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let view = rows.view();
        let queries = self.queries();
        if queries.are_always_exact() {
            let work = || queries.answered_exactly(view);
            let found = queries::detached(py, view.rows(), threads, work);
            let found = found.map_err(|error| error.raise(py))?;
            return Ok(answers(py, self.machine(), found.into_iter()));
        }
        let decisions = queries::detached(py, view.rows(), threads, || queries.decided(view));
        let decisions = decisions.map_err(|error| error.raise(py))?;
        answers::warn_of_unsettled(py, &decisions)?;
        Ok(answers(py, self.machine(), decisions.iter().map(|decision| decision.answer)))
    }

    /// Exact scores, one row for each query.
    #[pyo3(signature = (rows, threads=0))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let scores = self.query(py, &rows, threads, |rows| self.plan.scores(rows))?;
        let count = self.machine().scores().len();
        let queries = scores.len() / count;
        PyArray1::from_vec(py, scores).reshape([queries, count])
    }

    /// Probabilities of the classes, by position; one row for each query.
    #[pyo3(signature = (rows, threads=0))]
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (count, classes) = (self.machine().scores().len(), self.machine().classes().len());
        let scores = self.query(py, &rows, threads, |rows| self.plan.scores(rows))?;
        let known = self.model.probabilities.as_ref();
        let each = |scores: &[f64]| known?.of_classes(self.machine(), scores);
        let found: Option<Vec<Vec<f64>>> = scores.chunks_exact(count).map(each).collect();
        match found {
            Some(found) => {
                let queries = found.len();
                PyArray1::from_vec(py, found.concat()).reshape([queries, classes])
            }
            None => Err(PyValueError::new_err("the model has no probabilities of classes")),
        }
    }

    /// Answers, both ends of the ranges, certainties (0 unsettled to 3 exact), costs, and how many queries
    /// each stage settled.
    #[pyo3(signature = (rows, options, threads=0))]
    fn decide<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        options: PyQueryOptions,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let query_options = options.over(QueryOptions::of(&self.model, &self.plan));
        let all =
            self.query(py, &rows, threads, |rows| self.plan.decide_with(rows, &query_options))?;
        answers::decisions(py, self.machine(), all)
    }

    /// How much each column moved a score of each row: contributions with both ends of their ranges, scores, bases, and the
    /// positions of the class and of the other one, -1 where there is none. `classes` are those of the score asked for.
    #[pyo3(signature = (rows, background, classes=None, threads=0))]
    fn attribute<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        background: Rows<'py>,
        classes: Option<(usize, Option<usize>)>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let background = self.prepared(py, &background)?;
        let choice = match classes {
            None => ScoreChoice::Deciding,
            Some((class, against)) => ScoreChoice::Class { class, against },
        };
        let rows = self.prepared(py, &rows)?;
        let work = || Attributor::of(&self.model, &background)?.attribute(&rows, choice);
        let found = py.detach(|| threads::run_on(threads, work));
        answers::attributions(py, &found.map_err(|error| error.raise(py))?)
    }

    /// The same model with prediction sets calibrated on rows with their targets: positions of classes, or values.
    fn conformalize(
        &self,
        py: Python<'_>,
        rows: Rows<'_>,
        targets: Vec<f64>,
        coverage: f64,
    ) -> PyResult<Self> {
        let rows = self.prepared(py, &rows)?;
        let targets = self.answers_of(&targets);
        let fit = py.detach(|| conformalize(self.machine(), &rows, &targets, coverage));
        let conformal = Some(fit.map_err(|error| error.raise(py))?.conformal);
        self.changed(py, |model| Model { conformal, ..model })
    }

    /// Coverage, rows and quantile of the prediction sets, where they were calibrated.
    #[getter]
    fn conformal(&self) -> Option<(f64, u64, f64)> {
        let conformal = self.model.conformal?;
        Some((conformal.coverage(), conformal.rows(), conformal.quantile()))
    }

    /// Prediction sets: which classes belong to each, by position, or both ends of intervals; certainties and costs.
    #[pyo3(signature = (rows, tolerance=None, threads=0, allow_empty=false))]
    fn predict_sets<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        tolerance: Option<f64>,
        threads: usize,
        allow_empty: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let none =
            "the model has no prediction sets; conformalize(X, y, coverage=0.9) calibrates them";
        let conformal = self.model.conformal.ok_or_else(|| PyValueError::new_err(none))?;
        if !conformal.is_believed() {
            return Err(trust::untested_sets(py)?);
        }
        let tolerance = tolerance.or(QueryOptions::of(&self.model, &self.plan).tolerance);
        let empty = if allow_empty { EmptySets::Allowed } else { EmptySets::Never };
        let options = SetOptions { tolerance, empty };
        let sets = self
            .query(py, &rows, threads, |rows| self.plan.predict_sets(rows, &conformal, &options))?;
        answers::prediction_sets(py, self.machine().classes().len(), &sets)
    }

    /// How one row is answered, step by step.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        options: PyQueryOptions,
    ) -> PyResult<Bound<'py, PyDict>> {
        if rows.view().rows() != 1 {
            return Err(PyValueError::new_err("one row is explained at a time"));
        }
        let query_options = options.over(QueryOptions::of(&self.model, &self.plan));
        let explanation =
            self.query(py, &rows, 0, |rows| self.plan.explain(rows, 0, &query_options))?;
        answers::explanation(py, self.machine(), explanation)
    }
}

fn known(format: &str) -> PyResult<&'static file::Format> {
    file::format(format)
        .ok_or_else(|| PyValueError::new_err(format!("there is no model format '{format}'")))
}
