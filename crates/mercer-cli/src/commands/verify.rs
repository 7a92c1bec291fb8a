//! `mercer verify`: recomputes what the certificates of a model's plan rest on, and tests its calibration on a sample.

use std::time::Instant;

use anyhow::Context;
use mercer::compile::PlanVerification;
use mercer::compile::risk::Retest;
use mercer::data::read::Options;
use mercer::machine::PlanSections;
use mercer::query::verify::{Outcome, Progress, StageVerification, Watch};
use mercer::query::{LoadError, PlanTrust};
use serde_json::{Value, json};

use super::{StopSignal, load, trust};
use crate::args::Verify;
use crate::console::Console;
use crate::failure::{DONE, ERROR, Interrupted, UNTESTED};
use crate::labels;
use crate::queries::Queries;

pub(super) fn run(arguments: &Verify, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let model = load(&arguments.model, console)?;
    let name = arguments.model.display();
    let Some(sections) = &model.plan else {
        if console.json {
            println!(
                "{}",
                json!({ "plan": null, "verified_stages": [], "verified": "everything" })
            );
        } else {
            println!("{name}: it has no plan; every answer is exact");
        }
        return Ok(DONE);
    };
    let start = Instant::now();
    let status = console.status();
    let watch = |progress: Progress| {
        let Progress { what, done, most } = progress;
        status.set_message(format!("{what}: {done} of {most}"));
        stop.check().is_ok()
    };
    let verification = PlanVerification::new(&model.machine, sections, &Watch::new(&watch));
    status.finish_and_clear();
    let mut verification = match verification {
        Err(LoadError::Interrupted) => return Err(Interrupted.into()),
        other => other.with_context(|| name.to_string())?,
    };
    if let Some(path) = &arguments.sample {
        let options = arguments.memory.limit(Options::default());
        let sample = Queries::read_all(path, options, &model, console)?;
        let labels = labels::answers(&model.machine, &sample.targets);
        let tested =
            verification.tested(&model.machine, sections, &sample.examples, labels.as_deref());
        verification = tested.with_context(|| path.display().to_string())?;
        if !verification.is_calibrated {
            console.warn("the plan has no calibration: --sample is not used");
        }
    }
    let found = Found { sections, verification, seconds: start.elapsed().as_secs_f64() };
    let known =
        found.verification.trust().and_then(|trust| trust::remember(sections, trust, console));
    let folder = known.map(|known| known.folder().display().to_string());
    if console.json {
        println!("{}", found.object(folder.as_deref()));
    } else {
        println!("{name}: {}", sections.spec);
        found.lines().iter().for_each(|line| println!("  {line}"));
        if let Some(folder) = folder {
            console.summary(&format!("remembered in {folder}"));
        }
    }
    Ok(found.code())
}

/// What was found.
struct Found<'a> {
    sections: &'a PlanSections,
    verification: PlanVerification,
    seconds: f64,
}

impl Found<'_> {
    fn code(&self) -> u8 {
        match self.verification.trust() {
            Some(PlanTrust::Everything) => DONE,
            Some(_) => UNTESTED,
            None => ERROR,
        }
    }

    fn object(&self, folder: Option<&str>) -> Value {
        let stage = |stage: &StageVerification| {
            let (rests_on, work) = match stage.outcome {
                Outcome::Verified { work } => ("constants", Some(work)),
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
        let verified = match self.verification.trust() {
            Some(PlanTrust::Everything) => "everything",
            Some(_) => "constants",
            None => "nothing",
        };
        json!({
            "plan": self.sections.spec, "seconds": self.seconds, "verified": verified,
            "verified_stages": self.verification.stages.iter().map(stage).collect::<Vec<_>>(),
            "test": self.verification.test.as_ref().map(test), "remembered": folder,
        })
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for StageVerification { stage, outcome } in &self.verification.stages {
            let name = stage.split('(').next().unwrap_or_default();
            let text = match outcome {
                Outcome::Verified { .. } => "verified: its constants hold for this machine",
                Outcome::Calibration => "estimates: rests on the calibration",
                _ => "rests on the machine alone",
            };
            lines.push(format!("{name:14} {text}"));
        }
        match &self.verification.test {
            Some(test) => lines.push(format!(
                "calibration    {}: {} disagreements in {} queries, upper bound {:.2e}, promised {}",
                if test.holds() { "tested, holds" } else { "wrong" },
                test.tally.disagreements,
                test.queries,
                test.bound,
                test.risk,
            )),
            None if self.verification.is_calibrated => lines.push(
                "calibration    not tested: --sample DATA tests it; until then these stages are left out"
                    .to_owned(),
            ),
            None => {}
        }
        lines
    }
}
