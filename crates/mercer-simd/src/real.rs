//! Rows of f32 or f64 times f64 vectors, for training.

use std::ops::MulAssign;

use crate::isa::Isa;
use crate::product::{ProductShape, Strided, StridedMut, product};
use crate::vector::{SimdBackend, Task};

/// A stored number, f32 or f64; sums are always in f64.
pub trait Real:
    Copy + Default + PartialEq + MulAssign + Send + Sync + std::fmt::Debug + 'static
{
    /// Size in bytes.
    const BYTES: usize;
    /// Unit roundoff: half the distance from 1 to the next number.
    const UNIT: f64;

    /// Rounds an f64.
    fn from_f64(value: f64) -> Self;

    /// Converts to f64, exactly.
    fn to_f64(self) -> f64;

    /// `self factor + term`, rounded once.
    #[must_use]
    fn fused(self, factor: Self, term: Self) -> Self;

    /// `out = keep out + add A B`, in the precision of the type.
    ///
    /// One thread; bits may change with the shape and the processor.
    ///
    /// # Panics
    /// If a matrix reaches beyond its slice.
    fn product(
        shape: ProductShape,
        a: Strided<'_, Self>,
        b: Strided<'_, Self>,
        out: StridedMut<'_, Self>,
        keep: f64,
        add: f64,
    );

    /// Reads a number from its bytes in native byte order.
    fn from_bytes(bytes: &[u8]) -> Self;

    /// Appends its bytes in native byte order.
    fn push_bytes(self, out: &mut Vec<u8>);
}

macro_rules! real {
    ($type:ty, $unit:expr) => {
        impl Real for $type {
            const BYTES: usize = size_of::<$type>();
            const UNIT: f64 = $unit;

            #[inline(always)]
            #[allow(clippy::cast_lossless, reason = "one body for f32 and f64")]
            fn from_f64(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            #[allow(clippy::cast_lossless, reason = "one body for f32 and f64")]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn fused(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }

            fn product(
                shape: ProductShape,
                a: Strided<'_, Self>,
                b: Strided<'_, Self>,
                mut out: StridedMut<'_, Self>,
                keep: f64,
                add: f64,
            ) {
                product(
                    shape,
                    a,
                    b,
                    &mut out,
                    Self::from_f64(keep),
                    Self::from_f64(add),
                    keep != 0.0,
                );
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(bytes);
                Self::from_ne_bytes(array)
            }

            fn push_bytes(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_ne_bytes());
            }
        }
    };
}

real!(f32, 5.960464477539063e-8);
real!(f64, 1.1102230246251565e-16);

/// Partial sums of a dot product, by index.
const PARTS: usize = 32;

struct RowDot<'a, T>(&'a [T], &'a [f64]);

impl<T: Real> Task for RowDot<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> f64 {
        let (rows, row_rest) = self.0.as_chunks::<PARTS>();
        let (vectors, rest) = self.1.as_chunks::<PARTS>();
        let mut parts = [0.0f64; PARTS];
        for (row, vector) in rows.iter().zip(vectors) {
            for ((part, a), b) in parts.iter_mut().zip(row).zip(vector) {
                *part = a.to_f64().mul_add(*b, *part);
            }
        }
        for ((part, a), b) in parts.iter_mut().zip(row_rest).zip(rest) {
            *part = a.to_f64().mul_add(*b, *part);
        }
        let mut width = PARTS;
        while width > 1 {
            width /= 2;
            for at in 0..width {
                parts[at] += parts[at + width];
            }
        }
        parts[0]
    }
}

/// `Σ row_i vector_i`: 32 partial sums by index and a fixed tree, so that bits are those of any processor.
///
/// # Panics
/// If the lengths differ.
pub fn row_dot<T: Real>(isa: Isa, row: &[T], vector: &[f64]) -> f64 {
    assert_eq!(row.len(), vector.len(), "one number each");
    isa.run(RowDot(row, vector))
}

struct Chain<I>(I);

impl<'a, I: Iterator<Item = (&'a f64, &'a f64)>> Task for Chain<I> {
    type Output = f64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> f64 {
        self.0.fold(0.0, |sum, (weight, value)| weight.mul_add(*value, sum))
    }
}

/// `Σ weight value` as one chain of fused multiply-adds in the order of the pairs.
pub fn chain<'a>(isa: Isa, pairs: impl Iterator<Item = (&'a f64, &'a f64)>) -> f64 {
    isa.run(Chain(pairs))
}

struct AddRow<'a, T>(f64, &'a [T], &'a mut [f64]);

impl<T: Real> Task for AddRow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let factor = self.0;
        for (sum, value) in self.2.iter_mut().zip(self.1) {
            *sum = value.to_f64().mul_add(factor, *sum);
        }
    }
}

/// `vector += factor row`.
///
/// # Panics
/// If the lengths differ.
pub fn add_row<T: Real>(isa: Isa, factor: f64, row: &[T], vector: &mut [f64]) {
    assert_eq!(row.len(), vector.len(), "one number each");
    isa.run(AddRow(factor, row, vector));
}

struct Scaled<'a, T>(&'a [T], f64, &'a mut [f64]);

impl<T: Real> Task for Scaled<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let factor = self.1;
        for (place, value) in self.2.iter_mut().zip(self.0) {
            *place = value.to_f64() * factor;
        }
    }
}

/// `out = factor row`.
///
/// # Panics
/// If the lengths differ.
pub fn scale_row<T: Real>(isa: Isa, row: &[T], factor: f64, out: &mut [f64]) {
    assert_eq!(row.len(), out.len(), "one number each");
    isa.run(Scaled(row, factor, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_against_vectors_are_the_same_bits_on_every_processor() {
        let row: Vec<f32> = (0..77).map(|i| (f64::from(i) * 0.37).sin() as f32).collect();
        let vector: Vec<f64> = (0..77).map(|i| (f64::from(i) * 0.11).cos()).collect();
        let plain: f64 = row.iter().zip(&vector).map(|(a, b)| f64::from(*a) * b).sum();
        let first = row_dot(Isa::SCALAR, &row, &vector);
        assert!((first - plain).abs() < 1e-13);
        for isa in Isa::available() {
            assert_eq!(row_dot(*isa, &row, &vector).to_bits(), first.to_bits());
            let mut sum = vector.clone();
            add_row(*isa, 0.3, &row, &mut sum);
            let mut same = vector.clone();
            add_row(Isa::SCALAR, 0.3, &row, &mut same);
            assert_eq!(sum, same);
        }
    }

    #[test]
    fn a_chain_is_fused_and_in_order_on_every_processor() {
        // (1 + h)² - 1 = 2h + h², and h² is lost if the square is rounded first.
        let h = 2.0f64.powi(-30);
        let (weights, values) = ([1.0, 1.0 + h], [-1.0, 1.0 + h]);
        let mut expected = 0.0f64;
        for (weight, value) in weights.iter().zip(&values) {
            expected = weight.mul_add(*value, expected);
        }
        let unfused: f64 = weights.iter().zip(&values).map(|(a, b)| a * b).sum();
        assert_ne!(expected.to_bits(), unfused.to_bits(), "the case tells the two apart");
        for isa in Isa::available() {
            let sum = chain(*isa, weights.iter().zip(&values));
            assert_eq!(sum.to_bits(), expected.to_bits());
        }
    }

    #[test]
    fn strided_products_are_the_plain_ones() {
        // A is 2 x 3 read by columns, B is 3 x 2 inside rows of 4.
        let a = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
        let b = [1.0, 2.0, 9.0, 9.0, 3.0, 4.0, 9.0, 9.0, 5.0, 6.0, 9.0, 9.0];
        let mut out = [100.0; 4];
        let (a, b) = (
            Strided { values: &a[..], row: 1, column: 2 },
            Strided { values: &b[..], row: 4, column: 1 },
        );
        f64::product(
            ProductShape { rows: 2, columns: 2, inner: 3 },
            a,
            b,
            StridedMut { values: &mut out, row: 2, column: 1 },
            1.0,
            -1.0,
        );
        assert_eq!(out.map(|x| x as i32), [78, 72, 51, 36]);
    }

    #[test]
    #[should_panic(expected = "b is inner times columns")]
    fn a_product_beyond_its_slice_is_refused() {
        let a = Strided { values: &[1.0, 2.0][..], row: 2, column: 1 };
        let b = Strided { values: &[1.0][..], row: 1, column: 1 };
        let mut out = [0.0];
        let shape = ProductShape { rows: 1, columns: 1, inner: 2 };
        f64::product(shape, a, b, StridedMut { values: &mut out, row: 1, column: 1 }, 0.0, 1.0);
    }
}
