use super::records::HEAD;
use super::{Entry, Factors, Order, Records, Weights};
use crate::isa::Isa;
use crate::vector::{Machine, Task};

/// What happens to a row that was visited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// It stays; its coefficient changes by this much.
    By(f32),
    /// It is put to rest, its coefficient as it is.
    Rest,
}

/// Who decides what happens to a row.
pub trait Step {
    /// Given the value of the row and its coefficient, which it may change.
    fn step(&mut self, row: Entry, value: f32, coefficient: &mut f32) -> Change;
}

/// A column that has the value `size` in every row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant {
    /// Its value; 0 for none.
    pub size: f32,
    /// Its weight.
    pub weight: f32,
}

/// Rows between the one at work and the one fetched from memory.
const AHEAD: usize = 8;
/// Lines fetched of a long row; the hardware finds the rest.
const LINES: usize = 3;

/// Visits the rows at work in order. Returns how many entries were read.
///
/// # Panics
/// If the parts do not belong together, or `coefficients` has not one place per row of the records.
pub fn sweep<S: Step>(
    isa: Isa,
    (records, factors): (&Records, &Factors),
    (weights, constant): (&mut Weights, &mut Constant),
    (order, coefficients): (&mut Order, &mut [f32]),
    step: &mut S,
) -> u64 {
    check(records, factors, weights.values().len());
    assert_eq!(order.stamp, records.stamp(), "an order of other records");
    assert_eq!(coefficients.len(), records.rows(), "one coefficient per row");
    let weights = weights.values_mut();
    let what = Sweep { records, factors, weights, constant, order, coefficients, step };
    choose(records, factors.rank(), SweepOn { isa, what })
}

/// The value of every row, in the order of the rows.
///
/// # Panics
/// If the parts do not belong together.
pub fn values(
    isa: Isa,
    (records, factors): (&Records, &Factors),
    (weights, constant): (&Weights, &Constant),
    see: &mut dyn FnMut(Entry, f32),
) {
    check(records, factors, weights.values().len());
    let weights = weights.values();
    choose(
        records,
        factors.rank(),
        ValuesOn { isa, what: Values { records, factors, weights, constant, see } },
    );
}

/// Adds `coefficient · Ψ(level)` of every row to `sums`, `rank` numbers for each column, in doubles.
///
/// # Panics
/// If the parts do not belong together.
pub fn accumulate(
    isa: Isa,
    (records, factors): (&Records, &Factors),
    coefficient: &dyn Fn(Entry) -> f64,
    sums: &mut [f64],
) {
    check(records, factors, sums.len());
    let what = Accumulate { records, factors, coefficient, sums };
    choose(records, factors.rank(), AccumulateOn { isa, what });
}

fn check(records: &Records, factors: &Factors, weights: usize) {
    assert_eq!(records.levels(), factors.levels(), "one row of factors per level");
    assert_eq!(weights, records.columns() * factors.rank(), "one row of weights per column");
}

/// Work that is compiled for each rank and each size of columns and levels.
trait Shaped {
    type Output;
    fn run<const R: usize, C: Number, L: Number>(self) -> Self::Output;
}

fn choose<W: Shaped>(records: &Records, rank: usize, work: W) -> W::Output {
    match (rank, records.is_narrow(), records.has_bytes()) {
        (1, true, true) => work.run::<1, u16, u8>(),
        (4, true, true) => work.run::<4, u16, u8>(),
        (8, true, true) => work.run::<8, u16, u8>(),
        (16, true, true) => work.run::<16, u16, u8>(),
        (1, false, true) => work.run::<1, u32, u8>(),
        (4, false, true) => work.run::<4, u32, u8>(),
        (8, false, true) => work.run::<8, u32, u8>(),
        (16, false, true) => work.run::<16, u32, u8>(),
        (1, true, false) => work.run::<1, u16, u16>(),
        (4, true, false) => work.run::<4, u16, u16>(),
        (8, true, false) => work.run::<8, u16, u16>(),
        (16, true, false) => work.run::<16, u16, u16>(),
        (1, false, false) => work.run::<1, u32, u16>(),
        (4, false, false) => work.run::<4, u32, u16>(),
        (8, false, false) => work.run::<8, u32, u16>(),
        _ => work.run::<16, u32, u16>(),
    }
}

/// A column or a level as it is stored.
trait Number: Copy {
    /// # Safety
    /// `from` must be readable.
    unsafe fn read(from: *const Self) -> usize;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            #[inline(always)]
            unsafe fn read(from: *const Self) -> usize {
                // SAFETY: the caller gives a readable place; records need no alignment here.
                unsafe { from.read_unaligned() as usize }
            }
        }
    )*};
}
number!(u8, u16, u32);

/// One row: where its columns and levels are. Its columns and levels exist, as `Records::push` checked.
#[derive(Clone, Copy)]
struct Row<C, L> {
    columns: *const C,
    levels: *const L,
    length: usize,
}

impl<C: Number, L: Number> Row<C, L> {
    /// The record at `place`.
    ///
    /// # Safety
    /// A record must start at `place`, of columns `C` and levels `L`.
    #[inline(always)]
    unsafe fn at(words: &[u32], place: usize) -> (Entry, Self) {
        // SAFETY: a record starts here, so its head and its entries lie within the words.
        unsafe {
            let head = words.as_ptr().add(place);
            let length = *head.add(3) as usize;
            let columns = head.add(HEAD).cast::<C>();
            let levels = columns.add(length).cast::<L>();
            let entry = Entry { row: *head, tag: *head.add(1), own: f32::from_bits(*head.add(2)) };
            (entry, Self { columns, levels, length })
        }
    }

    /// Starts of the weights and factors of one entry, for rank `R`.
    ///
    /// # Safety
    /// There must be such an entry.
    #[inline(always)]
    unsafe fn entry<const R: usize>(&self, i: usize) -> (usize, usize) {
        // SAFETY: the caller says that the entry exists.
        unsafe { (C::read(self.columns.add(i)) * R, L::read(self.levels.add(i)) * R) }
    }

    /// `Σ W[column] · Φ[level]`.
    ///
    /// # Safety
    /// `weights` and `read` must hold `R` numbers for each column and level of the records.
    #[inline(always)]
    unsafe fn value<const R: usize>(&self, weights: &[f32], read: &[f32]) -> f32 {
        let mut sums = [[0.0f32; R]; 4];
        let whole = self.length / 4 * 4;
        let mut first = 0;
        while first < whole {
            for (chain, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the entry exists; its column and level were checked when it was packed.
                unsafe { self.term::<R>(first + chain, weights, read, sum) };
            }
            first += 4;
        }
        for (chain, sum) in sums.iter_mut().enumerate().take(self.length - whole) {
            // SAFETY: as above.
            unsafe { self.term::<R>(whole + chain, weights, read, sum) };
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

    /// # Safety
    /// As `value`, and the entry must exist.
    #[inline(always)]
    unsafe fn term<const R: usize>(
        &self,
        i: usize,
        weights: &[f32],
        read: &[f32],
        sum: &mut [f32; R],
    ) {
        // SAFETY: column and level exist, so `R` numbers stand at their places.
        unsafe {
            let (weight, factor) = self.entry::<R>(i);
            let weight = &*weights.as_ptr().add(weight).cast::<[f32; R]>();
            let factor = &*read.as_ptr().add(factor).cast::<[f32; R]>();
            for lane in 0..R {
                sum[lane] = weight[lane].mul_add(factor[lane], sum[lane]);
            }
        }
    }

    /// `W[column] += change · Ψ[level]`.
    ///
    /// # Safety
    /// As `value`.
    #[inline(always)]
    unsafe fn add<const R: usize>(&self, change: f32, weights: &mut [f32], write: &[f32]) {
        for i in 0..self.length {
            // SAFETY: column and level exist, so `R` numbers stand at their places.
            unsafe {
                let (weight, factor) = self.entry::<R>(i);
                let weight = &mut *weights.as_mut_ptr().add(weight).cast::<[f32; R]>();
                let factor = &*write.as_ptr().add(factor).cast::<[f32; R]>();
                for lane in 0..R {
                    weight[lane] = change.mul_add(factor[lane], weight[lane]);
                }
            }
        }
    }
}

/// Asks for a cache line; a hint that no address can make unsound.
#[inline(always)]
fn fetch<T>(from: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching never faults; SSE is part of the architecture.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

struct Sweep<'a, S> {
    records: &'a Records,
    factors: &'a Factors,
    weights: &'a mut [f32],
    constant: &'a mut Constant,
    order: &'a mut Order,
    coefficients: &'a mut [f32],
    step: &'a mut S,
}

struct SweepOn<'a, S> {
    isa: Isa,
    what: Sweep<'a, S>,
}

impl<S: Step> Shaped for SweepOn<'_, S> {
    type Output = u64;

    fn run<const R: usize, C: Number, L: Number>(self) -> u64 {
        self.isa
            .run(SweepTask::<'_, S, R, C, L> { what: self.what, stored: std::marker::PhantomData })
    }
}

struct SweepTask<'a, S, const R: usize, C, L> {
    what: Sweep<'a, S>,
    stored: std::marker::PhantomData<(C, L)>,
}

impl<S: Step, const R: usize, C: Number, L: Number> Task for SweepTask<'_, S, R, C, L> {
    type Output = u64;

    #[inline(always)]
    fn run<M: Machine>(self) -> u64 {
        let Sweep { records, factors, weights, constant, order, coefficients, step } = self.what;
        let words = records.words();
        let (read, write) = (factors.read(), factors.write());
        let mut seen = 0;
        let mut at = 0;
        while at < order.active {
            if let Some(ahead) = order.places[..order.active].get(at + AHEAD) {
                let start = words.as_ptr().wrapping_add(*ahead as usize);
                for line in 0..LINES {
                    fetch(start.wrapping_add(16 * line));
                }
            }
            if let Some(ahead) = order.places[..order.active].get(at + AHEAD / 2) {
                fetch(coefficients.as_ptr().wrapping_add(words[*ahead as usize] as usize));
            }
            // SAFETY: orders hold starts of records, and this one belongs to these.
            let (entry, row) = unsafe { Row::<C, L>::at(words, order.places[at] as usize) };
            seen += row.length as u64;
            // SAFETY: `check` compared the sizes of weights and tables with the records.
            let sum = unsafe { row.value::<R>(weights, read) };
            let value = constant.weight.mul_add(constant.size, sum);
            match step.step(entry, value, &mut coefficients[entry.row as usize]) {
                Change::By(change) => {
                    if change != 0.0 {
                        // SAFETY: as above.
                        unsafe { row.add::<R>(change, weights, write) };
                        constant.weight = change.mul_add(constant.size, constant.weight);
                    }
                    at += 1;
                }
                Change::Rest => {
                    order.active -= 1;
                    order.places.swap(at, order.active);
                }
            }
        }
        seen
    }
}

struct Values<'a> {
    records: &'a Records,
    factors: &'a Factors,
    weights: &'a [f32],
    constant: &'a Constant,
    see: &'a mut dyn FnMut(Entry, f32),
}

struct ValuesOn<'a> {
    isa: Isa,
    what: Values<'a>,
}

impl Shaped for ValuesOn<'_> {
    type Output = ();

    fn run<const R: usize, C: Number, L: Number>(self) {
        self.isa
            .run(ValuesTask::<'_, R, C, L> { what: self.what, stored: std::marker::PhantomData });
    }
}

struct ValuesTask<'a, const R: usize, C, L> {
    what: Values<'a>,
    stored: std::marker::PhantomData<(C, L)>,
}

impl<const R: usize, C: Number, L: Number> Task for ValuesTask<'_, R, C, L> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let Values { records, factors, weights, constant, see } = self.what;
        let words = records.words();
        let mut place = 0;
        while place < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { Row::<C, L>::at(words, place) };
            // SAFETY: `check` compared the sizes of weights and tables with the records.
            let sum = unsafe { row.value::<R>(weights, factors.read()) };
            see(entry, constant.weight.mul_add(constant.size, sum));
            place += records.size(row.length);
        }
    }
}

struct Accumulate<'a> {
    records: &'a Records,
    factors: &'a Factors,
    coefficient: &'a dyn Fn(Entry) -> f64,
    sums: &'a mut [f64],
}

struct AccumulateOn<'a> {
    isa: Isa,
    what: Accumulate<'a>,
}

impl Shaped for AccumulateOn<'_> {
    type Output = ();

    fn run<const R: usize, C: Number, L: Number>(self) {
        self.isa.run(AccumulateTask::<'_, R, C, L> {
            what: self.what,
            stored: std::marker::PhantomData,
        });
    }
}

struct AccumulateTask<'a, const R: usize, C, L> {
    what: Accumulate<'a>,
    stored: std::marker::PhantomData<(C, L)>,
}

impl<const R: usize, C: Number, L: Number> Task for AccumulateTask<'_, R, C, L> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let Accumulate { records, factors, coefficient, sums } = self.what;
        let (words, write) = (records.words(), factors.write());
        let mut place = 0;
        while place < words.len() {
            // SAFETY: records follow one another from the first word on.
            let (entry, row) = unsafe { Row::<C, L>::at(words, place) };
            place += records.size(row.length);
            let beta = coefficient(entry);
            if beta == 0.0 {
                continue;
            }
            for i in 0..row.length {
                // SAFETY: column and level exist, so `R` numbers stand at their places.
                unsafe {
                    let (sum, factor) = row.entry::<R>(i);
                    let sum = &mut *sums.as_mut_ptr().add(sum).cast::<[f64; R]>();
                    let factor = &*write.as_ptr().add(factor).cast::<[f32; R]>();
                    for lane in 0..R {
                        sum[lane] = beta.mul_add(f64::from(factor[lane]), sum[lane]);
                    }
                }
            }
        }
    }
}
