//! Passes over packed rows: coordinate updates, values, and sums of rows.
//!
//! The rule of an update is the caller's ([`Step`]); the solvers that use these passes are in `mercer-train`. How a row
//! is read from its record is in `packed_row.rs`.

use super::encoding::{Encoding, Float, Reader, Stored};
use super::packed_row::{BoundTask, PackedRow, RecordTask};
use super::{Order, Records, RowHead, Weights};
use crate::isa::Isa;
use crate::pages::prefetch;
use crate::vector::{SimdBackend, Task};

/// What a step does to a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change<T> {
    /// The row stays active; its coefficient changes by this much.
    By(T),
    /// The row is shrunk (leaves the active set); its coefficient stays as it is.
    Shrink,
}

/// The rule of a coordinate update.
pub trait Step<T> {
    /// Updates the coefficient of a row, given the row's value.
    fn step(&mut self, row: RowHead, value: T, coefficient: &mut T) -> Change<T>;
}

/// A column that has the same value in every row (LIBLINEAR's bias feature).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BiasColumn<T> {
    /// The value of the column; 0 for no bias.
    pub value: T,
    /// Its weight.
    pub weight: T,
}

/// Packed rows and the encoding of their cells.
#[derive(Debug)]
pub struct EncodedRows<'a, E> {
    /// The rows.
    pub records: &'a Records,
    /// How cells become numbers.
    pub encoding: &'a E,
}

impl<E> Clone for EncodedRows<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for EncodedRows<'_, E> {}

impl<E: Encoding> EncodedRows<'_, E> {
    /// Panics unless the records hold such cells and there are `weights` numbers in all.
    fn check(&self, weights: usize) {
        let Self { records, encoding } = self;
        assert!(encoding.fits(records), "cells of another encoding");
        assert_eq!(weights, records.columns() * encoding.rank(), "one row of weights per column");
    }
}

/// The weights of a linear function of encoded rows, and its bias.
#[derive(Debug, Clone, Copy)]
pub struct LinearFunction<'a, T> {
    /// Weights of all columns.
    pub weights: &'a Weights<T>,
    /// The bias column.
    pub bias: &'a BiasColumn<T>,
}

/// A [`LinearFunction`] that a sweep updates.
#[derive(Debug)]
pub struct LinearFunctionMut<'a, T> {
    /// Weights of all columns.
    pub weights: &'a mut Weights<T>,
    /// The bias column.
    pub bias: &'a mut BiasColumn<T>,
}

/// The dual coefficients of rows and the order in which they are updated.
#[derive(Debug)]
pub struct DualCoefficients<'a, T> {
    /// The rows, active ones first.
    pub order: &'a mut Order,
    /// One coefficient for each row number.
    pub values: &'a mut [T],
}

/// Cache lines that are being prefetched at a time: the distance in rows follows from it.
const PREFETCHED_LINES: usize = 64;
/// Cache lines prefetched of a long row, at most; the hardware prefetcher finds the rest.
const LINES_PER_ROW: usize = 8;

/// Weights of more bytes than this do not fit a near cache: those of the next row are prefetched.
const LARGE_WEIGHTS: usize = 1 << 20;

/// One pass of coordinate updates over the active rows, in order. Returns how many entries were read.
///
/// # Panics
/// If the arguments do not belong together, or a row has no coefficient.
pub fn sweep<E: Encoding, S: Step<E::Real>>(
    isa: Isa,
    rows: EncodedRows<'_, E>,
    function: LinearFunctionMut<'_, E::Real>,
    coefficients: DualCoefficients<'_, E::Real>,
    step: &mut S,
) -> u64 {
    let EncodedRows { records, encoding } = rows;
    let LinearFunctionMut { weights, bias } = function;
    let DualCoefficients { order, values: coefficients } = coefficients;
    rows.check(weights.values().len());
    assert_eq!(order.generation, records.generation(), "an order of other records");
    assert!(coefficients.len() >= records.limit(), "one coefficient per row");
    let weights = weights.values_mut();
    encoding.choose(records, Sweep { isa, records, weights, bias, order, coefficients, step })
}

/// Calls `visit` with the value of every row, in the order of the rows.
///
/// # Panics
/// If the arguments do not belong together.
pub fn values<E: Encoding>(
    isa: Isa,
    rows: EncodedRows<'_, E>,
    function: LinearFunction<'_, E::Real>,
    visit: &mut dyn FnMut(RowHead, E::Real),
) {
    let EncodedRows { records, encoding } = rows;
    let LinearFunction { weights, bias } = function;
    let weights = weights.values();
    rows.check(weights.len());
    encoding.choose(records, Values { isa, records, weights, bias, visit });
}

/// Adds `coefficient` times every row (`Ψ` of its bins) to `sums`, in f64.
///
/// # Panics
/// If the arguments do not belong together.
pub fn accumulate<E: Encoding>(
    isa: Isa,
    rows: EncodedRows<'_, E>,
    coefficient: &dyn Fn(RowHead) -> f64,
    sums: &mut [f64],
) {
    let EncodedRows { records, encoding } = rows;
    rows.check(sums.len());
    encoding.choose(records, Accumulate { isa, records, coefficient, sums });
}

/// Adds `factor · x_j²` of every row (`Ψ²` of its bins) to `sums`, in f64.
///
/// # Panics
/// If the arguments do not belong together.
pub fn squares<E: Encoding>(
    isa: Isa,
    rows: EncodedRows<'_, E>,
    factor: &dyn Fn(RowHead) -> f64,
    sums: &mut [f64],
) {
    let EncodedRows { records, encoding } = rows;
    rows.check(sums.len());
    encoding.choose(records, Squares(Accumulate { isa, records, coefficient: factor, sums }));
}

/// The product of `X' D X` with the weights, where `D` is the diagonal of the factors: adds `factor · value`
/// times every row to `sums`, in f64, and returns the sum of `factor · value`. Rows of factor 0 are not read.
///
/// # Panics
/// If the arguments do not belong together.
pub fn curvature<E: Encoding>(
    isa: Isa,
    rows: EncodedRows<'_, E>,
    function: LinearFunction<'_, E::Real>,
    factor: &dyn Fn(RowHead) -> f64,
    sums: &mut [f64],
) -> f64 {
    let EncodedRows { records, encoding } = rows;
    let LinearFunction { weights, bias } = function;
    let weights = weights.values();
    rows.check(sums.len());
    rows.check(weights.len());
    encoding.choose(records, Curvature { isa, records, weights, bias, factor, sums })
}

struct Sweep<'a, S, T> {
    isa: Isa,
    records: &'a Records,
    weights: &'a mut [T],
    bias: &'a mut BiasColumn<T>,
    order: &'a mut Order,
    coefficients: &'a mut [T],
    step: &'a mut S,
}

impl<T: Float, S: Step<T>> RecordTask<T> for Sweep<'_, S, T> {
    type Output = u64;

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) -> u64 {
        self.isa.run(BoundTask::<_, _, C, L>::new(self, reader))
    }
}

impl<T, S, R, C, L> Task for BoundTask<Sweep<'_, S, T>, R, C, L>
where
    T: Float,
    S: Step<T>,
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L, Real = T>,
{
    type Output = u64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> u64 {
        let Sweep { records, weights, bias, order, coefficients, step, .. } = self.work;
        let (words, reader) = (records.words(), self.reader);
        let mut entries_read = 0;
        // Rows that stay active move up to here; shrunk rows lie between them and the current row. Swapping a row in
        // from the far end instead would take one that was not prefetched.
        let mut kept = 0;
        // Records start anywhere in a cache line, so they touch one line more than they would fill.
        let lines = (words.len() / records.rows().max(1)).div_ceil(16).min(LINES_PER_ROW - 1) + 1;
        let ahead = (PREFETCHED_LINES / lines).clamp(6, 32);
        let rank = weights.len() / records.columns().max(1);
        let is_large = size_of_val(weights) > LARGE_WEIGHTS;
        for at in 0..order.active {
            if let Some(ahead) = order.offsets[..order.active].get(at + ahead) {
                let start = words.as_ptr().wrapping_add(*ahead as usize);
                for line in 0..lines {
                    prefetch(start.wrapping_add(16 * line));
                }
            }
            if let Some(ahead) = order.offsets[..order.active].get(at + ahead / 2) {
                prefetch(coefficients.as_ptr().wrapping_add(words[*ahead as usize] as usize));
            }
            if is_large && let Some(next) = order.offsets[..order.active].get(at + 1) {
                // SAFETY: orders hold starts of records, and this one belongs to these.
                let (_, row) = unsafe { PackedRow::<C, L>::at(words, *next as usize) };
                for entry in 0..row.length {
                    // SAFETY: the entry exists.
                    let column = unsafe { row.column(entry) };
                    prefetch(weights.as_ptr().wrapping_add(column * rank));
                }
            }
            // SAFETY: orders hold starts of records, and this one belongs to these.
            let (entry, row) = unsafe { PackedRow::<C, L>::at(words, order.offsets[at] as usize) };
            entries_read += row.length as u64;
            // SAFETY: `check` compared the encoding and size of the weights with the records.
            let sum = unsafe { reader.value(&row, weights) };
            let value = bias.weight.fused(bias.value, sum);
            match step.step(entry, value, &mut coefficients[entry.row as usize]) {
                Change::By(change) => {
                    if change != T::default() {
                        // SAFETY: as above.
                        unsafe { reader.add(&row, change, weights) };
                        bias.weight = change.fused(bias.value, bias.weight);
                    }
                    order.offsets.swap(kept, at);
                    kept += 1;
                }
                Change::Shrink => {}
            }
        }
        order.active = kept;
        entries_read
    }
}

struct Values<'a, T> {
    isa: Isa,
    records: &'a Records,
    weights: &'a [T],
    bias: &'a BiasColumn<T>,
    visit: &'a mut dyn FnMut(RowHead, T),
}

impl<T: Float> RecordTask<T> for Values<'_, T> {
    type Output = ();

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) {
        self.isa.run(BoundTask::<_, _, C, L>::new(self, reader));
    }
}

impl<T, R, C, L> Task for BoundTask<Values<'_, T>, R, C, L>
where
    T: Float,
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L, Real = T>,
{
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Values { records, weights, bias, visit, .. } = self.work;
        let words = records.words();
        let mut offset = 0;
        while offset < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { PackedRow::<C, L>::at(words, offset) };
            // SAFETY: `check` compared the encoding and size of the weights with the records.
            let sum = unsafe { self.reader.value(&row, weights) };
            visit(entry, bias.weight.fused(bias.value, sum));
            offset += records.size(row.length);
        }
    }
}

struct Accumulate<'a> {
    isa: Isa,
    records: &'a Records,
    coefficient: &'a dyn Fn(RowHead) -> f64,
    sums: &'a mut [f64],
}

impl<T: Float> RecordTask<T> for Accumulate<'_> {
    type Output = ();

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) {
        self.isa.run(BoundTask::<_, _, C, L>::new(self, reader));
    }
}

impl<R, C, L> Task for BoundTask<Accumulate<'_>, R, C, L>
where
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L>,
{
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Accumulate { records, coefficient, sums, .. } = self.work;
        let words = records.words();
        let mut offset = 0;
        while offset < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { PackedRow::<C, L>::at(words, offset) };
            offset += records.size(row.length);
            let beta = coefficient(entry);
            if beta != 0.0 {
                // SAFETY: `check` compared the encoding and size of the sums with the records.
                unsafe { self.reader.sum(&row, beta, sums) };
            }
        }
    }
}

struct Squares<'a>(Accumulate<'a>);

impl<T: Float> RecordTask<T> for Squares<'_> {
    type Output = ();

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) {
        self.0.isa.run(BoundTask::<_, _, C, L>::new(self, reader));
    }
}

impl<R, C, L> Task for BoundTask<Squares<'_>, R, C, L>
where
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L>,
{
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Accumulate { records, coefficient, sums, .. } = self.work.0;
        let words = records.words();
        let mut offset = 0;
        while offset < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { PackedRow::<C, L>::at(words, offset) };
            offset += records.size(row.length);
            let factor = coefficient(entry);
            if factor != 0.0 {
                // SAFETY: `check` compared the encoding and size of the sums with the records.
                unsafe { self.reader.squares(&row, factor, sums) };
            }
        }
    }
}

struct Curvature<'a, T> {
    isa: Isa,
    records: &'a Records,
    weights: &'a [T],
    bias: &'a BiasColumn<T>,
    factor: &'a dyn Fn(RowHead) -> f64,
    sums: &'a mut [f64],
}

impl<T: Float> RecordTask<T> for Curvature<'_, T> {
    type Output = f64;

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) -> f64 {
        self.isa.run(BoundTask::<_, _, C, L>::new(self, reader))
    }
}

impl<T, R, C, L> Task for BoundTask<Curvature<'_, T>, R, C, L>
where
    T: Float,
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L, Real = T>,
{
    type Output = f64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> f64 {
        let Curvature { records, weights, bias, factor, sums, .. } = self.work;
        let words = records.words();
        let (mut offset, mut total) = (0, 0.0);
        while offset < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { PackedRow::<C, L>::at(words, offset) };
            offset += records.size(row.length);
            let factor = factor(entry);
            if factor == 0.0 {
                continue;
            }
            // SAFETY: `check` compared the encoding and sizes of weights and sums with the records.
            unsafe {
                let sum = self.reader.value(&row, weights);
                let share = factor * bias.weight.fused(bias.value, sum).to_f64();
                total += share;
                self.reader.sum(&row, share, sums);
            }
        }
        total
    }
}
