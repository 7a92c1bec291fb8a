//! The normalized kernel: an inner kernel scaled to `K(x, x) = 1`. One entry of the registry in `families.rs`.

use mercer_simd::Isa;
use mercer_spec::{Entry, Kind, Parameter, Spec};
use std::sync::Arc;

use super::{finish_of, form_over, inner};
use crate::bound::UNIT;
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

/// Sums above it lose no digits to underflow.
const SAFE: f64 = 1e-280;
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

impl Finish for Normalized {
    fn finish(&self, isa: Isa, sums: &mut [f64], uu: f64, vv: &[f64]) {
        let inner = finish_of(&self.inner);
        inner.finish(isa, sums, uu, vv);
        let mut query_root = [uu];
        inner.self_values(isa, &mut query_root);
        mercer_simd::sqrt(isa, &mut query_root);
        // On the stack, piece by piece: this runs for every query and tile.
        let mut roots = [0.0; PIECE];
        for (sums, vv) in sums.chunks_mut(PIECE).zip(vv.chunks(PIECE)) {
            let roots = &mut roots[..vv.len()];
            roots.copy_from_slice(vv);
            inner.self_values(isa, roots);
            mercer_simd::sqrt(isa, roots);
            for (sum, root) in sums.iter_mut().zip(&*roots) {
                let norm = query_root[0] * root;
                // Subnormal self-values are coarse enough to push the quotient beyond 1.
                *sum = if norm > 0.0 { (*sum / norm).clamp(-1.0, 1.0) } else { 0.0 };
            }
        }
    }

    fn bound(&self, _: f64, _: f64, _: f64) -> f64 {
        1.0 + 1e-6
    }

    fn self_bound(&self, _: f64) -> f64 {
        1.0
    }

    /// With r the inner relative error: the numerator is wrong by `r bound <= r N (1 + 1e-6)` because a
    /// polynomial with non-negative constant has `bound(u, v) <= N = sqrt(K(u,u) K(v,v))`, the two roots
    /// by `r / 2` each, and four roundings follow.
    ///
    /// Where a self-value may overflow the quotient is NaN and nothing is claimed. Where one may have
    /// underflowed nothing is known but that both the value and the quotient lie within [-1, 1].
    fn error(&self, relative: f64, uu: f64, vv: f64, _: f64) -> f64 {
        let inner = finish_of(&self.inner);
        let size = |square: f64| inner.bound(square, square, square);
        let (least, most) = (size(uu).min(size(vv)), size(uu).max(size(vv)));
        if !most.is_finite() {
            f64::INFINITY
        } else if least < SAFE {
            2.0 + 1e-6
        } else {
            self.relative_error(relative).unwrap_or(f64::INFINITY)
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
