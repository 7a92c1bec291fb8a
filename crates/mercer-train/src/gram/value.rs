//! The type of stored kernel values: f32 or f64.
//! When f32 suffices is decided in `source` and by the solver.

use mercer_simd::Real;

/// A stored kernel value: f32 or f64.
pub(crate) trait GramValue: Real {
    fn from_f32(value: f32) -> Self;
}

impl GramValue for f32 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
}

impl GramValue for f64 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        f64::from(value)
    }
}
