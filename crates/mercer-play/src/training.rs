//! One training: the machine of the points, its support vectors, and a plan that is fitted to it at once.

use std::time::{Duration, Instant};

use mercer::compile::compile;
use mercer::kernel::{self, KernelRef};
use mercer::machine::{Input, Machine, Model, PlanSections, Provenance};
use mercer::query::{Plan, QueryOptions};
use mercer::spec::Spec;
use mercer::train::{TrainError, Trained, Training, formulation, train};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::points::{Clicked, Points};

/// A training ends after this time with the best machine so far.
const LIMIT: Duration = Duration::from_secs(5);
/// Plans that are tried with every machine.
const QUICK: [&str; 2] = ["cascade(monomials, exact)", "cascade(anytime(chunk=2), exact)"];
/// Points at which plans are compared, at most.
const SAMPLE: usize = 256;

/// What a training is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The points, where they changed.
    pub points: Option<Vec<Clicked>>,
    /// The names of the classes, where they changed.
    pub classes: Option<Vec<String>>,
    /// The kernel.
    pub kernel: String,
    /// The bound of coefficients.
    #[serde(rename = "C")]
    pub c: f64,
    /// The plan; `auto` takes the cheapest of some.
    pub plan: String,
}

impl Default for Settings {
    fn default() -> Self {
        let (kernel, plan) = ("rbf(gamma=1)".to_owned(), "auto".to_owned());
        Self { points: None, classes: None, kernel, c: 1.0, plan }
    }
}

/// A machine in the plane with its plan, and how it was trained.
#[derive(Debug)]
pub struct TrainedMachine {
    /// The model that is served.
    pub model: Model,
    /// Its plan.
    pub plan: Plan,
    /// Points that are support vectors.
    supports: Vec<u32>,
    /// Those of them whose coefficient is at its bound in some score.
    bounded: Vec<u32>,
    report: Value,
}

impl TrainedMachine {
    /// Trains on the points, from the machine before if that is possible.
    ///
    /// # Errors
    /// If the kernel, C or the plan cannot be used.
    pub fn new(
        points: &Points,
        settings: &Settings,
        before: Option<&Self>,
    ) -> anyhow::Result<Self> {
        let start = Instant::now();
        let kernel = kernel::parse(&settings.kernel)?;
        let (trained, is_warm) = solve(points, &kernel, settings.c, before)?;
        let training_ms = milliseconds(start);
        let start = Instant::now();
        let (model, plan) = planned(points, trained.machine.clone(), settings)?;
        let plan_ms = milliseconds(start);
        let (supports, bounded) = support_vectors(&trained, settings.c);
        let report = &trained.report;
        let stages: Vec<String> =
            plan.stages().iter().map(|stage| stage.spec().to_string()).collect();
        let report = json!({
            "warm": is_warm, "iterations": report.iterations, "converged": report.converged,
            "objective": report.objective, "gap": report.gap,
            "training_ms": training_ms, "plan_ms": plan_ms,
            "plan": plan.spec().to_string(), "stages": stages,
            "exact_multiply_adds": plan.exact_stage().cost().multiply_adds,
            "kernel": kernel.spec().to_string(), "points": points.values.len(),
            "machine_supports": trained.machine.supports().rows(),
            "classes": trained.machine.classes().iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        Ok(Self { model, plan, supports, bounded, report })
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.model.machine
    }

    /// What the page is told.
    pub fn object(&self) -> Value {
        let mut object = self.report.clone();
        object["supports"] = json!(self.supports);
        object["bounded"] = json!(self.bounded);
        object
    }
}

/// Trains; the machine before is the start where it has the same classes.
fn solve(
    points: &Points,
    kernel: &KernelRef,
    c: f64,
    before: Option<&TrainedMachine>,
) -> anyhow::Result<(Trained, bool)> {
    let data = points.dataset()?;
    let formulation = formulation(&format!("c_svc(C={c})"))?;
    let training = Training::default().time_limit(Some(LIMIT));
    if let Some(before) = before {
        let from = training.clone().warm_start(Some(before.machine().clone()));
        match train(&data, kernel, &formulation, &from, &mut |_| {}) {
            // Other classes, or the same in another order.
            Err(TrainError::WarmStart { .. }) => {}
            trained => return Ok((trained?, true)),
        }
    }
    Ok((train(&data, kernel, &formulation, &training, &mut |_| {})?, false))
}

/// The model of a machine with a plan, and the plan.
fn planned(
    points: &Points,
    machine: Machine,
    settings: &Settings,
) -> anyhow::Result<(Model, Plan)> {
    let (sections, plan) = match settings.plan.as_str() {
        "auto" => cheapest(points, &machine)?,
        text => {
            let sections = compile(&machine, &text.parse::<Spec>()?, None)?;
            let plan = Plan::fitted(&machine, &sections)?;
            (Some(sections), plan)
        }
    };
    let model = Model {
        plan: sections.filter(|_| !plan.stages().is_empty()),
        input: Input {
            features: Some(2),
            names: Some(points.names.to_vec()),
            scaling: points.scaling.clone(),
            target: points.target.clone(),
            ..Input::default()
        },
        provenance: Provenance {
            origin: "mercer".to_owned(),
            formulation: Some(format!("c_svc(C={})", settings.c)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        },
        ..Model::from(machine)
    };
    Ok((model, plan))
}

/// Of plans that are fitted in milliseconds and prove their answers, the one whose answers at the points cost least.
fn cheapest(points: &Points, machine: &Machine) -> anyhow::Result<(Option<PlanSections>, Plan)> {
    let examples = points.dataset()?.examples;
    let step = examples.rows().div_ceil(SAMPLE).max(1);
    let sample = examples.select((0..examples.rows()).step_by(step));
    let mut best = (None, Plan::exact(machine));
    let mut least = best.1.exact_stage().cost().multiply_adds as f64;
    for text in QUICK {
        // Not every stage fits every kernel.
        let Ok(sections) = compile(machine, &text.parse::<Spec>()?, None) else { continue };
        let plan = Plan::fitted(machine, &sections)?;
        let cost = plan.decide_with(&sample, &QueryOptions::default())?.mean_cost();
        if cost < least {
            (least, best) = (cost, (Some(sections), plan));
        }
    }
    Ok(best)
}

/// Points with a coefficient, and those at the bound in some score.
fn support_vectors(trained: &Trained, c: f64) -> (Vec<u32>, Vec<u32>) {
    let (mut supports, mut bounded) = (Vec::new(), Vec::new());
    for expansion in &trained.expansions {
        for (example, beta) in expansion.examples.iter().zip(&expansion.coefficients) {
            supports.push(*example);
            if beta.abs() >= c {
                bounded.push(*example);
            }
        }
    }
    for list in [&mut supports, &mut bounded] {
        list.sort_unstable();
        list.dedup();
    }
    (supports, bounded)
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
