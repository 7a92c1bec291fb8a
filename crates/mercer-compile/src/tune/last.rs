//! Last looks at the best plan: at those that are about as fast, and at queries that are too rare to be timed.

use mercer_machine::Trial;

use super::clock::{Runner, race, rounded};
use super::search::{Candidate, DOMINATED, Search};
use crate::CompileError;

/// Plans within this share of the best's time, and so many of them, run once more.
const ABOUT_AS_FAST: f64 = 1.2;
const RIVALS: usize = 6;
/// Laps of each of them.
const LAST_ROUNDS: usize = 15;
/// Fewer queries than this of the measured part say little about how many a plan leaves to the exact stage.
const RARE: u64 = 10;
/// A stage that is to stand in for the exact one takes less than this share of its time.
const CHEAPER: f64 = 0.7;
/// And may cost the plan so much.
const AS_FAST: f64 = 1.02;

impl Search<'_> {
    /// Plans of the best one's kind that were about as fast run against it once more, all in turns: times of a few laps,
    /// each against another plan, say little about a few per cent.
    pub(super) fn play_off(&mut self) -> Result<(), CompileError> {
        if self.tuner.budget_us.is_some() {
            return Ok(());
        }
        let estimates = self.shelf.estimates(&self.best.stages);
        let limit = ABOUT_AS_FAST * self.best.relative;
        let mut known = std::mem::take(&mut self.known);
        known.retain(|(stages, relative)| {
            let is_of_its_kind = self.shelf.estimates(stages) == estimates;
            *relative < limit && is_of_its_kind && *stages != self.best.stages
        });
        known.sort_by(|a, b| a.1.total_cmp(&b.1));
        known.truncate(RIVALS);
        let mut rivals = Vec::with_capacity(known.len());
        for (number, (stages, _)) in known.iter().enumerate() {
            self.patience.step("measuring the fastest again", number, known.len())?;
            rivals.push(self.load(stages)?);
        }
        let asking = &self.best.asking;
        let plans = std::iter::once(&self.best.plan).chain(&rivals);
        let rows = &self.timed;
        let runners: Vec<_> = plans.map(|plan| Runner { plan, asking, rows }).collect();
        let (laps, _) = race(&runners, self.tuner.aim, LAST_ROUNDS, DOMINATED)?;
        let fastest = (0..laps.len()).min_by(|a, b| laps[*a].best.total_cmp(&laps[*b].best));
        if let Some(winner) = fastest.and_then(|at| at.checked_sub(1)) {
            self.best.relative *= laps[winner + 1].best / laps[0].best;
            self.best.plan = rivals.swap_remove(winner);
            self.best.stages = known.swap_remove(winner).0;
        }
        Ok(())
    }

    /// A plan may leave so few queries to the exact stage that the measured part hardly has one, and yet each of
    /// them costs as much as a hundred others. A proving stage that is faster then stands before the exact one,
    /// if nothing is lost by it.
    pub(super) fn insure(&mut self) -> Result<(), CompileError> {
        let rows = &self.parts.measured.rows;
        if self.tuner.budget_us.is_some() || self.best.stages.is_empty() {
            return Ok(());
        }
        let answers = self.best.plan.decide_with(rows, &self.best.asking)?;
        let open = answers.settled_by_stage.last().copied().unwrap_or(0);
        let Some(stage) = self.insurance().filter(|_| open < RARE) else { return Ok(()) };
        let stages = [&self.best.stages[..], &[stage]].concat();
        let plan = self.load(&stages)?;
        let best = &self.best;
        let insured = Runner { plan: &plan, ..best.runner(&self.timed) };
        let runners = [best.runner(&self.timed), insured];
        let (laps, _) = race(&runners, self.tuner.aim, LAST_ROUNDS, DOMINATED)?;
        let ratio = laps[1].best / laps[0].best;
        let answers = plan.decide_with(&self.timed, &best.asking)?;
        let by_exact = answers.settled_by_stage.last().copied().unwrap_or(0) as f64;
        let relative = best.relative * ratio;
        let name = self.shelf.spec(&stages).to_string();
        self.tried.retain(|trial| trial.plan != name);
        self.tried.push(Trial {
            plan: name,
            us: rounded(relative * self.exact_us),
            mean_cost: rounded(answers.mean_cost()),
            settled: rounded(1.0 - by_exact / self.timed.rows().max(1) as f64),
            dropped: false,
        });
        if ratio <= AS_FAST {
            let (asking, unsettled) = (best.asking, best.unsettled);
            self.best = Candidate { stages, plan, asking, budget: None, relative, unsettled };
        }
        Ok(())
    }

    /// The fastest proving stage of a kind that the best plan has not.
    fn insurance(&self) -> Option<usize> {
        let stages = &self.shelf.stages;
        let names: Vec<&str> = self.best.stages.iter().map(|at| stages[*at].spec.name()).collect();
        let fits = |at: &usize| {
            let stage = &stages[*at];
            !stage.estimates && stage.alone < CHEAPER && !names.contains(&stage.spec.name())
        };
        let fitting = (0..stages.len()).filter(fits);
        fitting.min_by(|a, b| stages[*a].alone.total_cmp(&stages[*b].alone))
    }
}
