//! How far the plan of a model file is believed: what the user's cache knows of it, what is verified when it is loaded, and what
//! the user is told. Verification on request is `verify.rs`.

use std::fmt;
use std::path::Path;

use anyhow::Context;
use mercer::machine::{Conformal, Model, PlanSections};
use mercer::query::{KnownPlans, LeftOut, Plan, PlanTrust};
use serde_json::{Value, json};

use crate::args::PlanFlags;
use crate::console::Console;

/// How far a plan is trusted: by the flag, or as far as this user fitted or verified it.
fn trust(sections: &PlanSections, flags: PlanFlags) -> PlanTrust {
    if flags.trust_plan {
        return PlanTrust::Everything;
    }
    KnownPlans::of_user().map_or(PlanTrust::Nothing, |known| known.trust(sections))
}

/// The plan of a model file, as far as it is believed; warns of what is left out.
pub(super) fn load(
    path: &Path,
    model: &Model,
    flags: PlanFlags,
    console: &Console,
) -> anyhow::Result<Plan> {
    let Some(sections) = &model.plan else { return Ok(Plan::exact(&model.machine)) };
    let name = path.display();
    if flags.trust_plan {
        console.warn(&format!("{name}: its plan is believed without verification (--trust-plan)"));
    }
    let plan = Plan::load(&model.machine, sections, trust(sections, flags))
        .with_context(|| name.to_string())?;
    if !plan.left_out().is_empty() {
        let advice = "they are left out, and the other stages and exact answer instead; `mercer verify` \
                      verifies a plan once, --trust-plan believes it";
        console.warn(&format!("{name}: {}; {advice}", reasons(plan.left_out())));
    }
    warn_of_budget(path, &plan, model, console);
    Ok(plan)
}

/// Warns of a stored budget that is not in force with what is left of the plan.
pub(super) fn warn_of_budget(path: &Path, plan: &Plan, model: &Model, console: &Console) {
    if let Some(sentence) = plan.budget_left_out(model) {
        console.warn(&format!("{}: {sentence}; queries take as long as they need", path.display()));
    }
}

fn reasons(left_out: &[LeftOut]) -> String {
    left_out.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Adds what is believed of a plan to the object of a verb, where there is something to say.
pub(super) fn describe(plan: &Plan, is_trusted: bool, object: &mut Value) {
    if is_trusted {
        object["trusted_plan"] = json!(true);
    }
    if !plan.left_out().is_empty() {
        object["left_out"] = left_out(plan.left_out());
    }
}

fn left_out(stages: &[LeftOut]) -> Value {
    let one = |left: &LeftOut| json!({ "stage": left.stage, "reason": left.to_string() });
    stages.iter().map(one).collect()
}

/// Remembers a plan for this user; returns where. A cache that cannot be written is worth a warning, no more.
pub(super) fn remember(
    sections: &PlanSections,
    trust: PlanTrust,
    console: &Console,
) -> Option<KnownPlans> {
    let known = KnownPlans::of_user()?;
    match known.remember(sections, trust) {
        Ok(()) => Some(known),
        Err(error) => {
            console.warn(&format!(
                "{}: {error}; the plan could not be remembered, and is verified again when it is loaded",
                known.folder().display()
            ));
            None
        }
    }
}

/// The calibration of a model's prediction sets, believed by the flag, or if this user made or tested it.
pub(super) fn sets(model: &Model, flags: PlanFlags) -> Option<Conformal> {
    let stored = model.conformal?;
    if flags.trust_plan {
        return Some(stored.vouched());
    }
    KnownPlans::of_user().map_or(Some(stored), |known| known.sets(model))
}

/// Remembers the prediction sets of a model for this user, if they are this user's; returns where.
pub(super) fn remember_sets(model: &Model, console: &Console) -> Option<KnownPlans> {
    let known = KnownPlans::of_user()?;
    match known.remember_sets(model) {
        Ok(()) => Some(known),
        Err(error) => {
            let folder = known.folder().display();
            console
                .warn(&format!("{folder}: {error}; the prediction sets could not be remembered"));
            None
        }
    }
}

/// What is known of the prediction sets of a file, in the words of [`PlanState`].
pub(super) fn sets_state(conformal: &Conformal) -> &'static str {
    match (conformal.is_of_user(), conformal.is_believed()) {
        (true, _) => "known",
        (false, true) => "trusted by flag",
        (false, false) => "not verified",
    }
}

/// What is known of the plan of a file.
pub(super) enum PlanState {
    /// Believed by the flag.
    ByFlag,
    /// This user fitted it here, or verified and tested it.
    Known,
    /// All its constants hold, and nothing else is needed.
    Verified,
    /// Stages that would be left out.
    NotVerified(Vec<LeftOut>),
    /// It cannot be loaded.
    Wrong(String),
}

impl PlanState {
    /// Verifies what can be verified quickly; `None` for a model without a plan.
    pub(super) fn of(model: &Model, flags: PlanFlags) -> Option<Self> {
        let sections = model.plan.as_ref()?;
        let trust = trust(sections, flags);
        Some(match Plan::load(&model.machine, sections, trust) {
            Err(error) => Self::Wrong(error.to_string()),
            Ok(_) if flags.trust_plan => Self::ByFlag,
            Ok(_) if trust == PlanTrust::Everything => Self::Known,
            Ok(plan) if plan.left_out().is_empty() => Self::Verified,
            Ok(plan) => Self::NotVerified(plan.left_out().to_vec()),
        })
    }

    pub(super) fn object(&self) -> Value {
        let (state, reasons) = match self {
            Self::ByFlag => ("trusted by flag", json!([])),
            Self::Known => ("known", json!([])),
            Self::Verified => ("verified", json!([])),
            Self::NotVerified(stages) => ("not verified", left_out(stages)),
            Self::Wrong(reason) => ("wrong", json!([{ "stage": null, "reason": reason }])),
        };
        json!({ "state": state, "left_out": reasons })
    }
}

impl fmt::Display for PlanState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByFlag => f.write_str("trusted by flag (--trust-plan)"),
            Self::Known => f.write_str("fitted or verified by this user on this computer"),
            Self::Verified => f.write_str("verified: its constants are those of the machine"),
            Self::NotVerified(stages) => {
                write!(f, "not verified: {}; see `mercer verify`", reasons(stages))
            }
            Self::Wrong(reason) => write!(f, "wrong: {reason}"),
        }
    }
}
