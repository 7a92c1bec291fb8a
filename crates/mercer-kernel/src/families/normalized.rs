//! The normalized kernel: an inner kernel scaled to `K(x, x) = 1`. One entry of the registry in `families.rs`.

use mercer_simd::Isa;
use mercer_spec::{Entry, Kind, Parameter, Spec};
use std::sync::Arc;

use super::{finish_of, form_over, inner};
use crate::bound::{HIDDEN, UNIT, capped};
use crate::{Domain, Finish, Form, Kernel, KernelRef, Profile};

/// `K(u, v) / sqrt(K(u, u) K(v, v))`; zero where a self-value is zero.
pub(super) static ENTRY: Entry<KernelRef> = Entry {
    name: "normalized",
    summary: "inner(u, v) / sqrt(inner(u, u) inner(v, v))",
    parameters: &[Parameter {
        name: "inner",
        kind: Kind::Component,
        default: None,
        help: "the semidefinite kernel to normalise",
    }],
    variadic: false,
    build: |checked| {
        let inner = inner(checked)?;
        if !inner.is_positive_semidefinite() {
            let reason = format!("{} is not semidefinite, so it has no norm", inner.spec());
            return Err(checked.refuse(reason));
        }
        Ok(Arc::new(Normalized { inner }))
    },
};

/// Roots of self-values that are used as they are; beyond, powers are normalised before they are taken.
const ROOTS: std::ops::RangeInclusive<f64> = 1e-110..=1e110;
/// Insides of powers that are far from the ends of the range of numbers.
const INSIDES: std::ops::RangeInclusive<f64> = 1e-250..=1e250;
/// What is known of two numbers between -1 and 1.
const WIDEST: f64 = 2.0 + 1e-6;
/// Rows normalised at once.
const PIECE: usize = 192;

#[derive(Debug)]
struct Normalized {
    inner: KernelRef,
}

impl Kernel for Normalized {
    fn form(&self) -> Form<'_> {
        form_over(&self.inner, self)
    }

    fn is_positive_semidefinite(&self) -> bool {
        true
    }

    fn spec(&self) -> Spec {
        Spec::new("normalized").with(self.inner.spec())
    }

    fn domain(&self) -> Domain {
        self.inner.domain()
    }
}

/// The inner kernel as a power of a linear function of its sums.
#[derive(Debug, Clone, Copy)]
struct InnerPower {
    scale: f64,
    shift: f64,
    degree: u32,
}

impl InnerPower {
    fn of(inner: &dyn Finish) -> Option<Self> {
        match inner.profile() {
            Profile::Identity => Some(Self { scale: 1.0, shift: 0.0, degree: 1 }),
            Profile::Power { scale, shift, degree } => Some(Self { scale, shift, degree }),
            _ => None,
        }
    }

    fn inside(self, sum: f64) -> f64 {
        sum.mul_add(self.scale, self.shift)
    }

    /// `(t(u, v) / sqrt(t(u, u) t(v, v)))^p`: nothing on the way leaves the range of numbers but the result.
    fn normalized(self, sum: f64, uu: f64, vv: f64) -> f64 {
        let (a, b) = (self.inside(uu).sqrt(), self.inside(vv).sqrt());
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        if low == 0.0 {
            return 0.0;
        }
        mercer_simd::powi1((self.inside(sum) / high / low).clamp(-1.0, 1.0), self.degree)
    }

    /// Whether a row whose self-value has this root needs no scaling, or has the value 0 in either form.
    fn suits(self, root: f64, squared_norm: f64) -> bool {
        ROOTS.contains(&root) || (root == 0.0 && squared_norm == 0.0 && self.shift == 0.0)
    }
}

/// The quotient of a value and the two roots.
fn quotient(value: f64, query_root: f64, root: f64) -> f64 {
    let norm = query_root * root;
    // Subnormal self-values are coarse enough to push the quotient beyond 1.
    if norm > 0.0 { (value / norm).clamp(-1.0, 1.0) } else { 0.0 }
}

impl Finish for Normalized {
    /// Quotients of inner values where those are ordinary; else powers of normalised insides, which lie within
    /// [-1, 1]. Which of the two is a function of the two rows.
    fn finish(&self, isa: Isa, sums: &mut [f64], uu: f64, vv: &[f64]) {
        let inner = finish_of(&self.inner);
        let power = InnerPower::of(inner);
        let mut query_root = [uu];
        inner.self_values(isa, &mut query_root);
        mercer_simd::sqrt(isa, &mut query_root);
        let query_root = query_root[0];
        let suits = |root: f64, vv: f64| power.is_none_or(|power| power.suits(root, vv));
        let query_suits = suits(query_root, uu);
        // On the stack, piece by piece: this runs for every query and tile.
        let (mut roots, mut base) = ([0.0; PIECE], [0.0; PIECE]);
        for (sums, vv) in sums.chunks_mut(PIECE).zip(vv.chunks(PIECE)) {
            let (roots, base) = (&mut roots[..vv.len()], &mut base[..vv.len()]);
            roots.copy_from_slice(vv);
            inner.self_values(isa, roots);
            mercer_simd::sqrt(isa, roots);
            let all_suit = query_suits && roots.iter().zip(vv).all(|(root, vv)| suits(*root, *vv));
            if !all_suit {
                base.copy_from_slice(sums);
            }
            inner.finish(isa, sums, uu, vv);
            for (sum, root) in sums.iter_mut().zip(&*roots) {
                *sum = quotient(*sum, query_root, *root);
            }
            let Some(power) = power.filter(|_| !all_suit) else { continue };
            for (((sum, base), root), vv) in sums.iter_mut().zip(base).zip(roots).zip(vv) {
                if !(query_suits && suits(*root, *vv)) {
                    *sum = power.normalized(*base, uu, *vv);
                }
            }
        }
    }

    /// Once for each level of nested kernels.
    fn self_values(&self, isa: Isa, norms: &mut [f64]) {
        let inner = finish_of(&self.inner);
        let power = InnerPower::of(inner);
        let mut base = [0.0; PIECE];
        for norms in norms.chunks_mut(PIECE) {
            let base = &mut base[..norms.len()];
            base.copy_from_slice(norms);
            inner.self_values(isa, norms);
            for (value, base) in norms.iter_mut().zip(base) {
                let root = value.sqrt();
                *value = match power.filter(|power| !power.suits(root, *base)) {
                    Some(power) => power.normalized(*base, *base, *base),
                    None => quotient(*value, root, root),
                };
            }
        }
    }

    fn bound(&self, _: f64, _: f64, _: f64) -> f64 {
        1.0 + 1e-6
    }

    fn self_bound(&self, _: f64) -> f64 {
        1.0
    }

    fn is_ordinary(&self, vv: f64) -> bool {
        finish_of(&self.inner).is_ordinary(vv)
    }

    /// With r the inner relative error: the numerator is wrong by `r bound <= r N (1 + 1e-6)` because a
    /// polynomial with non-negative constant has `bound(u, v) <= N = sqrt(K(u,u) K(v,v))`, the two roots
    /// by `r / 2` each, and four roundings follow.
    ///
    /// Powers of normalised insides: `t(u, v)` is wrong by `(relative + u) sqrt(t(u, u) t(v, v))`, for the same
    /// reason, each root by half of `relative + u` and a rounding, and two divisions follow: `2 relative + 6u`
    /// together, `p` times that after the power, and `p` roundings of its own: `p (2 relative + 7u)`. What
    /// underflows is far below. Nothing is known of insides that underflow but that both the value and the
    /// quotient lie within [-1, 1]; where one may overflow the quotient may be NaN and nothing is claimed.
    fn error(&self, relative: f64, uu: f64, vv: f64, _: f64) -> f64 {
        let inner = finish_of(&self.inner);
        if inner.is_ordinary(uu) && inner.is_ordinary(vv) {
            return self.relative_error(relative).unwrap_or(f64::INFINITY);
        }
        let Some(power) = InnerPower::of(inner) else {
            let is_finite = |square: f64| inner.bound(square, square, square).is_finite();
            return if is_finite(uu) && is_finite(vv) { WIDEST } else { f64::INFINITY };
        };
        let insides = [power.inside(uu), power.inside(vv)];
        if !insides.iter().all(|inside| inside.is_finite()) {
            return f64::INFINITY;
        }
        let is_known = |squared_norm: f64, inside: f64| {
            INSIDES.contains(&inside)
                && power.scale * HIDDEN <= 1e-20 * inside
                && squared_norm < 1e250
        };
        if !(is_known(uu, insides[0]) && is_known(vv, insides[1])) {
            return WIDEST;
        }
        let p = f64::from(power.degree);
        if p * (relative + UNIT) < 1e-2 {
            capped(2.2 * p * (relative + 4.0 * UNIT) + 6.0 * UNIT, WIDEST)
        } else {
            WIDEST
        }
    }

    fn relative_error(&self, relative: f64) -> Option<f64> {
        let inner = finish_of(&self.inner).relative_error(relative)?;
        (inner < 1e-2).then_some(2.1 * inner + 6.0 * UNIT)
    }

    fn profile(&self) -> Profile {
        match finish_of(&self.inner).profile() {
            Profile::Power { scale, shift, degree } => {
                Profile::NormalizedPower { scale, shift, degree }
            }
            Profile::Identity => Profile::NormalizedPower { scale: 1.0, shift: 0.0, degree: 1 },
            _ => Profile::Other,
        }
    }
}
