//! Steps, costs and times of one plan on one machine.

use std::time::Instant;

use mercer::compile::{CompileError, FittingData, Progress, Watch, compile_with};
use mercer::data::Matrix;
use mercer::machine::{Machine, PlanSections};
use mercer::query::{Certainty, Plan, QueryOptions};
use serde_json::{Value, json};

use super::super::super::StopSignal;
use super::super::super::bench::times;
use crate::console::Console;
use crate::failure::Interrupted;

/// Queries asked one at a time.
const SINGLES: usize = 500;

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
pub(super) struct Measured {
    pub(super) machine: &'static str,
    pub(super) method: String,
    pub(super) supports: usize,
    /// Steps until the sign is proved: min, mean, median, max; those never proved count all supports.
    pub(super) steps: Option<[f64; 4]>,
    pub(super) printed: Option<[f64; 4]>,
    /// Queries whose sign no step proves.
    pub(super) open: usize,
    /// Exact multiply-adds over those of the steps, `k d + k (k + 1) / 2` and exact answers for the rest.
    pub(super) ratio: f64,
    /// Exact time over that of the plan that ends at the break-even: batch, one at a time.
    pub(super) batch: f64,
    pub(super) single: f64,
    /// Share of queries that this plan certifies.
    pub(super) certified: f64,
    pub(super) disagreements: usize,
    /// Basis points of this plan, where it has such.
    pub(super) kept: usize,
    pub(super) seconds: f64,
}

impl Subject<'_> {
    /// One order of `anytime`; `text` is the stage without its closing bracket.
    pub(super) fn anytime(
        &self,
        order: &str,
        text: &str,
        console: &Console,
        stop: &StopSignal,
    ) -> anyhow::Result<Measured> {
        let whole = self.fit(&format!("{text}, stop=never)"), console, stop)?;
        let (steps, open) = self.steps(&Plan::load(self.machine, &whole)?, true, stop)?;
        let start = Instant::now();
        let sections = self.fit(&format!("{text})"), console, stop)?;
        let seconds = start.elapsed().as_secs_f64();
        let kept = sections.sections[0].indices("counts").map_or(0, |counts| counts[0] as usize);
        let row = self.measured(order, &sections, seconds)?;
        Ok(Measured { ratio: self.ratio(&steps, true), kept, ..row.with(&steps, open) })
    }

    /// Another certified stage, unless it does not fit.
    pub(super) fn other(&self, stage: &str, stop: &StopSignal) -> anyhow::Result<Option<Measured>> {
        let plan = format!("cascade({stage}, exact)").parse()?;
        let start = Instant::now();
        let sections =
            match compile_with(self.machine, &plan, FittingData::default(), Watch::NOBODY) {
                Ok(sections) => sections,
                Err(CompileError::Unfit { .. } | CompileError::Load(_)) => return Ok(None),
                Err(other) => return Err(other.into()),
            };
        let row = self.measured(stage, &sections, start.elapsed().as_secs_f64())?;
        if stage != "spectral" {
            return Ok(Some(row));
        }
        let (steps, open) = self.steps(&Plan::load(self.machine, &sections)?, false, stop)?;
        Ok(Some(Measured { ratio: self.ratio(&steps, false), ..row.with(&steps, open) }))
    }

    fn fit(
        &self,
        stage: &str,
        console: &Console,
        stop: &StopSignal,
    ) -> anyhow::Result<PlanSections> {
        let plan = format!("cascade({stage}, exact)").parse()?;
        let (sample, training) = (Some(self.rows), Some(self.rows));
        let fitting_data = FittingData { sample, training, ..FittingData::default() };
        let status = console.status();
        let watch = |progress: Progress| {
            let Progress { what, done, most } = progress;
            status.set_message(format!("{stage}: {what}, {done} of at most {most}"));
            stop.check().is_ok()
        };
        let fitted = compile_with(self.machine, &plan, fitting_data, Watch::new(&watch));
        status.finish_and_clear();
        match fitted {
            Err(CompileError::Ended) => Err(Interrupted.into()),
            other => Ok(other?),
        }
    }

    /// Steps until each row's sign is proved, all supports if never; and how many are never proved.
    fn steps(
        &self,
        plan: &Plan,
        counts_all: bool,
        stop: &StopSignal,
    ) -> anyhow::Result<(Vec<usize>, usize)> {
        let supports = self.machine.supports().rows();
        let (mut steps, mut open) = (Vec::new(), 0);
        for row in 0..self.rows.rows() {
            if row % 64 == 0 {
                stop.check()?;
            }
            let path = plan.explain(self.rows, row, &QueryOptions::default())?;
            let proves = |low: f64, high: f64| low > 0.0 || high < 0.0;
            let mut inside = path.steps.iter().filter(|step| step.stage == 0);
            let last = path.steps.iter().filter(|step| step.stage == 0).map(|s| s.progress).max();
            let first = inside.find(|step| proves(step.range.low, step.range.high));
            if first.is_none() {
                open += 1;
            }
            let never = if counts_all { supports } else { last.unwrap_or(0) };
            steps.push(first.map_or(never, |step| step.progress));
        }
        Ok((steps, open))
    }

    fn ratio(&self, steps: &[usize], has_triangle: bool) -> f64 {
        let (columns, supports) = (self.machine.columns() as f64, self.machine.supports().rows());
        let cost = |k: &usize| {
            let triangle = if has_triangle { (k * (k + 1)) as f64 / 2.0 } else { 0.0 };
            let whole = if *k == supports { supports as f64 * columns } else { 0.0 };
            *k as f64 * columns + triangle + whole
        };
        let mean = steps.iter().map(cost).sum::<f64>() / steps.len().max(1) as f64;
        supports as f64 * columns / mean.max(1.0)
    }

    fn measured(
        &self,
        method: &str,
        sections: &PlanSections,
        seconds: f64,
    ) -> anyhow::Result<Measured> {
        let plan = Plan::load(self.machine, sections)?;
        let truth = Plan::exact(self.machine).decide(self.rows)?;
        let found = plan.decide(self.rows)?;
        let pairs = found.iter().zip(&truth);
        let disagreements = pairs.filter(|(a, b)| a.answer != b.answer).count();
        let certified =
            found.iter().filter(|decision| decision.certainty == Certainty::Certified).count();
        // In turns, so that what else the computer does meets both alike.
        let measure = |plan: &Plan| times(plan, self.rows, self.repeats, SINGLES);
        let exact = Plan::exact(self.machine);
        let (first, own, second) = (measure(&exact)?, measure(&plan)?, measure(&exact)?);
        Ok(Measured {
            machine: self.name,
            method: method.to_owned(),
            supports: self.machine.supports().rows(),
            steps: None,
            printed: None,
            open: 0,
            ratio: f64::NAN,
            batch: first.batch.min(second.batch) / own.batch,
            single: first.single.min(second.single) / own.single,
            certified: certified as f64 / self.rows.rows().max(1) as f64,
            disagreements,
            kept: 0,
            seconds,
        })
    }
}

impl Measured {
    fn with(self, steps: &[usize], open: usize) -> Self {
        let mut sorted = steps.to_vec();
        sorted.sort_unstable();
        let n = sorted.len().max(1);
        let middle = |at: usize| sorted.get(at).copied().unwrap_or(0) as f64;
        let median = f64::midpoint(middle((n - 1) / 2), middle(n / 2));
        let mean = sorted.iter().sum::<usize>() as f64 / n as f64;
        Self { steps: Some([middle(0), mean, median, middle(n - 1)]), open, ..self }
    }

    pub(super) fn object(&self) -> Value {
        let four = |steps: [f64; 4]| json!({ "min": steps[0], "mean": steps[1], "median": steps[2], "max": steps[3] });
        let mean = self.steps.map(|steps| steps[1]);
        json!({
            "machine": self.machine, "method": self.method, "supports": self.supports,
            "steps": self.steps.map(four), "paper_steps": self.printed.map(four),
            "supports_per_step": mean.map(|mean| self.supports as f64 / mean),
            "never_proved": self.open, "multiply_add_ratio": self.ratio,
            "batch_gain": self.batch, "single_gain": self.single, "certified": self.certified,
            "disagreements": self.disagreements, "basis": self.kept, "fit_seconds": self.seconds,
        })
    }
}
