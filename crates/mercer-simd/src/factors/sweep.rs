use super::meaning::{Meaning, Reader, Scalar, Stored};
use super::records::HEAD;
use super::{Entry, Order, Records, Weights};
use crate::isa::Isa;
use crate::vector::{Machine, Task};

/// What happens to a row that was visited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change<T> {
    /// It stays; its coefficient changes by this much.
    By(T),
    /// It is put to rest, its coefficient as it is.
    Rest,
}

/// Who decides what happens to a row.
pub trait Step<T> {
    /// Given the value of the row and its coefficient, which it may change.
    fn step(&mut self, row: Entry, value: T, coefficient: &mut T) -> Change<T>;
}

/// A column that has the value `size` in every row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant<T> {
    /// Its value; 0 for none.
    pub size: T,
    /// Its weight.
    pub weight: T,
}

/// Lines on their way from memory: of so many rows ahead of the one at work that they come to about this.
const ON_THE_WAY: usize = 64;
/// Lines fetched of a long row, at most; the hardware finds the rest.
const LINES: usize = 8;

/// Weights of more bytes are fetched a row ahead: no cache near the processor holds them.
const WIDE: usize = 1 << 20;

/// Visits the rows at work in order. Returns how many entries were read.
///
/// # Panics
/// If the parts do not belong together, or `coefficients` has not one place for each number of a row.
pub fn sweep<M: Meaning, S: Step<M::Real>>(
    isa: Isa,
    (records, meaning): (&Records, &M),
    (weights, constant): (&mut Weights<M::Real>, &mut Constant<M::Real>),
    (order, coefficients): (&mut Order, &mut [M::Real]),
    step: &mut S,
) -> u64 {
    check(records, meaning, weights.values().len());
    assert_eq!(order.stamp, records.stamp(), "an order of other records");
    assert!(coefficients.len() >= records.limit(), "one coefficient per row");
    let weights = weights.values_mut();
    meaning.choose(records, Sweep { isa, records, weights, constant, order, coefficients, step })
}

/// The value of every row, in the order of the rows.
///
/// # Panics
/// If the parts do not belong together.
pub fn values<M: Meaning>(
    isa: Isa,
    (records, meaning): (&Records, &M),
    (weights, constant): (&Weights<M::Real>, &Constant<M::Real>),
    see: &mut dyn FnMut(Entry, M::Real),
) {
    check(records, meaning, weights.values().len());
    let weights = weights.values();
    meaning.choose(records, Values { isa, records, weights, constant, see });
}

/// Adds `coefficient` times every row (`Ψ` of its levels) to `sums`, in doubles.
///
/// # Panics
/// If the parts do not belong together.
pub fn accumulate<M: Meaning>(
    isa: Isa,
    (records, meaning): (&Records, &M),
    coefficient: &dyn Fn(Entry) -> f64,
    sums: &mut [f64],
) {
    check(records, meaning, sums.len());
    meaning.choose(records, Accumulate { isa, records, coefficient, sums });
}

/// Adds `factor · x_j²` of every row (`Ψ²` of its levels) to `sums`, in doubles.
///
/// # Panics
/// If the parts do not belong together.
pub fn squares<M: Meaning>(
    isa: Isa,
    (records, meaning): (&Records, &M),
    factor: &dyn Fn(Entry) -> f64,
    sums: &mut [f64],
) {
    check(records, meaning, sums.len());
    meaning.choose(records, Squares(Accumulate { isa, records, coefficient: factor, sums }));
}

/// Adds `factor · value` times every row to `sums`, in doubles, and returns the sum of `factor · value`: with the
/// factors on a diagonal, the product of `X' D X` with the weights. Rows of factor 0 are not read.
///
/// # Panics
/// If the parts do not belong together.
pub fn curvature<M: Meaning>(
    isa: Isa,
    (records, meaning): (&Records, &M),
    (weights, constant): (&Weights<M::Real>, &Constant<M::Real>),
    factor: &dyn Fn(Entry) -> f64,
    sums: &mut [f64],
) -> f64 {
    check(records, meaning, sums.len());
    check(records, meaning, weights.values().len());
    let weights = weights.values();
    meaning.choose(records, Curvature { isa, records, weights, constant, factor, sums })
}

fn check<M: Meaning>(records: &Records, meaning: &M, weights: usize) {
    assert!(meaning.fits(records), "cells of another meaning");
    assert_eq!(weights, records.columns() * meaning.rank(), "one row of weights per column");
}

/// Work that is compiled for each size of columns and cells and each way to read them.
pub trait Shaped<T> {
    /// What comes of it.
    type Output;

    /// Runs it.
    fn run<C, L, R>(self, reader: R) -> Self::Output
    where
        C: Stored<Read = usize>,
        L: Stored,
        R: Reader<C, L, Real = T>;
}

/// One row: where its columns and cells are. Its columns and levels exist, as `Records` checked.
#[derive(Debug, Clone, Copy)]
pub struct Row<C, L> {
    columns: *const C,
    cells: *const L,
    pub(super) length: usize,
}

impl<C: Stored<Read = usize>, L: Stored> Row<C, L> {
    /// The record at `place`.
    ///
    /// # Safety
    /// A record must start at `place`, of columns `C` and cells `L`.
    #[inline(always)]
    unsafe fn at(words: &[u32], place: usize) -> (Entry, Self) {
        // SAFETY: a record starts here, so its head and its entries lie within the words.
        unsafe {
            let head = words.as_ptr().add(place);
            let length = *head.add(3) as usize;
            let columns = head.add(HEAD).cast::<C>();
            let cells = columns.add(length).cast::<L>();
            let entry = Entry { row: *head, tag: *head.add(1), own: f32::from_bits(*head.add(2)) };
            (entry, Self { columns, cells, length })
        }
    }

    /// # Safety
    /// There must be such an entry.
    #[inline(always)]
    pub(super) unsafe fn column(&self, i: usize) -> usize {
        // SAFETY: the caller says that the entry exists.
        unsafe { C::read(self.columns.add(i)) }
    }

    /// # Safety
    /// There must be such an entry.
    #[inline(always)]
    pub(super) unsafe fn cell(&self, i: usize) -> L::Read {
        // SAFETY: the caller says that the entry exists.
        unsafe { L::read(self.cells.add(i)) }
    }
}

/// Asks for a cache line; a hint that no address can make unsound.
#[inline(always)]
pub(super) fn fetch<T>(from: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching never faults; SSE is part of the architecture.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// Work with its reader, on one instruction set.
struct On<W, R, C, L> {
    work: W,
    reader: R,
    stored: std::marker::PhantomData<(C, L)>,
}

impl<W, R, C, L> On<W, R, C, L> {
    fn new(work: W, reader: R) -> Self {
        Self { work, reader, stored: std::marker::PhantomData }
    }
}

struct Sweep<'a, S, T> {
    isa: Isa,
    records: &'a Records,
    weights: &'a mut [T],
    constant: &'a mut Constant<T>,
    order: &'a mut Order,
    coefficients: &'a mut [T],
    step: &'a mut S,
}

impl<T: Scalar, S: Step<T>> Shaped<T> for Sweep<'_, S, T> {
    type Output = u64;

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) -> u64 {
        self.isa.run(On::<_, _, C, L>::new(self, reader))
    }
}

impl<T, S, R, C, L> Task for On<Sweep<'_, S, T>, R, C, L>
where
    T: Scalar,
    S: Step<T>,
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L, Real = T>,
{
    type Output = u64;

    #[inline(always)]
    fn run<M: Machine>(self) -> u64 {
        let Sweep { records, weights, constant, order, coefficients, step, .. } = self.work;
        let (words, reader) = (records.words(), self.reader);
        let mut seen = 0;
        // Rows that stay at work move up to here; those put to rest stand between them and the row at work. A row that
        // took the place of one at rest from the far end would not have been fetched.
        let mut kept = 0;
        // Records start anywhere in a line, so that one more is touched than they would fill.
        let lines = (words.len() / records.rows().max(1)).div_ceil(16).min(LINES - 1) + 1;
        let ahead = (ON_THE_WAY / lines).clamp(6, 32);
        let rank = weights.len() / records.columns().max(1);
        let is_wide = size_of_val(weights) > WIDE;
        for at in 0..order.active {
            if let Some(ahead) = order.places[..order.active].get(at + ahead) {
                let start = words.as_ptr().wrapping_add(*ahead as usize);
                for line in 0..lines {
                    fetch(start.wrapping_add(16 * line));
                }
            }
            if let Some(ahead) = order.places[..order.active].get(at + ahead / 2) {
                fetch(coefficients.as_ptr().wrapping_add(words[*ahead as usize] as usize));
            }
            if is_wide && let Some(next) = order.places[..order.active].get(at + 1) {
                // SAFETY: orders hold starts of records, and this one belongs to these.
                let (_, row) = unsafe { Row::<C, L>::at(words, *next as usize) };
                for entry in 0..row.length {
                    // SAFETY: the entry exists.
                    let column = unsafe { row.column(entry) };
                    fetch(weights.as_ptr().wrapping_add(column * rank));
                }
            }
            // SAFETY: orders hold starts of records, and this one belongs to these.
            let (entry, row) = unsafe { Row::<C, L>::at(words, order.places[at] as usize) };
            seen += row.length as u64;
            // SAFETY: `check` compared meaning and size of the weights with the records.
            let sum = unsafe { reader.value(&row, weights) };
            let value = constant.weight.fused(constant.size, sum);
            match step.step(entry, value, &mut coefficients[entry.row as usize]) {
                Change::By(change) => {
                    if change != T::default() {
                        // SAFETY: as above.
                        unsafe { reader.add(&row, change, weights) };
                        constant.weight = change.fused(constant.size, constant.weight);
                    }
                    order.places.swap(kept, at);
                    kept += 1;
                }
                Change::Rest => {}
            }
        }
        order.active = kept;
        seen
    }
}

struct Values<'a, T> {
    isa: Isa,
    records: &'a Records,
    weights: &'a [T],
    constant: &'a Constant<T>,
    see: &'a mut dyn FnMut(Entry, T),
}

impl<T: Scalar> Shaped<T> for Values<'_, T> {
    type Output = ();

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) {
        self.isa.run(On::<_, _, C, L>::new(self, reader));
    }
}

impl<T, R, C, L> Task for On<Values<'_, T>, R, C, L>
where
    T: Scalar,
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L, Real = T>,
{
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let Values { records, weights, constant, see, .. } = self.work;
        let words = records.words();
        let mut place = 0;
        while place < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { Row::<C, L>::at(words, place) };
            // SAFETY: `check` compared meaning and size of the weights with the records.
            let sum = unsafe { self.reader.value(&row, weights) };
            see(entry, constant.weight.fused(constant.size, sum));
            place += records.size(row.length);
        }
    }
}

struct Accumulate<'a> {
    isa: Isa,
    records: &'a Records,
    coefficient: &'a dyn Fn(Entry) -> f64,
    sums: &'a mut [f64],
}

impl<T: Scalar> Shaped<T> for Accumulate<'_> {
    type Output = ();

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) {
        self.isa.run(On::<_, _, C, L>::new(self, reader));
    }
}

impl<R, C, L> Task for On<Accumulate<'_>, R, C, L>
where
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L>,
{
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let Accumulate { records, coefficient, sums, .. } = self.work;
        let words = records.words();
        let mut place = 0;
        while place < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { Row::<C, L>::at(words, place) };
            place += records.size(row.length);
            let beta = coefficient(entry);
            if beta != 0.0 {
                // SAFETY: `check` compared meaning and size of the sums with the records.
                unsafe { self.reader.sum(&row, beta, sums) };
            }
        }
    }
}

struct Squares<'a>(Accumulate<'a>);

impl<T: Scalar> Shaped<T> for Squares<'_> {
    type Output = ();

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) {
        self.0.isa.run(On::<_, _, C, L>::new(self, reader));
    }
}

impl<R, C, L> Task for On<Squares<'_>, R, C, L>
where
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L>,
{
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let Accumulate { records, coefficient, sums, .. } = self.work.0;
        let words = records.words();
        let mut place = 0;
        while place < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { Row::<C, L>::at(words, place) };
            place += records.size(row.length);
            let factor = coefficient(entry);
            if factor != 0.0 {
                // SAFETY: `check` compared meaning and size of the sums with the records.
                unsafe { self.reader.squares(&row, factor, sums) };
            }
        }
    }
}

struct Curvature<'a, T> {
    isa: Isa,
    records: &'a Records,
    weights: &'a [T],
    constant: &'a Constant<T>,
    factor: &'a dyn Fn(Entry) -> f64,
    sums: &'a mut [f64],
}

impl<T: Scalar> Shaped<T> for Curvature<'_, T> {
    type Output = f64;

    fn run<C: Stored<Read = usize>, L: Stored, R: Reader<C, L, Real = T>>(self, reader: R) -> f64 {
        self.isa.run(On::<_, _, C, L>::new(self, reader))
    }
}

impl<T, R, C, L> Task for On<Curvature<'_, T>, R, C, L>
where
    T: Scalar,
    C: Stored<Read = usize>,
    L: Stored,
    R: Reader<C, L, Real = T>,
{
    type Output = f64;

    #[inline(always)]
    fn run<M: Machine>(self) -> f64 {
        let Curvature { records, weights, constant, factor, sums, .. } = self.work;
        let words = records.words();
        let (mut place, mut total) = (0, 0.0);
        while place < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { Row::<C, L>::at(words, place) };
            place += records.size(row.length);
            let factor = factor(entry);
            if factor == 0.0 {
                continue;
            }
            // SAFETY: `check` compared meaning and sizes of weights and sums with the records.
            unsafe {
                let sum = self.reader.value(&row, weights);
                let share = factor * constant.weight.fused(constant.size, sum).to_f64();
                total += share;
                self.reader.sum(&row, share, sums);
            }
        }
        total
    }
}
