//! A plan: the stages that answer a machine's queries, cheapest first and the exact one last. It is loaded from a model
//! file and answers rows; one thread's way through it is in `worker.rs`, how it is fitted in `mercer_compile`.

use std::ops::Range;

use mercer_data::Matrix;
use mercer_kernel::Domain;
use mercer_machine::{Calibration, Machine, Model, PlanSections, Section, Tuning, file};
use mercer_simd::Isa;
use mercer_spec::Spec;
use rayon::prelude::*;

use crate::c::stages_without_c;
use crate::gather;
use crate::options::{ExplanationStep, QueryOptions, Record};
use crate::stage::Stage;
use crate::tracker::ActiveCalibration;
use crate::verify::{self, LOAD_WORK, LeftOut, PlanTrust};
use crate::{Certainty, Decision, Exact, ExactScratch, LoadError, QueryError, Worker};

/// How a machine answers queries: stage after stage, the last one exact. Work runs in the rayon pool of the caller;
/// answers depend on the machine, the plan and the row alone.
#[derive(Debug)]
pub struct Plan {
    stages: Vec<Box<dyn Stage>>,
    /// First estimating level of each stage, and how many there are in all.
    levels: Vec<usize>,
    calibration: Option<Calibration>,
    exact: Exact,
    /// Stages of the file that are not believed.
    left_out: Vec<LeftOut>,
}

/// Decisions, and which stages made them.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// One for each row, in order.
    pub decisions: Vec<Decision>,
    /// Position of the stage that answered each query, unsettled ones included; the exact one is the last.
    pub answered_by: Vec<usize>,
    /// How many queries each stage settled, so without the unsettled ones; the exact one is the last.
    pub settled_by_stage: Vec<u64>,
    /// How many queries ran out of budget.
    pub unsettled: u64,
}

/// One query's path through a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The answer.
    pub decision: Decision,
    /// Names of the stages, the exact one last.
    pub stages: Vec<String>,
    /// What was learned, in order.
    pub steps: Vec<ExplanationStep>,
    /// Position of the stage that answered the query.
    pub answered_by: usize,
}

impl Answers {
    /// Mean cost of a query in multiply-adds.
    pub fn mean_cost(&self) -> f64 {
        let costs = self.decisions.iter().map(|decision| decision.cost.multiply_adds as f64);
        costs.sum::<f64>() / (self.decisions.len().max(1) as f64)
    }
}

impl Plan {
    /// Every query is evaluated exactly.
    pub fn exact(machine: &Machine) -> Self {
        let exact = Exact::new(machine);
        exact.pack();
        let (stages, levels, left_out) = (Vec::new(), vec![0], Vec::new());
        Self { stages, levels, calibration: None, exact, left_out }
    }

    /// The plan that a model carries, or the exact one. Nothing of the plan is believed that is not verified: see
    /// [`PlanTrust::Nothing`]; [`Plan::load`] takes another trust.
    ///
    /// # Errors
    /// If the plan does not fit the machine, or a constant of it is wrong.
    pub fn of(model: &Model) -> Result<Self, LoadError> {
        match &model.plan {
            Some(sections) => Self::load(&model.machine, sections, PlanTrust::Nothing),
            None => Ok(Self::exact(&model.machine)),
        }
    }

    /// Makes the stages that were stored for a machine, as far as they are believed; [`Plan::left_out`] names the others.
    ///
    /// # Errors
    /// If a stage is unknown, does not fit or was made for another machine, or a constant that was verified is wrong.
    pub fn load(
        machine: &Machine,
        sections: &PlanSections,
        trust: PlanTrust,
    ) -> Result<Self, LoadError> {
        Self::with_isa(machine, sections, trust, Isa::current())
    }

    /// Makes the stages that were just fitted to a machine: they are believed.
    ///
    /// # Errors
    /// If a stage is unknown, does not fit, or was made for another machine.
    pub fn fitted(machine: &Machine, sections: &PlanSections) -> Result<Self, LoadError> {
        Self::load(machine, sections, PlanTrust::Everything)
    }

    /// As [`Plan::fitted`], in little memory: the supports are not kept packed for the exact stage until [`Exact::pack`] is
    /// called, and a query that comes to it takes longer. For plans whose other stages settle
    /// nearly all queries. Answers are the same.
    ///
    /// # Errors
    /// As [`Plan::fitted`].
    pub fn fitted_in_pieces(machine: &Machine, sections: &PlanSections) -> Result<Self, LoadError> {
        let trust = PlanTrust::Everything;
        let mut plan = Self::unpacked(machine, sections, trust, Isa::current())?;
        plan.exact.set_in_pieces();
        Ok(plan)
    }

    /// As [`Plan::load`], for a given instruction set.
    ///
    /// # Errors
    /// As [`Plan::load`].
    pub fn with_isa(
        machine: &Machine,
        sections: &PlanSections,
        trust: PlanTrust,
        isa: Isa,
    ) -> Result<Self, LoadError> {
        let plan = Self::unpacked(machine, sections, trust, isa)?;
        plan.exact.pack();
        Ok(plan)
    }

    fn unpacked(
        machine: &Machine,
        sections: &PlanSections,
        trust: PlanTrust,
        isa: Isa,
    ) -> Result<Self, LoadError> {
        if sections.machine != file::digest(machine) {
            return Err(LoadError::OtherMachine);
        }
        if !verify::names_its_stages(sections) {
            let names: Vec<&str> = sections.sections.iter().map(Section::stage).collect();
            let (text, stages) = (sections.spec.clone(), names.join(", "));
            return Err(LoadError::OtherStages { text, stages });
        }
        if let Some(section) = sections.sections.first() {
            let wide = machine.check_width("a stage");
            wide.map_err(|error| LoadError::unfit(section.stage(), &error.to_string()))?;
        }
        let exact = Exact::with_isa(machine, isa);
        let (mut stages, mut left_out, mut work_left) = (Vec::new(), Vec::new(), LOAD_WORK);
        for section in &sections.sections {
            let entry = verify::entry_of(section)?;
            if let Some(reason) = verify::left_out(section, entry, &exact, trust, &mut work_left) {
                left_out.push(reason);
                continue;
            }
            stages.push(entry.load(section, &exact)?);
            verify::check(section, entry, &exact, trust)?;
        }
        let mut levels = vec![0];
        for stage in &stages {
            levels.push(levels[levels.len() - 1] + stage.levels());
        }
        let plan = Self { stages, levels, calibration: None, exact, left_out };
        match &sections.calibration {
            Some(calibration) if trust == PlanTrust::Everything => {
                plan.calibrated(calibration.clone())
            }
            _ => Ok(plan),
        }
    }

    /// Stages of the file that do not run because they are not believed; the others and the exact one answer in their place.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// What `tune` measured and limited, if this is the whole plan that it tuned for the model: its budget and its times say
    /// nothing of a plan without one of the stages, or with estimates that no calibration lets answer (ADR 0078).
    pub fn tuning<'m>(&self, model: &'m Model) -> Option<&'m Tuning> {
        let sections = model.plan.as_ref()?;
        let is_whole = self.stages.len() == sections.sections.len()
            && self.calibration.is_some() == sections.calibration.is_some();
        sections.tuning.as_deref().filter(|_| is_whole)
    }

    /// A sentence for users, if a budget was stored with the plan of a model and is not in force because this is not the
    /// whole plan ([`Plan::tuning`]).
    pub fn budget_left_out(&self, model: &Model) -> Option<String> {
        let budget = model.plan.as_ref()?.tuning.as_deref()?.budget?;
        let is_whole = self.tuning(model).is_some();
        let text = |time: f64| {
            format!(
                "the stored budget of {time} us belongs to the whole plan and is not in force for a part of it"
            )
        };
        (!is_whole).then(|| text(budget.microseconds))
    }

    /// The same plan with a calibration, which says when its estimates answer queries.
    ///
    /// # Errors
    /// If there is not one scale for each estimating level.
    pub fn calibrated(mut self, calibration: Calibration) -> Result<Self, LoadError> {
        if Some(&calibration.scales.len()) != self.levels.last() {
            return Err(LoadError::Uncalibrated);
        }
        self.calibration = Some(calibration);
        Ok(self)
    }

    /// The plan without the stages that cannot be written in C, and the texts of those. If there are any, nothing is left of
    /// the calibration, which was tested with them: all answers are certified or exact.
    pub fn in_c(mut self) -> (Self, Vec<String>) {
        let left_out = stages_without_c(&self);
        if !left_out.is_empty() {
            self.stages.retain(|stage| stage.c_code().is_some());
            self.calibration = None;
            self.levels = vec![0];
            for stage in &self.stages {
                self.levels.push(self.levels[self.levels.len() - 1] + stage.levels());
            }
        }
        (self, left_out)
    }

    /// Bytes of the packed supports and of what the stages keep beside them.
    pub fn bytes(&self) -> usize {
        let stages = self.stages.iter().map(|stage| stage.bytes());
        self.exact.packed().bytes() + stages.sum::<usize>()
    }

    /// The calibration of answers without proof, where there is one.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    /// Whether a stage stops queries by a rule of its own that was never tested, so that its answers stay
    /// unsettled.
    pub fn stops_untested(&self) -> bool {
        self.calibration.is_none() && self.stages.iter().any(|stage| stage.stops())
    }

    /// The stage and the number within it of each estimating level.
    pub fn levels(&self) -> Vec<(usize, usize)> {
        let stages = self.levels.windows(2).enumerate();
        stages.flat_map(|(stage, ends)| (0..ends[1] - ends[0]).map(move |n| (stage, n))).collect()
    }

    pub(crate) fn active_calibration(&self) -> ActiveCalibration<'_> {
        let first = &self.levels;
        match &self.calibration {
            Some(Calibration { threshold, scales, .. }) => {
                ActiveCalibration { first, scales, threshold: *threshold, is_tested: true }
            }
            None => {
                ActiveCalibration { first, scales: &[], threshold: f64::INFINITY, is_tested: false }
            }
        }
    }

    /// What each estimating level estimates for each row, whether or not that answers it: for calibration.
    ///
    /// # Errors
    /// As [`Plan::decide`].
    pub fn records(&self, rows: &Matrix) -> Result<Vec<Vec<Record>>, QueryError> {
        self.check(rows)?;
        let blocks = self.blocks(rows.rows()).into_par_iter();
        let parts =
            blocks.map_init(|| self.worker(), |worker, range| worker.record_estimates(rows, range));
        Ok(parts.collect::<Vec<_>>().into_iter().flatten().collect())
    }

    /// The plan's text.
    pub fn spec(&self) -> Spec {
        if self.stages.is_empty() {
            return Spec::new("exact");
        }
        let cascade = self
            .stages
            .iter()
            .fold(Spec::new("cascade"), |cascade, stage| cascade.with(stage.spec()));
        cascade.with("exact")
    }

    /// The stages before the exact one.
    pub fn stages(&self) -> &[Box<dyn Stage>] {
        &self.stages
    }

    /// The first stage, though never stage 0, from which on none reuses coordinates of an earlier one: before it the
    /// open queries of many blocks are gathered (`gather.rs`).
    pub(crate) fn first_gathered_stage(&self) -> usize {
        let sharing = self.stages.iter().rposition(|stage| stage.shares_coordinates());
        sharing.map_or(1, |last| last + 1).min(self.stages.len())
    }

    /// The exact stage, which answers what the others leave open.
    pub fn exact_stage(&self) -> &Exact {
        &self.exact
    }

    /// A worker for one thread, for callers who do not have all queries at once.
    pub fn worker(&self) -> Worker<'_> {
        Worker::new(self)
    }

    /// Decisions for all rows, in order.
    ///
    /// # Errors
    /// If a row lies outside the kernel's domain or its score overflows.
    pub fn decide(&self, rows: &Matrix) -> Result<Vec<Decision>, QueryError> {
        Ok(self.decide_with(rows, &QueryOptions::default())?.decisions)
    }

    /// Decisions for all rows, in order, with options such as a budget.
    ///
    /// # Errors
    /// As [`Plan::decide`], or if the options do not fit the machine.
    pub fn decide_with(
        &self,
        rows: &Matrix,
        options: &QueryOptions,
    ) -> Result<Answers, QueryError> {
        self.check(rows)?;
        options.check(self.exact.machine())?;
        let answered = gather::decide(self, rows, options)?;
        let mut settled_by_stage = vec![0; self.stages.len() + 1];
        let mut unsettled = 0;
        for query in &answered {
            if query.decision.certainty == Certainty::Unsettled {
                unsettled += 1;
            } else {
                settled_by_stage[query.answered_by] += 1;
            }
        }
        let (decisions, answered_by) =
            answered.into_iter().map(|query| (query.decision, query.answered_by)).unzip();
        Ok(Answers { decisions, answered_by, settled_by_stage, unsettled })
    }

    /// Decisions of the exact stage alone, whatever comes before it.
    ///
    /// # Errors
    /// As [`Plan::decide`].
    pub fn exact_answers(&self, rows: &Matrix) -> Result<Vec<Decision>, QueryError> {
        self.check(rows)?;
        let run = |scratch: &mut ExactScratch, range: Range<usize>| {
            let first = range.start;
            let mut decisions = Vec::with_capacity(range.len());
            self.exact.decide(range.map(|row| rows.row(row)), first, scratch, &mut decisions)?;
            Ok(decisions)
        };
        let parts = self.blocks(rows.rows()).into_par_iter();
        let parts = parts.map_init(|| self.exact.scratch(), run);
        Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// How one row is answered, step by step.
    ///
    /// # Errors
    /// As [`Plan::decide`].
    ///
    /// # Panics
    /// If there is no such row.
    pub fn explain(
        &self,
        rows: &Matrix,
        row: usize,
        options: &QueryOptions,
    ) -> Result<Explanation, QueryError> {
        assert!(row < rows.rows(), "no such row");
        self.check(&rows.select([row]))?;
        let mut steps = Vec::new();
        let (decision, answered_by) = self.worker().explain(rows, row, options, &mut steps)?;
        let names = self.stages.iter().map(|stage| stage.spec().to_string());
        let stages = names.chain(["exact".to_owned()]).collect();
        Ok(Explanation { decision, stages, steps, answered_by })
    }

    /// Exact scores of all rows, one row after the other; never anything but exact.
    ///
    /// # Errors
    /// As [`Plan::decide`].
    pub fn scores(&self, rows: &Matrix) -> Result<Vec<f64>, QueryError> {
        self.check(rows)?;
        let count = self.exact.machine().scores().len();
        let run = |scratch: &mut ExactScratch, range: Range<usize>| {
            let mut out = vec![0.0; range.len() * count];
            self.exact.scores(range.map(|row| rows.row(row)), scratch, &mut out);
            out
        };
        let mut blocks = self.blocks(rows.rows());
        // One block stays on the caller's thread: waking others takes longer than a query.
        let scores = if blocks.len() < 2 {
            blocks.pop().map_or(Vec::new(), |range| run(&mut self.exact.scratch(), range))
        } else {
            let parts = blocks.into_par_iter().map_init(|| self.exact.scratch(), run);
            parts.collect::<Vec<_>>().concat()
        };
        match scores.iter().position(|score| !score.is_finite()) {
            Some(at) => Err(QueryError::NotFinite { row: at / count + 1, value: scores[at] }),
            None => Ok(scores),
        }
    }

    /// Rows cut into blocks, small enough that all threads get some.
    pub fn blocks(&self, rows: usize) -> Vec<Range<usize>> {
        if (1..=8).contains(&rows) {
            // Without a look at the pool: a program that asks few rows at a time need not have one.
            return std::iter::once(0..rows).collect();
        }
        let threads = rayon::current_num_threads().max(1);
        let even = rows.div_ceil(threads).next_multiple_of(8).max(8);
        let size = self.exact.block().min(even);
        (0..rows).step_by(size).map(|start| start..(start + size).min(rows)).collect()
    }

    /// Refuses rows outside the kernel's domain.
    ///
    /// # Errors
    /// If there is one.
    pub fn check(&self, rows: &Matrix) -> Result<(), QueryError> {
        self.check_range(rows, 0..rows.rows())
    }

    /// As [`Plan::check`], for some of the rows.
    ///
    /// # Errors
    /// As [`Plan::check`].
    pub fn check_range(&self, rows: &Matrix, range: Range<usize>) -> Result<(), QueryError> {
        let kernel = self.exact.machine().kernel();
        if self.exact.machine().domain() == Domain::Real {
            return Ok(());
        }
        for (row, values) in range.map(|row| (row + 1, rows.row(row))) {
            if let Some((column, value)) = values.nonzeros().find(|(_, value)| *value < 0.0) {
                let (column, kernel) = (column as usize + 1, kernel.spec().name().to_owned());
                return Err(QueryError::Negative { row, column, value, kernel });
            }
        }
        Ok(())
    }
}
