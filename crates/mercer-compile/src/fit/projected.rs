//! Fits the stage `projected`: the directions along which supports are projected, and bounds on what they leave out.
//! How they become proved ranges is in `certify/tail.rs` of `mercer_query`.

use mercer_data::Matrix;
use mercer_kernel::{Form, Profile};
use mercer_machine::{Output, PlanSections, Score, Section, file};
use mercer_query::entries;
use mercer_query::verify::{LiveRows, MOST_COLUMNS, transposed};
use mercer_query::{Plan, QueryOptions};
use mercer_simd::gemm_nt;
use mercer_spec::{Checked, Spec};

use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};
use mercer_kernel::eigen::symmetric;

mod basis;

use basis::ProjectedFit;

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::PROJECTED, estimates: false, stops: false, propose, fit };

/// Rows of a sample that are used.
const MOST_ROWS: usize = 512;
/// Numbers of dimensions that are tried where none is asked for.
const TRIED: [usize; 9] = [12, 16, 24, 32, 48, 64, 80, 96, 128];
/// Directions of the correction: with the score and its size they fill four rounds of four sums.
const DIRECTIONS: usize = 14;
/// Weights below this share of the largest are raised to it.
const LEAST_WEIGHT: f64 = 1e-3;

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "projected", reason: reason.into() }
}

/// Sizes that the text fixes; the others are chosen.
#[derive(Debug, Clone, Copy)]
struct FixedSizes {
    dimensions: Option<usize>,
    look_ahead: Option<usize>,
    directions: Option<usize>,
}

impl FixedSizes {
    fn new(arguments: &Checked<'_>) -> Self {
        let size = |name: &str| arguments.integer_or_word(name);
        Self {
            dimensions: size("dimensions"),
            look_ahead: size("look_ahead"),
            directions: size("directions"),
        }
    }
}

/// A machine made ready: its rows, weights and the spectrum along which it is projected.
#[derive(Debug)]
struct Ready {
    rows: LiveRows,
    /// Queries to fit to.
    sample: LiveRows,
    /// Supports that are sample rows: not their own neighbours.
    repeated: Option<Vec<usize>>,
    weights: Vec<f64>,
    /// Eigenvalues, falling, and eigenvectors row by row.
    values: Vec<f64>,
    vectors: Vec<f64>,
    profile: Profile,
    scores: Vec<Vec<f64>>,
}

/// Fewer columns leave nothing to project away.
const LEAST_COLUMNS: usize = 24;

/// Many scores share nothing but the projection: it has not paid for them yet.
const MOST_SCORES: usize = 3;

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let live = task.exact.packed().live_columns();
    let has_products = task.exact.machine().kernel().form().finish().is_some();
    let fits = (LEAST_COLUMNS..=MOST_COLUMNS).contains(&live);
    let is_many = task.exact.machine().scores().len() > MOST_SCORES;
    if !has_only_expansions(task) || !has_products || !fits || is_many {
        return Vec::new();
    }
    vec![Spec::new("projected")]
}

fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let sizes = FixedSizes::new(arguments);
    let (ready, held_out) = Ready::new(task)?;
    let columns = ready.rows.columns;
    if let Some(head) = sizes.dimensions {
        return Ok(ProjectedFit::new(&ready, sizes, head.min(columns))?.section());
    }
    choose(&ready, &held_out, sizes, task)
}

/// The number of dimensions whose plan costs the held-out rows least; a machine of which it settles nothing
/// gets a middling one.
fn choose(
    ready: &Ready,
    held_out: &Matrix,
    sizes: FixedSizes,
    task: &Task<'_>,
) -> Result<Section, CompileError> {
    let (machine, columns) = (task.exact.machine(), ready.rows.columns);
    let mut tried: Vec<usize> = TRIED.iter().copied().filter(|head| *head < columns).collect();
    if columns <= TRIED[TRIED.len() - 1] {
        tried.push(columns);
    }
    let middling = tried[tried.len() / 2];
    // The value of a regression is settled at a tolerance that only the asker knows.
    if matches!(machine.output(), Output::Value) {
        return Ok(ProjectedFit::new(ready, sizes, middling)?.section());
    }
    let mut best: Option<(f64, Section)> = None;
    let mut worse = 0;
    let most = tried.len();
    for (done, head) in tried.into_iter().enumerate() {
        task.watch.step("trying numbers of dimensions", done, most)?;
        let section = ProjectedFit::new(ready, sizes, head)?.section();
        let sections = vec![section.clone()];
        let spec = format!("cascade({}, exact)", section.spec);
        let machine_digest = file::digest(machine);
        let plan = PlanSections {
            spec,
            machine: machine_digest,
            sections,
            calibration: None,
            tuning: None,
        };
        let plan = Plan::fitted(machine, &plan)?;
        // A row of the sample that cannot be asked is not a reason to refuse the machine.
        let Ok(answers) = plan.decide_with(held_out, &QueryOptions::default()) else { continue };
        let (cost, settled) = (answers.mean_cost(), answers.settled_by_stage[0]);
        if settled > 0 && best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, section));
            worse = 0;
        } else if best.is_some() {
            worse += 1;
            if worse == 2 {
                break;
            }
        }
    }
    match best {
        Some((_, section)) => Ok(section),
        None => Ok(ProjectedFit::new(ready, sizes, middling)?.section()),
    }
}

impl Ready {
    fn new(task: &Task<'_>) -> Result<(Self, Matrix), CompileError> {
        let (machine, packed) = (task.exact.machine(), task.exact.packed());
        let profile = match machine.kernel().form() {
            Form::Dot(finish) | Form::Shift(finish) => finish.profile(),
            _ => Profile::Other,
        };
        if matches!(profile, Profile::Other | Profile::Sigmoid { .. }) {
            let kernel = machine.kernel().spec();
            return Err(unfit(format!(
                "{kernel} is not a function of a product with known slopes"
            )));
        }
        let columns = packed.live_columns();
        if columns == 0 || columns > MOST_COLUMNS {
            return Err(unfit(format!("{columns} columns are not between 1 and {MOST_COLUMNS}")));
        }
        let rows = LiveRows::of_supports(task.exact);
        if rows.squares.iter().any(|square| !(1e-24..=1e30).contains(square) && *square != 0.0) {
            return Err(unfit("its supports lie outside the scales 1e-12 to 1e15"));
        }
        let (sample, repeated, held_out) = sample(task);
        let norms = rows.inverse_norms(profile);
        if norms.iter().any(|norm| !norm.is_finite()) {
            return Err(unfit("a support is too short or too long to be normalised"));
        }
        let mut scores = Vec::new();
        for score in machine.scores() {
            let Score::Expansion { supports, coefficients, .. } = score else {
                return Err(unfit("a linear score is one product already"));
            };
            let mut betas = vec![0.0; rows.count];
            for (support, beta) in supports.iter().zip(coefficients) {
                betas[*support as usize] = beta * norms[*support as usize];
            }
            scores.push(betas);
        }
        let mut ready = Self {
            rows,
            sample,
            repeated,
            weights: Vec::new(),
            values: Vec::new(),
            vectors: Vec::new(),
            profile,
            scores,
        };
        ready.weigh();
        ready.decompose()?;
        Ok((ready, held_out))
    }

    /// `w_i = E[(b_i κ'_i)²]^(1/4)`, `b_i` the root mean square of the coefficients of the support.
    fn weigh(&mut self) {
        let (rows, sample) = (&self.rows, &self.sample);
        let mut products = vec![0.0; sample.count * rows.count];
        gemm_nt(
            sample.count,
            rows.count,
            rows.columns,
            &sample.values,
            &rows.values,
            &mut products,
        );
        self.slopes(&mut products);
        let mut means = vec![0.0; rows.count];
        for row in products.chunks_exact(rows.count) {
            means.iter_mut().zip(row).for_each(|(mean, slope)| *mean += slope * slope);
        }
        let scores = self.scores.len().max(1) as f64;
        let size = |support: usize| {
            self.scores.iter().map(|betas| betas[support].powi(2)).sum::<f64>() / scores
        };
        let weights: Vec<f64> = means
            .iter()
            .enumerate()
            .map(|(support, mean)| (mean * size(support)).sqrt().sqrt())
            .collect();
        let most = weights.iter().copied().fold(0.0, f64::max);
        let is_usable = most > 0.0 && most.is_finite();
        let relative = |weight: f64| match weight / most {
            share if share.is_finite() && is_usable => share.clamp(LEAST_WEIGHT, 1.0),
            _ => 1.0,
        };
        self.weights = weights.into_iter().map(relative).collect();
    }

    /// Turns products of the sample with the supports into slopes of the kernel, in place; a sample row
    /// that is a support does not count for itself.
    fn slopes(&self, products: &mut [f64]) {
        let count = self.rows.count;
        let divisors = self.sample.inverse_norms(self.profile);
        for (query, row) in products.chunks_exact_mut(count).enumerate() {
            let squared_norm = self.sample.squares[query];
            for (value, square) in row.iter_mut().zip(&self.rows.squares) {
                *value = match self.profile {
                    Profile::Gaussian { gamma } => {
                        2.0 * gamma
                            * (-gamma * (squared_norm + square - 2.0 * *value).max(0.0)).exp()
                    }
                    Profile::Power { scale, shift, degree }
                    | Profile::NormalizedPower { scale, shift, degree } => {
                        let t = (scale * *value + shift).powi(degree as i32 - 1);
                        f64::from(degree) * scale * t * divisors[query]
                    }
                    _ => 1.0,
                };
                if !value.is_finite() {
                    *value = 0.0;
                }
            }
            if let Some(repeated) = &self.repeated {
                row[repeated[query]] = 0.0;
            }
        }
    }

    /// Eigenvectors of `Z'W²Z`.
    fn decompose(&mut self) -> Result<(), CompileError> {
        let (count, n) = (self.rows.count, self.rows.columns);
        let mut weighted = self.rows.values.clone();
        for (row, weight) in weighted.chunks_exact_mut(n).zip(&self.weights) {
            row.iter_mut().for_each(|x| *x *= weight);
        }
        let across = transposed(&weighted, count, n);
        let mut matrix = vec![0.0; n * n];
        gemm_nt(n, n, count, &across, &across, &mut matrix);
        for a in 0..n {
            for b in 0..a {
                matrix[a * n + b] = matrix[b * n + a];
            }
        }
        let (values, vectors) =
            symmetric(matrix, n).ok_or_else(|| unfit("its main directions could not be found"))?;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        self.values = order.iter().map(|j| values[*j].max(0.0)).collect();
        let sorted = order.iter().flat_map(|j| &vectors[j * n..(j + 1) * n]);
        self.vectors = sorted.copied().collect();
        Ok(())
    }
}

/// Rows to fit to and rows to choose the dimensions by: every other row of the sample, or the supports
/// themselves.
fn sample(task: &Task<'_>) -> (LiveRows, Option<Vec<usize>>, Matrix) {
    let spread = |rows: usize, from: usize| -> Vec<usize> {
        let all: Vec<usize> = (from..rows).step_by(2).collect();
        let step = all.len().div_ceil(MOST_ROWS).max(1);
        all.into_iter().step_by(step).collect()
    };
    if let Some(sample) = task.sample.filter(|sample| sample.rows() >= 2) {
        let fitted = sample.select(spread(sample.rows(), 0));
        let held_out = sample.select(spread(sample.rows(), 1));
        return (LiveRows::of_queries(task.exact, &fitted), None, held_out);
    }
    let supports = task.exact.machine().supports();
    let chosen = spread(2 * supports.rows(), 0).into_iter().map(|row| row / 2).collect::<Vec<_>>();
    let matrix = supports.select(chosen.iter().copied());
    (LiveRows::of_queries(task.exact, &matrix), Some(chosen), matrix)
}
