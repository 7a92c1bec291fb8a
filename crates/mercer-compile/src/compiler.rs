//! Makes a plan from its text: fits the stages one after the other, and calibrates the plan if one of them estimates.
//! The search for a good plan is in `tune`.

use std::cell::OnceCell;

use mercer_data::Matrix;
use mercer_machine::{Answer, Calibration, Machine, PlanSections, Section, file};
use mercer_query::{Exact, Plan};
use mercer_spec::Spec;

use crate::basis::PrincipalBasis;
use crate::distillation_set::DistillationSet;
use crate::repeats::Repeats;
use crate::risk::{self, References, Risk, SampleSplit, Target};
use crate::{CompileError, Fitter, FittingData, Watch, boundary, fit, stages};

/// Rows near the boundary that may be made up.
const MOST_BOUNDARY: usize = 1_000_000;

/// What a stage is fitted to.
pub struct Task<'a> {
    /// The machine, packed.
    pub exact: &'a Exact,
    /// Queries such as will be asked, where there are some: all that a fit may see, never those of the
    /// test that calibrates the plan.
    pub sample: Option<&'a Matrix>,
    /// Rows the machine was trained on, where there are some.
    pub training: Option<&'a Matrix>,
    /// What is right for each of them, where that is known.
    pub training_labels: Option<&'a [Option<Answer>]>,
    /// Rows made up near the boundary, for thresholds and scales; never for a test.
    pub generated: Option<&'a Matrix>,
    /// A progress callback, which may end the fit.
    pub watch: Watch<'a>,
    basis: OnceCell<Result<PrincipalBasis, String>>,
    distillation_set: OnceCell<Result<DistillationSet, CompileError>>,
}

impl std::fmt::Debug for Task<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task")
            .field("sample", &self.sample.map(Matrix::rows))
            .finish_non_exhaustive()
    }
}

impl<'a> Task<'a> {
    pub(crate) fn new(exact: &'a Exact, fitting_data: FittingData<'a>, watch: Watch<'a>) -> Self {
        let FittingData { sample, training, training_labels, .. } = fitting_data;
        let (basis, distillation_set) = (OnceCell::new(), OnceCell::new());
        let generated = None;
        Self { exact, sample, training, training_labels, generated, watch, basis, distillation_set }
    }

    /// With rows made up near the boundary.
    fn generated(self, generated: Option<&'a Matrix>) -> Self {
        Self { generated, ..self }
    }

    /// The leading directions of the supports; the same for all stages, so that they share coordinates.
    pub(crate) fn basis(&self, stage: &'static str) -> Result<&PrincipalBasis, CompileError> {
        let make = || PrincipalBasis::new(self.exact.machine(), self.exact.packed().live());
        let unfit = |reason: &String| CompileError::Unfit { stage, reason: reason.clone() };
        self.basis.get_or_init(make).as_ref().map_err(unfit)
    }

    /// The scores of the machine on the sample, for stages that are fitted to them.
    pub(crate) fn distillation_set(
        &self,
        stage: &'static str,
    ) -> Result<&DistillationSet, CompileError> {
        let basis = self.basis(stage)?;
        let make = || {
            let no_sample = || CompileError::NoSample { stage: stage.to_owned() };
            let sample = self.sample.ok_or_else(no_sample)?;
            let rows = self.training.map(|training| joined(sample, training));
            let rows = rows.as_ref().unwrap_or(sample);
            let scores = Plan::exact(self.exact.machine()).scores(rows)?;
            Ok(DistillationSet::new(self.exact, basis, rows, &scores))
        };
        self.distillation_set.get_or_init(make).as_ref().map_err(Clone::clone)
    }
}

/// Makes plans for a machine.
#[derive(Debug, Clone, Copy)]
pub struct Compiler<'a> {
    machine: &'a Machine,
    fitting_data: FittingData<'a>,
    target: Target,
    seed: u64,
    is_sample_trusted: bool,
    boundary: usize,
    watch: Watch<'a>,
}

/// A plan, and what there is to say about the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The plan.
    pub sections: PlanSections,
    /// Rows of the sample that are supports of the machine.
    pub repeated: usize,
    /// Rows that students learned from, that gave the scales, and that were tested; zero where nothing
    /// was calibrated.
    pub parts: [usize; 3],
}

impl<'a> Compiler<'a> {
    /// Plans for this machine.
    pub fn new(machine: &'a Machine) -> Self {
        let (fitting_data, target, watch) =
            (FittingData::default(), Target::default(), Watch::NOBODY);
        Self {
            machine,
            fitting_data,
            target,
            seed: 1,
            is_sample_trusted: false,
            boundary: 0,
            watch,
        }
    }

    /// Rows beside the machine.
    pub fn fitting_data(mut self, fitting_data: FittingData<'a>) -> Self {
        self.fitting_data = fitting_data;
        self
    }

    /// Queries such as will be asked, none of them a training row.
    pub fn sample(mut self, rows: &'a Matrix) -> Self {
        self.fitting_data.sample = Some(rows);
        self
    }

    /// The risk that calibrated answers may have.
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// Seed of the split of the sample.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The sample may repeat supports: for data in which equal rows are common.
    pub fn trust_sample(mut self, is_trusted: bool) -> Self {
        self.is_sample_trusted = is_trusted;
        self
    }

    /// Makes up this many rows across the boundary, near supports of the other side, for the scales of estimates and
    /// for the thresholds of `nearest`; plans that use neither are refused.
    pub fn boundary(mut self, rows: usize) -> Self {
        self.boundary = rows;
        self
    }

    /// A progress callback, which may end the fit.
    pub fn watch(mut self, watch: Watch<'a>) -> Self {
        self.watch = watch;
        self
    }

    /// Fits the stages of a plan, and calibrates it if one of them estimates.
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn run(&self, plan: &Spec) -> Result<Compiled, CompileError> {
        if self.boundary > MOST_BOUNDARY {
            let (what, count) = ("rows near the boundary", self.boundary);
            return Err(CompileError::TooMany { what, count, most: MOST_BOUNDARY });
        }
        let specs = stages(plan)?;
        if !specs.is_empty() {
            self.machine.check_width("fitting a plan")?;
        }
        let parts = self.parts(&specs)?;
        let FittingData { sample, training, .. } = self.fitting_data;
        let mut repeated = 0;
        if let (Some(_), Some(sample)) = (&parts, sample) {
            repeated = self.repeated(sample)?;
        }
        let fitting_rows = parts.as_ref().zip(sample);
        let fitting_rows = fitting_rows.map(|(parts, rows)| rows.select(parts.fit.iter().copied()));
        let exact = Exact::new(self.machine);
        let fitting_data =
            FittingData { sample: fitting_rows.as_ref().or(sample), ..self.fitting_data };
        let generated = self.generated(&specs)?;
        let task = Task::new(&exact, fitting_data, self.watch).generated(generated.as_ref());
        let mut sections: Vec<Section> = Vec::new();
        let count = specs.len();
        for (number, stage) in specs.iter().enumerate() {
            self.watch.step("fitting stages", number, count)?;
            let fitter =
                Fitter::named(stage.name()).ok_or_else(|| CompileError::unknown(stage.name()))?;
            sections.push(fitter.run(stage, &task)?);
        }
        let mut sections = PlanSections {
            spec: plan.to_string(),
            machine: file::digest(self.machine),
            sections,
            calibration: None,
            tuning: None,
        };
        // The plan packs the supports for itself; both would be the most memory that a compilation takes.
        drop(exact);
        // What cannot be loaded must not be stored. Supports are packed only where queries are asked.
        let fitted = Plan::fitted_in_pieces(self.machine, &sections)?;
        let mut sizes = [0; 3];
        if let (Some(parts), Some(sample)) = (parts, sample) {
            fitted.exact_stage().pack();
            let taught = parts.fit.len() + training.map_or(0, Matrix::rows);
            sizes = [taught, parts.measure.len(), parts.test.len()];
            let made = generated.as_ref();
            sections.calibration = Some(self.calibrate(&fitted, sample, &parts, made)?);
            self.verify(&sections, sample, &parts)?;
        }
        Ok(Compiled { sections, repeated, parts: sizes })
    }

    /// How the sample is cut, if the plan is to be tested: a plan that estimates must be, one that only stops
    /// by rules is if there is a sample.
    fn parts(&self, specs: &[Spec]) -> Result<Option<SampleSplit>, CompileError> {
        let fitter = |spec: &Spec| Fitter::named(spec.name());
        let estimating =
            specs.iter().find(|spec| fitter(spec).is_some_and(|fitter| fitter.estimates));
        let has_rules = specs.iter().any(|spec| fitter(spec).is_some_and(|fitter| fitter.stops));
        let FittingData { sample, training, sample_labels, .. } = self.fitting_data;
        if estimating.is_none() && !(has_rules && sample.is_some()) {
            return Ok(None);
        }
        self.target.check()?;
        if self.target.of == Risk::ExcessErrors && sample_labels.is_none() {
            return Err(CompileError::NoLabels);
        }
        let rows = sample.map(Matrix::rows);
        let Some(stage) = estimating else {
            let has_other_rows = training.is_some() && !specs.iter().any(fit::takes_sample);
            let parts = SampleSplit::for_rules(rows.unwrap_or(0), has_other_rows, self.seed);
            return Ok(Some(parts));
        };
        let no_sample = || CompileError::NoSample { stage: stage.name().to_owned() };
        let rows = rows.ok_or_else(no_sample)?;
        SampleSplit::new(rows, training.is_some(), &self.target, self.seed).map(Some)
    }

    fn repeated(&self, sample: &Matrix) -> Result<usize, CompileError> {
        let repeats = Repeats::count(self.machine, sample, self.fitting_data.sample_labels);
        if repeats.are_training_rows() && !self.is_sample_trusted {
            let Repeats { found, rows, .. } = repeats;
            return Err(CompileError::TrainingRows { found, rows });
        }
        Ok(repeats.found)
    }

    fn calibrate(
        &self,
        plan: &Plan,
        sample: &Matrix,
        parts: &SampleSplit,
        generated: Option<&Matrix>,
    ) -> Result<Calibration, CompileError> {
        self.watch.step("calibrating: scales", 0, 3)?;
        let mut rows = sample.select(parts.measure.iter().copied());
        if let (Some(generated), false) = (generated, plan.levels().is_empty()) {
            rows = joined(&rows, generated);
        }
        let scales = risk::fitted_scales(plan, &rows, &plan.scores(&rows)?)?;
        self.watch.step("calibrating: test", 1, 3)?;
        let rows = sample.select(parts.test.iter().copied());
        let label =
            |row: &usize| self.fitting_data.sample_labels.and_then(|labels| *labels.get(*row)?);
        let labels: Vec<Option<Answer>> = parts.test.iter().map(label).collect();
        let references = References { scores: &plan.scores(&rows)?, labels: Some(&labels) };
        risk::calibrate(plan, &rows, references, scales, &self.target)
    }

    /// Rows made up near the boundary, if there are to be some.
    fn generated(&self, specs: &[Spec]) -> Result<Option<Matrix>, CompileError> {
        if self.boundary == 0 {
            return Ok(None);
        }
        let uses = |spec: &Spec| {
            Fitter::named(spec.name()).is_some_and(|fitter| fitter.estimates || fitter.stops)
        };
        if !specs.iter().any(uses) {
            return Err(CompileError::NoUseOfBoundary { rows: self.boundary });
        }
        let made =
            boundary::rows(self.machine, &Plan::exact(self.machine), self.boundary, self.seed)?;
        if made.rows() == 0 {
            return Err(CompileError::NoBoundary);
        }
        Ok(Some(made))
    }

    /// Asks the finished plan the test part: it must do what was tested.
    fn verify(
        &self,
        sections: &PlanSections,
        sample: &Matrix,
        parts: &SampleSplit,
    ) -> Result<(), CompileError> {
        self.watch.step("calibrating: the finished plan", 2, 3)?;
        let plan = Plan::fitted(self.machine, sections)?;
        let rows = sample.select(parts.test.iter().copied());
        let expected =
            sections.calibration.as_ref().map_or(0, |calibration| calibration.disagreements);
        risk::check_finished(&plan, &rows, &plan.scores(&rows)?, expected)
    }
}

/// Rows of both, sparse.
pub(crate) fn joined(first: &Matrix, second: &Matrix) -> Matrix {
    let mut rows = mercer_data::MatrixBuilder::new();
    first.iter().chain(second.iter()).for_each(|row| rows.push_row(row));
    rows.finish(first.columns().max(second.columns()))
}
