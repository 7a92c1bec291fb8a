//! The first method of \[OG98\]: support vector regression of the scores.
//!
//! The classifier's scores at some points are targets of an ε-insensitive regression with the same kernel
//! and a C that is never reached; points inside the tube get no coefficient. Where eps is given, the machine is within eps
//! at every point, or [`Tube`] says how far it is and why. Differs from the paper: the vectors are re-fitted where that
//! stays within eps (`refit=no` keeps the coefficients and the offset of the regression), because the
//! regression's coefficients are not the projection of W onto its vectors.

use std::sync::Arc;

use mercer_data::{Dataset, Matrix, MatrixBuilder, Targets};
use mercer_machine::Score;
use mercer_query::Plan;
use mercer_spec::{Kind, Parameter, Spec};
use mercer_train::{Cancel, Stop, Training, formulation};

use super::{
    CompressionProblem, Compressor, CompressorEntry, CompressorRun, ReducedSet, fit_coefficients,
    unfit,
};
use crate::CompileError;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "regression",
    summary: "a support vector regression of the scores: what lies within eps needs no vector",
    parameters: &[
        Parameter {
            name: "eps",
            kind: Kind::Number { low: 1e-9, high: 1e9, closed: true },
            default: Some("0.1"),
            help: "half width of the tube: smaller errors of a score cost nothing",
        },
        Parameter {
            name: "on",
            kind: Kind::Word(&["supports", "training"]),
            default: Some("supports"),
            help: "rows of the regression: the supports, or the training rows",
        },
        Parameter {
            name: "refit",
            kind: Kind::Word(&["yes", "no"]),
            default: Some("yes"),
            help: "whether coefficients are fitted again where that stays within eps; no leaves them as in the paper",
        },
    ],
    variadic: false,
    build: |checked| {
        let is = |name: &str, word: &str| checked.spec(name).map(Spec::name) == Some(word);
        Ok(Arc::new(Regression {
            eps: checked.number("eps"),
            on_training: is("on", "training"),
            refits: is("refit", "yes"),
        }))
    },
};

/// C of the regression, in largest coefficients: no coefficient may reach it.
const C_FACTOR: f64 = 1000.0;
/// The share of eps that is left for the tolerance of the solver.
const SLACK: f64 = 0.1;
/// A tolerance larger than this is not worth the time it saves.
const TOLERANCE: f64 = 1e-3;
/// Pair steps for each row of one regression on the way to a size, at most, and some more: there the vectors are
/// re-fitted, and their accuracy is measured, so that the last digits of the regression do not matter.
const STEPS: u64 = 300;
const MORE_STEPS: u64 = 2000;
/// Widths of the tube tried on the way to a size.
const TRIES: usize = 16;
/// The narrowest tube on the way to a size, in largest scores.
const NARROWEST: f64 = 1e-6;
/// What rounding may add to an error at a row, in largest scores.
const ROUNDING: f64 = 1e-12;

/// How accurate a machine is at the rows of its regression.
#[derive(Debug, Clone, PartialEq)]
pub struct Tube {
    /// The accuracy asked for, or the one that leads to the size asked for.
    pub eps: f64,
    /// The largest `|f - f~|` at the rows.
    pub achieved: f64,
    /// Rows it was measured at.
    pub rows: usize,
    /// Why it is not within eps, where it is not.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Regression {
    eps: f64,
    on_training: bool,
    refits: bool,
}

impl Compressor for Regression {
    fn spec(&self) -> Spec {
        let word = |is: bool, yes: &str, no: &str| Spec::new(if is { yes } else { no });
        Spec::new("regression")
            .set("eps", self.eps)
            .set("on", word(self.on_training, "training", "supports"))
            .set("refit", word(self.refits, "yes", "no"))
    }

    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError> {
        let rows = if self.on_training {
            let rows = problem.training.ok_or_else(|| {
                unfit("regression", "on=training needs the rows it was trained on (--training)")
            })?;
            cut(rows, problem.machine.columns())
        } else {
            problem.supports.clone()
        };
        let products = problem.inner_products_with(&rows)?;
        let (known, tube) = (Vec::new(), None);
        Ok(Box::new(RegressionRun { problem, rows, products, settings: *self, known, tube }))
    }
}

/// Rows cut to the machine's columns.
fn cut(rows: &Matrix, columns: usize) -> Matrix {
    let mut builder = MatrixBuilder::new();
    for row in rows.iter() {
        let inside = row.nonzeros().take_while(|(column, _)| (*column as usize) < columns);
        inside.for_each(|(column, value)| builder.push(column, value));
        builder.end_row();
    }
    builder.finish(columns).compact()
}

/// The regressions of all scores for one eps.
#[derive(Debug, Clone)]
struct Learned {
    eps: f64,
    /// Coefficients of all rows and an offset, score after score.
    scores: Vec<(Vec<f64>, f64)>,
    /// Rows with a coefficient.
    kept: Vec<usize>,
    /// Why one ended early, if one did.
    stop: Option<Stop>,
}

struct RegressionRun<'a> {
    problem: &'a CompressionProblem<'a>,
    rows: Matrix,
    products: Vec<Vec<f64>>,
    settings: Regression,
    /// Regressions on the way to sizes, by eps, the widest first.
    known: Vec<Learned>,
    /// How accurate the last reduced set is.
    tube: Option<Tube>,
}

impl RegressionRun<'_> {
    /// Trains the regressions, all until they converge unless there is a limit of steps.
    fn learn(&self, eps: f64, limit: Option<u64>) -> Result<Learned, CompileError> {
        let (mut scores, mut stop) = (Vec::new(), None);
        for number in 0..self.products.len() {
            let (score, stopped) = self.learn_score(number, eps, limit)?;
            scores.push(score);
            stop = stop.or(stopped);
        }
        let is_kept = |row: &usize| scores.iter().any(|(list, _)| list[*row] != 0.0);
        let kept = (0..self.rows.rows()).filter(is_kept).collect();
        Ok(Learned { eps, scores, kept, stop })
    }

    /// The regression of one score. Its own tube is narrower than eps by the tolerance of the solver, so that a
    /// solution that converged is within eps.
    fn learn_score(
        &self,
        number: usize,
        eps: f64,
        limit: Option<u64>,
    ) -> Result<((Vec<f64>, f64), Option<Stop>), CompileError> {
        let problem = self.problem;
        let refuse = |error: String| unfit("regression", error);
        let betas = &problem.betas[number];
        let largest = betas.iter().fold(0.0f64, |most, beta| most.max(beta.abs()));
        let tolerance = (SLACK * eps).min(TOLERANCE);
        let (c, inner) = (C_FACTOR * largest.max(1e-100), eps - tolerance);
        let svr = formulation(&format!("epsilon_svr(C={c}, epsilon={inner})"))
            .map_err(|error| refuse(error.to_string()))?;
        let cancel = Cancel::new();
        let training =
            Training::default().tolerance(tolerance).max_iterations(limit).cancel(cancel.clone());
        let targets = Targets::Numbers(self.products[number].clone());
        let data = Dataset { examples: self.rows.clone(), targets, names: None };
        let mut watch = |_: &mercer_train::Progress| {
            if problem.watch.step("regressing scores", number, self.products.len()).is_err() {
                cancel.cancel();
            }
        };
        let kernel = problem.machine.kernel();
        let trained = mercer_train::train(&data, kernel, &svr, &training, &mut watch)
            .map_err(|error| refuse(error.to_string()))?;
        if cancel.is_cancelled() {
            return Err(CompileError::Interrupted);
        }
        let expansion = trained.expansions.into_iter().next();
        let expansion =
            expansion.ok_or_else(|| refuse("the regression has no coefficients".to_owned()))?;
        let mut list = vec![0.0; self.rows.rows()];
        for (example, beta) in expansion.examples.iter().zip(&expansion.coefficients) {
            list[*example as usize] = *beta;
        }
        Ok(((list, expansion.offset), trained.report.stop))
    }

    /// The machine of a regression with its own coefficients and offset.
    fn printed(&self, learned: &Learned) -> ReducedSet {
        let Learned { scores, kept, .. } = learned;
        let coefficients =
            |(list, _): &(Vec<f64>, f64)| kept.iter().map(|row| list[*row]).collect();
        let offsets = self.problem.machine.scores().iter().map(Score::offset);
        let offsets = offsets.zip(scores).map(|(offset, (_, learned))| offset + learned);
        ReducedSet {
            rows: self.rows.select(kept.iter().copied()),
            coefficients: scores.iter().map(coefficients).collect(),
            offsets: offsets.collect(),
        }
    }

    /// The largest `|f - f~|` at the rows.
    fn error_at_rows(&self, set: &ReducedSet) -> Result<f64, CompileError> {
        let count = self.products.len();
        let small = Plan::exact(&set.machine(self.problem.machine)?).scores(&self.rows)?;
        let mut most = 0.0f64;
        for (score, products) in self.products.iter().enumerate() {
            let offset = self.problem.machine.scores()[score].offset();
            for (row, product) in products.iter().enumerate() {
                most = most.max((product - offset - small[row * count + score]).abs());
            }
        }
        Ok(most)
    }

    /// The machine of a regression, re-fitted where the settings allow it; with `within_eps` only where that stays
    /// within eps.
    fn reduced_set(
        &mut self,
        learned: &Learned,
        within_eps: bool,
    ) -> Result<ReducedSet, CompileError> {
        let Learned { eps, kept, stop, .. } = learned;
        if kept.is_empty() {
            let reason = format!("all scores lie within {eps}: nothing is left");
            return Err(unfit("regression", reason));
        }
        let limit = eps + ROUNDING * self.widest();
        let mut found = None;
        if self.settings.refits {
            let set = fit_coefficients(self.problem, &self.rows.select(kept.iter().copied()))?;
            let achieved = self.error_at_rows(&set)?;
            found = (!within_eps || achieved <= limit).then_some((set, achieved, true));
        }
        let (set, achieved, is_refitted) = match found {
            Some(found) => found,
            None => {
                let set = self.printed(learned);
                let achieved = self.error_at_rows(&set)?;
                (set, achieved, false)
            }
        };
        let reason = (achieved > limit).then(|| match stop {
            _ if is_refitted => {
                "re-fitted for the least |W - W~|, not for the largest error".to_owned()
            }
            Some(stop) => format!("the regression did not converge: {}", stop.reason()),
            None => "a coefficient of the regression is at its bound".to_owned(),
        });
        self.tube = Some(Tube { eps: *eps, achieved, rows: self.rows.rows(), reason });
        Ok(set)
    }

    /// The largest `|<Φ_i, W>|` at the rows.
    fn widest(&self) -> f64 {
        self.products.iter().flatten().fold(0.0f64, |most, x| most.max(x.abs()))
    }

    /// The best known regression with 1 to `size` vectors: that with most of them, where they are re-fitted, else the
    /// one with the narrowest tube.
    fn best(&self, size: usize) -> Option<&Learned> {
        let fits = |learned: &&Learned| (1..=size).contains(&learned.kept.len());
        let mut known = self.known.iter().filter(fits);
        if self.settings.refits {
            known.max_by_key(|learned| learned.kept.len())
        } else {
            known.next_back()
        }
    }

    /// Whether no other tube can be better for a size.
    fn is_settled(&self, size: usize) -> bool {
        let best = self.best(size);
        self.settings.refits && best.is_some_and(|learned| learned.kept.len() == size)
    }
}

impl CompressorRun for RegressionRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let widest = self.widest();
        let limit = MORE_STEPS + STEPS * self.rows.rows() as u64;
        for _ in 0..TRIES {
            if self.is_settled(size) {
                break;
            }
            // The narrowest tube with few enough vectors, and the next one, which has too many.
            let wide = self.known.iter().rfind(|learned| learned.kept.len() <= size);
            let high = wide.map_or(widest, |learned| learned.eps);
            let narrow = self.known.iter().find(|learned| learned.eps < high);
            let eps = narrow.map_or(high / 4.0, |learned| f64::sqrt(learned.eps * high));
            if eps < NARROWEST * widest || high < 1.01 * eps {
                break;
            }
            let learned = self.learn(eps, Some(limit))?;
            let place = self.known.partition_point(|other| other.eps > eps);
            self.known.insert(place, learned);
        }
        let refuse = || unfit("regression", format!("no eps leaves 1 to {size} vectors"));
        let learned = self.best(size).cloned().ok_or_else(refuse)?;
        self.reduced_set(&learned, false)
    }

    fn by_parameters(&mut self) -> Result<Option<ReducedSet>, CompileError> {
        let learned = self.learn(self.settings.eps, None)?;
        self.reduced_set(&learned, true).map(Some)
    }

    fn tube(&self) -> Option<Tube> {
        self.tube.clone()
    }
}
