//! Encodings: how the cells of packed rows are read as numbers and how updates are written to the weights.
//!
//! The exact step encoding of the intersection kernel is in `step_encoding.rs`.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::packed_row::{PackedRow, RecordTask};
use super::records::Cells;
use super::{Factors, Records};
use crate::aligned;
use crate::real::Real;

/// The type of coefficients, values and weights of a sweep: f32 or f64.
pub trait Float:
    Real
    + aligned::PlainNumber
    + PartialOrd
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// Positive infinity.
    const INFINITY: Self;
    /// The smallest positive normal number.
    const MIN_POSITIVE: Self;

    /// The larger one.
    #[must_use]
    fn max(self, other: Self) -> Self;

    /// The smaller one.
    #[must_use]
    fn min(self, other: Self) -> Self;

    /// The absolute value.
    #[must_use]
    fn abs(self) -> Self;
}

macro_rules! scalar {
    ($($type:ident),*) => {$(
        impl Float for $type {
            const INFINITY: Self = $type::INFINITY;
            const MIN_POSITIVE: Self = $type::MIN_POSITIVE;

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                self.max(other)
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
        }
    )*};
}
scalar!(f32, f64);

/// How cells of records become numbers: bins through [`Factors`] or [`super::StepEncoding`], or unencoded values
/// ([`RawValues`]).
pub trait Encoding: std::fmt::Debug + Sync {
    /// The type of values and weights.
    type Real: Float;

    /// Weights of one column.
    fn rank(&self) -> usize;

    /// Whether these records hold cells of this encoding.
    fn fits(&self, records: &Records) -> bool;

    /// The squared norm of the function with these weights, in f64.
    fn squared_norm(&self, weights: &[f64]) -> f64 {
        weights.iter().map(|w| w * w).sum()
    }

    /// Runs a task compiled for these records.
    #[doc(hidden)]
    fn choose<W: RecordTask<Self::Real>>(&self, records: &Records, work: W) -> W::Output;
}

/// Unencoded values, with weights in f64: a linear machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawValues;

impl Encoding for Factors {
    type Real = f32;

    fn rank(&self) -> usize {
        self.rank
    }

    fn fits(&self, records: &Records) -> bool {
        records.cells() == Cells::Bins(self.bins)
    }

    fn choose<W: RecordTask<f32>>(&self, records: &Records, work: W) -> W::Output {
        match self.rank {
            1 => with_table_reader::<1, W>(self, records, work),
            4 => with_table_reader::<4, W>(self, records, work),
            8 => with_table_reader::<8, W>(self, records, work),
            _ => with_table_reader::<16, W>(self, records, work),
        }
    }
}

fn with_table_reader<const R: usize, W: RecordTask<f32>>(
    factors: &Factors,
    records: &Records,
    work: W,
) -> W::Output {
    let reader = TableReader::<R> { read: factors.read(), write: factors.write() };
    match (records.is_narrow(), factors.bins <= 1 << 8) {
        (true, true) => work.run::<u16, u8, _>(reader),
        (false, true) => work.run::<u32, u8, _>(reader),
        (true, false) => work.run::<u16, u16, _>(reader),
        (false, false) => work.run::<u32, u16, _>(reader),
    }
}

impl Encoding for RawValues {
    type Real = f64;

    fn rank(&self) -> usize {
        1
    }

    fn fits(&self, records: &Records) -> bool {
        matches!(records.cells(), Cells::F32 | Cells::F64)
    }

    fn choose<W: RecordTask<f64>>(&self, records: &Records, work: W) -> W::Output {
        match (records.is_narrow(), records.cells() == Cells::F32) {
            (true, true) => work.run::<u16, f32, _>(RawValues),
            (false, true) => work.run::<u32, f32, _>(RawValues),
            (true, false) => work.run::<u16, f64, _>(RawValues),
            (false, false) => work.run::<u32, f64, _>(RawValues),
        }
    }
}

/// A column or a cell as it is stored.
pub trait Stored: Copy {
    /// What is read.
    type Read;

    /// # Safety
    /// `from` must be readable.
    unsafe fn read(from: *const Self) -> Self::Read;
}

macro_rules! stored {
    ($($type:ty as $read:ty),*) => {$(
        impl Stored for $type {
            type Read = $read;

            #[inline(always)]
            unsafe fn read(from: *const Self) -> $read {
                // SAFETY: the caller gives a readable place; records need no alignment here.
                unsafe { from.read_unaligned() as $read }
            }
        }
    )*};
}
stored!(u8 as usize, u16 as usize, u32 as usize, f32 as f64, f64 as f64);

/// How rows of columns `C` and cells `L` are read and written.
///
/// # Safety of all its functions
/// The row must belong to records of the reader's encoding, and weights or sums must hold `rank` numbers for each
/// column.
pub trait Reader<C, L>: Copy {
    /// The type of values and weights.
    type Real: Float;

    /// The value of a row without the constant.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn value(self, row: &PackedRow<C, L>, weights: &[Self::Real]) -> Self::Real;

    /// Adds `change` times the row to the weights.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn add(self, row: &PackedRow<C, L>, change: Self::Real, weights: &mut [Self::Real]);

    /// Adds `beta` times the row to f64 sums.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn sum(self, row: &PackedRow<C, L>, beta: f64, sums: &mut [f64]);

    /// Adds `factor` times the squares of the row to f64 sums.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn squares(self, row: &PackedRow<C, L>, factor: f64, sums: &mut [f64]);
}

/// Reads bins through tables of factors.
#[derive(Clone, Copy)]
struct TableReader<'a, const R: usize> {
    read: &'a [f32],
    write: &'a [f32],
}

impl<const R: usize> TableReader<'_, R> {
    /// # Safety
    /// As the functions of [`Reader`], and the entry must exist.
    #[inline(always)]
    unsafe fn term<C: Stored<Read = usize>, L: Stored<Read = usize>>(
        self,
        row: &PackedRow<C, L>,
        i: usize,
        weights: &[f32],
        sum: &mut [f32; R],
    ) {
        // SAFETY: column and bin exist, so both tables hold `R` numbers there.
        unsafe {
            let weight = &*weights.as_ptr().add(row.column(i) * R).cast::<[f32; R]>();
            let factor = &*self.read.as_ptr().add(row.cell(i) * R).cast::<[f32; R]>();
            for lane in 0..R {
                sum[lane] = weight[lane].mul_add(factor[lane], sum[lane]);
            }
        }
    }
}

impl<const R: usize, C, L> Reader<C, L> for TableReader<'_, R>
where
    C: Stored<Read = usize>,
    L: Stored<Read = usize>,
{
    type Real = f32;

    #[inline(always)]
    unsafe fn value(self, row: &PackedRow<C, L>, weights: &[f32]) -> f32 {
        let mut sums = [[0.0f32; R]; 4];
        let whole = row.length / 4 * 4;
        let mut first = 0;
        while first < whole {
            for (chain, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the entry exists; its column and bin were checked when it was packed.
                unsafe { self.term(row, first + chain, weights, sum) };
            }
            first += 4;
        }
        for (chain, sum) in sums.iter_mut().enumerate().take(row.length - whole) {
            // SAFETY: as above.
            unsafe { self.term(row, whole + chain, weights, sum) };
        }
        let mut lanes = [0.0f32; R];
        for (lane, place) in lanes.iter_mut().enumerate() {
            *place = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
        }
        let mut half = R / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
            half /= 2;
        }
        lanes[0]
    }

    #[inline(always)]
    unsafe fn add(self, row: &PackedRow<C, L>, change: f32, weights: &mut [f32]) {
        for i in 0..row.length {
            // SAFETY: column and bin exist, so both tables hold `R` numbers there.
            unsafe {
                let weight = &mut *weights.as_mut_ptr().add(row.column(i) * R).cast::<[f32; R]>();
                let factor = &*self.write.as_ptr().add(row.cell(i) * R).cast::<[f32; R]>();
                for lane in 0..R {
                    weight[lane] = change.mul_add(factor[lane], weight[lane]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn sum(self, row: &PackedRow<C, L>, beta: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: column and bin exist, so both tables hold `R` numbers there.
            unsafe {
                let sum = &mut *sums.as_mut_ptr().add(row.column(i) * R).cast::<[f64; R]>();
                let factor = &*self.write.as_ptr().add(row.cell(i) * R).cast::<[f32; R]>();
                for lane in 0..R {
                    sum[lane] = beta.mul_add(f64::from(factor[lane]), sum[lane]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn squares(self, row: &PackedRow<C, L>, factor: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: column and bin exist, so both tables hold `R` numbers there.
            unsafe {
                let sum = &mut *sums.as_mut_ptr().add(row.column(i) * R).cast::<[f64; R]>();
                let psi = &*self.write.as_ptr().add(row.cell(i) * R).cast::<[f32; R]>();
                for lane in 0..R {
                    let psi = f64::from(psi[lane]);
                    sum[lane] = (factor * psi).mul_add(psi, sum[lane]);
                }
            }
        }
    }
}

impl<C, L> Reader<C, L> for RawValues
where
    C: Stored<Read = usize>,
    L: Stored<Read = f64>,
{
    type Real = f64;

    #[inline(always)]
    unsafe fn value(self, row: &PackedRow<C, L>, weights: &[f64]) -> f64 {
        // SAFETY: the entry exists, and so does the weight of its column.
        let term = |i: usize, sum: f64| unsafe {
            let weight = *weights.as_ptr().add(row.column(i));
            weight.mul_add(row.cell(i), sum)
        };
        let mut sums = [0.0; 4];
        let whole = row.length / 4 * 4;
        let mut first = 0;
        while first < whole {
            for (chain, sum) in sums.iter_mut().enumerate() {
                *sum = term(first + chain, *sum);
            }
            first += 4;
        }
        for (chain, sum) in sums.iter_mut().enumerate().take(row.length - whole) {
            *sum = term(whole + chain, *sum);
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    #[inline(always)]
    unsafe fn add(self, row: &PackedRow<C, L>, change: f64, weights: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: the entry exists, and so does the weight of its column.
            unsafe {
                let weight = &mut *weights.as_mut_ptr().add(row.column(i));
                *weight = change.mul_add(row.cell(i), *weight);
            }
        }
    }

    #[inline(always)]
    unsafe fn sum(self, row: &PackedRow<C, L>, beta: f64, sums: &mut [f64]) {
        // SAFETY: as the caller says; with one number per column both are the same.
        unsafe { Reader::<C, L>::add(self, row, beta, sums) };
    }

    #[inline(always)]
    unsafe fn squares(self, row: &PackedRow<C, L>, factor: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: the entry exists, and so does the sum of its column.
            unsafe {
                let sum = &mut *sums.as_mut_ptr().add(row.column(i));
                let value = row.cell(i);
                *sum = (factor * value).mul_add(value, *sum);
            }
        }
    }
}
