//! Training with progress, Ctrl-C and the lock released.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

use mercer::data::{DataError, Dataset, Targets};
use mercer::kernel::{Gram, KERNELS, KernelRef, parse};
use mercer::machine::{ClassName, Input, Machine, Model, Output, Probabilities, Provenance, Score};
use mercer::spec::SpecError;
use mercer::train::{
    Calibrator, Cancel, Expansion, Folds, FormulationRef, Progress, Stop, TrainError, Trained,
    Training, UpdateReport, WeightedRows, calibrate_probabilities, cross_validate, formulation,
    retrain, solver,
};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::ToPyErr;
use crate::machine_parts::PyClassName;
use crate::model::PyModel;
use crate::rows::Rows;
use crate::threads::{self, SIGNAL_INTERVAL};

/// Below so many multiply-adds for all kernel values of pairs one thread trains: others would wait, and waiting costs
/// processor time. Answers do not depend on threads.
const ONE_THREAD: f64 = 3e8;

/// The training task as a Python dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TrainTask {
    /// `rbf(gamma=0.5)`, or `precomputed`: then the rows are kernel values.
    kernel: String,
    /// `c_svc(C=1)`
    formulation: String,
    /// `additive(rank=8)`; the default solver if none.
    solver: Option<String>,
    /// One per example; empty for novelty.
    targets: Numbers,
    /// One per example, or none.
    weights: Option<Numbers>,
    /// The order in which the examples are taken.
    order: Option<Positions>,
    /// What classes 0, 1, ... are called.
    names: Option<Vec<PyClassName>>,
    /// The default of the solver if none.
    tolerance: Option<f64>,
    /// Bytes for kept kernel rows; examples and packed rows come on top.
    memory: usize,
    max_iterations: Option<u64>,
    threads: usize,
    /// Seed of the folds that probabilities are fitted on, if any.
    probabilities: Option<u64>,
}

/// A machine to start from, and the rows that it was trained on, as a Python dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EarlierTask<'py> {
    model: PyRef<'py, PyModel>,
    /// The codes of its classes.
    names: Option<Vec<f64>>,
    rows: Rows<'py>,
    targets: Numbers,
    weights: Option<Numbers>,
}

/// The same, apart from the interpreter.
struct Earlier {
    machine: Machine,
    data: Dataset,
    weights: Option<Vec<f64>>,
}

impl EarlierTask<'_> {
    fn owned(self, py: Python<'_>) -> PyResult<Earlier> {
        let mut machine = self.model.machine().clone();
        if let (Output::Classes { scheme, .. }, Some(codes)) = (machine.output(), self.names) {
            let names = codes.into_iter().map(ClassName::Number).collect();
            let output = Output::Classes { names, scheme: *scheme };
            machine = machine.with_output(output).map_err(|error| error.raise(py))?;
        }
        let examples = self.rows.view().matrix(None).map_err(|error| error.raise(py))?;
        let targets = match self.targets {
            Numbers(none) if none.is_empty() => Targets::Absent,
            Numbers(values) => Targets::Numbers(values),
        };
        let data = Dataset { examples, targets, names: None };
        Ok(Earlier { machine, data, weights: self.weights.map(|Numbers(values)| values) })
    }
}

/// An array or a list of numbers, copied.
pub(crate) struct Numbers(pub(crate) Vec<f64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Numbers {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // One by one, numbers of an array are objects first.
        match object.extract::<PyReadonlyArray1<'_, f64>>() {
            Ok(array) => Ok(Self(array.as_array().to_vec())),
            Err(_) => object.extract().map(Self),
        }
    }
}

/// An array of positions, copied.
pub(crate) struct Positions(Vec<usize>);

impl<'a, 'py> FromPyObject<'a, 'py> for Positions {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<PyReadonlyArray1<'_, i64>>() {
            Ok(array) => {
                let array = array.as_array();
                let places = array.iter().map(|place| usize::try_from(*place));
                Ok(Self(places.collect::<Result<_, _>>()?))
            }
            Err(_) => object.extract().map(Self),
        }
    }
}

/// Events of a running training.
enum TrainingEvent {
    Progress(Progress),
    End(Box<Outcome>),
}

pub(crate) enum TrainingError {
    Data(DataError),
    Spec(SpecError),
    Train(TrainError),
}

impl TrainingError {
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Data(error) => error.raise(py),
            Self::Spec(error) => error.raise(py),
            Self::Train(error) => error.raise(py),
        }
    }
}

/// Who hears of a running training: the observer, and Ctrl-C.
pub(crate) struct Listener<'a> {
    pub(crate) observer: Option<&'a Py<PyAny>>,
    pub(crate) cancel: &'a Cancel,
    pub(crate) raised: Option<PyErr>,
}

impl Listener<'_> {
    /// Tells the observer, checks for signals, and ends the training if either says so.
    fn hear(&mut self, py: Python<'_>, progress: Option<&Progress>) {
        if let (Some(observer), Some(progress), None) = (self.observer, progress, &self.raised) {
            match call_observer(py, observer, progress) {
                // What is trained so far is kept.
                Ok(is_enough) if is_enough => self.cancel.cancel(),
                Ok(_) => {}
                Err(error) => self.raised = Some(error),
            }
        }
        self.raised = self.raised.take().or_else(|| py.check_signals().err());
        if self.raised.is_some() {
            self.cancel.cancel();
        }
    }
}

/// A machine with its probabilities, and what changed since the machine before.
pub(crate) type Fitted = (Trained, Option<Probabilities>, Option<UpdateReport>);
pub(crate) type Outcome = Result<Fitted, TrainingError>;

/// Learns a machine; returns it with its training report.
///
/// `observer` is called with the progress, ten times a second at most. If it raises, or Ctrl-C is
/// pressed, the training ends and the exception is raised; if it returns true, the training ends with what it has.
#[pyfunction]
#[pyo3(signature = (rows, task, observer=None, earlier=None))]
pub(crate) fn train<'py>(
    py: Python<'py>,
    rows: Rows<'py>,
    task: TrainTask,
    observer: Option<Py<PyAny>>,
    earlier: Option<EarlierTask<'py>>,
) -> PyResult<(PyModel, Bound<'py, PyDict>)> {
    let what = formulation(&task.formulation).map_err(|error| error.raise(py))?;
    let earlier = earlier.map(|earlier| earlier.owned(py)).transpose()?;
    let earlier = earlier.as_ref();
    let view = rows.view();
    let cancel = Cancel::new();
    let (task, what) = (&task, &what);
    let order = task.order.as_ref().map(|order| order.0.as_slice());
    let work = |tell: &mut dyn FnMut(&Progress)| {
        let rows = view.matrix(order).map_err(TrainingError::Data)?;
        run(rows, (task, what, earlier), &cancel, tell)
    };
    let mut listener = Listener { observer: observer.as_ref(), cancel: &cancel, raised: None };
    let is_small = view.rows() as f64 * (view.stored() as f64) < ONE_THREAD;
    let outcome = if is_small && threads::is_alone() {
        let told = &mut listener;
        py.detach(move || work(&mut |progress| Python::attach(|py| told.hear(py, Some(progress)))))
    } else {
        train_beside(py, if is_small { 1 } else { task.threads }, work, &mut listener)?
    };
    if let Some(error) = listener.raised {
        return Err(error);
    }
    let (trained, probabilities, update) = outcome.map_err(|error| error.raise(py))?;
    let rows = view.rows();
    let report = report(py, &trained)?;
    if let Some(update) = &update {
        report.set_item("update", changes(py, update)?)?;
    }
    let model = model(py, trained, probabilities, task, what, rows)?;
    Ok((model, report))
}

/// Trains on other threads, while this one waits for Ctrl-C.
pub(crate) fn train_beside(
    py: Python<'_>,
    threads: usize,
    work: impl FnOnce(&mut dyn FnMut(&Progress)) -> Outcome + Send,
    listener: &mut Listener<'_>,
) -> PyResult<Outcome> {
    let (sender, mut receiver) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let tell = |progress: &Progress| {
                // Nobody listens if the interpreter has raised already.
                let _ = sender.send(TrainingEvent::Progress(*progress));
            };
            let result = threads::run_on(threads, || work(&mut { tell }));
            // The receiver waits for this, always.
            let _ = sender.send(TrainingEvent::End(Box::new(result)));
        });
        loop {
            // Only a unique reference may cross into work without the lock.
            let receiver = &mut receiver;
            match py.detach(move || receiver.recv_timeout(SIGNAL_INTERVAL)) {
                Ok(TrainingEvent::End(result)) => return Ok(*result),
                Ok(TrainingEvent::Progress(progress)) => listener.hear(py, Some(&progress)),
                Err(RecvTimeoutError::Timeout) => listener.hear(py, None),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(pyo3::exceptions::PyRuntimeError::new_err(
                        "the training thread panicked",
                    ));
                }
            }
        }
    })
}

fn run(
    rows: mercer::data::Matrix,
    asked: (&TrainTask, &FormulationRef, Option<&Earlier>),
    cancel: &Cancel,
    tell: &mut dyn FnMut(&Progress),
) -> Outcome {
    let (task, what, earlier) = asked;
    let order = task.order.as_ref().map(|order| order.0.as_slice());
    let (kernel, examples): (KernelRef, _) = if task.kernel == "precomputed" {
        let serials = Gram::serials(rows.rows()).map_err(TrainingError::Data)?;
        // The order was applied to the rows; the columns of a Gram matrix follow.
        let values = match order {
            Some(order) => ordered_columns(&rows, order).map_err(TrainingError::Data)?,
            None => rows,
        };
        (Arc::new(Gram::new(values)), serials)
    } else {
        (KERNELS.parse(&task.kernel).map_err(TrainingError::Spec)?, rows)
    };
    let ordered = |Numbers(values): &Numbers| match order {
        Some(order) => order.iter().map(|row| values[*row]).collect(),
        None => values.clone(),
    };
    let targets = match &task.targets {
        Numbers(none) if none.is_empty() => Targets::Absent,
        targets => Targets::Numbers(ordered(targets)),
    };
    let weights = task.weights.as_ref().map(ordered);
    let packed = match examples.as_sparse() {
        Some((_, columns, _)) => 24 * columns.len() + 16 * examples.rows(),
        None => 12 * examples.rows() * examples.columns(),
    };
    let data = Dataset { examples, targets, names: None };
    let mut training = Training::default();
    if let Some(text) = &task.solver {
        training = training.solver(solver(text).map_err(TrainingError::Spec)?);
    }
    if let Some(tolerance) = task.tolerance {
        training = training.tolerance(tolerance);
    }
    let training = training
        .memory(task.memory + packed)
        .max_iterations(task.max_iterations)
        .weights(weights)
        .cancel(cancel.clone());
    let mut observe = now_and_then(tell);
    let (trained, update) = match earlier {
        None => {
            let trained = mercer::train::train(&data, &kernel, what, &training, &mut observe);
            (trained.map_err(TrainingError::Train)?, None)
        }
        Some(Earlier { machine, data: original, weights }) => {
            let original = WeightedRows { data: original, weights: weights.as_deref() };
            let rows = WeightedRows { data: &data, weights: training.example_weights() };
            let trained = retrain(machine, original, rows, what, &training, &mut observe);
            let (trained, report) = trained.map_err(TrainingError::Train)?;
            (trained, Some(report))
        }
    };
    let is_stopped = trained.report.stop == Some(Stop::Cancelled);
    let probabilities = match task.probabilities {
        Some(seed) if !is_stopped => {
            let fitted = probabilities(&data, &kernel, what, &training, seed, &mut observe);
            Some(fitted.map_err(TrainingError::Train)?)
        }
        _ => None,
    };
    Ok((trained, probabilities, update))
}

/// An observer that passes on what it is told, but not more often than anybody looks.
pub(crate) fn now_and_then(tell: &mut dyn FnMut(&Progress)) -> impl FnMut(&Progress) {
    let mut last = Instant::now();
    move |progress| {
        if last.elapsed() >= 2 * SIGNAL_INTERVAL {
            last = Instant::now();
            tell(progress);
        }
    }
}

/// Sigmoids fitted to the scores of five-fold cross-validation.
fn probabilities(
    data: &Dataset,
    kernel: &KernelRef,
    what: &FormulationRef,
    training: &Training,
    seed: u64,
    observe: &mut dyn FnMut(&Progress),
) -> Result<Probabilities, TrainError> {
    let folds = Folds::new(data, true, 5.min(data.examples.rows()), seed)?;
    let what = [what.clone()];
    let found = cross_validate(data, kernel, &what, &folds, training, observe)?;
    let found = found.into_iter().next().ok_or(TrainError::NoExamples)??;
    calibrate_probabilities(data, &found, training.example_weights(), Calibrator::Sigmoid)
}

fn ordered_columns(
    rows: &mercer::data::Matrix,
    order: &[usize],
) -> Result<mercer::data::Matrix, DataError> {
    let values = rows.iter().flat_map(|row| order.iter().map(move |column| row.get(*column)));
    mercer::data::Matrix::dense(order.len(), values.collect())
}

fn call_observer(py: Python<'_>, observer: &Py<PyAny>, progress: &Progress) -> PyResult<bool> {
    let fields = PyDict::new(py);
    fields.set_item("iterations", progress.iterations)?;
    fields.set_item("subproblem", progress.subproblem)?;
    fields.set_item("subproblems", progress.subproblems)?;
    fields.set_item("violation", progress.violation)?;
    fields.set_item("gap", progress.gap)?;
    fields.set_item("supports", progress.supports)?;
    fields.set_item("elapsed", progress.elapsed.as_secs_f64())?;
    fields.set_item("time_left", progress.time_left.map(|left| left.as_secs_f64()))?;
    observer.call1(py, (fields,))?.is_truthy(py)
}

/// The training report: coefficients of each subproblem by example, and the totals.
pub(crate) fn report<'py>(py: Python<'py>, trained: &Trained) -> PyResult<Bound<'py, PyDict>> {
    let report = &trained.report;
    let fields = PyDict::new(py);
    let mut subproblems = Vec::new();
    for (number, subproblem) in report.subproblems.iter().enumerate() {
        let fields = PyDict::new(py);
        // Machines of weights and tables name no examples.
        if let Some(expansion) = trained.expansions.get(number) {
            let examples = expansion.examples.iter().map(|example| i64::from(*example)).collect();
            fields.set_item("examples", PyArray1::<i64>::from_vec(py, examples))?;
            let coefficients = PyArray1::from_slice(py, &expansion.coefficients);
            fields.set_item("coefficients", coefficients)?;
            fields.set_item("offset", expansion.offset)?;
        }
        fields.set_item("name", &subproblem.name)?;
        fields.set_item("iterations", subproblem.iterations)?;
        fields.set_item("converged", subproblem.converged)?;
        fields.set_item("gap", subproblem.gap)?;
        subproblems.push(fields);
    }
    fields.set_item("subproblems", subproblems)?;
    fields.set_item("converged", report.converged)?;
    fields.set_item(
        "stop",
        report.stop.map(|stop| match stop {
            Stop::Cancelled => "cancelled",
            Stop::TimeLimit => "time limit",
            Stop::IterationLimit => "iteration limit",
            Stop::Stalled => "stalled",
            _ => "stopped",
        }),
    )?;
    fields.set_item("iterations", report.iterations)?;
    fields.set_item("objective", report.objective)?;
    fields.set_item("gap", report.gap)?;
    fields.set_item("violation", report.violation)?;
    fields.set_item("supports", report.supports)?;
    fields.set_item("bounded", report.bounded)?;
    fields.set_item("kernel_values", report.kernel_values)?;
    fields.set_item("peak_memory_bytes", report.peak_memory_bytes)?;
    fields.set_item("seconds", report.seconds)?;
    let left_out = trained.leave_one_out.as_ref();
    fields.set_item("leave_one_out", left_out.map(|left_out| left_out.quality))?;
    Ok(fields)
}

/// What an update changed; the caller knows how many rows were added and forgotten.
pub(crate) fn changes<'py>(py: Python<'py>, report: &UpdateReport) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("original", report.original)?;
    fields.set_item("rows", report.rows)?;
    fields.set_item("supports_before", report.supports_before)?;
    fields.set_item("stayed", report.stayed)?;
    fields.set_item("came", report.came)?;
    fields.set_item("left", report.left)?;
    fields.set_item("cold", &report.cold)?;
    fields.set_item("relative_gap", report.relative_gap)?;
    Ok(fields)
}

/// The machine under the names of its classes; over unit vectors if kernel values were given.
fn model(
    py: Python<'_>,
    trained: Trained,
    probabilities: Option<Probabilities>,
    task: &TrainTask,
    what: &FormulationRef,
    rows: usize,
) -> PyResult<PyModel> {
    let machine = trained.machine;
    let output = match (machine.output(), &task.names) {
        (Output::Classes { names, scheme }, Some(given)) => {
            // Classes that no example has would make the positions lie.
            let position = |name: &mercer::machine::ClassName| match name {
                mercer::machine::ClassName::Number(code) => *code as usize,
                mercer::machine::ClassName::Text(_) => usize::MAX,
            };
            let names = names
                .iter()
                .map(|name| given.get(position(name)).map(|name| name.clone().into()))
                .collect::<Option<Vec<_>>>();
            let names = names.ok_or_else(|| {
                pyo3::exceptions::PyValueError::new_err("there are more classes than names")
            })?;
            Output::Classes { names, scheme: *scheme }
        }
        (output, _) => output.clone(),
    };
    let machine = if task.kernel == "precomputed" {
        let kernel = parse("precomputed").map_err(|error| error.raise(py))?;
        let (supports, scores) = given(&trained.expansions, task, rows);
        Machine::new(kernel, supports, scores, output)
    } else {
        machine.with_output(output)
    };
    let machine = machine.map_err(|error| error.raise(py))?;
    let columns = machine.columns();
    let model = Model {
        input: Input { features: Some(columns), ..Input::default() },
        provenance: Provenance {
            origin: "mercer".to_owned(),
            formulation: Some(what.spec().to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            source_supports: None,
            parent: None,
        },
        probabilities,
        ..Model::from(machine)
    };
    PyModel::new(py, model)
}

/// Supports by their serial numbers, and scores over them.
fn given(
    expansions: &[Expansion],
    task: &TrainTask,
    rows: usize,
) -> (mercer::data::Matrix, Vec<Score>) {
    let serial = |example: u32| match &task.order {
        Some(Positions(order)) => order[example as usize],
        None => example as usize,
    };
    let mut serials: Vec<usize> =
        expansions.iter().flat_map(|e| &e.examples).map(|example| serial(*example)).collect();
    serials.sort_unstable();
    serials.dedup();
    let scores = expansions
        .iter()
        .map(|expansion| {
            let mut betas = vec![0.0; serials.len()];
            for (example, beta) in expansion.examples.iter().zip(&expansion.coefficients) {
                if let Ok(place) = serials.binary_search(&serial(*example)) {
                    betas[place] = *beta;
                }
            }
            Score::expansion(&betas, expansion.offset)
        })
        .collect();
    (Gram::units(&serials, rows), scores)
}
