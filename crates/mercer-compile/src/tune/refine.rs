//! Phase 3, refine: local search from the best plan; then the fastest plans are re-timed, and a fallback stage is
//! considered for queries that are too rare to be timed.
//!
//! Nothing here looks at the test rows: that is `validate.rs`.

use mercer_machine::Trial;

use super::Aim;
use super::budget::set_budget;
use super::search::{PlanCandidate, Search};
use super::timing::{Runner, rounded};
use crate::CompileError;

/// Improves the best plan of all stages so far until no neighbour is faster; then goes over to a longer batch, if the
/// best plan is fast enough for one.
pub(super) fn refine(mut search: Search<'_>) -> Result<Search<'_>, CompileError> {
    while search.improve()? {}
    search.lengthen_batch()?;
    Ok(search)
}

/// The last steps, when stages of both kinds were tried.
pub(super) fn finish(mut search: Search<'_>) -> Result<Search<'_>, CompileError> {
    search.retime()?;
    search.try_fallback_stage()?;
    search.is_cut_short |= search.cache.is_cut_short;
    Ok(search)
}

impl Search<'_> {
    /// Goes to the first neighbour of the best plan that is better; whether there is one.
    fn improve(&mut self) -> Result<bool, CompileError> {
        for stages in self.neighbours() {
            if self.evaluate(stages)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The best plan with a stage less, with another stage of the same name in the place of one, or with one more.
    fn neighbours(&self) -> Vec<Vec<usize>> {
        let (start, stages) = (&self.best.stages, &self.cache.stages);
        let mut others: Vec<usize> = (0..stages.len()).collect();
        others.retain(|at| stages[*at].relative_time.is_finite() && !start.contains(at));
        others.sort_by(|a, b| stages[*a].relative_time.total_cmp(&stages[*b].relative_time));
        let without = |stage: usize| start.iter().copied().filter(move |other| *other != stage);
        let mut plans: Vec<Vec<usize>> = start.iter().map(|at| without(*at).collect()).collect();
        plans.retain(|plan| !plan.is_empty());
        for old in start {
            let alike = others.iter().filter(|new| self.cache.name(**new) == self.cache.name(*old));
            let replaced = |new: &usize| without(*old).chain([*new]).collect();
            plans.extend(alike.map(|new| self.cache.ordered(replaced(new))));
        }
        let added = |new: &usize| self.cache.ordered([&start[..], &[*new]].concat());
        plans.extend(others.iter().map(added));
        plans
    }

    /// Goes over to a longer batch, if the best plan is fast enough for one. Times so far are converted by what the best
    /// plan takes on either.
    fn lengthen_batch(&mut self) -> Result<(), CompileError> {
        let timer = self.context.timer;
        if timer.aim == Aim::Latency {
            return Ok(());
        }
        let old = self.best.runner(&self.timed_rows);
        let Some(rows) = timer.long_batch(old, &self.context.sample.measure.rows)? else {
            return Ok(());
        };
        let runners = [old, self.best.runner(&rows)];
        let times = timer.compare(&runners, timer.policy.batch_rounds)?;
        let factor = times[1].best / times[0].best;
        self.best.relative_time *= factor;
        let timed = self.timed.iter_mut().map(|plan| &mut plan.relative_time);
        let certified = self.best_certified.as_mut().map(|certified| &mut certified.relative_time);
        timed.chain(certified).for_each(|relative| *relative *= factor);
        self.timed_rows = rows;
        set_budget(&self.context, &mut self.best, &self.timed_rows)?;
        if let Some(certified) = &mut self.best_certified {
            set_budget(&self.context, certified, &self.timed_rows)?;
        }
        Ok(())
    }

    /// Re-times plans that were about as fast as the best and rest on the same (proofs or estimates), all in turns:
    /// times of a few runs, each beside another plan, say little about a few per cent. Nor do they in one memory layout,
    /// so each is loaded several times, and the mean counts.
    fn retime(&mut self) -> Result<(), CompileError> {
        if self.context.tuner.budget_us.is_some() {
            return Ok(());
        }
        let policy = &self.context.policy.refine;
        let mut plans = vec![self.best.stages.clone()];
        let close = self.timed_within(policy.retimed_within, &self.best);
        plans.extend(close.into_iter().take(policy.most_retimed).cloned());
        if plans.len() == 1 {
            return Ok(());
        }
        let (options, rows) = (self.best.options, self.timed_rows.clone());
        let limit = self.context.limit;
        let timer = self.context.timer.until(limit.retimed());
        let queried = vec![(&options, &rows); plans.len()];
        let seconds = timer.compare_over_reloads(&queried, |plan, reload| {
            limit.step("re-timing the fastest plans", reload, timer.policy.reloads)?;
            self.load(&plans[plan])
        })?;
        let relative = self.best.relative_time;
        for timed in &mut self.timed {
            // Alternatives for the test are chosen by these times.
            if let Some(plan) = plans.iter().position(|plan| *plan == timed.stages) {
                timed.relative_time = relative * seconds[plan] / seconds[0];
            }
        }
        let fastest = (0..plans.len()).min_by(|a, b| seconds[*a].total_cmp(&seconds[*b]));
        if let Some(fastest) = fastest.filter(|at| *at > 0) {
            self.best.relative_time *= seconds[fastest] / seconds[0];
            self.best.stages = plans.swap_remove(fastest);
            let stages = self.best.stages.clone();
            self.best.plan = self.load(&stages)?;
        }
        Ok(())
    }

    /// Plans that took less than so many times the time of this one and estimate if it does, the fastest first.
    pub(super) fn timed_within(&self, times: f64, best: &PlanCandidate) -> Vec<&Vec<usize>> {
        let estimates = self.cache.estimates(&best.stages);
        let limit = times * best.relative_time;
        let mut close: Vec<_> = self
            .timed
            .iter()
            .filter(|plan| plan.relative_time < limit && plan.stages != best.stages)
            .filter(|plan| self.cache.estimates(&plan.stages) == estimates)
            .collect();
        close.sort_by(|a, b| a.relative_time.total_cmp(&b.relative_time));
        close.into_iter().map(|plan| &plan.stages).collect()
    }

    /// A plan may leave so few queries to the exact stage that the measured rows hardly hold one, and yet each of them
    /// costs as much as a hundred others. A faster certifying stage is then put before the exact one, if the plan does
    /// not become slower by it.
    fn try_fallback_stage(&mut self) -> Result<(), CompileError> {
        let (policy, best) = (&self.context.policy.refine, &self.best);
        if self.context.tuner.budget_us.is_some() || best.stages.is_empty() {
            return Ok(());
        }
        if self.context.limit.is_retimed() {
            self.is_cut_short = true;
            return Ok(());
        }
        let answers = best.plan.decide_with(&self.context.sample.measure.rows, &best.options)?;
        let left = answers.settled_by_stage.last().copied().unwrap_or(0);
        let Some(stage) = self.fallback_stage().filter(|_| left < policy.few_left) else {
            return Ok(());
        };
        let stages = [&best.stages[..], &[stage]].concat();
        let plan = self.load(&stages)?;
        let best = &self.best;
        let with_fallback = Runner { plan: &plan, ..best.runner(&self.timed_rows) };
        let runners = [best.runner(&self.timed_rows), with_fallback];
        let (rounds, give_up) = (policy.fallback_rounds, self.context.policy.screen.dominated);
        let times = self.context.timer.compare_and_drop(&runners, rounds, give_up)?.times;
        let ratio = times[1].best / times[0].best;
        let answers = plan.decide_with(&self.timed_rows, &best.options)?;
        let by_exact = answers.settled_by_stage.last().copied().unwrap_or(0) as f64;
        let relative_time = best.relative_time * ratio;
        let name = self.cache.spec(&stages).to_string();
        self.tried.retain(|trial| trial.plan != name);
        self.tried.push(Trial {
            plan: name,
            us: rounded(relative_time * self.exact_us),
            mean_cost: rounded(answers.mean_cost()),
            settled: rounded(1.0 - by_exact / self.timed_rows.rows().max(1) as f64),
            dropped: false,
            compared: false,
        });
        if ratio <= policy.fallback_cost {
            let (options, unsettled) = (best.options, best.unsettled);
            self.best =
                PlanCandidate { stages, plan, options, budget: None, relative_time, unsettled };
        }
        Ok(())
    }

    /// The fastest certifying stage of a name that the best plan has not.
    fn fallback_stage(&self) -> Option<usize> {
        let stages = &self.cache.stages;
        let names: Vec<&str> = self.best.stages.iter().map(|at| self.cache.name(*at)).collect();
        let limit = self.context.policy.refine.fallback_time;
        let fits = |at: &usize| {
            let stage = &stages[*at];
            !stage.estimates && stage.relative_time < limit && !names.contains(&stage.spec.name())
        };
        let fitting = (0..stages.len()).filter(fits);
        fitting.min_by(|a, b| stages[*a].relative_time.total_cmp(&stages[*b].relative_time))
    }
}
