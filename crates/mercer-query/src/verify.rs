//! Verification of stored plans: what a certificate rests on is recomputed from the machine before it is believed.
//!
//! A model file may come from a stranger. Its digests show that it is not damaged, not that it is true: a stage that
//! certifies labels does so with constants of the file, and a forged constant makes a wrong label look proved. So a
//! constant counts only after it was measured again ([`Plan::load`], [`verify`]), or where the caller vouches for the plan
//! ([`PlanTrust`]). The functions that measure are those that fits in `mercer_compile` use, so there is one definition of
//! every constant. The certificates themselves are in `certify/`.
//!
//! [`Plan::load`]: crate::Plan::load

pub mod forms;
mod known;
mod live_rows;
pub mod monomials;
mod near;
pub mod projected;
mod semidefinite;
pub mod sequence;
pub(crate) mod sequence_tree;
pub mod spectral;
pub(crate) mod stored_sequence;
pub mod table;
pub mod taylor;
mod watch;

use std::fmt;

use mercer_kernel::bound::capped;
use mercer_machine::{Machine, PlanSections, Section};
use mercer_simd::Isa;

pub use known::{KnownPlans, plan_digest};
pub use live_rows::{LiveRows, transposed};
pub use near::Near;
pub use watch::{Interrupted, Progress, Watch};

use crate::entry::{STAGES, StageEntry};
use crate::{Exact, LoadError};

/// Estimated multiply-adds up to which the stages of a plan are verified when it is loaded: less than a second on one core.
pub const LOAD_WORK: f64 = 1e9;

/// Machines with more live columns get no stage that needs a square matrix over them: it would take minutes and gigabytes.
pub const MOST_COLUMNS: usize = 3000;

/// What the answers of a stage rest on, and how that is verified.
#[derive(Debug, Clone, Copy)]
pub enum RestsOn {
    /// The machine alone: whatever the file says, all constants are computed when the stage is loaded.
    Machine,
    /// Constants of the file.
    Constants {
        /// Estimated multiply-adds of a verification.
        work: fn(&Section, &Exact) -> f64,
        /// Measures them again, and compares.
        verify: fn(&Section, &Exact, &Watch<'_>) -> Result<(), MeasureError>,
    },
    /// A calibration: it proves nothing, and what it promises only queries can show.
    Calibration,
}

/// How much of a stored plan is believed without a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum PlanTrust {
    /// Nothing: constants are verified as far as that takes no more than [`LOAD_WORK`]; stages that would take longer, and
    /// those that rest on a calibration, are left out.
    #[default]
    Nothing,
    /// The constants: they were verified before. Stages that rest on a calibration are left out.
    Constants,
    /// Everything: the plan was fitted here, or its calibration was tested, or the user vouches for it.
    Everything,
}

/// Why a stage of a stored plan does not run.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Its text.
    pub stage: String,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why a stage of a stored plan does not run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum LeftOutReason {
    /// Its verification takes longer than loading should.
    TooMuchWork {
        /// Estimated multiply-adds.
        work: f64,
    },
    /// It rests on a calibration that was not tested here.
    Calibration,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = self.stage.split('(').next().unwrap_or_default();
        match self.reason {
            LeftOutReason::TooMuchWork { work } => {
                write!(f, "stage '{stage}' was not verified yet ({work:.0e} multiply-adds)")
            }
            LeftOutReason::Calibration => {
                write!(f, "stage '{stage}' rests on a calibration that was not tested here")
            }
        }
    }
}

/// Why constants could not be measured, or are not what a file says.
#[derive(Debug, Clone, PartialEq)]
pub enum MeasureError {
    /// The machine or the file does not allow it; a sentence says why.
    Unfit(String),
    /// The callback ended the work.
    Interrupted,
}

impl From<Interrupted> for MeasureError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// A bound of a file that is smaller than what the machine gives.
fn at_least(name: &str, at: usize, stored: f64, needed: f64) -> MeasureError {
    MeasureError::Unfit(format!(
        "'{name}' number {} is {stored:e}, but must be at least {needed:e}",
        at + 1
    ))
}

/// Whether every stored bound is at least the measured one; what is no number is not.
fn all_at_least(name: &str, stored: &[f64], needed: &[f64]) -> Result<(), MeasureError> {
    for (at, (stored, needed)) in stored.iter().zip(needed).enumerate() {
        if stored.is_nan() || needed.is_nan() || stored < needed {
            return Err(at_least(name, at, *stored, *needed));
        }
    }
    if stored.len() == needed.len() {
        Ok(())
    } else {
        Err(MeasureError::Unfit(format!("'{name}' holds {} numbers", stored.len())))
    }
}

/// Refuses machines with more than [`MOST_COLUMNS`].
fn check_columns(exact: &Exact) -> Result<(), MeasureError> {
    let columns = exact.packed().live_columns();
    if columns > MOST_COLUMNS {
        let reason = format!("{columns} columns are more than {MOST_COLUMNS}");
        return Err(MeasureError::Unfit(reason));
    }
    Ok(())
}

/// Multiply-adds of a kernel value with a support, its function included.
fn kernel_value_cost(exact: &Exact) -> f64 {
    let supports = exact.machine().supports();
    let live = exact.packed().live_columns() as f64;
    let nonzeros = supports.nonzeros() as f64 / usize::max(supports.rows(), 1) as f64;
    capped(live, 2.2 * nonzeros) + 40.0
}

/// What is known of a stage after a verification.
#[derive(Debug, Clone, PartialEq)]
pub struct StageVerification {
    /// The stage's text.
    pub stage: String,
    /// What it rests on, and that it holds.
    pub outcome: Outcome,
}

/// What a verification found of a stage that holds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It rests on the machine alone.
    Machine,
    /// Its constants are at least what the machine gives.
    Verified {
        /// Estimated multiply-adds of the verification.
        work: f64,
    },
    /// It rests on a calibration, of which this says nothing.
    Calibration,
}

/// Verifies all stages of a stored plan, however long it takes.
///
/// # Errors
/// If the plan cannot be loaded, a constant is smaller than what the machine gives, or the callback ends the work.
pub fn verify(
    machine: &Machine,
    sections: &PlanSections,
    watch: &Watch<'_>,
) -> Result<Vec<StageVerification>, LoadError> {
    // Loading checks the shape of every array, which what follows relies on.
    drop(crate::Plan::fitted(machine, sections)?);
    let exact = Exact::with_isa(machine, Isa::current());
    let mut stages = Vec::new();
    for section in &sections.sections {
        let entry = entry_of(section)?;
        let outcome = match entry.rests_on {
            RestsOn::Machine => Outcome::Machine,
            RestsOn::Calibration => Outcome::Calibration,
            RestsOn::Constants { work, verify } => {
                let checked = verify(section, &exact, watch);
                checked.map_err(|error| refused(entry, error))?;
                Outcome::Verified { work: work(section, &exact) }
            }
        };
        stages.push(StageVerification { stage: section.spec.clone(), outcome });
    }
    Ok(stages)
}

/// The entry of a section's stage.
pub(crate) fn entry_of(section: &Section) -> Result<&'static StageEntry, LoadError> {
    let name = section.stage();
    STAGES.iter().copied().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<&str> = STAGES.iter().map(|entry| entry.name).collect();
        LoadError::Unknown { stage: name.to_owned(), known: known.join(", ") }
    })
}

fn refused(entry: &StageEntry, error: MeasureError) -> LoadError {
    match error {
        MeasureError::Unfit(reason) => {
            LoadError::NotProved { stage: entry.name.to_owned(), reason }
        }
        MeasureError::Interrupted => LoadError::Interrupted,
    }
}

/// Why a stage is not even loaded, as far as the trust in its plan goes; `work_left` is what its verification may cost.
pub(crate) fn left_out(
    section: &Section,
    entry: &StageEntry,
    exact: &Exact,
    trust: PlanTrust,
    work_left: &mut f64,
) -> Option<LeftOut> {
    let reason = match entry.rests_on {
        RestsOn::Calibration if trust < PlanTrust::Everything => LeftOutReason::Calibration,
        RestsOn::Constants { work, .. } if trust < PlanTrust::Constants => {
            let work = work(section, exact);
            if work <= *work_left {
                *work_left -= work;
                return None;
            }
            LeftOutReason::TooMuchWork { work }
        }
        _ => return None,
    };
    Some(LeftOut { stage: section.spec.clone(), reason })
}

/// Verifies a stage that was loaded, unless its constants are trusted.
pub(crate) fn check(
    section: &Section,
    entry: &StageEntry,
    exact: &Exact,
    trust: PlanTrust,
) -> Result<(), LoadError> {
    match entry.rests_on {
        RestsOn::Constants { verify, .. } if trust < PlanTrust::Constants => {
            verify(section, exact, &Watch::NOBODY).map_err(|error| refused(entry, error))
        }
        _ => Ok(()),
    }
}

/// Whether the text of a plan names the stages that its sections hold, in their order.
pub(crate) fn names_its_stages(sections: &PlanSections) -> bool {
    let Ok(spec) = sections.spec.parse::<mercer_spec::Spec>() else { return false };
    let stages = sections.sections.iter().map(Section::stage);
    if spec.name() != "cascade" {
        let named = Some(spec.name()).filter(|name| *name != "exact");
        return stages.eq(named);
    }
    let name = |value: &mercer_spec::Value| match value {
        mercer_spec::Value::Spec(stage) => stage.name().to_owned(),
        mercer_spec::Value::Number(_) => String::new(),
    };
    let named: Vec<String> = spec.positional().iter().map(name).collect();
    named.iter().map(String::as_str).eq(stages.chain(["exact"]))
}
