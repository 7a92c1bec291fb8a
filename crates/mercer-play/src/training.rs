//! One training: the machine of the points, its support vectors, and a plan that is fitted to it at once.

use std::time::{Duration, Instant};

use mercer::compile::compile;
use mercer::kernel;
use mercer::machine::{Input, Machine, Model, PlanSections, Provenance};
use mercer::query::{Plan, QueryOptions};
use mercer::spec::Spec;
use mercer::train::{Cancel, Stop, TrainError, Trained, Training, formulation, train};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::points::{Clicked, Points};

/// A change is answered after this time with the best machine so far, for up to [`POINTS`] points and in proportion for more;
/// [`TrainedMachine::continued`] goes on from there.
const FIRST: Duration = Duration::from_millis(40);
/// Points that the first time is for.
const POINTS: usize = 1000;
/// The shortest part of a training that goes on. A part takes as long as all before it, so that starting again costs little.
const PART: Duration = Duration::from_millis(400);
/// The longest one: after it the page shows how far the training has come.
const LONGEST_PART: Duration = Duration::from_secs(5);
/// All parts of a training together end after this time.
const LIMIT: Duration = Duration::from_secs(60);
/// Plans that are tried with every machine.
const QUICK: [&str; 2] = ["cascade(monomials, exact)", "cascade(anytime(chunk=2), exact)"];
/// Points at which plans are compared, at most.
const SAMPLE: usize = 256;

/// What a training is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitRequest {
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

/// What a machine is trained with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kernel.
    pub kernel: String,
    /// The bound of coefficients.
    pub c: f64,
    /// The plan; `auto` takes the cheapest of some.
    pub plan: String,
}

impl Default for Settings {
    fn default() -> Self {
        let (kernel, plan) = ("rbf(gamma=1)".to_owned(), "auto".to_owned());
        Self { kernel, c: 1.0, plan }
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
    settings: Settings,
    spent: Spent,
    /// Whether the first part began with a machine.
    is_warm: bool,
    report: Value,
}

/// What a solver returned, and whether it began with a machine.
struct Solved {
    trained: Trained,
    is_warm: bool,
}

/// What all parts of a training took together.
#[derive(Debug, Clone, Copy)]
struct Spent {
    time: Duration,
    iterations: u64,
}

impl TrainedMachine {
    /// Trains on the points, from the machine before if that is possible. It may end early, with the best machine so far.
    ///
    /// # Errors
    /// If the kernel, C or the plan cannot be used.
    pub fn new(
        points: &Points,
        settings: &Settings,
        before: Option<&Self>,
    ) -> anyhow::Result<Self> {
        let share = (points.values.len() as f64 / POINTS as f64).max(1.0);
        let training = Training::default().time_limit(Some(FIRST.mul_f64(share)));
        // All of it on a thread of the pool: each of the many short parallel loops would wake one otherwise, which takes longer than most loops.
        rayon::scope(|_| {
            let start = Instant::now();
            let solved = solve(points, settings, training, before)?;
            Self::of(points, settings, solved, Spent { time: start.elapsed(), iterations: 0 })
        })
    }

    /// One more part of a training that ended early, until the time or the token ends it as well.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn continued(&self, points: &Points, cancel: Cancel) -> anyhow::Result<Self> {
        let part = self.spent.time.clamp(PART, LONGEST_PART);
        let training = Training::default().time_limit(Some(part)).cancel(cancel);
        let start = Instant::now();
        let solved = solve(points, &self.settings, training, Some(self))?;
        let spent =
            Spent { time: self.spent.time + start.elapsed(), iterations: self.spent.iterations };
        Self::of(points, &self.settings, Solved { is_warm: self.is_warm, ..solved }, spent)
    }

    /// A solved problem with its plan and what the page is told; `spent` holds all time so far, and the steps before this part.
    fn of(
        points: &Points,
        settings: &Settings,
        solved: Solved,
        spent: Spent,
    ) -> anyhow::Result<Self> {
        let Solved { trained, is_warm } = solved;
        let start = Instant::now();
        let (model, plan) = planned(points, trained.machine.clone(), settings)?;
        let plan_ms = milliseconds(start.elapsed());
        let (supports, bounded) = support_vectors(&trained, settings.c);
        let report = &trained.report;
        let iterations = spent.iterations + report.iterations;
        let was_cut = matches!(report.stop, Some(Stop::TimeLimit | Stop::Cancelled));
        let stages: Vec<String> =
            plan.stages().iter().map(|stage| stage.spec().to_string()).collect();
        let report = json!({
            "warm": is_warm, "iterations": iterations, "converged": report.converged,
            "is_open": was_cut && spent.time < LIMIT,
            "objective": report.objective, "gap": report.gap,
            "training_ms": milliseconds(spent.time), "plan_ms": plan_ms,
            "plan": plan.spec().to_string(), "stages": stages,
            "exact_multiply_adds": plan.exact_stage().cost().multiply_adds,
            "kernel": trained.machine.kernel().spec().to_string(), "points": points.values.len(),
            "machine_supports": trained.machine.supports().rows(),
            "classes": trained.machine.classes().iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        let settings = settings.clone();
        let spent = Spent { iterations, ..spent };
        Ok(Self { model, plan, supports, bounded, settings, spent, is_warm, report })
    }

    /// Whether the training ended early and can go on.
    pub fn is_open(&self) -> bool {
        self.report["is_open"] == true
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
    settings: &Settings,
    training: Training,
    before: Option<&TrainedMachine>,
) -> anyhow::Result<Solved> {
    let kernel = kernel::parse(&settings.kernel)?;
    let data = points.dataset()?;
    let formulation = formulation(&format!("c_svc(C={})", settings.c))?;
    if let Some(before) = before {
        let from = training.clone().warm_start(Some(before.machine().clone()));
        match train(&data, &kernel, &formulation, &from, &mut |_| {}) {
            // Other classes, or the same in another order.
            Err(TrainError::WarmStart { .. }) => {}
            trained => return Ok(Solved { trained: trained?, is_warm: true }),
        }
    }
    let trained = train(&data, &kernel, &formulation, &training, &mut |_| {})?;
    Ok(Solved { trained, is_warm: false })
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

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
