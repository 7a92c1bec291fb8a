//! Machines of degree 2 are quadratic forms: at most one vector for each column and one more, for the same W.
//!
//! With `u = [√γ x, √c]` the kernel is `(u·v)²`, a score `u'Mu - b` with `M = Σ β_i u_i u_i'`, and inner
//! products in feature space are those of matrices, so the k eigenvectors of M with the largest |λ| are the
//! best k vectors there are. `λ (v·u)² = g (γ z·x + c)²` needs a last component of v that is not zero: vectors
//! of one sign are turned among each other, which changes nothing of their sum of squares, until their last
//! components are all alike. (Burges 1996 has the case c = 0.)

use std::sync::Arc;

use mercer_data::Matrix;
use mercer_kernel::Profile;
use mercer_kernel::eigen::{dot, symmetric};
use mercer_machine::Score;
use mercer_spec::Spec;

use super::{CompressionProblem, Compressor, CompressorEntry, CompressorRun, ReducedSet, unfit};
use crate::CompileError;
use crate::kernel_gradient::profile;

pub(super) static ENTRY: CompressorEntry = CompressorEntry {
    name: "quadratic",
    summary: "kernels of degree 2: eigenvectors of the quadratic form, one more than columns for the same W",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Arc::new(Quadratic)),
};

/// Wider forms take minutes.
const MOST_COLUMNS: usize = 3000;
/// Eigenvalues below this share of the largest are rounding.
const ROUNDING: f64 = 1e-14;

#[derive(Debug, Clone, Copy)]
struct Quadratic;

impl Compressor for Quadratic {
    fn spec(&self) -> Spec {
        Spec::new("quadratic")
    }

    fn begin<'a>(
        &'a self,
        problem: &'a CompressionProblem<'a>,
    ) -> Result<Box<dyn CompressorRun + 'a>, CompileError> {
        let (scale, shift, is_normalized) = match profile(problem.machine) {
            Profile::Power { scale, shift, degree: 2 } => (scale, shift, false),
            Profile::NormalizedPower { scale, shift, degree: 2 } => (scale, shift, true),
            _ => {
                let kernel = problem.machine.kernel().spec();
                let others = "use exact_basis, or the stage monomials";
                return Err(unfit("quadratic", format!("{kernel} is not of degree 2; {others}")));
            }
        };
        let columns = problem.machine.columns();
        if columns > MOST_COLUMNS {
            let reason = format!("{columns} columns are more than {MOST_COLUMNS}");
            return Err(unfit("quadratic", reason));
        }
        let mut run = QuadraticRun { problem, scale, shift, is_normalized, pairs: Vec::new() };
        run.decompose()?;
        Ok(Box::new(run))
    }
}

/// An eigenvector, its eigenvalue and the score it belongs to.
struct Eigenpair {
    score: usize,
    value: f64,
    vector: Vec<f64>,
}

struct QuadraticRun<'a> {
    problem: &'a CompressionProblem<'a>,
    scale: f64,
    shift: f64,
    is_normalized: bool,
    /// The largest first.
    pairs: Vec<Eigenpair>,
}

impl QuadraticRun<'_> {
    /// Components of `u`: columns, and one for the constant.
    fn width(&self) -> usize {
        self.problem.machine.columns() + usize::from(self.shift > 0.0)
    }

    fn decompose(&mut self) -> Result<(), CompileError> {
        let (width, columns) = (self.width(), self.problem.machine.columns());
        let mut u = vec![0.0; width];
        for (score, betas) in self.problem.betas.iter().enumerate() {
            self.problem.watch.step("decomposing forms", score, self.problem.betas.len())?;
            let mut form = vec![0.0; width * width];
            for (row, beta) in self.problem.supports.iter().zip(betas) {
                row.write_dense(&mut u[..columns]);
                u[..columns].iter_mut().for_each(|x| *x *= self.scale.sqrt());
                if let Some(last) = u.get_mut(columns) {
                    *last = self.shift.sqrt();
                }
                let size = if self.is_normalized { dot(&u, &u) } else { 1.0 };
                if *beta == 0.0 || size <= 0.0 {
                    continue;
                }
                for (line, factor) in
                    form.chunks_exact_mut(width).zip(&u).filter(|(_, x)| **x != 0.0)
                {
                    let factor = beta / size * factor;
                    line.iter_mut().zip(&u).for_each(|(place, x)| *place += factor * x);
                }
            }
            let (values, vectors) = symmetric(form, width)
                .ok_or_else(|| unfit("quadratic", "its eigenvectors could not be found"))?;
            let most = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            for (value, vector) in values.iter().zip(vectors.chunks_exact(width)) {
                if value.abs() > ROUNDING * most {
                    self.pairs.push(Eigenpair { score, value: *value, vector: vector.to_vec() });
                }
            }
        }
        self.pairs.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
        Ok(())
    }

    /// Vectors `√|λ| v` of one score and sign, turned until all have the same last component.
    fn turned(&self, score: usize, sign: f64, size: usize) -> Result<Vec<Vec<f64>>, CompileError> {
        let kept = self.pairs.iter().take(size);
        let kept = kept.filter(|pair| pair.score == score && pair.value * sign > 0.0);
        let mut vectors: Vec<Vec<f64>> = kept
            .map(|pair| pair.vector.iter().map(|x| x * pair.value.abs().sqrt()).collect())
            .collect();
        if self.shift == 0.0 || vectors.is_empty() {
            return Ok(vectors);
        }
        let last: Vec<f64> = vectors.iter().map(|vector| vector[self.width() - 1]).collect();
        let (length, count) = (dot(&last, &last).sqrt(), vectors.len() as f64);
        let longest = vectors.iter().map(|v| dot(v, v).sqrt()).fold(0.0, f64::max);
        if length.is_nan() || length <= 1e-9 * longest {
            let reason = "the form has no constant term for one sign; use exact_basis";
            return Err(unfit("quadratic", reason));
        }
        // The reflection that takes `last` to a multiple of ones, of the sign that cancels less.
        let even = -length / count.sqrt() * if last[0] < 0.0 { -1.0 } else { 1.0 };
        let normal: Vec<f64> = last.iter().map(|x| x - even).collect();
        let square = dot(&normal, &normal);
        if square > 0.0 {
            for column in 0..self.width() {
                let along: f64 = vectors.iter().zip(&normal).map(|(v, n)| v[column] * n).sum();
                for (vector, n) in vectors.iter_mut().zip(&normal) {
                    vector[column] -= 2.0 * along / square * n;
                }
            }
        }
        Ok(vectors)
    }
}

impl CompressorRun for QuadraticRun<'_> {
    fn at_size(&mut self, size: usize) -> Result<ReducedSet, CompileError> {
        let (problem, columns) = (self.problem, self.problem.machine.columns());
        let scores = problem.betas.len();
        let (mut values, mut named): (Vec<f64>, Vec<(usize, f64)>) = (Vec::new(), Vec::new());
        for score in 0..scores {
            for sign in [1.0, -1.0] {
                for vector in self.turned(score, sign, size)? {
                    let share =
                        if self.shift > 0.0 { vector[columns] / self.shift.sqrt() } else { 1.0 };
                    let start = values.len();
                    let factor = 1.0 / (self.scale.sqrt() * share);
                    values.extend(vector[..columns].iter().map(|x| x * factor));
                    let square: f64 = dot(&values[start..], &values[start..]);
                    let norm = self.scale * square + self.shift;
                    let size = if self.is_normalized { norm } else { 1.0 };
                    named.push((score, sign * share * share * size));
                }
            }
        }
        if named.is_empty() {
            return Err(unfit("quadratic", "the form is zero"));
        }
        let list = |score: usize| {
            named.iter().map(|(of, g)| if *of == score { *g } else { 0.0 }).collect()
        };
        let rows = Matrix::dense(columns, values)
            .map_err(|error| unfit("quadratic", format!("a vector is not finite: {error}")))?;
        let offsets = problem.machine.scores().iter().map(Score::offset).collect();
        Ok(ReducedSet { rows, coefficients: (0..scores).map(list).collect(), offsets })
    }

    fn by_parameters(&mut self) -> Result<Option<ReducedSet>, CompileError> {
        self.at_size(usize::MAX).map(Some)
    }

    fn curve(&self) -> Vec<(usize, f64)> {
        let mut left: f64 = self.pairs.iter().map(|pair| pair.value * pair.value).sum();
        let after = |(size, pair): (usize, &Eigenpair)| {
            left -= pair.value * pair.value;
            (size, self.problem.relative_error(left))
        };
        (1..).zip(&self.pairs).map(after).collect()
    }
}
