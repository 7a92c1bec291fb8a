//! Values become levels, many at a time.

#![expect(unsafe_code, reason = "numbers that were just clamped become integers")]

use crate::isa::Isa;
use crate::vector::{Machine, Task};

/// Finds the levels of values that are not zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruler(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// The nearest of `last` steps.
    Even {
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

/// Cuts of columns, with buckets of equal width that say where to look.
#[derive(Debug, Clone, PartialEq)]
struct Cuts {
    columns: Vec<Column>,
    /// Cuts of each column, then [`LOOKED_AT`] that no value is above.
    sorted: Vec<f64>,
    /// For each bucket of each column the cuts in lower ones; then their number.
    before: Vec<u32>,
    /// For each column the level of each rank.
    levels: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Column {
    low: f64,
    /// Buckets in a unit.
    scale: f64,
    /// The number of its last bucket.
    last: f64,
    first_cut: u32,
    first_bucket: u32,
    first_level: u32,
}

/// Cuts that are compared with a value side by side.
const LOOKED_AT: usize = 4;
/// Buckets of a column, at most.
const MOST_BUCKETS: usize = 1024;
/// Up to so many cuts of all columns there are several buckets for each: where values crowd, cuts do.
const FEW_CUTS: usize = 1 << 18;

impl Ruler {
    /// Level `b` of those below `levels` stands for `top (b / last)`, or for its square; values above are clamped.
    ///
    /// # Panics
    /// If there are fewer than 2 levels or more than 65,536.
    pub fn even(top: f64, is_root: bool, levels: usize) -> Self {
        assert!((2..=1 << 16).contains(&levels), "levels are 16-bit numbers");
        Self(Kind::Even { top, last: (levels - 1) as f64, is_root })
    }

    /// Levels below 128 stand for `b - 128` steps, others for `b - 127` steps of `top / 127`.
    pub fn signed(top: f64) -> Self {
        Self(Kind::Signed { top })
    }

    /// The number of cuts of a value's column that are below it, its rank, spread evenly over the levels. The cuts of
    /// column `j`, which never fall, are `of(j)`.
    ///
    /// # Panics
    /// If there are fewer than 2 levels or more than 65,536, or more than 2^32 cuts.
    pub fn cuts<'c>(columns: usize, levels: usize, of: impl Fn(usize) -> &'c [f64]) -> Self {
        assert!((2..=1 << 16).contains(&levels), "levels are 16-bit numbers");
        let last = levels - 1;
        let mut all = Cuts {
            columns: Vec::with_capacity(columns),
            sorted: Vec::new(),
            before: Vec::new(),
            levels: Vec::new(),
        };
        let total: usize = (0..columns).map(|column| of(column).len()).sum();
        let each = if total <= FEW_CUTS { 4 } else { 1 };
        for own in (0..columns).map(of) {
            let first = |length: usize| u32::try_from(length).expect("at most 2^32 cuts");
            let buckets = (each * own.len()).next_power_of_two().min(MOST_BUCKETS);
            let (low, high) = own.first().zip(own.last()).map_or((0.0, 0.0), |(a, b)| (*a, *b));
            let column = Column {
                low,
                scale: buckets as f64 / (high - low),
                last: (buckets - 1) as f64,
                first_cut: first(all.sorted.len()),
                first_bucket: first(all.before.len()),
                first_level: first(all.levels.len()),
            };
            let mut before = vec![0u32; buckets + 1];
            for cut in own {
                before[column.bucket(*cut) + 1] += 1;
            }
            for at in 1..=buckets {
                before[at] += before[at - 1];
            }
            all.before.extend(before);
            all.sorted.extend(own);
            all.sorted.extend([f64::INFINITY; LOOKED_AT]);
            let level = |rank: usize| (last * (rank + 1)).div_ceil(own.len() + 1) as u16;
            all.levels.extend((0..=own.len()).map(level));
            all.columns.push(column);
        }
        Self(Kind::Cuts(all))
    }

    /// The level of each value, none of which is zero.
    ///
    /// # Panics
    /// If there is not a column and a place for every value, or no such column where columns have cuts.
    pub fn levels(&self, isa: Isa, columns: &[u32], values: &[f64], levels: &mut [u16]) {
        assert_eq!((columns.len(), levels.len()), (values.len(), values.len()), "one of each");
        match &self.0 {
            Kind::Even { top, last, is_root: true } => {
                let (top, last) = (*top, *last);
                isa.run(Each {
                    values,
                    levels,
                    level: |value: f64| nearest(root(value / top), last),
                });
            }
            Kind::Even { top, last, .. } => {
                let (top, last) = (*top, *last);
                isa.run(Each { values, levels, level: |value: f64| nearest(value / top, last) });
            }
            Kind::Signed { top } => {
                let top = *top;
                let level = |value: f64| {
                    let steps = nearest(value.abs() / top, 127.0);
                    if value < 0.0 { 128 - steps } else { 127 + steps }
                };
                isa.run(Each { values, levels, level });
            }
            Kind::Cuts(cuts) => isa.run(Within { cuts, columns, values, levels }),
        }
    }
}

#[inline(always)]
fn root(share: f64) -> f64 {
    (if share > 0.0 { share } else { 0.0 }).sqrt()
}

/// The level nearest to a share, from 1 to `last`.
#[inline(always)]
fn nearest(share: f64, last: f64) -> u16 {
    let level = share * last + 0.5;
    let level = if level > 1.0 { level } else { 1.0 };
    let level = if level < last { level } else { last };
    // SAFETY: it is between 1 and 65,535, what is no number included.
    unsafe { level.to_int_unchecked::<i32>() as u16 }
}

impl Column {
    /// Never falls as values rise: cuts in lower buckets are below `value`, those in higher ones above.
    #[inline(always)]
    fn bucket(&self, value: f64) -> usize {
        let share = (value - self.low) * self.scale;
        let share = if share > 0.0 { share } else { 0.0 };
        let share = if share < self.last { share } else { self.last };
        // SAFETY: it is between 0 and the last bucket, what is no number included.
        unsafe { share.to_int_unchecked::<i32>() as usize }
    }
}

struct Each<'a, F> {
    values: &'a [f64],
    levels: &'a mut [u16],
    level: F,
}

impl<F: Fn(f64) -> u16> Task for Each<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let (values, last_values) = self.values.as_chunks::<8>();
        let (levels, last_levels) = self.levels.as_chunks_mut::<8>();
        // Counted loops: what iterators are made of is not always compiled into a task.
        for at in 0..values.len() {
            let (values, levels) = (&values[at], &mut levels[at]);
            for lane in 0..8 {
                levels[lane] = (self.level)(values[lane]);
            }
        }
        for at in 0..last_values.len() {
            last_levels[at] = (self.level)(last_values[at]);
        }
    }
}

struct Within<'a> {
    cuts: &'a Cuts,
    columns: &'a [u32],
    values: &'a [f64],
    levels: &'a mut [u16],
}

impl Task for Within<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let Cuts { columns, sorted, before, levels } = self.cuts;
        for at in 0..self.values.len() {
            let (column, value) = (&columns[self.columns[at] as usize], self.values[at]);
            let bucket = column.first_bucket as usize + column.bucket(value);
            let (from, to) = (before[bucket] as usize, before[bucket + 1] as usize);
            let own = column.first_cut as usize + from;
            let inside = if to - from <= LOOKED_AT {
                let own = &sorted[own..own + LOOKED_AT];
                let below = |k: usize| usize::from(own[k] < value);
                (below(0) + below(1)) + (below(2) + below(3))
            } else {
                sorted[own..own + (to - from)].partition_point(|cut| *cut < value)
            };
            self.levels[at] = levels[column.first_level as usize + from + inside];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(ruler: &Ruler, columns: &[u32], values: &[f64]) -> Vec<u16> {
        let mut all = Isa::available().iter().map(|isa| {
            let mut found = vec![0; values.len()];
            ruler.levels(*isa, columns, values, &mut found);
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
        let ruler = Ruler::cuts(all.len(), 256, |column| &all[column]);
        for (column, own) in all.iter().enumerate() {
            let around = own.iter().flat_map(|cut| [cut.next_down(), *cut, cut.next_up()]);
            let ends = [f64::MIN, -1e-300, f64::MIN_POSITIVE, 0.5, 77.25, 1e300, f64::MAX];
            let values: Vec<f64> =
                around.chain(ends).filter(|value| value.is_finite() && *value != 0.0).collect();
            let found = levels(&ruler, &vec![column as u32; values.len()], &values);
            for (value, level) in values.iter().zip(found) {
                let rank = own.iter().filter(|cut| *cut < value).count();
                let wanted = (255 * (rank + 1)).div_ceil(own.len() + 1);
                assert_eq!(usize::from(level), wanted, "column {column}, {value:e}");
            }
        }
    }

    #[test]
    fn steps_are_the_nearest_and_never_none() {
        let values: Vec<f64> = (1..1000)
            .map(|k| f64::from(k) * 0.0037)
            .chain([1e-300, 1e300, f64::MAX, f64::MIN_POSITIVE])
            .collect();
        let columns = vec![0; values.len()];
        for (is_root, last) in [(false, 255usize), (true, 255), (false, 999), (false, 65535)] {
            let found = levels(&Ruler::even(3.0, is_root, last + 1), &columns, &values);
            for (value, level) in values.iter().zip(found) {
                let share = if is_root { (value / 3.0).sqrt() } else { value / 3.0 };
                let wanted = ((share * last as f64 + 0.5) as usize).clamp(1, last);
                assert_eq!(usize::from(level), wanted, "{value:e} of {last}");
            }
        }
        let below: Vec<f64> = values.iter().map(|value| -value).collect();
        let (up, down) = (Ruler::signed(3.0), Ruler::signed(3.0));
        let pairs = levels(&up, &columns, &values).into_iter().zip(levels(&down, &columns, &below));
        assert!(
            pairs.into_iter().all(|(up, down)| up >= 128 && u32::from(up) + u32::from(down) == 255)
        );
    }
}
