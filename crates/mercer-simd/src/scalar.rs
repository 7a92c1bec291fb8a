//! The backend without target features, the specification of the others: arrays as vectors, `mul_add`.
//!
//! Its shapes are those of AVX-512 (eight f64, sixteen f32, sixteen byte rows), so
//! testing it tests the geometry that AVX-512 takes.

#![expect(unsafe_code, reason = "implements the unsafe constructors of the vector traits")]

use crate::compact::NO_ROW;
use crate::projection::Weight;
use crate::vector::{ByteVector, Compactor, SimdBackend, Task, Vector};

/// The backend in plain Rust.
pub struct ScalarBackend;

impl SimdBackend for ScalarBackend {
    type V64 = Lanes<f64, 8>;
    type V32 = Lanes<f32, 16>;
    type Bytes = Sums;
    type Compactor = OneByOne;
}

/// One entry at a time.
pub struct OneByOne;

impl Compactor for OneByOne {
    #[inline(always)]
    unsafe fn compact(values: *const f64, rows: *const u32, to: *mut Weight) -> usize {
        let mut count = 0;
        // SAFETY: the caller gives eight readable values and rows; `count` never passes the eight writable places.
        unsafe {
            for at in 0..8 {
                let (row, value) = (rows.add(at).read(), values.add(at).read());
                to.add(count).write(Weight { row, value: value as f32 });
                count += usize::from(value != 0.0 && row != NO_ROW);
            }
        }
        count
    }
}

/// Compiles a task for no instruction set in particular.
pub fn run<T: Task>(task: T) -> T::Output {
    task.run::<ScalarBackend>()
}

/// An array in the role of a register.
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

/// Sixteen sums of products of byte pairs.
#[derive(Copy, Clone)]
pub struct Sums([i32; 16]);

impl ByteVector for Sums {
    const ROWS: usize = 16;
    const GROUP: usize = 2;
    const REGISTERS: usize = 3;
    type Query = [i32; 2];

    fn place(row: usize, column: usize, byte: u8) -> (usize, u8) {
        (2 * row + column, byte)
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Sums([0; 16])
    }

    #[inline(always)]
    unsafe fn query(word: u32) -> [i32; 2] {
        [(word & 0xFFFF).cast_signed(), (word >> 16).cast_signed()]
    }

    #[inline(always)]
    unsafe fn multiply_add(&mut self, query: [i32; 2], rows: *const u8) {
        // SAFETY: the caller gives 32 readable bytes.
        let rows = unsafe { rows.cast::<[[u8; 2]; 16]>().read_unaligned() };
        for (sum, row) in self.0.iter_mut().zip(&rows) {
            *sum += query[0] * i32::from(row[0]) + query[1] * i32::from(row[1]);
        }
    }

    #[inline(always)]
    unsafe fn store(self, _correction: i32, to: *mut i32) {
        // SAFETY: the caller gives that many writable elements.
        unsafe { to.cast::<[i32; 16]>().write_unaligned(self.0) }
    }
}
