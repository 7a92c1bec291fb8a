//! Maps values to bins, many at a time, for the linear and additive machines.
//!
//! What a machine stores for each bin is in `score_table.rs`.

#![expect(unsafe_code, reason = "numbers that were just clamped become integers")]

use crate::isa::Isa;
use crate::vector::{SimdBackend, Task};

/// Maps values that are not zero to bins.
#[derive(Debug, Clone, PartialEq)]
pub struct BinMapper(Spacing);

#[derive(Debug, Clone, PartialEq)]
enum Spacing {
    /// The nearest of `last` equal steps.
    Uniform {
        top: f64,
        last: f64,
        is_root: bool,
    },
    /// 127 steps on either side of zero.
    Signed {
        top: f64,
    },
    Cuts(Cuts),
}

/// Cuts of columns, with buckets of equal width to find the range of cuts to search.
#[derive(Debug, Clone, PartialEq)]
struct Cuts {
    columns: Vec<ColumnCuts>,
    /// Cuts of each column, followed by [`COMPARED`] infinities.
    sorted: Vec<f64>,
    /// For each bucket of each column the number of cuts in lower buckets; then the number of all its cuts.
    before: Vec<u32>,
    /// For each column, the bin of each rank.
    bins: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct ColumnCuts {
    low: f64,
    /// Buckets per unit.
    scale: f64,
    /// Index of the last bucket.
    last: f64,
    first_cut: u32,
    first_bucket: u32,
    first_bin: u32,
}

/// Cuts that are compared with a value at once.
const COMPARED: usize = 4;
/// Buckets of a column, at most.
const MOST_BUCKETS: usize = 1024;
/// Up to so many cuts in all, there are four buckets per cut: cuts are dense where values are.
const FEW_CUTS: usize = 1 << 18;

impl BinMapper {
    /// Bin `b` stands for `top (b / last)`, or with `is_root` for `top (b / last)²`, where `last = bins - 1`; larger
    /// values are clamped.
    ///
    /// # Panics
    /// If there are fewer than 2 bins or more than 65,536.
    pub fn uniform(top: f64, is_root: bool, bins: usize) -> Self {
        assert!((2..=1 << 16).contains(&bins), "bins are 16-bit numbers");
        Self(Spacing::Uniform { top, last: (bins - 1) as f64, is_root })
    }

    /// Bins below 128 stand for `b - 128` steps, others for `b - 127` steps of `top / 127`.
    pub fn signed(top: f64) -> Self {
        Self(Spacing::Signed { top })
    }

    /// The rank of a value is the number of its column's cuts below it; ranks are spread evenly over the bins. The
    /// cuts of column `j`, in non-decreasing order, are `of(j)`.
    ///
    /// # Panics
    /// If there are fewer than 2 bins or more than 65,536, or more than 2^32 cuts.
    pub fn from_cuts<'c>(columns: usize, bins: usize, of: impl Fn(usize) -> &'c [f64]) -> Self {
        assert!((2..=1 << 16).contains(&bins), "bins are 16-bit numbers");
        let last = bins - 1;
        let mut all = Cuts {
            columns: Vec::with_capacity(columns),
            sorted: Vec::new(),
            before: Vec::new(),
            bins: Vec::new(),
        };
        let total: usize = (0..columns).map(|column| of(column).len()).sum();
        let each = if total <= FEW_CUTS { 4 } else { 1 };
        for cuts in (0..columns).map(of) {
            let first = |length: usize| u32::try_from(length).expect("at most 2^32 cuts");
            let buckets = (each * cuts.len()).next_power_of_two().min(MOST_BUCKETS);
            let (low, high) = cuts.first().zip(cuts.last()).map_or((0.0, 0.0), |(a, b)| (*a, *b));
            let column = ColumnCuts {
                low,
                scale: buckets as f64 / (high - low),
                last: (buckets - 1) as f64,
                first_cut: first(all.sorted.len()),
                first_bucket: first(all.before.len()),
                first_bin: first(all.bins.len()),
            };
            let mut before = vec![0u32; buckets + 1];
            for cut in cuts {
                before[column.bucket(*cut) + 1] += 1;
            }
            for at in 1..=buckets {
                before[at] += before[at - 1];
            }
            all.before.extend(before);
            all.sorted.extend(cuts);
            all.sorted.extend([f64::INFINITY; COMPARED]);
            let bin = |rank: usize| (last * (rank + 1)).div_ceil(cuts.len() + 1) as u16;
            all.bins.extend((0..=cuts.len()).map(bin));
            all.columns.push(column);
        }
        Self(Spacing::Cuts(all))
    }

    /// Writes the bin of each value; values must not be zero.
    ///
    /// # Panics
    /// If the lengths differ, or a column has no cuts where there are cuts.
    pub fn bins(&self, isa: Isa, columns: &[u32], values: &[f64], bins: &mut [u16]) {
        assert_eq!((columns.len(), bins.len()), (values.len(), values.len()), "one of each");
        match &self.0 {
            Spacing::Uniform { top, last, is_root: true } => {
                let (top, last) = (*top, *last);
                isa.run(MapEach {
                    values,
                    bins,
                    bin: |value: f64| nearest(root(value / top), last),
                });
            }
            Spacing::Uniform { top, last, .. } => {
                let (top, last) = (*top, *last);
                isa.run(MapEach { values, bins, bin: |value: f64| nearest(value / top, last) });
            }
            Spacing::Signed { top } => {
                let top = *top;
                let bin = |value: f64| {
                    let steps = nearest(value.abs() / top, 127.0);
                    if value < 0.0 { 128 - steps } else { 127 + steps }
                };
                isa.run(MapEach { values, bins, bin });
            }
            Spacing::Cuts(cuts) => isa.run(MapByCuts { cuts, columns, values, bins }),
        }
    }
}

#[inline(always)]
fn root(share: f64) -> f64 {
    (if share > 0.0 { share } else { 0.0 }).sqrt()
}

/// The bin nearest to a share, from 1 to `last`.
#[inline(always)]
fn nearest(share: f64, last: f64) -> u16 {
    let bin = share * last + 0.5;
    let bin = if bin > 1.0 { bin } else { 1.0 };
    let bin = if bin < last { bin } else { last };
    // SAFETY: it is between 1 and 65,535, for NaN too.
    unsafe { bin.to_int_unchecked::<i32>() as u16 }
}

impl ColumnCuts {
    /// Non-decreasing in the value: cuts in lower buckets are below `value`, those in higher ones above.
    #[inline(always)]
    fn bucket(&self, value: f64) -> usize {
        let share = (value - self.low) * self.scale;
        let share = if share > 0.0 { share } else { 0.0 };
        let share = if share < self.last { share } else { self.last };
        // SAFETY: it is between 0 and the last bucket, for NaN too.
        unsafe { share.to_int_unchecked::<i32>() as usize }
    }
}

struct MapEach<'a, F> {
    values: &'a [f64],
    bins: &'a mut [u16],
    bin: F,
}

impl<F: Fn(f64) -> u16> Task for MapEach<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let (values, last_values) = self.values.as_chunks::<8>();
        let (bins, last_bins) = self.bins.as_chunks_mut::<8>();
        // Counted loops: iterator adapters are not always inlined into a task.
        for at in 0..values.len() {
            let (values, bins) = (&values[at], &mut bins[at]);
            for lane in 0..8 {
                bins[lane] = (self.bin)(values[lane]);
            }
        }
        for at in 0..last_values.len() {
            last_bins[at] = (self.bin)(last_values[at]);
        }
    }
}

struct MapByCuts<'a> {
    cuts: &'a Cuts,
    columns: &'a [u32],
    values: &'a [f64],
    bins: &'a mut [u16],
}

impl Task for MapByCuts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Cuts { columns, sorted, before, bins } = self.cuts;
        for at in 0..self.values.len() {
            let (column, value) = (&columns[self.columns[at] as usize], self.values[at]);
            let bucket = column.first_bucket as usize + column.bucket(value);
            let (from, to) = (before[bucket] as usize, before[bucket + 1] as usize);
            let start = column.first_cut as usize + from;
            let inside = if to - from <= COMPARED {
                let cuts = &sorted[start..start + COMPARED];
                let below = |k: usize| usize::from(cuts[k] < value);
                (below(0) + below(1)) + (below(2) + below(3))
            } else {
                sorted[start..start + (to - from)].partition_point(|cut| *cut < value)
            };
            self.bins[at] = bins[column.first_bin as usize + from + inside];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(mapper: &BinMapper, columns: &[u32], values: &[f64]) -> Vec<u16> {
        let mut all = Isa::available().iter().map(|isa| {
            let mut found = vec![0; values.len()];
            mapper.bins(*isa, columns, values, &mut found);
            found
        });
        let first = all.next().unwrap();
        assert!(all.all(|found| found == first), "the same on every instruction set");
        first
    }

    #[test]
    fn ranks_are_the_cuts_below() {
        let even: Vec<f64> = (0..254).map(f64::from).collect();
        let heavy: Vec<f64> = (0..254).map(|k| 1.3f64.powi(k) - 2.0).collect();
        let tiny = vec![0.0, f64::from_bits(1), f64::from_bits(3), 1e-300];
        let vast = vec![f64::MIN, -1.0, 2.0, f64::MAX];
        let all = [even, heavy, tiny, vast, vec![3.5], vec![]];
        let mapper = BinMapper::from_cuts(all.len(), 256, |column| &all[column]);
        for (column, cuts) in all.iter().enumerate() {
            let around = cuts.iter().flat_map(|cut| [cut.next_down(), *cut, cut.next_up()]);
            let ends = [f64::MIN, -1e-300, f64::MIN_POSITIVE, 0.5, 77.25, 1e300, f64::MAX];
            let values: Vec<f64> =
                around.chain(ends).filter(|value| value.is_finite() && *value != 0.0).collect();
            let found = bins(&mapper, &vec![column as u32; values.len()], &values);
            for (value, bin) in values.iter().zip(found) {
                let rank = cuts.iter().filter(|cut| *cut < value).count();
                let expected = (255 * (rank + 1)).div_ceil(cuts.len() + 1);
                assert_eq!(usize::from(bin), expected, "column {column}, {value:e}");
            }
        }
    }

    #[test]
    fn bins_are_the_nearest_and_never_zero() {
        let values: Vec<f64> = (1..1000)
            .map(|k| f64::from(k) * 0.0037)
            .chain([1e-300, 1e300, f64::MAX, f64::MIN_POSITIVE])
            .collect();
        let columns = vec![0; values.len()];
        for (is_root, last) in [(false, 255usize), (true, 255), (false, 999), (false, 65535)] {
            let found = bins(&BinMapper::uniform(3.0, is_root, last + 1), &columns, &values);
            for (value, bin) in values.iter().zip(found) {
                let share = if is_root { (value / 3.0).sqrt() } else { value / 3.0 };
                let expected = ((share * last as f64 + 0.5) as usize).clamp(1, last);
                assert_eq!(usize::from(bin), expected, "{value:e} of {last}");
            }
        }
        let below: Vec<f64> = values.iter().map(|value| -value).collect();
        let (up, down) = (BinMapper::signed(3.0), BinMapper::signed(3.0));
        let pairs = bins(&up, &columns, &values).into_iter().zip(bins(&down, &columns, &below));
        assert!(
            pairs.into_iter().all(|(up, down)| up >= 128 && u32::from(up) + u32::from(down) == 255)
        );
    }
}
