//! Steps, costs and times of one plan on one machine.

use mercer::compile::{CompileError, FittingData, Progress, Watch, compile_with};
use mercer::data::Matrix;
use mercer::machine::{Machine, PlanSections};
use mercer::query::{Certainty, Plan, QueryOptions};

use crate::{Interrupted, Session};
use mercer_report::timing::PlanTimes;

/// Queries decided one at a time.
const SINGLE_QUERIES: usize = 500;

/// A machine and its queries.
pub(super) struct Subject<'a> {
    pub(super) name: &'static str,
    pub(super) machine: &'a Machine,
    pub(super) rows: &'a Matrix,
    /// Timings of which the best counts.
    pub(super) repeats: u32,
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct StepsRow {
    pub(super) machine: &'static str,
    pub(super) method: String,
    pub(super) supports: usize,
    /// Steps until the sign is certified: min, mean, median, max; queries never certified count all supports.
    pub(super) steps: Option<[f64; 4]>,
    /// Queries whose sign no step certifies.
    pub(super) uncertified: usize,
    /// Exact multiply-adds over those of the steps, `k d + k (k + 1) / 2` and exact answers for the rest.
    pub(super) ratio: f64,
    /// Exact time over that of the plan that stops at the break-even point: in a batch, one at a time.
    pub(super) batch: f64,
    pub(super) single: f64,
    /// Share of queries that this plan certifies.
    pub(super) certified: f64,
    pub(super) disagreements: usize,
}

impl Subject<'_> {
    /// One order of `anytime`; `text` is the stage without its closing bracket.
    pub(super) fn anytime(
        &self,
        order: &str,
        text: &str,
        session: &Session<'_>,
    ) -> anyhow::Result<StepsRow> {
        let all_steps = self.fit(&format!("{text}, stop=never)"), session)?;
        let (steps, uncertified) =
            self.steps(&Plan::fitted(self.machine, &all_steps)?, true, session)?;
        let sections = self.fit(&format!("{text})"), session)?;
        let row = self.measured(order, &sections)?;
        Ok(StepsRow { ratio: self.ratio(&steps, true), ..row.with_steps(&steps, uncertified) })
    }

    /// Another certified stage; none if the machine does not fit it.
    pub(super) fn other(
        &self,
        stage: &str,
        session: &Session<'_>,
    ) -> anyhow::Result<Option<StepsRow>> {
        let plan = format!("cascade({stage}, exact)").parse()?;
        let sections =
            match compile_with(self.machine, &plan, FittingData::default(), Watch::NOBODY) {
                Ok(sections) => sections,
                Err(CompileError::Unfit { .. } | CompileError::Load(_)) => return Ok(None),
                Err(other) => return Err(other.into()),
            };
        let row = self.measured(stage, &sections)?;
        if stage != "spectral" {
            return Ok(Some(row));
        }
        let (steps, uncertified) =
            self.steps(&Plan::fitted(self.machine, &sections)?, false, session)?;
        Ok(Some(StepsRow {
            ratio: self.ratio(&steps, false),
            ..row.with_steps(&steps, uncertified)
        }))
    }

    fn fit(&self, stage: &str, session: &Session<'_>) -> anyhow::Result<PlanSections> {
        let plan = format!("cascade({stage}, exact)").parse()?;
        let (sample, training) = (Some(self.rows), Some(self.rows));
        let fitting_data = FittingData { sample, training, ..FittingData::default() };
        let status = session.status();
        let watch = |progress: Progress| {
            let Progress { what, done, most } = progress;
            status.show(&format!("{stage}: {what}, {done} of at most {most}"));
            !session.is_stopped()
        };
        let fitted = compile_with(self.machine, &plan, fitting_data, Watch::new(&watch));
        drop(status);
        match fitted {
            Err(CompileError::Interrupted) => Err(Interrupted::default().into()),
            other => Ok(other?),
        }
    }

    /// Steps until each row's sign is certified, all supports if never; and how many are never certified.
    pub(super) fn steps(
        &self,
        plan: &Plan,
        counts_all: bool,
        session: &Session<'_>,
    ) -> anyhow::Result<(Vec<usize>, usize)> {
        let supports = self.machine.supports().rows();
        let (mut steps, mut uncertified) = (Vec::new(), 0);
        for row in 0..self.rows.rows() {
            if row % 64 == 0 {
                session.check()?;
            }
            let path = plan.explain(self.rows, row, &QueryOptions::default())?;
            let certifies = |low: f64, high: f64| low > 0.0 || high < 0.0;
            let mut inside = path.steps.iter().filter(|step| step.stage == 0);
            let last = path.steps.iter().filter(|step| step.stage == 0).map(|s| s.progress).max();
            let first = inside.find(|step| certifies(step.range.low, step.range.high));
            if first.is_none() {
                uncertified += 1;
            }
            let never = if counts_all { supports } else { last.unwrap_or(0) };
            steps.push(first.map_or(never, |step| step.progress));
        }
        Ok((steps, uncertified))
    }

    fn ratio(&self, steps: &[usize], has_triangle: bool) -> f64 {
        let (columns, supports) = (self.machine.columns() as f64, self.machine.supports().rows());
        let cost = |k: &usize| {
            let triangle = if has_triangle { (k * (k + 1)) as f64 / 2.0 } else { 0.0 };
            let exact = if *k == supports { supports as f64 * columns } else { 0.0 };
            *k as f64 * columns + triangle + exact
        };
        let mean = steps.iter().map(cost).sum::<f64>() / steps.len().max(1) as f64;
        supports as f64 * columns / mean.max(1.0)
    }

    fn measured(&self, method: &str, sections: &PlanSections) -> anyhow::Result<StepsRow> {
        let plan = Plan::fitted(self.machine, sections)?;
        let truth = Plan::exact(self.machine).decide(self.rows)?;
        let found = plan.decide(self.rows)?;
        let pairs = found.iter().zip(&truth);
        let disagreements = pairs.filter(|(a, b)| a.answer != b.answer).count();
        let certified =
            found.iter().filter(|decision| decision.certainty == Certainty::Certified).count();
        let options = QueryOptions::default();
        // Exact before and after the plan, so that other load on the computer affects both.
        let measure = |plan: &Plan| {
            PlanTimes::measure(plan, self.rows, &options, self.repeats, SINGLE_QUERIES)
        };
        let exact = Plan::exact(self.machine);
        let (first, plan_times, second) = (measure(&exact)?, measure(&plan)?, measure(&exact)?);
        Ok(StepsRow {
            machine: self.name,
            method: method.to_owned(),
            supports: self.machine.supports().rows(),
            steps: None,
            uncertified: 0,
            ratio: f64::NAN,
            batch: first.batch.min(second.batch) / plan_times.batch,
            single: first.single.min(second.single) / plan_times.single,
            certified: certified as f64 / self.rows.rows().max(1) as f64,
            disagreements,
        })
    }
}

impl StepsRow {
    fn with_steps(self, steps: &[usize], uncertified: usize) -> Self {
        let mut sorted = steps.to_vec();
        sorted.sort_unstable();
        let n = sorted.len().max(1);
        let middle = |at: usize| sorted.get(at).copied().unwrap_or(0) as f64;
        let median = f64::midpoint(middle((n - 1) / 2), middle(n / 2));
        let mean = sorted.iter().sum::<usize>() as f64 / n as f64;
        Self { steps: Some([middle(0), mean, median, middle(n - 1)]), uncertified, ..self }
    }
}
