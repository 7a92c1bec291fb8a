//! Model selection: which kernel and which formulation answer best, by cross-validation.
//!
//! Candidates of one kernel are one group of work: they share a Gram matrix, and each starts where the one
//! before it ended. Groups run side by side as far as memory allows, which never changes a result. How one kernel is
//! validated is in [`crate::validate`]; what is kept in a file is in `journal`.

mod grid;
mod journal;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use mercer_data::Dataset;
use mercer_kernel::KernelRef;
use rayon::prelude::*;

pub use grid::{GridError, expand};
use journal::Journal;

use crate::validate::shuffled_by_class;
use crate::{
    Folds, FormulationRef, Measure, Stop, TrainError, Training, Validation, by_class,
    cross_validate,
};

/// More combinations of a kernel and a formulation are refused.
const MAX_CANDIDATES: usize = 100_000;
/// Rounds of halving with fewer examples are too noisy.
const LEAST: usize = 200;

/// How to search.
#[derive(Debug, Clone)]
pub struct Search {
    /// How each machine is trained. Memory and the limit of time are those of the whole search.
    pub training: Training,
    /// How many folds, unless they are given.
    pub folds: usize,
    /// The fold of each example, from 0.
    pub given_folds: Option<Vec<u32>>,
    /// Decides folds and samples.
    pub seed: u64,
    /// Successive halving: begin with all candidates on few examples, keep the best of `n` on `n` times as
    /// many, until all examples are used.
    pub halving: Option<usize>,
    /// Keeps what was found, and continues from there.
    pub journal: Option<PathBuf>,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            training: Training::default(),
            folds: 5,
            given_folds: None,
            seed: 0,
            halving: None,
            journal: None,
        }
    }
}

/// One kernel with one formulation, and what the folds say of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Text of the kernel.
    pub kernel: String,
    /// Text of the formulation.
    pub formulation: String,
    /// Examples it was validated on.
    pub rows: usize,
    /// Quality in each fold, or why there is none.
    pub folds: Result<Vec<f64>, String>,
    /// Seconds of its trainings; kernel rows count where they were first needed.
    pub seconds: f64,
    /// Whether all its trainings reached the tolerance.
    pub converged: bool,
}

impl Candidate {
    /// Mean over the folds.
    pub fn mean(&self) -> Option<f64> {
        let folds = self.folds.as_ref().ok()?;
        Some(folds.iter().sum::<f64>() / folds.len() as f64)
    }

    /// Standard deviation over the folds.
    pub fn deviation(&self) -> Option<f64> {
        let (folds, mean) = (self.folds.as_ref().ok()?, self.mean()?);
        let squares: f64 = folds.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / folds.len() as f64).sqrt())
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    /// What is measured.
    pub measure: Measure,
    /// All candidates of all rounds, in the order of the kernels and formulations.
    pub candidates: Vec<Candidate>,
    /// Position of the best of the last round, the first of equals; `None` if none could be trained.
    pub best: Option<usize>,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
}

/// Where a search stands.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchProgress {
    /// Candidates done in this round.
    pub done: usize,
    /// Candidates of this round.
    pub all: usize,
    /// Examples of this round.
    pub rows: usize,
    /// The best mean so far in this round.
    pub best: Option<f64>,
}

/// Compares every kernel with every formulation; formulations that differ in C come in increasing order.
///
/// `observer` is called after each kernel; it may be called by any thread. The result does not depend on
/// their number.
///
/// # Errors
/// As [`cross_validate`]; if the journal belongs to another search or cannot be written.
pub fn search(
    data: &Dataset,
    kernels: &[KernelRef],
    formulations: &[FormulationRef],
    options: &Search,
    observer: &(dyn Fn(&SearchProgress) + Sync),
) -> Result<SearchResult, TrainError> {
    let Some(first) = formulations.first().filter(|_| !kernels.is_empty()) else {
        return Err(TrainError::NoCandidates);
    };
    let candidates = kernels.len().saturating_mul(formulations.len());
    if candidates > MAX_CANDIDATES {
        return Err(TrainError::TooManyCandidates { candidates, limit: MAX_CANDIDATES });
    }
    let measure = Measure::of(first.goal(), &data.targets);
    if measure == Measure::Accepted {
        return Err(TrainError::NoTargetsToScore { formulation: first.spec().name().to_owned() });
    }
    let mut groups: Vec<KernelGroup> = kernels
        .iter()
        .map(|kernel| KernelGroup { kernel: kernel.clone(), formulations: formulations.to_vec() })
        .collect();
    let journal = Mutex::new(Journal::open(options, data)?);
    let (started, sizes) =
        (Instant::now(), sizes(data, groups.len() * formulations.len(), options));
    let mut result = SearchResult { measure, candidates: Vec::new(), best: None, stop: None };
    for (number, rows) in sizes.iter().copied().enumerate() {
        let examples = RoundData::new(data, rows, by_class(first), options)?;
        let round = SearchRound {
            options,
            examples: &examples,
            started,
            measure,
            journal: &journal,
            observer,
        };
        let (candidates, stop) = round.run(&groups)?;
        if number + 1 == sizes.len() {
            result.best = best(&candidates, measure).map(|at| result.candidates.len() + at);
        } else {
            groups = survivors(groups, &candidates, measure, options.factor());
        }
        result.candidates.extend(candidates);
        if stop.is_some() {
            result.stop = stop;
            break;
        }
    }
    Ok(result)
}

/// Candidates that share a kernel.
struct KernelGroup {
    kernel: KernelRef,
    formulations: Vec<FormulationRef>,
}

impl Search {
    fn factor(&self) -> usize {
        self.halving.map_or(2, |factor| factor.max(2))
    }
}

/// How many examples each round takes.
fn sizes(data: &Dataset, candidates: usize, options: &Search) -> Vec<usize> {
    let (mut sizes, mut left) = (vec![data.examples.rows()], candidates);
    if options.halving.is_some() {
        let factor = options.factor();
        while left > factor && sizes[sizes.len() - 1] / factor >= LEAST {
            sizes.push(sizes[sizes.len() - 1] / factor);
            left = left.div_ceil(factor);
        }
        sizes.reverse();
    }
    sizes
}

/// The best of `factor`, in their groups.
fn survivors(
    groups: Vec<KernelGroup>,
    candidates: &[Candidate],
    measure: Measure,
    factor: usize,
) -> Vec<KernelGroup> {
    let mut ranked: Vec<(usize, f64)> = means(candidates).collect();
    ranked.sort_by(
        |(_, a), (_, b)| if measure.prefers(1.0, 0.0) { b.total_cmp(a) } else { a.total_cmp(b) },
    );
    ranked.truncate(candidates.len().div_ceil(factor));
    let kept: HashSet<usize> = ranked.into_iter().map(|(at, _)| at).collect();
    let mut positions = 0..;
    let narrowed = groups.into_iter().map(|mut group| {
        group.formulations.retain(|_| positions.next().is_some_and(|at| kept.contains(&at)));
        group
    });
    narrowed.filter(|group| !group.formulations.is_empty()).collect()
}

/// Positions and means of the candidates that could be trained.
fn means(candidates: &[Candidate]) -> impl Iterator<Item = (usize, f64)> {
    let numbered = candidates.iter().enumerate();
    numbered.filter_map(|(at, candidate)| Some((at, candidate.mean()?)))
}

/// Position of the best mean, the first of equals.
fn best(candidates: &[Candidate], measure: Measure) -> Option<usize> {
    let better = |best: (usize, f64), next: (usize, f64)| {
        if measure.prefers(next.1, best.1) { next } else { best }
    };
    means(candidates).reduce(better).map(|(at, _)| at)
}

/// The examples of a round, their folds, and how machines are trained on them.
struct RoundData<'d> {
    data: Cow<'d, Dataset>,
    folds: Folds,
    training: Training,
}

impl<'d> RoundData<'d> {
    fn new(
        whole: &'d Dataset,
        rows: usize,
        by_class: bool,
        options: &Search,
    ) -> Result<Self, TrainError> {
        let (seed, mut training) = (options.seed, options.training.clone());
        let all = whole.examples.rows();
        if let Some(given) = options.given_folds.as_ref().filter(|given| given.len() != all) {
            return Err(TrainError::FoldCount { found: given.len(), rows: all });
        }
        if rows == all {
            let folds = match &options.given_folds {
                Some(given) => Folds::given(given.clone())?,
                None => Folds::new(whole, by_class, options.folds, seed)?,
            };
            return Ok(Self { data: Cow::Borrowed(whole), folds, training });
        }
        // Every n-th of the rows dealt by class, in the order of the data.
        let order = shuffled_by_class(&whole.targets, all, by_class, seed)?;
        let mut chosen: Vec<usize> = (0..rows).map(|at| order[at * all / rows]).collect();
        chosen.sort_unstable();
        let data = whole.select(&chosen);
        let folds = match &options.given_folds {
            Some(given) => Folds::given(chosen.iter().map(|row| given[*row]).collect())?,
            None => Folds::new(&data, by_class, options.folds, seed)?,
        };
        training.weights = training
            .weights
            .map(|weights| chosen.iter().filter_map(|row| weights.get(*row).copied()).collect());
        Ok(Self { data: Cow::Owned(data), folds, training })
    }

    /// How many Gram matrices of these examples memory holds: a matter of the data, not of the machine.
    fn side_by_side(&self) -> usize {
        let examples = &self.data.examples;
        let (rows, columns) = (examples.rows(), examples.columns().min(examples.nonzeros()));
        let each = rows.saturating_mul(rows + columns).saturating_mul(4);
        let each = each.saturating_add(examples.bytes());
        (self.training.memory / each.max(1)).max(1)
    }
}

/// One round of a search.
struct SearchRound<'r> {
    options: &'r Search,
    examples: &'r RoundData<'r>,
    started: Instant,
    measure: Measure,
    journal: &'r Mutex<Journal>,
    observer: &'r (dyn Fn(&SearchProgress) + Sync),
}

impl SearchRound<'_> {
    /// Candidates in the order of the groups, those of groups that were not begun left out.
    fn run(&self, groups: &[KernelGroup]) -> Result<(Vec<Candidate>, Option<Stop>), TrainError> {
        let all = groups.iter().map(|group| group.formulations.len()).sum();
        let wave = self.examples.side_by_side().min(groups.len()).max(1);
        let rows = self.examples.data.examples.rows();
        let progress = Mutex::new(SearchProgress { done: 0, all, rows, best: None });
        let mut candidates = Vec::with_capacity(all);
        for groups in groups.chunks(wave) {
            let validated: Vec<Result<Vec<Candidate>, TrainError>> = groups
                .par_iter()
                .map(|group| {
                    let of_group = self.validate_group(group, wave)?;
                    self.report(&progress, &of_group);
                    Ok(of_group)
                })
                .collect();
            for of_group in validated {
                match of_group {
                    Ok(of_group) => candidates.extend(of_group),
                    Err(TrainError::Stopped(stop)) => return Ok((candidates, Some(stop))),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((candidates, None))
    }

    fn report(&self, progress: &Mutex<SearchProgress>, of_group: &[Candidate]) {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.done += of_group.len();
        for mean in of_group.iter().filter_map(Candidate::mean) {
            if progress.best.is_none_or(|best| self.measure.prefers(mean, best)) {
                progress.best = Some(mean);
            }
        }
        (self.observer)(&progress);
    }

    /// The candidates of one kernel: from the journal, or by cross-validation with a share of the memory.
    fn validate_group(
        &self,
        group: &KernelGroup,
        wave: usize,
    ) -> Result<Vec<Candidate>, TrainError> {
        let rows = self.examples.data.examples.rows();
        let kernel = group.kernel.spec().to_string();
        let journal = || self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let texts: Vec<String> =
            group.formulations.iter().map(|formulation| formulation.spec().to_string()).collect();
        if let Some(candidates) = journal().find(rows, &kernel, &texts) {
            return Ok(candidates);
        }
        let mut training = self.examples.training.clone();
        training.memory /= wave;
        training.time_limit = self
            .options
            .training
            .time_limit
            .map(|limit| limit.saturating_sub(self.started.elapsed()));
        let (data, folds) = (&self.examples.data, &self.examples.folds);
        let validations = cross_validate(
            data,
            &group.kernel,
            &group.formulations,
            folds,
            &training,
            &mut |_| {},
        )?;
        let candidate = |(formulation, validation): (String, Result<Validation, TrainError>)| {
            let kernel = kernel.clone();
            match validation {
                Ok(Validation { folds, seconds, converged, .. }) => {
                    Candidate { kernel, formulation, rows, folds: Ok(folds), seconds, converged }
                }
                Err(error) => {
                    let folds = Err(error.to_string());
                    Candidate { kernel, formulation, rows, folds, seconds: 0.0, converged: false }
                }
            }
        };
        let candidates: Vec<Candidate> =
            texts.into_iter().zip(validations).map(candidate).collect();
        journal().add(&candidates)?;
        Ok(candidates)
    }
}
