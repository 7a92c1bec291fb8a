//! The problem that all compressors solve: the machine with its coefficients and inner products in feature space. How
//! it is solved is in the files of the methods; which size is wanted, in `search.rs`.

use mercer_data::Matrix;
use mercer_kernel::factor::{Factor, KernelColumns};
use mercer_machine::{Machine, Output, Score};
use mercer_query::Plan;

use super::unfit;
use crate::{CompileError, FittingData, Watch};

/// Kernel columns kept while vectors are chosen.
const COLUMN_BYTES: usize = 256 << 20;
/// Coordinates of all rows along all pivots may take this much.
const FACTOR_BYTES: usize = 2 << 30;

/// A machine as compressors see it: its supports with coefficients, and inner products with W.
#[derive(Debug)]
pub struct CompressionProblem<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its supports that have a coefficient; equal ones were merged when the machine was made.
    pub supports: Matrix,
    /// A coefficient for each support, score after score.
    pub betas: Vec<Vec<f64>>,
    /// `<Φ_i, W_s>` of each support, score after score.
    pub inner_products: Vec<Vec<f64>>,
    /// `|W_s|²`.
    pub squared_norms: Vec<f64>,
    /// Rows the machine was trained on, cut to its columns.
    pub training: Option<&'a Matrix>,
    /// Called with progress; may interrupt the run.
    pub watch: Watch<'a>,
    /// The machine whose scores are the inner products alone.
    plan: Plan,
}

impl<'a> CompressionProblem<'a> {
    /// Prepares a machine for compression.
    ///
    /// # Errors
    /// If it has no expansions under a semidefinite kernel.
    pub fn new(
        machine: &'a Machine,
        fitting_data: FittingData<'a>,
        watch: Watch<'a>,
    ) -> Result<Self, CompileError> {
        let kernel = machine.kernel();
        let refuse = |reason: String| unfit("compress", reason);
        if !kernel.is_positive_semidefinite() || kernel.form().finish().is_none() {
            let reason = format!("{} is not known to be positive semidefinite", kernel.spec());
            return Err(refuse(reason));
        }
        if !machine.scores().iter().all(|score| matches!(score, Score::Expansion { .. })) {
            return Err(refuse("a linear or additive score is a single sum already".to_owned()));
        }
        let mut is_used = vec![false; machine.supports().rows()];
        for score in machine.scores() {
            if let Score::Expansion { supports, coefficients, .. } = score {
                let named = supports.iter().zip(coefficients).filter(|(_, beta)| **beta != 0.0);
                named.for_each(|(support, _)| is_used[*support as usize] = true);
            }
        }
        let used: Vec<usize> = (0..is_used.len()).filter(|row| is_used[*row]).collect();
        if used.is_empty() {
            return Err(refuse("it has no supports".to_owned()));
        }
        let supports = machine.supports().select(used.iter().copied());
        let betas: Vec<Vec<f64>> = machine
            .scores()
            .iter()
            .map(|score| {
                let all = dense(score, is_used.len());
                used.iter().map(|row| all[*row]).collect()
            })
            .collect();
        let plan = Plan::exact(&scored(machine, supports.clone(), &betas)?);
        watch.step("measuring the machine", 0, 1)?;
        let inner_products = inner_products(&plan, &supports)?;
        let square = |(beta, products): (&Vec<f64>, &Vec<f64>)| {
            let mut sum = mercer_kernel::factor::Compensated::default();
            beta.iter().zip(products).for_each(|(beta, p)| sum.add_product(*beta, *p));
            sum.value().max(0.0)
        };
        let squared_norms: Vec<f64> = betas.iter().zip(&inner_products).map(square).collect();
        let total: f64 = squared_norms.iter().sum();
        if !(total > 0.0 && total.is_finite() && total > 1e-200) {
            return Err(refuse(format!("its norm |W| is {}", total.sqrt())));
        }
        let training = fitting_data.training;
        Ok(Self { machine, supports, betas, inner_products, squared_norms, training, watch, plan })
    }

    /// Supports that have a coefficient.
    pub fn len(&self) -> usize {
        self.supports.rows()
    }

    /// Whether there is none; never true.
    pub fn is_empty(&self) -> bool {
        self.supports.rows() == 0
    }

    /// `Σ|W_s|²`.
    pub fn squared_norm(&self) -> f64 {
        self.squared_norms.iter().sum()
    }

    /// `<z, W_s>` of rows, score after score.
    ///
    /// # Errors
    /// If a row lies outside the kernel's domain or a score overflows.
    pub fn inner_products_with(&self, rows: &Matrix) -> Result<Vec<Vec<f64>>, CompileError> {
        inner_products(&self.plan, rows)
    }

    /// Columns of the kernel matrix of some rows.
    pub fn columns(&self, rows: Matrix) -> KernelColumns {
        let kernel = self.machine.kernel().clone();
        KernelColumns::new(kernel, rows, self.machine.centre(), COLUMN_BYTES)
    }

    /// A factor of the supports with all scores as targets.
    pub(crate) fn factor(&self, floor: f64) -> Factor<KernelColumns> {
        let factor = Factor::new(self.columns(self.supports.clone()), floor);
        let targets = self.inner_products.iter().zip(&self.squared_norms);
        targets.fold(factor, |factor, (products, square)| factor.with_target(products, *square))
    }

    /// The most pivots that a factor of the supports may have.
    pub fn max_rank(&self) -> usize {
        self.len().min(FACTOR_BYTES / (16 * self.len()))
    }

    /// The norm of a residual with this square, relative to that of the machine.
    pub(crate) fn relative_error(&self, squares: f64) -> f64 {
        (squares.max(0.0) / self.squared_norm()).sqrt()
    }
}

/// One coefficient for each support.
pub(super) fn dense(score: &Score, supports: usize) -> Vec<f64> {
    let mut out = vec![0.0; supports];
    if let Score::Expansion { supports, coefficients, .. } = score {
        for (support, beta) in supports.iter().zip(coefficients) {
            out[*support as usize] = *beta;
        }
    }
    out
}

/// The machine of inner products: the same kernel, no offsets.
pub(super) fn scored(
    machine: &Machine,
    rows: Matrix,
    coefficients: &[Vec<f64>],
) -> Result<Machine, CompileError> {
    let scores: Vec<Score> = coefficients.iter().map(|beta| Score::expansion(beta, 0.0)).collect();
    let output = if scores.len() == 1 { Output::Value } else { machine.output().clone() };
    let made = Machine::new(machine.kernel().clone(), rows, scores, output);
    // Centred like the original, so that values agree to the last bit.
    let made = made.and_then(|made| made.with_centre(machine.centre().map(<[f64]>::to_vec)));
    made.map_err(|error| unfit("compress", error.to_string()))
}

/// Scores of all rows, score after score.
fn inner_products(plan: &Plan, rows: &Matrix) -> Result<Vec<Vec<f64>>, CompileError> {
    let count = plan.exact_stage().machine().scores().len();
    let scores = plan.scores(rows)?;
    Ok((0..count).map(|s| scores.iter().skip(s).step_by(count).copied().collect()).collect())
}
