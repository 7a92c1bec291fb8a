use super::Records;
use super::meaning::{Meaning, Reader, Stored};
use super::records::Cells;
use super::sweep::{Row, Shaped};
use crate::lines::Lines;

/// Levels of a block, and blocks of all levels.
const BLOCK: usize = 16;
const LEVELS: usize = BLOCK * BLOCK;
/// Where the numbers that blocks share start.
const BASE: usize = LEVELS;
const SLOPE: usize = LEVELS + BLOCK;
/// Numbers that the weights have for each column.
const STRIDE: usize = LEVELS + 2 * BLOCK;

/// `min(t_a, t_b)` on at most 256 levels that do not fall, without any approximation.
///
/// The curve of a column is `g(b) = Σ_c β_c min(t_b, t_c)`. Levels are cut into 16 blocks of 16. For a level of
/// block h the terms of lower blocks are `base[h] = Σ β_c t_c`, those of higher blocks `t_b slope[h]` with
/// `slope[h] = Σ β_c`, and those of its own block stand in `near[b]`: three reads. A change of one
/// coefficient touches the 16 numbers of its block, the bases above and the slopes below.
#[derive(Debug, Clone)]
pub struct Stairs {
    values: Lines<f32>,
    /// For each level: what `near`, `base` and `slope` gain, 16 numbers each.
    gains: Lines<f32>,
}

/// Numbers of one level in `gains`.
const GAINS: usize = 3 * BLOCK;

impl Stairs {
    /// Levels that stand for these values, the first of them for zero.
    ///
    /// # Panics
    /// If there are more than 256 or none, or they fall.
    pub fn new(values: &[f32]) -> Self {
        assert!((1..=LEVELS).contains(&values.len()), "one level or up to 256");
        assert!(values.windows(2).all(|pair| pair[0] <= pair[1]), "levels that do not fall");
        let mut gains = Lines::zeroed(values.len() * GAINS);
        for (level, value) in values.iter().enumerate() {
            let own = &mut gains[level * GAINS..(level + 1) * GAINS];
            for place in 0..BLOCK {
                let neighbour = values.get(level / BLOCK * BLOCK + place).unwrap_or(value);
                own[place] = neighbour.min(*value);
                own[BLOCK + place] = if place > level / BLOCK { *value } else { 0.0 };
                own[2 * BLOCK + place] = if place < level / BLOCK { 1.0 } else { 0.0 };
            }
        }
        let mut own = Lines::zeroed(values.len());
        own.copy_from_slice(values);
        Self { values: own, gains }
    }

    /// What levels stand for.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    fn levels(&self) -> usize {
        self.values.len()
    }

    /// The curve of each column on the levels from 1 on, in doubles.
    pub fn curves(&self, weights: &[f64]) -> Vec<f64> {
        let columns = weights.chunks_exact(STRIDE);
        let mut curves = Vec::with_capacity(columns.len() * (self.levels() - 1));
        for own in columns {
            for (level, value) in self.values.iter().enumerate().skip(1) {
                let block = level / BLOCK;
                let far = own[SLOPE + block].mul_add(f64::from(*value), own[BASE + block]);
                curves.push(own[level] + far);
            }
        }
        curves
    }
}

impl Meaning for Stairs {
    type Real = f32;

    fn rank(&self) -> usize {
        STRIDE
    }

    fn fits(&self, records: &Records) -> bool {
        records.cells() == Cells::Levels(self.levels())
    }

    /// `Σ_j Σ_b (g_j(b) - g_j(b - 1))² / (t_b - t_{b-1})`: the norm of the functions whose kernel is `min`.
    fn square(&self, weights: &[f64]) -> f64 {
        let curves = self.curves(weights);
        let mut sum = 0.0;
        for curve in curves.chunks_exact(self.levels().max(2) - 1) {
            let mut before = 0.0;
            for (step, value) in self.values.windows(2).zip(curve) {
                let (rise, run) = (value - before, f64::from(step[1]) - f64::from(step[0]));
                if run > 0.0 {
                    sum += rise * rise / run;
                }
                before = *value;
            }
        }
        sum
    }

    fn choose<W: Shaped<f32>>(&self, records: &Records, work: W) -> W::Output {
        let reader = Flight { values: &self.values, gains: &self.gains };
        // No more than 256 levels, hence bytes.
        if records.is_narrow() {
            work.run::<u16, u8, _>(reader)
        } else {
            work.run::<u32, u8, _>(reader)
        }
    }
}

/// Levels and what they gain.
#[derive(Clone, Copy)]
struct Flight<'a> {
    values: &'a [f32],
    gains: &'a [f32],
}

impl Flight<'_> {
    /// # Safety
    /// The level must exist.
    #[inline(always)]
    unsafe fn gains_of(&self, level: usize) -> &[f32; GAINS] {
        // SAFETY: every level has so many gains.
        unsafe { &*self.gains.as_ptr().add(level * GAINS).cast() }
    }
}

impl<C, L> Reader<C, L> for Flight<'_>
where
    C: Stored<Read = usize>,
    L: Stored<Read = usize>,
{
    type Real = f32;

    /// Four chains over entries `i mod 4`, joined as those of factors are.
    #[inline(always)]
    unsafe fn value(self, row: &Row<C, L>, weights: &[f32]) -> f32 {
        let mut sums = [0.0f32; 4];
        for i in 0..row.length {
            // SAFETY: column and level exist, so their numbers stand at their places.
            let (own, level, value) = unsafe {
                let (column, level) = (row.column(i), row.cell(i));
                let own = weights.as_ptr().add(column * STRIDE);
                (&*own.cast::<[f32; STRIDE]>(), level, *self.values.as_ptr().add(level))
            };
            let (near, base, slope) = places(level);
            sums[i % 4] += own[slope].mul_add(value, own[base]) + own[near];
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    #[inline(always)]
    unsafe fn add(self, row: &Row<C, L>, change: f32, weights: &mut [f32]) {
        for i in 0..row.length {
            // SAFETY: as above.
            unsafe {
                let (column, level) = (row.column(i), row.cell(i));
                let own = weights.as_mut_ptr().add(column * STRIDE);
                add(&mut *own.cast(), level, self.gains_of(level), change);
            }
        }
    }

    #[inline(always)]
    unsafe fn sum(self, row: &Row<C, L>, beta: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: as above.
            unsafe {
                let (column, level) = (row.column(i), row.cell(i));
                let own = sums.as_mut_ptr().add(column * STRIDE);
                add_wide(&mut *own.cast(), level, self.gains_of(level), |sum, gain| {
                    beta.mul_add(gain, sum)
                });
            }
        }
    }

    #[inline(always)]
    unsafe fn squares(self, row: &Row<C, L>, factor: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: as above.
            unsafe {
                let (column, level) = (row.column(i), row.cell(i));
                let own = sums.as_mut_ptr().add(column * STRIDE);
                add_wide(&mut *own.cast(), level, self.gains_of(level), |sum, gain| {
                    (factor * gain).mul_add(gain, sum)
                });
            }
        }
    }
}

/// Where the three numbers of a level stand in the weights of its column.
#[inline(always)]
fn places(level: usize) -> (usize, usize, usize) {
    let level = level % LEVELS;
    (level, BASE + level / BLOCK, SLOPE + level / BLOCK)
}

/// Adds `change` times the gains of a level to the weights of a column.
#[inline(always)]
fn add(own: &mut [f32; STRIDE], level: usize, gains: &[f32; GAINS], change: f32) {
    let first = level % LEVELS / BLOCK * BLOCK;
    for lane in 0..BLOCK {
        own[first + lane] = change.mul_add(gains[lane], own[first + lane]);
    }
    for lane in 0..2 * BLOCK {
        own[BASE + lane] = change.mul_add(gains[BLOCK + lane], own[BASE + lane]);
    }
}

/// The same in doubles, by any rule.
#[inline(always)]
fn add_wide(
    own: &mut [f64; STRIDE],
    level: usize,
    gains: &[f32; GAINS],
    rule: impl Fn(f64, f64) -> f64,
) {
    let first = level % LEVELS / BLOCK * BLOCK;
    for lane in 0..BLOCK {
        own[first + lane] = rule(own[first + lane], f64::from(gains[lane]));
    }
    for lane in 0..2 * BLOCK {
        own[BASE + lane] = rule(own[BASE + lane], f64::from(gains[BLOCK + lane]));
    }
}
