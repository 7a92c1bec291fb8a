//! The verification of a plan that comes from elsewhere: its constants (`mercer_query`'s `verify`) and, on a sample, its
//! calibration (`risk/retest.rs`). What both are remembered for is decided here, for every program alike.

use mercer_data::Matrix;
use mercer_machine::{Answer, Machine, PlanSections};
use mercer_query::verify::{Outcome, StageVerification, Watch, verify};
use mercer_query::{LoadError, Plan, PlanTrust};

use crate::CompileError;
use crate::risk::{Retest, retest};

/// What is known of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanVerification {
    /// Its stages, all constants verified.
    pub stages: Vec<StageVerification>,
    /// The test of its calibration, where there was one.
    pub test: Option<Retest>,
    /// Whether it has or needs a calibration.
    pub is_calibrated: bool,
}

impl PlanVerification {
    /// Recomputes all constants that certificates of a plan rest on.
    ///
    /// # Errors
    /// If the plan cannot be loaded, a constant is too small, or the callback ends the work.
    pub fn new(
        machine: &Machine,
        sections: &PlanSections,
        watch: &Watch<'_>,
    ) -> Result<Self, LoadError> {
        let stages = verify(machine, sections, watch)?;
        let rests = |stage: &StageVerification| stage.outcome == Outcome::Calibration;
        let is_calibrated = sections.calibration.is_some() || stages.iter().any(rests);
        Ok(Self { stages, test: None, is_calibrated })
    }

    /// Tests the calibration on rows that whoever made the plan did not know; a plan without one needs no test.
    ///
    /// # Errors
    /// If there are too few rows or labels, or nothing to test.
    pub fn tested(
        mut self,
        machine: &Machine,
        sections: &PlanSections,
        rows: &Matrix,
        labels: Option<&[Option<Answer>]>,
    ) -> Result<Self, CompileError> {
        if self.is_calibrated {
            self.test = Some(retest(&Plan::fitted(machine, sections)?, rows, labels)?);
        }
        Ok(self)
    }

    /// How far the plan may be trusted from now on; not at all if its calibration is wrong.
    pub fn trust(&self) -> Option<PlanTrust> {
        match &self.test {
            Some(test) => test.holds().then_some(PlanTrust::Everything),
            None if self.is_calibrated => Some(PlanTrust::Constants),
            None => Some(PlanTrust::Everything),
        }
    }
}
