//! The first method of \[OG98\]: support vector regression of the scores.
//!
//! The classifier's scores at some points are targets of an ε-insensitive regression with the same kernel
//! and a C that is never reached; points inside the tube get no coefficient. Differs from the paper: the
//! vectors are re-fitted (`refit=no` keeps the coefficients and the offset of the regression), because the
//! regression's coefficients are not the projection of W onto its vectors.

use std::sync::Arc;

use mercer_data::{Dataset, Matrix, MatrixBuilder, Targets};
use mercer_machine::Score;
use mercer_spec::{Kind, Parameter, Spec};
use mercer_train::{Cancel, Training, formulation};

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
            help: "whether coefficients are fitted again; no leaves them as in the paper",
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
/// Pair steps for each row of one regression, at most, and some more: a C this large converges slowly
/// where rows nearly repeat.
const STEPS: u64 = 300;
const MORE_STEPS: u64 = 2000;
/// Widths of the tube tried on the way to a size.
const TRIES: usize = 12;

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
        Ok(Box::new(RegressionRun { problem, rows, products, settings: *self }))
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

struct RegressionRun<'a> {
    problem: &'a CompressionProblem<'a>,
    rows: Matrix,
    products: Vec<Vec<f64>>,
    settings: Regression,
}

impl RegressionRun<'_> {
    /// Trains the regressions: coefficients of all rows and an offset, score after score.
    fn train(&self, eps: f64) -> Result<Vec<(Vec<f64>, f64)>, CompileError> {
        let problem = self.problem;
        let cancel = Cancel::new();
        let mut all = Vec::new();
        for (number, (products, betas)) in self.products.iter().zip(&problem.betas).enumerate() {
            let largest = betas.iter().fold(0.0f64, |most, beta| most.max(beta.abs()));
            let c = C_FACTOR * largest.max(1e-100);
            let svr = formulation(&format!("epsilon_svr(C={c}, epsilon={eps})"))
                .map_err(|error| unfit("regression", error.to_string()))?;
            let training = Training::default()
                .tolerance((0.1 * eps).min(1e-3))
                .max_iterations(Some(MORE_STEPS + STEPS * self.rows.rows() as u64))
                .cancel(cancel.clone());
            let targets = Targets::Numbers(products.clone());
            let data = Dataset { examples: self.rows.clone(), targets, names: None };
            let mut watch = |_: &mercer_train::Progress| {
                if problem.watch.step("regressing scores", number, self.products.len()).is_err() {
                    cancel.cancel();
                }
            };
            let trained =
                mercer_train::train(&data, problem.machine.kernel(), &svr, &training, &mut watch)
                    .map_err(|error| unfit("regression", error.to_string()))?;
            if cancel.is_cancelled() {
                return Err(CompileError::Interrupted);
            }
            let expansion = trained.expansions.into_iter().next();
            let expansion = expansion
                .ok_or_else(|| unfit("regression", "the regression has no coefficients"))?;
            let mut list = vec![0.0; self.rows.rows()];
            for (example, beta) in expansion.examples.iter().zip(&expansion.coefficients) {
                list[*example as usize] = *beta;
            }
            all.push((list, expansion.offset));
        }
        Ok(all)
    }

    fn kept(learned: &[(Vec<f64>, f64)]) -> Vec<usize> {
        let rows = learned.first().map_or(0, |(list, _)| list.len());
        (0..rows).filter(|row| learned.iter().any(|(list, _)| list[*row] != 0.0)).collect()
    }

    fn reduced_set(&self, learned: &[(Vec<f64>, f64)]) -> Result<ReducedSet, CompileError> {
        let kept = Self::kept(learned);
        if kept.is_empty() {
            return Err(unfit("regression", "all scores lie within eps: nothing is left"));
        }
        let rows = self.rows.select(kept.iter().copied());
        if self.settings.refits {
            return fit_coefficients(self.problem, &rows);
        }
        let coefficients =
            |(list, _): &(Vec<f64>, f64)| kept.iter().map(|row| list[*row]).collect();
        let scores = self.problem.machine.scores().iter().map(Score::offset);
        let offsets = scores.zip(learned).map(|(offset, (_, learned))| offset + learned).collect();
        Ok(ReducedSet { rows, coefficients: learned.iter().map(coefficients).collect(), offsets })
    }
}

impl CompressorRun for RegressionRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let largest = |list: &Vec<f64>| list.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let widest = self.products.iter().map(largest).fold(0.0, f64::max);
        let (mut low, mut high) = (1e-6 * widest, widest);
        let mut best: Option<(usize, Vec<(Vec<f64>, f64)>)> = None;
        for _ in 0..TRIES {
            let eps = f64::sqrt(low * high);
            let learned = self.train(eps)?;
            let count = Self::kept(&learned).len();
            if count <= size {
                high = eps;
                if count > 0 && best.as_ref().is_none_or(|(most, _)| count >= *most) {
                    best = Some((count, learned));
                }
                if count == size {
                    break;
                }
            } else {
                low = eps;
            }
            if high < 1.02 * low {
                break;
            }
        }
        let refuse = || unfit("regression", format!("no eps leaves 1 to {size} vectors"));
        let (_, learned) = best.ok_or_else(refuse)?;
        self.reduced_set(&learned)
    }

    fn by_parameters(&mut self) -> Result<Option<ReducedSet>, CompileError> {
        let learned = self.train(self.settings.eps)?;
        self.reduced_set(&learned).map(Some)
    }
}
