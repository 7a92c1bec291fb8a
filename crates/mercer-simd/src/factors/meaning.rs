use std::ops::{Add, Div, Mul, Neg, Sub};

use super::records::Cells;
use super::sweep::{Row, Shaped};
use super::{Factors, Records};
use crate::lines;
use crate::real::Real;

/// The numbers that coefficients, values and weights of a sweep are: singles or doubles.
pub trait Scalar:
    Real
    + lines::Plain
    + PartialOrd
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// Larger than all others.
    const INFINITY: Self;
    /// The smallest above zero.
    const LEAST: Self;

    /// The larger one.
    #[must_use]
    fn at_least(self, other: Self) -> Self;

    /// The smaller one.
    #[must_use]
    fn at_most(self, other: Self) -> Self;

    /// Without its sign.
    #[must_use]
    fn size(self) -> Self;
}

macro_rules! scalar {
    ($($type:ident),*) => {$(
        impl Scalar for $type {
            const INFINITY: Self = $type::INFINITY;
            const LEAST: Self = $type::MIN_POSITIVE;

            #[inline(always)]
            fn at_least(self, other: Self) -> Self {
                self.max(other)
            }

            #[inline(always)]
            fn at_most(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn size(self) -> Self {
                self.abs()
            }
        }
    )*};
}
scalar!(f32, f64);

/// What the cells of records mean: levels of [`Factors`] or [`super::Stairs`], or values as they are ([`Plain`]).
pub trait Meaning: std::fmt::Debug + Sync {
    /// What is computed with.
    type Real: Scalar;

    /// Weights of one column.
    fn rank(&self) -> usize;

    /// Whether these records hold such cells.
    fn fits(&self, records: &Records) -> bool;

    /// The squared norm of the function that these weights, in doubles, are.
    fn square(&self, weights: &[f64]) -> f64 {
        weights.iter().map(|w| w * w).sum()
    }

    /// Runs work compiled for these records.
    #[doc(hidden)]
    fn choose<W: Shaped<Self::Real>>(&self, records: &Records, work: W) -> W::Output;
}

/// Values as they are, with weights in doubles: a linear machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain;

impl Meaning for Factors {
    type Real = f32;

    fn rank(&self) -> usize {
        self.rank
    }

    fn fits(&self, records: &Records) -> bool {
        records.cells() == Cells::Levels(self.levels)
    }

    fn choose<W: Shaped<f32>>(&self, records: &Records, work: W) -> W::Output {
        match self.rank {
            1 => looked::<1, W>(self, records, work),
            4 => looked::<4, W>(self, records, work),
            8 => looked::<8, W>(self, records, work),
            _ => looked::<16, W>(self, records, work),
        }
    }
}

fn looked<const R: usize, W: Shaped<f32>>(
    factors: &Factors,
    records: &Records,
    work: W,
) -> W::Output {
    let reader = Looked::<R> { read: factors.read(), write: factors.write() };
    match (records.is_narrow(), factors.levels <= 1 << 8) {
        (true, true) => work.run::<u16, u8, _>(reader),
        (false, true) => work.run::<u32, u8, _>(reader),
        (true, false) => work.run::<u16, u16, _>(reader),
        (false, false) => work.run::<u32, u16, _>(reader),
    }
}

impl Meaning for Plain {
    type Real = f64;

    fn rank(&self) -> usize {
        1
    }

    fn fits(&self, records: &Records) -> bool {
        matches!(records.cells(), Cells::Singles | Cells::Doubles)
    }

    fn choose<W: Shaped<f64>>(&self, records: &Records, work: W) -> W::Output {
        match (records.is_narrow(), records.cells() == Cells::Singles) {
            (true, true) => work.run::<u16, f32, _>(Plain),
            (false, true) => work.run::<u32, f32, _>(Plain),
            (true, false) => work.run::<u16, f64, _>(Plain),
            (false, false) => work.run::<u32, f64, _>(Plain),
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
/// The row must be one of records that the reader's meaning fits, and weights or sums must hold its rank of
/// numbers for each column.
pub trait Reader<C, L>: Copy {
    /// What is computed with.
    type Real: Scalar;

    /// The value of a row without the constant.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn value(self, row: &Row<C, L>, weights: &[Self::Real]) -> Self::Real;

    /// Adds `change` times the row to the weights.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn add(self, row: &Row<C, L>, change: Self::Real, weights: &mut [Self::Real]);

    /// Adds `beta` times the row to sums in doubles.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn sum(self, row: &Row<C, L>, beta: f64, sums: &mut [f64]);

    /// Adds `factor` times the squares of the row to sums in doubles.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn squares(self, row: &Row<C, L>, factor: f64, sums: &mut [f64]);
}

/// Levels and their factors.
#[derive(Clone, Copy)]
struct Looked<'a, const R: usize> {
    read: &'a [f32],
    write: &'a [f32],
}

impl<const R: usize> Looked<'_, R> {
    /// # Safety
    /// As the functions of [`Reader`], and the entry must exist.
    #[inline(always)]
    unsafe fn term<C: Stored<Read = usize>, L: Stored<Read = usize>>(
        self,
        row: &Row<C, L>,
        i: usize,
        weights: &[f32],
        sum: &mut [f32; R],
    ) {
        // SAFETY: column and level exist, so `R` numbers stand at their places.
        unsafe {
            let weight = &*weights.as_ptr().add(row.column(i) * R).cast::<[f32; R]>();
            let factor = &*self.read.as_ptr().add(row.cell(i) * R).cast::<[f32; R]>();
            for lane in 0..R {
                sum[lane] = weight[lane].mul_add(factor[lane], sum[lane]);
            }
        }
    }
}

impl<const R: usize, C, L> Reader<C, L> for Looked<'_, R>
where
    C: Stored<Read = usize>,
    L: Stored<Read = usize>,
{
    type Real = f32;

    #[inline(always)]
    unsafe fn value(self, row: &Row<C, L>, weights: &[f32]) -> f32 {
        let mut sums = [[0.0f32; R]; 4];
        let whole = row.length / 4 * 4;
        let mut first = 0;
        while first < whole {
            for (chain, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the entry exists; its column and level were checked when it was packed.
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
    unsafe fn add(self, row: &Row<C, L>, change: f32, weights: &mut [f32]) {
        for i in 0..row.length {
            // SAFETY: column and level exist, so `R` numbers stand at their places.
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
    unsafe fn sum(self, row: &Row<C, L>, beta: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: column and level exist, so `R` numbers stand at their places.
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
    unsafe fn squares(self, row: &Row<C, L>, factor: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: column and level exist, so `R` numbers stand at their places.
            unsafe {
                let sum = &mut *sums.as_mut_ptr().add(row.column(i) * R).cast::<[f64; R]>();
                let own = &*self.write.as_ptr().add(row.cell(i) * R).cast::<[f32; R]>();
                for lane in 0..R {
                    let own = f64::from(own[lane]);
                    sum[lane] = (factor * own).mul_add(own, sum[lane]);
                }
            }
        }
    }
}

impl<C, L> Reader<C, L> for Plain
where
    C: Stored<Read = usize>,
    L: Stored<Read = f64>,
{
    type Real = f64;

    #[inline(always)]
    unsafe fn value(self, row: &Row<C, L>, weights: &[f64]) -> f64 {
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
    unsafe fn add(self, row: &Row<C, L>, change: f64, weights: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: the entry exists, and so does the weight of its column.
            unsafe {
                let weight = &mut *weights.as_mut_ptr().add(row.column(i));
                *weight = change.mul_add(row.cell(i), *weight);
            }
        }
    }

    #[inline(always)]
    unsafe fn sum(self, row: &Row<C, L>, beta: f64, sums: &mut [f64]) {
        // SAFETY: as the caller says; with one number per column both are the same.
        unsafe { Reader::<C, L>::add(self, row, beta, sums) };
    }

    #[inline(always)]
    unsafe fn squares(self, row: &Row<C, L>, factor: f64, sums: &mut [f64]) {
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
