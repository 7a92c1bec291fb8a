//! Models as Python sees them: bytes, files, answers, scores, decisions.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mercer::compile::{Material, Watch, compile_with};
use mercer::data::Matrix;
use mercer::kernel::KERNELS;
use mercer::machine::{
    Answer, Calibration, ClassName, Input, Machine, MachineError, Model, Output, Probabilities,
    Provenance, Scheme, Score, file,
};
use mercer::query::{Asking, Certainty, Decision, Plan, QueryError, Require};
use mercer::spec::SpecError;
use mercer::tune::{Aim, Contract, Tuner};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::Raise;
use crate::rows::{Rows, View};
use crate::threads;

/// What a class is called.
#[derive(Clone, FromPyObject, IntoPyObject)]
pub(crate) enum Name {
    Number(f64),
    Text(String),
}

impl From<Name> for ClassName {
    fn from(name: Name) -> Self {
        match name {
            Name::Number(number) => Self::Number(number),
            Name::Text(text) => Self::Text(text),
        }
    }
}

impl From<&ClassName> for Name {
    fn from(name: &ClassName) -> Self {
        match name {
            ClassName::Number(number) => Self::Number(*number),
            ClassName::Text(text) => Self::Text(text.clone()),
        }
    }
}

/// A machine that was made elsewhere, in parts.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Parts<'py> {
    kernel: String,
    /// `value`, `novelty`, `one_vs_one` or `one_vs_rest`.
    output: String,
    names: Vec<Name>,
    supports: Rows<'py>,
    /// One row of coefficients per score; of weights per column where `is_linear`.
    coefficients: PyReadonlyArray2<'py, f64>,
    /// b of each score.
    offsets: PyReadonlyArray1<'py, f64>,
    is_linear: bool,
    /// A and B of each score, where known.
    sigmoids: Option<(Vec<f64>, Vec<f64>)>,
    origin: String,
    formulation: Option<String>,
}

/// What a plan is to be.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wish<'py> {
    /// `certified`, `calibrated(eps=0.001, delta=0.05)` or `exact`.
    contract: String,
    /// `latency` or `throughput`.
    aim: String,
    budget_us: Option<f64>,
    tolerance: Option<f64>,
    training: Option<Rows<'py>>,
    seconds: f64,
    seed: u64,
    trust_sample: bool,
}

/// What the asker allows and demands.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Demand {
    budget: Option<u64>,
    tolerance: Option<f64>,
    require_certified: bool,
}

impl From<&Demand> for Asking {
    fn from(demand: &Demand) -> Self {
        let require = if demand.require_certified { Require::Certified } else { Require::Nothing };
        Self { budget: demand.budget, tolerance: demand.tolerance, require }
    }
}

/// A machine with its plan. It never changes.
#[pyclass(frozen, module = "mercer._mercer", name = "Model")]
pub(crate) struct PyModel {
    model: Arc<Model>,
    plan: Plan,
}

impl PyModel {
    pub(crate) fn new(py: Python<'_>, model: Model) -> PyResult<Self> {
        let plan = py.detach(|| Plan::of(&model)).map_err(|error| error.raise(py))?;
        Ok(Self { model: Arc::new(model), plan })
    }

    fn machine(&self) -> &Machine {
        &self.model.machine
    }

    /// The rows as the machine sees them, if they are as wide as it was told.
    fn matrix(&self, view: View<'_>) -> Result<Matrix, Refusal> {
        let rows = view.matrix(None).map_err(Refusal::Data)?;
        match self.model.input.features {
            Some(expected) if expected != rows.columns() => {
                Err(Refusal::Query(QueryError::Width { found: rows.columns(), expected }))
            }
            _ if self.model.input.scaling.is_none() => Ok(rows),
            _ => self.model.input.prepare(&rows).map(Cow::into_owned).map_err(Refusal::Data),
        }
    }

    /// Runs work on rows without the lock; on more threads than one only if there are many rows.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        rows: &Rows<'_>,
        threads: usize,
        work: impl FnOnce(&Matrix) -> Result<T, QueryError> + Send,
    ) -> PyResult<T> {
        let view = rows.view();
        let is_small = view.rows() <= 8;
        let run = || {
            let rows = self.matrix(view)?;
            work(&rows).map_err(Refusal::Query)
        };
        let result = py.detach(|| if is_small { run() } else { threads::within(threads, run) });
        result.map_err(|refusal| refusal.raise(py))
    }
}

/// Why rows were not answered.
enum Refusal {
    Data(mercer::data::DataError),
    Query(QueryError),
}

impl Refusal {
    fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Data(error) => error.raise(py),
            Self::Query(error) => error.raise(py),
        }
    }
}

#[pymethods]
impl PyModel {
    /// Reads a model of any known kind.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let model = py.detach(|| file::from_bytes(bytes)).map_err(|error| error.raise(py))?;
        Self::new(py, model)
    }

    /// Reads a model file of any known kind.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let model = py.detach(|| file::load(&path)).map_err(|error| match error {
            MachineError::Io(error) => match error.raw_os_error() {
                Some(number) => PyOSError::new_err((number, error.to_string(), path)),
                None => PyOSError::new_err(error.to_string()),
            },
            other => other.raise(py),
        })?;
        Self::new(py, model)
    }

    /// A machine made elsewhere.
    #[staticmethod]
    fn build(py: Python<'_>, parts: Parts<'_>) -> PyResult<Self> {
        let supports = parts.supports.view().matrix(None).map_err(|error| error.raise(py))?;
        let kernel = KERNELS.parse(&parts.kernel).map_err(|error| error.raise(py))?;
        let names = || parts.names.iter().cloned().map(Into::into).collect();
        let output = match parts.output.as_str() {
            "value" => Output::Value,
            "novelty" => Output::Novelty,
            "one_vs_one" => Output::Classes { names: names(), scheme: Scheme::OneVsOne },
            "one_vs_rest" => Output::Classes { names: names(), scheme: Scheme::OneVsRest },
            other => return Err(PyValueError::new_err(format!("there is no output '{other}'"))),
        };
        let coefficients = parts.coefficients.as_array();
        let scores = coefficients
            .rows()
            .into_iter()
            .zip(parts.offsets.as_array())
            .map(|(row, offset)| {
                let row = row.to_vec();
                if parts.is_linear {
                    Score::Linear { weights: row, offset: *offset }
                } else {
                    Score::expansion(&row, *offset)
                }
            })
            .collect();
        let (columns, rows) = (supports.columns(), supports.rows());
        let machine = Machine::new(kernel, supports, scores, output);
        let machine = machine.map_err(|error| error.raise(py))?;
        let probabilities = parts.sigmoids.map(|(a, b)| Probabilities::Sigmoid { a, b });
        let model = Model {
            input: Input { features: Some(columns), ..Input::default() },
            probabilities,
            provenance: Provenance {
                origin: parts.origin,
                formulation: parts.formulation,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                source_supports: (!parts.is_linear).then_some(rows),
                parent: None,
            },
            ..Model::from(machine)
        };
        Self::new(py, model)
    }

    /// The model in one of the formats.
    fn to_bytes<'py>(&self, py: Python<'py>, format: &str) -> PyResult<Bound<'py, PyBytes>> {
        let format = known(format)?;
        let bytes = py.detach(|| file::to_bytes(&self.model, format));
        Ok(PyBytes::new(py, &bytes.map_err(|error| error.raise(py))?))
    }

    /// Writes the model to a file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf, format: &str) -> PyResult<()> {
        let format = known(format)?;
        py.detach(|| file::save(&self.model, format, &path)).map_err(|error| match error {
            MachineError::Io(error) => PyOSError::new_err(format!("{}: {error}", path.display())),
            other => other.raise(py),
        })
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
    fn classes(&self) -> Vec<Name> {
        self.machine().classes().iter().map(Name::from).collect()
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

    /// What made it, and what was minimised.
    #[getter]
    fn provenance(&self) -> (String, Option<String>, String) {
        let from = &self.model.provenance;
        (from.origin.clone(), from.formulation.clone(), from.version.clone())
    }

    /// Multiply-adds of one exact answer.
    #[getter]
    fn exact_cost(&self) -> u64 {
        self.plan.closing().cost().multiply_adds
    }

    /// A and B of each score, where probabilities are known.
    #[getter]
    fn sigmoids(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        self.model.probabilities.as_ref().and_then(Probabilities::sigmoids)
    }

    /// The same machine under another plan, fitted to a sample of queries where stages want one.
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
        let text = text.parse().map_err(|error: SpecError| error.raise(py))?;
        let sample = match &sample {
            Some(rows) => Some(self.matrix(rows.view()).map_err(|refusal| refusal.raise(py))?),
            None => None,
        };
        let started = Instant::now();
        let goes_on = |_| seconds.is_none_or(|limit| started.elapsed().as_secs_f64() < limit);
        let work = || {
            let material = Material { sample: sample.as_ref(), ..Material::default() };
            compile_with(&self.model.machine, &text, material, Watch::new(&goes_on))
        };
        let sections = py.detach(|| threads::within(threads, work));
        let sections = sections.map_err(|error| error.raise(py))?;
        Self::new(py, Model { plan: Some(sections), ..self.model.as_ref().clone() })
    }

    /// The same machine under the fastest plan that honours a contract, looked for on a sample.
    #[pyo3(signature = (sample, wish, threads=0))]
    fn tune(
        &self,
        py: Python<'_>,
        sample: Rows<'_>,
        wish: Wish<'_>,
        threads: usize,
    ) -> PyResult<Self> {
        let contract: Contract = wish.contract.parse().map_err(|e: SpecError| e.raise(py))?;
        let aims = [Aim::Latency, Aim::Throughput];
        let aim = aims.into_iter().find(|aim| aim.name() == wish.aim);
        let aim = aim.ok_or_else(|| {
            let names = aims.map(Aim::name).join(" or ");
            PyValueError::new_err(format!("aim is {:?}; it must be {names}", wish.aim))
        })?;
        let limit = Duration::try_from_secs_f64(wish.seconds).map_err(|error| {
            PyValueError::new_err(format!("seconds is {}: {error}", wish.seconds))
        })?;
        let matrix =
            |rows: &Rows<'_>| self.matrix(rows.view()).map_err(|refusal| refusal.raise(py));
        let (sample, training) =
            (matrix(&sample)?, wish.training.as_ref().map(matrix).transpose()?);
        let machine = &self.model.machine;
        let (budget, tolerance, seed) = (wish.budget_us, wish.tolerance, wish.seed);
        let is_trusted = wish.trust_sample;
        let tuned = threads::interruptible(py, threads, |stop| {
            let goes_on = |_| !stop.load(Ordering::Relaxed);
            Tuner::new(machine, &sample)
                .contract(contract)
                .aim(aim)
                .training(training.as_ref())
                .budget_us(budget)
                .tolerance(tolerance)
                .time_limit(limit)
                .seed(seed)
                .trust_sample(is_trusted)
                .watch(Watch::new(&goes_on))
                .run()
        })?;
        let sections = tuned.map_err(|error| error.raise(py))?.sections;
        Self::new(py, Model { plan: Some(sections), ..self.model.as_ref().clone() })
    }

    /// How the plan was found, as JSON, where it was looked for.
    #[getter]
    fn tuning(&self) -> Option<String> {
        let tuning = self.model.plan.as_ref()?.tuning.as_ref()?;
        serde_json::to_string(tuning).ok()
    }

    /// What answers without proof are held to: eps, delta, queries tested, disagreements and the bound.
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
        let decisions = self.ask(py, &rows, threads, |rows| self.plan.decide(rows))?;
        Ok(answers(py, self.machine(), &decisions))
    }

    /// Exact scores, one row for each query.
    #[pyo3(signature = (rows, threads=0))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let scores = self.ask(py, &rows, threads, |rows| self.plan.scores(rows))?;
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
        let scores = self.ask(py, &rows, threads, |rows| self.plan.scores(rows))?;
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
    #[pyo3(signature = (rows, demand, threads=0))]
    fn decide<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        demand: Demand,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let asking = Asking::from(&demand);
        let all = self.ask(py, &rows, threads, |rows| self.plan.decide_with(rows, &asking))?;
        let each = || all.decisions.iter();
        let fields = PyDict::new(py);
        fields.set_item("answer", answers(py, self.machine(), &all.decisions))?;
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

    /// How one row is answered, step by step.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        rows: Rows<'py>,
        demand: Demand,
    ) -> PyResult<Bound<'py, PyDict>> {
        if rows.view().rows() != 1 {
            return Err(PyValueError::new_err("one row is explained at a time"));
        }
        let asking = Asking::from(&demand);
        let told = self.ask(py, &rows, 0, |rows| self.plan.explain(rows, 0, &asking))?;
        let fields = PyDict::new(py);
        fields.set_item("answer", answers(py, self.machine(), &[told.decision]))?;
        fields.set_item("low", told.decision.score.low)?;
        fields.set_item("high", told.decision.score.high)?;
        fields.set_item("certainty", rank(told.decision.certainty))?;
        fields.set_item("cost", told.decision.cost.multiply_adds)?;
        fields.set_item("closed_by", &told.stages[told.closed_by])?;
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
}

fn known(format: &str) -> PyResult<&'static file::Format> {
    file::format(format)
        .ok_or_else(|| PyValueError::new_err(format!("there is no model format '{format}'")))
}

fn rank(certainty: Certainty) -> u8 {
    match certainty {
        Certainty::Unsettled => 0,
        Certainty::Calibrated => 1,
        Certainty::Certified => 2,
        Certainty::Exact => 3,
    }
}

fn answers<'py>(py: Python<'py>, machine: &Machine, decisions: &[Decision]) -> Bound<'py, PyAny> {
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
