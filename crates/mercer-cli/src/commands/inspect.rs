//! `mercer inspect`: what a model file contains.

use mercer::machine::{
    Conformal, Machine, Model, Output, Parent, Probabilities, Scheme, Score, Tuning,
};
use mercer::query::Plan;
use serde_json::{Value, json};

use super::trust::{self, PlanState, sets_state};
use super::{compile, describe, features, live_columns, load, tune};
use crate::args::Inspect;
use crate::console::Console;
use crate::failure::DONE;

pub(super) fn run(inspect: &Inspect, console: &Console) -> anyhow::Result<u8> {
    let mut model = load(&inspect.model, console)?;
    model.conformal = trust::sets(&model, inspect.plan);
    let state = PlanState::of(&model, inspect.plan);
    if console.json {
        let mut object = object(&model);
        object["verification"] = state.as_ref().map_or(Value::Null, PlanState::object);
        println!("{object}");
    } else {
        println!("{}", inspect.model.display());
        print_machine(&model);
        print_plan(&model);
        if let Some(state) = &state {
            println!("  verification   {state}");
        }
        if let Some(conformal) = &model.conformal {
            println!("  sets           {}", describe_sets(conformal));
        }
        print_origin(&model);
    }
    Ok(DONE)
}

fn class_names(machine: &Machine) -> Vec<String> {
    machine.classes().iter().map(ToString::to_string).collect()
}

/// The fraction of values of the supports, or of linear weights, that are not zero.
fn density(machine: &Machine) -> f64 {
    let supports = machine.supports();
    if supports.rows() > 0 {
        return supports.nonzeros() as f64
            / (supports.rows() as f64 * supports.columns() as f64).max(1.0);
    }
    let weights = machine.scores().iter().filter_map(|score| match score {
        Score::Linear { weights, .. } => Some(weights.iter()),
        _ => None,
    });
    let (mut nonzeros, mut all) = (0usize, 0usize);
    for weight in weights.flatten() {
        nonzeros += usize::from(*weight != 0.0);
        all += 1;
    }
    if all == 0 { 1.0 } else { nonzeros as f64 / all as f64 }
}

/// How class probabilities are computed, if the model has them.
fn probabilities(model: &Model) -> Option<&'static str> {
    let kind = model.probabilities.as_ref()?;
    Some(match kind {
        Probabilities::Sigmoid { .. } => "sigmoid",
        Probabilities::Laplace { .. } => "laplace",
        Probabilities::Marks(_) => "density marks",
        Probabilities::Curves(_) if kind.sigmoids().is_some() => {
            "sigmoid, kept on the side of the label"
        }
        Probabilities::Curves(_) => "isotonic",
        _ => "other",
    })
}

fn scaling(model: &Model) -> Option<String> {
    model.input.scaling.as_ref().map(|scaling| scaling.spec().to_string())
}

fn object(model: &Model) -> Value {
    let machine = &model.machine;
    let plan = Plan::exact(machine);
    let packed = plan.exact_stage().packed();
    let scheme = match machine.output() {
        Output::Value => "value",
        Output::Novelty => "novelty",
        Output::Classes { scheme: Scheme::OneVsOne, .. } => "one_vs_one",
        Output::Classes { scheme: Scheme::OneVsRest, .. } => "one_vs_rest",
    };
    let fitted = model.plan.as_ref();
    json!({
        "kernel": machine.kernel().spec().to_string(), "output": scheme,
        "classes": class_names(machine),
        "scores": machine.scores().len(), "supports": machine.supports().rows(),
        "source_supports": model.provenance.source_supports,
        "features": features(model),
        "live_columns": live_columns(machine, &plan), "density": density(machine),
        "centred": machine.centre().is_some(), "packed_bytes": packed.bytes(),
        "multiply_adds": plan.exact_stage().cost().multiply_adds,
        "scaling": scaling(model), "means": model.input.means,
        "probability_kind": probabilities(model), "origin": model.provenance.origin,
        "formulation": model.provenance.formulation,
        "parent": model.provenance.parent.as_ref().map(|parent| json!({
            "machine": parent.machine, "supports": parent.supports,
            "method": parent.method, "relative_error": parent.error,
        })),
        "plan": fitted.map(|plan| plan.spec.clone()),
        "calibration": fitted.and_then(|plan| plan.calibration.as_ref()).map(compile::value),
        "tuning": fitted.and_then(|plan| plan.tuning.as_deref()).map(Tuning::to_json),
        "zero_based": model.input.zero_based,
        "conformal": model.conformal.as_ref().map(|conformal| {
            let mut object = tune::sets::object(conformal);
            object["state"] = json!(sets_state(conformal));
            object
        }),
        "kept_rows": model.training.as_ref().map(|kept| kept.examples().rows()),
    })
}

fn print_machine(model: &Model) {
    let machine = &model.machine;
    let plan = Plan::exact(machine);
    let (packed, supports) = (plan.exact_stage().packed(), machine.supports());
    println!("  kernel         {}", machine.kernel().spec());
    println!("  answers        {}", describe(machine));
    if !machine.classes().is_empty() {
        println!("  classes        {}", shorten(&class_names(machine)));
    }
    println!("  scores         {}", machine.scores().len());
    let source = model.provenance.source_supports.filter(|count| *count != supports.rows());
    let merged = source.map_or(String::new(), |count| format!(", {count} in the source"));
    println!("  supports       {} distinct{merged}", supports.rows());
    println!(
        "  columns        {}, {} live; {:.1} % of the values are non-zero",
        features(model),
        live_columns(machine, &plan),
        100.0 * density(machine),
    );
    if model.input.zero_based {
        println!("  LIBSVM text    counts columns from 0");
    }
    if model.input.means.is_some() {
        println!("  missing values become the means of the examples");
    }
    if let Some(scaling) = scaling(model) {
        println!("  scaling        {scaling}, applied to queries");
    }
    if machine.centre().is_some() {
        println!("  centred        columns far from zero are shifted by the mean support");
    }
    println!(
        "  cost           {} multiply-adds per query",
        plan.exact_stage().cost().multiply_adds
    );
    println!("  packed         {:.1} MiB", packed.bytes() as f64 / f64::from(1 << 20));
}

fn print_plan(model: &Model) {
    let tuning = model.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
    match (&model.plan, tuning) {
        (Some(_), Some(tuning)) => {
            tune::summary_lines(model, tuning).iter().for_each(|line| println!("  {line}"));
        }
        (Some(plan), None) => {
            println!("  plan           {}", plan.spec);
            if let Some(calibration) = &plan.calibration {
                println!("                 {}", compile::sentence(calibration));
            }
        }
        (None, _) => {}
    }
}

fn print_origin(model: &Model) {
    if let Some(kind) = probabilities(model) {
        println!("  probabilities  {kind}");
    }
    let formulation = model.provenance.formulation.as_deref().unwrap_or("unknown");
    println!("  origin         {}, formulation {formulation}", model.provenance.origin);
    if let Some(parent) = &model.provenance.parent {
        let Parent { machine, supports, method, error } = parent;
        println!(
            "  compressed     from a machine with {supports} supports, {}",
            machine.chars().take(12).collect::<String>()
        );
        println!(
            "                 {method}, |W - W~| / |W| = {error:.3e}; exact answers are those of the compressed machine"
        );
    }
    match &model.training {
        Some(kept) => println!(
            "  note           all {} rows of the training data are kept in the file, for updates",
            kept.examples().rows()
        ),
        None => println!("  note           the supports are rows of the training data"),
    }
}

/// The calibration of prediction sets, and what is known of it.
fn describe_sets(conformal: &Conformal) -> String {
    let (coverage, rows) = (conformal.coverage(), conformal.rows());
    let state = match sets_state(conformal) {
        "known" => "calibrated or tested by this user",
        "not verified" => "not verified; see `mercer verify --sample`",
        other => other,
    };
    format!("coverage {coverage}, calibrated on {rows} rows; {state}")
}

/// At most ten names.
fn shorten(names: &[String]) -> String {
    let more = if names.len() > 10 { format!(", ... ({})", names.len()) } else { String::new() };
    names[..names.len().min(10)].join(", ") + &more
}
