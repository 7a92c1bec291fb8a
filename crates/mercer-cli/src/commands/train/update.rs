//! `mercer train --from`: the machine of more rows, or of fewer, from a machine of the original rows. What changes is computed by
//! `mercer_train::update`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use mercer::data::{Dataset, Targets};
use mercer::machine::{ClassName, Model, Provenance, TrainingRows};
use mercer::spec::Spec;
use mercer::train::{
    FormulationRef, Goal, Progress, Stop, TrainError, Trained, Training, UPDATE_GAP, Update,
    UpdateReport, Updated, WeightedRows, formulation, solver, train, update,
};
use mercer_report::svg::SignedBar;
use mercer_report::{Drawing, Page};
use serde_json::{Value, json};

use super::{message, report, time};
use crate::args::{NO_DATA, Train};
use crate::commands::{StopSignal, input_options, load, save};
use crate::console::Console;
use crate::failure::{DONE, INTERRUPTED, STOPPED};
use crate::files::is_standard;
use crate::labels;
use crate::output::save_text;
use crate::queries::Queries;
use crate::training_input;

/// The original rows with what they were trained with.
struct Original {
    data: Dataset,
    weights: Option<Vec<f64>>,
    solver: Option<String>,
    class_weights: Vec<(ClassName, f64)>,
    /// Where they come from, for messages.
    place: String,
}

/// The same training from nothing, for `--compare`.
struct Cold {
    trained: Trained,
    seconds: f64,
}

pub(super) fn run(arguments: &Train, from: &Path, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let model = load(from, console)?;
    let formulation = formulation_of(arguments, &model, from)?;
    let original = original(arguments, &model, &formulation, from, console)?;
    stop.check()?;
    let has_data = arguments.input.data.as_os_str() != NO_DATA;
    let added = if has_data {
        Some(read(&arguments.input.data, arguments, &model, &formulation, console)?)
    } else {
        None
    };
    let forgotten = match &arguments.update.forget {
        Some(path) => Some(read(path, arguments, &model, &formulation, console)?),
        None => None,
    };
    stop.check()?;
    let (training, new_weights) = settings(arguments, &original, &stop)?;
    let added = added.as_ref().map(|data| WeightedRows { data, weights: new_weights.as_deref() });
    let change = Update {
        machine: &model.machine,
        original: WeightedRows { data: &original.data, weights: original.weights.as_deref() },
        added,
        forgotten: forgotten.as_ref(),
    };
    let status = console.status();
    let mut show = |progress: &Progress| status.set_message(message(progress));
    let started = Instant::now();
    let updated = update(&change, &formulation, &training, &mut show)
        .map_err(|error| placed(error, arguments, from, &original))?;
    let seconds = started.elapsed().as_secs_f64();
    let cold = if arguments.update.compare {
        Some(cold(&updated, &model, &formulation, &training, &mut show)?)
    } else {
        None
    };
    status.finish_and_clear();
    let fresh = fresh_model(&model, &updated, &training, &formulation, arguments)?;
    save(&fresh, &arguments.output)?;
    if let Some(path) = &arguments.update.report {
        save_text(path, &page(&updated, seconds, cold.as_ref(), &arguments.output))?;
    }
    tell_dropped(&model, console);
    let validations = report::Validations { cross_validation: None, leave_one_out: None };
    let trained = &updated.trained;
    if console.json {
        let mut object = report::object(&trained.report, &validations);
        object["target"] = Value::Null;
        object["update"] = object_of(&updated.report, seconds, cold.as_ref());
        println!("{object}");
    }
    console.summary(&sentence(&updated.report));
    if let Some(cold) = &cold {
        console.summary(&comparison(&updated.trained, seconds, cold));
    }
    report::print(&arguments.output, &fresh, &trained.report, &validations, console);
    Ok(match trained.report.stop {
        Some(Stop::Cancelled) => INTERRUPTED,
        None if trained.report.converged => DONE,
        _ => STOPPED,
    })
}

/// What was minimised: as given, or as the model says.
///
/// # Errors
/// If the model does not say it with its parameters.
fn formulation_of(arguments: &Train, model: &Model, from: &Path) -> anyhow::Result<FormulationRef> {
    if let Some(text) = &arguments.formulation {
        return Ok(formulation(text)?);
    }
    let place = from.display();
    let text = model.provenance.formulation.as_deref().with_context(|| {
        format!("{place}: the model does not say what was minimised; give --formulation")
    })?;
    let spec: Spec = text.parse()?;
    let is_whole = model.provenance.origin == "mercer" || !spec.named().is_empty();
    anyhow::ensure!(
        is_whole,
        "{place}: the model says '{text}', but not with which parameters; give --formulation, such as '{text}(...)'"
    );
    Ok(formulation(text)?)
}

/// Rows of a file, matched to the columns of the model and scaled as its rows.
fn read(
    path: &Path,
    arguments: &Train,
    model: &Model,
    formulation: &FormulationRef,
    console: &Console,
) -> anyhow::Result<Dataset> {
    let options = input_options(&arguments.input);
    let data = Queries::read_all(path, options, model, console)?;
    prepared(data, formulation, arguments).with_context(|| path.display().to_string())
}

fn prepared(
    data: Dataset,
    formulation: &FormulationRef,
    arguments: &Train,
) -> anyhow::Result<Dataset> {
    anyhow::ensure!(data.examples.rows() > 0, "there are no rows");
    let targets = match formulation.goal() {
        Goal::Value => data.targets.into_values(),
        Goal::Classes => {
            if !arguments.training.many_classes {
                labels::refuse_values(&data.targets)?;
            }
            data.targets
        }
        Goal::Novelty => Targets::Absent,
    };
    Ok(Dataset { targets, ..data })
}

/// The original rows: those of `--data`, or those that the model keeps.
fn original(
    arguments: &Train,
    model: &Model,
    formulation: &FormulationRef,
    from: &Path,
    console: &Console,
) -> anyhow::Result<Original> {
    if let Some(path) = &arguments.update.data {
        let data = read(path, arguments, model, formulation, console)?;
        let weights = &arguments.update.data_weights;
        let weights = weights.as_deref().map(training_input::lines).transpose()?;
        let place = path.display().to_string();
        return Ok(Original { data, weights, solver: None, class_weights: Vec::new(), place });
    }
    anyhow::ensure!(
        arguments.update.data_weights.is_none(),
        "--data-weights are weights of the rows of --data, which is not given"
    );
    let kept = model.training.as_ref().with_context(|| {
        format!(
            "{}: the model does not keep the rows that it was trained on, only its supports, and a row that is no support \
             can become one; give the rows by --data FILE (`mercer train --keep-rows` keeps them)",
            from.display()
        )
    })?;
    let data = Dataset {
        examples: kept.examples().clone(),
        targets: kept.targets().clone(),
        names: model.input.names.clone(),
    };
    Ok(Original {
        data,
        weights: kept.weights().map(<[f64]>::to_vec),
        solver: kept.solver().map(str::to_owned),
        class_weights: kept.class_weights().to_vec(),
        place: from.display().to_string(),
    })
}

/// The training options, and the weights of the new rows. What is not given is as the kept rows were trained.
fn settings(
    arguments: &Train,
    original: &Original,
    stop: &StopSignal,
) -> anyhow::Result<(Training, Option<Vec<f64>>)> {
    let mut training = training_input::settings(&arguments.training, stop)?;
    let new_weights = training.example_weights().map(<[f64]>::to_vec);
    if let (None, Some(text)) = (&arguments.training.solver, &original.solver) {
        training = training.solver(solver(text)?);
    }
    if arguments.training.class_weight.is_empty() {
        training = training.class_weights(original.class_weights.clone());
    }
    Ok((training.weights(None), new_weights))
}

/// The error with the file that it is about.
fn placed(error: TrainError, arguments: &Train, from: &Path, original: &Original) -> anyhow::Error {
    let file = |path: &Path| path.display().to_string();
    let forget = || arguments.update.forget.as_deref().map_or_else(String::new, file);
    let place = match &error {
        TrainError::NotTheRows { .. } => original.place.clone(),
        TrainError::NoSuchRow { .. } | TrainError::OtherRows { what: "rows to forget", .. } => {
            forget()
        }
        TrainError::OtherRows { what: "new rows", .. } => file(&arguments.input.data),
        _ => file(from),
    };
    anyhow::Error::from(error).context(place)
}

/// Trains the same rows from nothing until the same gap is reached.
fn cold(
    updated: &Updated,
    model: &Model,
    formulation: &FormulationRef,
    training: &Training,
    show: &mut dyn FnMut(&Progress),
) -> anyhow::Result<Cold> {
    let gap = updated.report.cold.is_none().then_some(UPDATE_GAP);
    let mut training = training.clone().weights(updated.weights.clone()).relative_gap(gap);
    if let mercer::machine::Output::Classes { scheme, .. } = model.machine.output() {
        training = training.scheme(*scheme);
    }
    let started = Instant::now();
    let trained = train(&updated.data, model.machine.kernel(), formulation, &training, show)?;
    Ok(Cold { trained, seconds: started.elapsed().as_secs_f64() })
}

/// The model of the new machine. What was made for the old one is left out.
fn fresh_model(
    model: &Model,
    updated: &Updated,
    training: &Training,
    formulation: &FormulationRef,
    arguments: &Train,
) -> anyhow::Result<Model> {
    let keeps = arguments.keep_rows || model.training.is_some();
    let kept = if keeps {
        Some(kept_rows(&updated.data, updated.weights.clone(), training)?)
    } else {
        None
    };
    let provenance = Provenance {
        origin: "mercer".to_owned(),
        formulation: Some(formulation.spec().to_string()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        source_supports: None,
        parent: None,
    };
    Ok(Model {
        input: model.input.clone(),
        provenance,
        training: kept,
        ..Model::from(updated.trained.machine.clone())
    })
}

/// The rows of a training as a model keeps them.
pub(super) fn kept_rows(
    data: &Dataset,
    weights: Option<Vec<f64>>,
    training: &Training,
) -> anyhow::Result<Arc<TrainingRows>> {
    let rows = TrainingRows::new(data.examples.clone(), data.targets.clone(), weights)?;
    let solver = training.is_solver_given().then(|| training.solver_spec().to_string());
    Ok(Arc::new(rows.with_options(solver, training.class_weights_given().to_vec())?))
}

/// Says what the new model does not have any more.
fn tell_dropped(model: &Model, console: &Console) {
    let parts = [
        (model.plan.is_some(), "plan"),
        (model.probabilities.is_some(), "probabilities"),
        (model.conformal.is_some(), "prediction sets"),
    ];
    let dropped: Vec<&str> = parts.iter().filter(|(had, _)| *had).map(|(_, name)| *name).collect();
    if !dropped.is_empty() {
        console.warn(&format!(
            "left out with the old machine: {}; `mercer tune` makes a plan for the new one",
            dropped.join(", ")
        ));
    }
}

fn sentence(report: &UpdateReport) -> String {
    let UpdateReport { original, added, forgotten, rows, stayed, came, left, .. } = report;
    let start = match &report.cold {
        Some(reason) => format!("trained from the start: {reason}"),
        None => format!("within {:.1e} of the optimum, relative", report.relative_gap),
    };
    format!(
        "{original} rows, {added} added, {forgotten} forgotten: {rows}; of the {} supports {stayed} stayed, {left} left and \
         {came} came; {start}",
        report.supports_before
    )
}

fn comparison(warm: &Trained, seconds: f64, cold: &Cold) -> String {
    format!(
        "from the start, to the same gap: {} iterations, {:.3} s, objective {:.9e}; the update: {} iterations, {seconds:.3} s \
         ({:.1} times as fast), objective {:.9e}",
        cold.trained.report.iterations,
        cold.seconds,
        cold.trained.report.objective,
        warm.report.iterations,
        cold.seconds / seconds,
        warm.report.objective,
    )
}

fn object_of(report: &UpdateReport, seconds: f64, cold: Option<&Cold>) -> Value {
    let mut object = json!({
        "original_rows": report.original, "added_rows": report.added,
        "forgotten_rows": report.forgotten, "rows": report.rows,
        "supports_before": report.supports_before, "supports_stayed": report.stayed,
        "supports_came": report.came, "supports_left": report.left,
        "started_from_nothing": report.cold, "relative_gap": report.relative_gap,
        "seconds": seconds,
    });
    if let Some(cold) = cold {
        let report = &cold.trained.report;
        object["from_nothing"] = json!({
            "seconds": cold.seconds, "iterations": report.iterations, "objective": report.objective,
            "gap": report.gap,
        });
    }
    object
}

/// A page with the supports that stayed, came and left, and the comparison with a training from nothing.
fn page(updated: &Updated, seconds: f64, cold: Option<&Cold>, output: &Path) -> String {
    let report = &updated.report;
    let bar =
        |name: &str, value: f64, text: String| SignedBar { name: name.to_owned(), value, text };
    let count =
        |name: &str, sign: f64, number: usize| bar(name, sign * number as f64, number.to_string());
    let mut page = Page::new(&format!(
        "Update: {}",
        if is_standard(output) { "model".into() } else { output.display().to_string() }
    ));
    page.text(&format!("{}.", sentence(report)));
    let mut drawings = vec![Drawing::signed_bars(
        "Supports",
        "to the right: supports of the new machine; to the left: supports no more",
        &[
            count("stayed", 1.0, report.stayed),
            count("came", 1.0, report.came),
            count("left", -1.0, report.left),
        ],
    )];
    let warm = &updated.trained.report;
    let row = |name: &str, seconds: f64, report: &mercer::train::Report| {
        vec![
            name.to_owned(),
            time(std::time::Duration::from_secs_f64(seconds)),
            report.iterations.to_string(),
            report.kernel_values.to_string(),
            format!("{:.9e}", report.objective),
            format!("{:.1e}", report.gap),
        ]
    };
    let mut rows = vec![row("update", seconds, warm)];
    if let Some(cold) = cold {
        rows.push(row("from nothing", cold.seconds, &cold.trained.report));
        drawings.push(Drawing::signed_bars(
            "Iterations",
            "steps until the gap is small enough",
            &[
                count("update", 1.0, warm.iterations as usize),
                count("from nothing", 1.0, cold.trained.report.iterations as usize),
            ],
        ));
    }
    page.drawings(&drawings);
    page.heading("Trainings");
    page.table(&["start", "time#", "iterations#", "kernel values#", "objective#", "gap#"], &rows);
    page.finish()
}
