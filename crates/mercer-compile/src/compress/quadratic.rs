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

use super::{Compressor, CompressorEntry, Points, Run, Teacher, unfit};
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

    fn begin<'a>(&'a self, teacher: &'a Teacher<'a>) -> Result<Box<dyn Run + 'a>, CompileError> {
        let (scale, shift, is_normalized) = match profile(teacher.machine) {
            Profile::Power { scale, shift, degree: 2 } => (scale, shift, false),
            Profile::NormalizedPower { scale, shift, degree: 2 } => (scale, shift, true),
            _ => {
                let kernel = teacher.machine.kernel().spec();
                let others = "exact_basis keeps as many vectors as a map of few columns has products, \
                              and the stage monomials its weights";
                return Err(unfit("quadratic", format!("{kernel} is not of degree 2; {others}")));
            }
        };
        let columns = teacher.machine.columns();
        if columns > MOST_COLUMNS {
            let reason = format!("{columns} columns are more than {MOST_COLUMNS}");
            return Err(unfit("quadratic", reason));
        }
        let mut forms = Forms { teacher, scale, shift, is_normalized, parts: Vec::new() };
        forms.decompose()?;
        Ok(Box::new(forms))
    }
}

/// An eigenvector, its eigenvalue and the score it belongs to.
struct Part {
    score: usize,
    value: f64,
    vector: Vec<f64>,
}

struct Forms<'a> {
    teacher: &'a Teacher<'a>,
    scale: f64,
    shift: f64,
    is_normalized: bool,
    /// The largest first.
    parts: Vec<Part>,
}

impl Forms<'_> {
    /// Components of `u`: columns, and one for the constant.
    fn width(&self) -> usize {
        self.teacher.machine.columns() + usize::from(self.shift > 0.0)
    }

    fn decompose(&mut self) -> Result<(), CompileError> {
        let (width, columns) = (self.width(), self.teacher.machine.columns());
        let mut u = vec![0.0; width];
        for (score, betas) in self.teacher.betas.iter().enumerate() {
            self.teacher.watch.step("decomposing forms", score, self.teacher.betas.len())?;
            let mut form = vec![0.0; width * width];
            for (row, beta) in self.teacher.supports.iter().zip(betas) {
                row.write_dense(&mut u[..columns]);
                u[..columns].iter_mut().for_each(|x| *x *= self.scale.sqrt());
                if let Some(last) = u.get_mut(columns) {
                    *last = self.shift.sqrt();
                }
                let size = if self.is_normalized { dot(&u, &u) } else { 1.0 };
                if *beta == 0.0 || size <= 0.0 {
                    continue;
                }
                for (line, own) in form.chunks_exact_mut(width).zip(&u).filter(|(_, x)| **x != 0.0)
                {
                    let factor = beta / size * own;
                    line.iter_mut().zip(&u).for_each(|(place, x)| *place += factor * x);
                }
            }
            let (values, vectors) = symmetric(form, width)
                .ok_or_else(|| unfit("quadratic", "its eigenvectors could not be found"))?;
            let most = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            for (value, vector) in values.iter().zip(vectors.chunks_exact(width)) {
                if value.abs() > ROUNDING * most {
                    self.parts.push(Part { score, value: *value, vector: vector.to_vec() });
                }
            }
        }
        self.parts.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
        Ok(())
    }

    /// Vectors `√|λ| v` of one score and sign, turned until all have the same last component.
    fn turned(&self, score: usize, sign: f64, size: usize) -> Result<Vec<Vec<f64>>, CompileError> {
        let mine = self.parts.iter().take(size);
        let mine = mine.filter(|part| part.score == score && part.value * sign > 0.0);
        let mut vectors: Vec<Vec<f64>> = mine
            .map(|part| part.vector.iter().map(|x| x * part.value.abs().sqrt()).collect())
            .collect();
        if self.shift == 0.0 || vectors.is_empty() {
            return Ok(vectors);
        }
        let last: Vec<f64> = vectors.iter().map(|vector| vector[self.width() - 1]).collect();
        let (length, count) = (dot(&last, &last).sqrt(), vectors.len() as f64);
        let longest = vectors.iter().map(|v| dot(v, v).sqrt()).fold(0.0, f64::max);
        if length.is_nan() || length <= 1e-9 * longest {
            let reason = "a part of the form has no constant: exact_basis takes such machines";
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

impl Run for Forms<'_> {
    fn at(&mut self, size: usize) -> Result<Points, CompileError> {
        let (teacher, columns) = (self.teacher, self.teacher.machine.columns());
        let scores = teacher.betas.len();
        let (mut values, mut named): (Vec<f64>, Vec<(usize, f64)>) = (Vec::new(), Vec::new());
        for score in 0..scores {
            for sign in [1.0, -1.0] {
                for vector in self.turned(score, sign, size)? {
                    let share =
                        if self.shift > 0.0 { vector[columns] / self.shift.sqrt() } else { 1.0 };
                    let own = values.len();
                    let factor = 1.0 / (self.scale.sqrt() * share);
                    values.extend(vector[..columns].iter().map(|x| x * factor));
                    let square: f64 = dot(&values[own..], &values[own..]);
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
            named.iter().map(|(own, g)| if *own == score { *g } else { 0.0 }).collect()
        };
        let rows = Matrix::dense(columns, values)
            .map_err(|error| unfit("quadratic", format!("a vector is not finite: {error}")))?;
        let offsets = teacher.machine.scores().iter().map(Score::offset).collect();
        Ok(Points { rows, coefficients: (0..scores).map(list).collect(), offsets })
    }

    fn own(&mut self) -> Result<Option<Points>, CompileError> {
        self.at(usize::MAX).map(Some)
    }

    fn curve(&self) -> Vec<(usize, f64)> {
        let mut left: f64 = self.parts.iter().map(|part| part.value * part.value).sum();
        let after = |(size, part): (usize, &Part)| {
            left -= part.value * part.value;
            (size, self.teacher.relative(left))
        };
        (1..).zip(&self.parts).map(after).collect()
    }
}
