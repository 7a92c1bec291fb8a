//! How kernels are computed: a sum over columns, then an elementwise function.
//!
//! The blocks of many values are in `block.rs`, the kernels themselves in `families/`.

use std::fmt::Debug;

use mercer_data::Row;
use mercer_simd::Isa;

/// Self-values of ordinary rows. A value of two such rows is compared with the root of both: beside `1e-200`,
/// the few `2^-1074` that underflow are far below the rounding unit.
pub(crate) const ORDINARY: std::ops::RangeInclusive<f64> = 1e-200..=1e200;

/// How a kernel is computed: a sum over columns, then a function of three such sums.
///
/// With base `b(u, v) = Σ_j κ(u_j, v_j)` the kernel is `h(b(u, v), b(u, u), b(v, v))`.
#[derive(Debug, Clone, Copy)]
pub enum Form<'a> {
    /// The base is the dot product.
    Dot(&'a dyn Finish),
    /// As `Dot`, and the value depends on `u - v` only, so rows may be shifted by a common centre.
    Shift(&'a dyn Finish),
    /// The base is a sum of scalar kernels.
    Additive(&'a dyn Term, &'a dyn Finish),
    /// Only [`crate::Kernel::value`] is known.
    Opaque,
}

/// A scalar kernel κ, zero at (0, 0).
pub trait Term: Debug + Send + Sync {
    /// κ(u, v).
    fn term(&self, u: f64, v: f64) -> f64;

    /// The vectorised twin with the same bits, if there is one; without it blocks are summed one by one.
    fn simd_twin(&self) -> Option<mercer_simd::Term> {
        None
    }

    /// Whether κ(u, 0) = κ(0, v) = 0, so that only columns where both rows are non-zero count.
    fn vanishes_at_zero(&self) -> bool {
        true
    }

    /// Bound on `Σ|κ(u_j, v_j)|` from the two squared norms; Cauchy-Schwarz where κ is semidefinite.
    fn magnitude(&self, uu: f64, vv: f64) -> f64 {
        uu.sqrt() * vv.sqrt()
    }

    /// Relative error of one computed term, in units of the rounding unit.
    fn rounding(&self) -> f64;

    /// What is known of `t -> κ(s, t)` for `s > 0`, on `t >= 0`.
    fn curve(&self) -> Curve {
        Curve::Unknown
    }
}

/// The shape of a scalar kernel as a function of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// Zero at zero, concave, non-decreasing, a straight line up to s and constant beyond.
    Kinked,
    /// Zero at zero, concave, non-decreasing.
    Concave,
    /// Anything.
    Unknown,
}

/// The function applied to the sums.
pub trait Finish: Debug + Send + Sync {
    /// Turns base sums of one query `u` against many `v` into kernel values, in place.
    fn finish(&self, isa: Isa, sums: &mut [f64], uu: f64, vv: &[f64]);

    /// Turns squared norms `b(v, v)` into self-values `K(v, v)`, in place, with the bits of [`Finish::finish`].
    fn self_values(&self, isa: Isa, norms: &mut [f64]) {
        for sum in norms {
            let squared_norm = [*sum];
            self.finish(isa, std::slice::from_mut(sum), squared_norm[0], &squared_norm);
        }
    }

    /// Bound on |K(u, v)| given the squared norms and a bound on |b(u, v)|.
    fn bound(&self, uu: f64, vv: f64, magnitude: f64) -> f64;

    /// Bound on `K(v, v)` given a bound on `b(v, v)`, as tight as can be: what is left of a query after a
    /// projection is a difference from it.
    fn self_bound(&self, vv: f64) -> f64 {
        self.bound(vv, vv, vv)
    }

    /// Bound on the absolute error of a computed value, when `b(u, v)` is wrong by at most
    /// `relative * magnitude` and the squared norms by the relative error `relative`. Between two values of
    /// `vv` it is at most the larger of the errors there.
    fn error(&self, relative: f64, uu: f64, vv: f64, magnitude: f64) -> f64;

    /// A number r such that the error is at most `r * bound` for all rows that are ordinary, if there is one.
    fn relative_error(&self, relative: f64) -> Option<f64>;

    /// Whether all numbers on the way to a value of rows with this squared norm stay so far from the ends of the
    /// range of f64 that [`Finish::relative_error`] covers what underflows. If two squared norms are ordinary, so is all
    /// between them.
    fn is_ordinary(&self, vv: f64) -> bool {
        ORDINARY.contains(&self.self_bound(vv))
    }

    /// What the function is, for stages that use its derivatives.
    fn profile(&self) -> Profile {
        Profile::Other
    }

    /// How the kernel is an exponential of a sum over columns, and so a product over columns, if it is one.
    fn exponential(&self) -> Option<ExponentialForm> {
        None
    }
}

/// Kernels that are exponentials of base sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExponentialForm {
    /// `exp(-gamma s)`
    OfSum {
        /// Factor of the base sum.
        gamma: f64,
    },
    /// `exp(-gamma (uu + vv - 2 s))`
    OfDistance {
        /// Factor of the distance.
        gamma: f64,
    },
}

/// Functions whose derivatives stages know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Profile {
    /// `s`
    Identity,
    /// `(scale s + shift)^degree`
    Power {
        /// Factor of the base.
        scale: f64,
        /// Added constant.
        shift: f64,
        /// Exponent.
        degree: u32,
    },
    /// `((scale s + shift)^degree)` divided by the root of its self-values
    NormalizedPower {
        /// Factor of the base.
        scale: f64,
        /// Added constant.
        shift: f64,
        /// Exponent.
        degree: u32,
    },
    /// `exp(-gamma (uu + vv - 2 s))`
    Gaussian {
        /// Inverse width.
        gamma: f64,
    },
    /// `tanh(scale s + shift)`
    Sigmoid {
        /// Factor of the base.
        scale: f64,
        /// Added constant.
        shift: f64,
    },
    /// Anything else.
    Other,
}

impl Form<'_> {
    /// The reference value: base sums as one chain in column order, then the function.
    ///
    /// # Panics
    /// For `Opaque`, whose kernels define `value` themselves.
    pub fn value(&self, u: Row<'_>, v: Row<'_>) -> f64 {
        let finish = self.finish().expect("opaque kernels define value themselves");
        let mut sum = [self.base(u, v)];
        finish.finish(Isa::current(), &mut sum, self.base(u, u), &[self.base(v, v)]);
        sum[0]
    }

    /// The base sum `b(u, v)`: one chain in column order; zero for `Opaque`.
    pub fn base(&self, u: Row<'_>, v: Row<'_>) -> f64 {
        match self {
            Form::Dot(_) | Form::Shift(_) => dot(u, v),
            Form::Additive(term, _) => additive(*term, u, v),
            Form::Opaque => 0.0,
        }
    }

    /// The function applied to the sums.
    pub fn finish(&self) -> Option<&dyn Finish> {
        match self {
            Form::Dot(finish) | Form::Shift(finish) | Form::Additive(_, finish) => Some(*finish),
            Form::Opaque => None,
        }
    }
}

fn dot(u: Row<'_>, v: Row<'_>) -> f64 {
    let isa = Isa::current();
    match (u, v) {
        (Row::Dense(u), Row::Dense(v)) => {
            let shared = u.len().min(v.len());
            mercer_simd::dot(isa, &u[..shared], &v[..shared])
        }
        (Row::Sparse { columns, values }, Row::Sparse { columns: others, values: weights }) => {
            mercer_simd::dot_sparse(isa, columns, values, others, weights)
        }
        (Row::Dense(dense), Row::Sparse { columns, values })
        | (Row::Sparse { columns, values }, Row::Dense(dense)) => {
            let inside = columns.partition_point(|column| (*column as usize) < dense.len());
            let chain = |sum: f64, (column, value): (&u32, &f64)| {
                dense[*column as usize].mul_add(*value, sum)
            };
            // A sum that underflows may end in -0 or 0, as zeros are skipped or not; here it is 0.
            columns[..inside].iter().zip(values).fold(0.0, chain) + 0.0
        }
    }
}

/// Sum over the columns where either row is non-zero, in column order.
fn additive(term: &dyn Term, u: Row<'_>, v: Row<'_>) -> f64 {
    let mut sum = 0.0;
    let (mut left, mut right) = (u.nonzeros().peekable(), v.nonzeros().peekable());
    let both_needed = term.vanishes_at_zero();
    loop {
        let (a, b) = match (left.peek(), right.peek()) {
            (Some((i, a)), Some((j, b))) if i == j => (*a, *b),
            (Some((i, a)), Some((j, _))) if i < j => (*a, 0.0),
            (Some((_, a)), None) => (*a, 0.0),
            (_, Some((_, b))) => (0.0, *b),
            (None, None) => return sum,
        };
        if a != 0.0 {
            left.next();
        }
        if b != 0.0 {
            right.next();
        }
        if (a != 0.0 && b != 0.0) || !both_needed {
            sum += term.term(a, b);
        }
    }
}
