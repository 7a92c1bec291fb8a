//! The twin without target features: arrays as vectors, `mul_add` as fused multiply-add.
//!
//! Its shapes are those of AVX-512 (eight doubles, sixteen singles, eight or sixteen byte rows), so
//! testing it tests the geometry that AVX-512 takes.

#![expect(unsafe_code, reason = "implements the unsafe constructors of the vector traits")]

use crate::vector::{ByteVector, Machine, Task, Vector};

/// The plain machine.
pub struct Scalar;

impl Machine for Scalar {
    type V64 = Lanes<f64, 8>;
    type V32 = Lanes<f32, 16>;
    type Bytes = Sums;
}

/// Compiles a task for no instruction set in particular.
pub fn run<T: Task>(task: T) -> T::Output {
    task.run::<Scalar>()
}

/// An array that plays the part of a register.
#[derive(Copy, Clone)]
pub struct Lanes<T, const N: usize>([T; N]);

macro_rules! lanes {
    ($element:ty, $lanes:literal) => {
        impl Vector for Lanes<$element, $lanes> {
            type Element = $element;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(x: $element) -> Self {
                Lanes([x; $lanes])
            }

            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: the caller gives that many readable elements.
                Lanes(unsafe { from.cast::<[$element; $lanes]>().read_unaligned() })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: the caller gives that many writable elements.
                unsafe { to.cast::<[$element; $lanes]>().write_unaligned(self.0) }
            }

            #[inline(always)]
            fn fma(mut self, factor: Self, term: Self) -> Self {
                for lane in 0..$lanes {
                    self.0[lane] = self.0[lane].mul_add(factor.0[lane], term.0[lane]);
                }
                self
            }

            #[inline(always)]
            fn add(mut self, other: Self) -> Self {
                for lane in 0..$lanes {
                    self.0[lane] += other.0[lane];
                }
                self
            }
        }
    };
}

lanes!(f64, 8);
lanes!(f32, 16);

/// Sixteen sums of byte products.
#[derive(Copy, Clone)]
pub struct Sums([i32; 16]);

impl ByteVector for Sums {
    const ROWS: usize = 16;
    type Query = [i32; 4];

    #[inline(always)]
    unsafe fn zero() -> Self {
        Sums([0; 16])
    }

    #[inline(always)]
    unsafe fn query(bytes: *const u8, _wide: *const i16) -> [i32; 4] {
        // SAFETY: the caller gives four readable bytes.
        let bytes = unsafe { bytes.cast::<[u8; 4]>().read_unaligned() };
        [bytes[0].into(), bytes[1].into(), bytes[2].into(), bytes[3].into()]
    }

    #[inline(always)]
    unsafe fn multiply_add<const Q: usize>(
        sums: &mut [Self; Q],
        queries: &[[i32; 4]; Q],
        rows: *const i8,
    ) {
        // SAFETY: the caller gives 64 readable bytes.
        let rows = unsafe { rows.cast::<[[i8; 4]; 16]>().read_unaligned() };
        for q in 0..Q {
            for (sum, row) in sums[q].0.iter_mut().zip(&rows) {
                for (x, &z) in queries[q].iter().zip(row) {
                    *sum += x * i32::from(z);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: the caller gives that many writable elements.
        unsafe { to.cast::<[i32; 16]>().write_unaligned(self.0) }
    }
}
