//! Element-wise functions over slices, in place; the scalar functions are in `maths.rs`.

use crate::Real;
use crate::isa::Isa;
use crate::maths::{distance1, exp1, gaussian1, ln1, tanh1};
use crate::vector::{SimdBackend, Task};

/// A function of one number.
trait Map {
    fn at(&self, x: f64) -> f64;
}

struct MapAll<'a, F>(&'a mut [f64], F);

impl<F: Map> Task for MapAll<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        for x in self.0 {
            *x = self.1.at(*x);
        }
    }
}

macro_rules! map {
    ($(#[$doc:meta])* $public:ident, $name:ident, $body:expr) => {
        struct $name;

        impl Map for $name {
            #[inline(always)]
            fn at(&self, x: f64) -> f64 {
                $body(x)
            }
        }

        $(#[$doc])*
        pub fn $public(isa: Isa, x: &mut [f64]) {
            isa.run(MapAll(x, $name));
        }
    };
}

map! {
    /// `e^x` of each element, as [`exp1`].
    exp, Exp, exp1
}
map! {
    /// Natural logarithm of each element, as [`ln1`].
    ln, Ln, ln1
}
map! {
    /// Hyperbolic tangent of each element, as [`tanh1`].
    tanh, Tanh, tanh1
}
map! {
    /// Square root of each element, correctly rounded.
    sqrt, Sqrt, f64::sqrt
}

/// A function of a dot product and a squared norm.
trait Epilogue {
    fn at(&self, dot: f64, norm: f64) -> f64;
}

struct Finish<'a, F>(&'a mut [f64], &'a [f64], F);

impl<F: Epilogue> Task for Finish<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        for (dot, &norm) in self.0.iter_mut().zip(self.1) {
            *dot = self.2.at(*dot, norm);
        }
    }
}

struct Distance(f64);

impl Epilogue for Distance {
    #[inline(always)]
    fn at(&self, dot: f64, norm: f64) -> f64 {
        distance1(dot, self.0, norm)
    }
}

struct Gaussian(f64, f64);

impl Epilogue for Gaussian {
    #[inline(always)]
    fn at(&self, dot: f64, norm: f64) -> f64 {
        gaussian1(dot, self.0, norm, self.1)
    }
}

/// Turns dot products into squared distances, as [`distance1`].
///
/// # Panics
/// If the lengths differ.
pub fn distances(isa: Isa, dots: &mut [f64], query_norm: f64, norms: &[f64]) {
    assert_eq!(dots.len(), norms.len(), "one norm per dot product");
    isa.run(Finish(dots, norms, Distance(query_norm)));
}

/// Turns dot products into `e^{−γ distance}` in one pass, as [`gaussian1`].
///
/// # Panics
/// If the lengths differ.
pub fn gaussian(isa: Isa, dots: &mut [f64], query_norm: f64, norms: &[f64], gamma: f64) {
    assert_eq!(dots.len(), norms.len(), "one norm per dot product");
    isa.run(Finish(dots, norms, Gaussian(query_norm, gamma)));
}

struct Polynomial<'a, T> {
    dots: &'a mut [T],
    scale: T,
    shift: T,
    degree: u32,
}

impl<T: Real> Polynomial<'_, T> {
    /// The loop of [`powi1`](crate::powi1) turned inside out: each step over several elements.
    #[inline(always)]
    fn block<const N: usize>(&self, dots: &mut [T; N]) {
        let mut factors = [T::default(); N];
        for (factor, dot) in factors.iter_mut().zip(dots.iter_mut()) {
            *factor = dot.fused(self.scale, self.shift);
            *dot = T::from_f64(1.0);
        }
        let mut left = self.degree;
        while left > 0 {
            for (power, factor) in dots.iter_mut().zip(&mut factors) {
                if left % 2 == 1 {
                    *power *= *factor;
                }
                *factor *= *factor;
            }
            left /= 2;
        }
    }
}

impl<T: Real> Task for Polynomial<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(mut self) {
        let dots = std::mem::take(&mut self.dots);
        let (blocks, rest) = dots.as_chunks_mut::<16>();
        for block in blocks {
            self.block(block);
        }
        for dot in rest {
            self.block(std::array::from_mut(dot));
        }
    }
}

/// `fma(scale, s, shift)^degree` of each element, as [`polynomial1`](crate::polynomial1) in the precision of
/// the type.
pub fn polynomial<T: Real>(isa: Isa, dots: &mut [T], scale: T, shift: T, degree: u32) {
    isa.run(Polynomial { dots, scale, shift, degree });
}
