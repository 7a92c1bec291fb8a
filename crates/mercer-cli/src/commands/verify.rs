//! `mercer verify`: recomputes what the certificates of a model's plan rest on, and tests its calibration and its
//! prediction sets on a sample.

use std::time::Instant;

use anyhow::Context;
use mercer::compile::risk::Retest;
use mercer::compile::{ConformalRetest, PlanVerification, retest_conformal};
use mercer::data::Matrix;
use mercer::data::read::Options;
use mercer::machine::{Answer, Conformal, Model};
use mercer::query::verify::{Outcome, Progress, StageVerification, Watch};
use mercer::query::{KnownPlans, LoadError, PlanTrust};
use serde_json::{Value, json};

use super::{StopSignal, load, trust};
use crate::args::Verify;
use crate::console::Console;
use crate::failure::{DONE, ERROR, Interrupted, UNTESTED};
use crate::labels;
use crate::queries::Queries;

pub(super) fn run(arguments: &Verify, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let mut model = load(&arguments.model, console)?;
    let name = arguments.model.display();
    if model.plan.is_none() && model.conformal.is_none() {
        if console.json {
            println!(
                "{}",
                json!({ "plan": null, "verified_stages": [], "verified": "everything" })
            );
        } else {
            println!("{name}: it has no plan; every answer is exact");
        }
        return Ok(DONE);
    }
    let start = Instant::now();
    let mut plan = plan_verification(&model, &stop, console).with_context(|| name.to_string())?;
    let mut sets = model.conformal.map(|stored| SetsFound::new(&model, stored));
    if let Some(path) = &arguments.sample {
        let options = arguments.memory.limit(Options::default());
        let sample = Queries::read_all(path, options, &model, console)?;
        let labels = labels::answers(&model.machine, &sample.targets);
        let place = || path.display().to_string();
        if let (Some(verification), Some(sections)) = (plan.take(), &model.plan) {
            let tested =
                verification.tested(&model.machine, sections, &sample.examples, labels.as_deref());
            plan = Some(tested.with_context(place)?);
        }
        if let Some(sets) = &mut sets {
            sets.test(&model, &sample.examples, labels.as_deref(), console).with_context(place)?;
        }
        if sets.is_none() && plan.as_ref().is_some_and(|plan| !plan.is_calibrated) {
            console.warn("the plan has no calibration: --sample is not used");
        }
    }
    let found = Found {
        spec: model.plan.as_ref().map(|plan| plan.spec.clone()),
        plan,
        sets,
        seconds: start.elapsed().as_secs_f64(),
    };
    let known = remember(&mut model, &found, console);
    let folder = known.map(|known| known.folder().display().to_string());
    if console.json {
        println!("{}", found.object(folder.as_deref()));
    } else {
        println!("{name}: {}", found.spec.as_deref().unwrap_or("no plan; every answer is exact"));
        found.lines().iter().for_each(|line| println!("  {line}"));
        if let Some(folder) = folder {
            console.summary(&format!("remembered in {folder}"));
        }
    }
    Ok(found.code())
}

/// Recomputes the constants of the plan; `None` without one.
fn plan_verification(
    model: &Model,
    stop: &StopSignal,
    console: &Console,
) -> anyhow::Result<Option<PlanVerification>> {
    let Some(sections) = &model.plan else { return Ok(None) };
    let status = console.status();
    let watch = |progress: Progress| {
        let Progress { what, done, most } = progress;
        status.set_message(format!("{what}: {done} of {most}"));
        stop.check().is_ok()
    };
    let verification = PlanVerification::new(&model.machine, sections, &Watch::new(&watch));
    status.finish_and_clear();
    match verification {
        Err(LoadError::Interrupted) => Err(Interrupted.into()),
        other => Ok(Some(other?)),
    }
}

/// Remembers what was found; where, if anything was.
fn remember(model: &mut Model, found: &Found, console: &Console) -> Option<KnownPlans> {
    let trust = found.plan.as_ref().and_then(PlanVerification::trust);
    let plan = match (&model.plan, trust) {
        (Some(sections), Some(trust)) => trust::remember(sections, trust, console),
        _ => None,
    };
    let sets = match &found.sets {
        Some(sets) if sets.test.is_some_and(|test| test.holds()) => {
            model.conformal = Some(sets.stored.of_user());
            trust::remember_sets(model, console)
        }
        _ => None,
    };
    plan.or(sets)
}

/// The prediction sets of the file, and their test.
struct SetsFound {
    stored: Conformal,
    is_known: bool,
    test: Option<ConformalRetest>,
}

impl SetsFound {
    fn new(model: &Model, stored: Conformal) -> Self {
        let known = KnownPlans::of_user().and_then(|known| known.sets(model));
        Self { stored, is_known: known.is_some_and(|known| known.is_of_user()), test: None }
    }

    fn test(
        &mut self,
        model: &Model,
        rows: &Matrix,
        targets: Option<&[Option<Answer>]>,
        console: &Console,
    ) -> anyhow::Result<()> {
        match targets {
            Some(targets) => {
                self.test = Some(retest_conformal(&model.machine, rows, targets, &self.stored)?);
            }
            None => console.warn("the sample has no targets: the prediction sets are not tested"),
        }
        Ok(())
    }

    /// Whether they are this user's now.
    fn holds(&self) -> bool {
        self.test.map_or(self.is_known, |test| test.holds())
    }

    fn line(&self) -> String {
        let coverage = self.stored.coverage();
        match self.test {
            Some(ConformalRetest { rows, covered, needed }) if covered >= needed => {
                format!("tested, hold: {covered} of {rows} targets covered, {needed} promise {coverage}")
            }
            Some(ConformalRetest { rows, covered, needed }) => format!(
                "not shown: {covered} of {rows} targets covered, {needed} would promise {coverage}; `mercer tune \
                 --coverage {coverage}` calibrates them on a sample of yours"
            ),
            None if self.is_known => "calibrated or tested by this user".to_owned(),
            None => "not tested: --sample DATA with targets tests them; until then `predict --sets` refuses them".to_owned(),
        }
    }

    fn object(&self) -> Option<Value> {
        let ConformalRetest { rows, covered, needed } = self.test?;
        let coverage = self.stored.coverage();
        Some(json!({
            "coverage": coverage, "rows": rows, "covered": covered, "needed": needed,
            "holds": covered >= needed,
        }))
    }
}

/// What was found.
struct Found {
    /// The text of the plan.
    spec: Option<String>,
    plan: Option<PlanVerification>,
    sets: Option<SetsFound>,
    seconds: f64,
}

impl Found {
    /// How far the file may be trusted from now on: its plan, and its prediction sets with it.
    fn trust(&self) -> Option<PlanTrust> {
        let plan = self.plan.as_ref().map_or(Some(PlanTrust::Everything), PlanVerification::trust);
        let holds = self.sets.as_ref().is_none_or(SetsFound::holds);
        plan.map(|trust| if holds { trust } else { trust.min(PlanTrust::Constants) })
    }

    fn code(&self) -> u8 {
        match self.trust() {
            Some(PlanTrust::Everything) => DONE,
            Some(_) => UNTESTED,
            None => ERROR,
        }
    }

    fn object(&self, folder: Option<&str>) -> Value {
        let stage = |stage: &StageVerification| {
            let (rests_on, work) = match stage.outcome {
                Outcome::Verified { work } => ("constants", Some(work as u64)),
                Outcome::Calibration => ("calibration", None),
                _ => ("machine", None),
            };
            json!({ "stage": stage.stage, "rests_on": rests_on, "multiply_adds": work })
        };
        let test = |test: &Retest| {
            json!({
                "queries": test.queries, "disagreements": test.tally.disagreements,
                "bound": test.bound, "eps": test.risk, "holds": test.holds(),
            })
        };
        let verified = match self.trust() {
            Some(PlanTrust::Everything) => "everything",
            Some(_) => "constants",
            None => "nothing",
        };
        let stages = self.plan.iter().flat_map(|plan| &plan.stages);
        let mut object = json!({
            "plan": self.spec, "seconds": self.seconds, "verified": verified,
            "verified_stages": stages.map(stage).collect::<Vec<_>>(),
            "test": self.plan.as_ref().and_then(|plan| plan.test.as_ref()).map(test),
            "remembered": folder,
        });
        if let Some(sets) = &self.sets {
            object["sets_test"] = sets.object().unwrap_or(Value::Null);
        }
        object
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = self.plan.as_ref().map_or_else(Vec::new, plan_lines);
        if let Some(sets) = &self.sets {
            lines.push(format!("{:14} {}", "sets", sets.line()));
        }
        lines
    }
}

fn plan_lines(plan: &PlanVerification) -> Vec<String> {
    let mut lines = Vec::new();
    for StageVerification { stage, outcome } in &plan.stages {
        let name = stage.split('(').next().unwrap_or_default();
        let text = match outcome {
            Outcome::Verified { .. } => "verified: its constants hold for this machine",
            Outcome::Calibration => "estimates: rests on the calibration",
            _ => "rests on the machine alone",
        };
        lines.push(format!("{name:14} {text}"));
    }
    match &plan.test {
        Some(test) => lines.push(format!(
            "calibration    {}: {} disagreements in {} queries, upper bound {:.2e}, promised {}",
            if test.holds() { "tested, holds" } else { "wrong" },
            test.tally.disagreements,
            test.queries,
            test.bound,
            test.risk,
        )),
        None if plan.is_calibrated => lines.push(
            "calibration    not tested: --sample DATA tests it; until then these stages are left out"
                .to_owned(),
        ),
        None => {}
    }
    lines
}
