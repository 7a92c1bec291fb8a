use mercer_simd::BinMapper;

use crate::MachineError;

/// How values become levels, and what a level stands for.
///
/// Zero is level 0 and a non-zero value never is. A level stands for `rank` numbers Φ, so that products
/// of two levels' numbers are values of the scalar kernel, or near them.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    scale: Spacing,
    rank: usize,
    factors: Vec<f32>,
    /// Whether each level above zero has one number of its own: weights are then the values themselves.
    is_direct: bool,
}

/// Where the levels of a grid lie.
#[derive(Debug, Clone, PartialEq)]
pub enum Spacing {
    /// Level `b` of `n` stands for `top (b / n)^exponent` in every column; the nearest one on that scale is
    /// taken. Values above `top` are clamped.
    Power {
        /// Largest value.
        top: f64,
        /// 1 for even steps, 2 for steps that are finer near zero.
        exponent: u32,
    },
    /// Each column has cuts of its own; the number of cuts below a value is its rank, and ranks are spread
    /// evenly over the levels. Values may be negative.
    Quantile {
        /// Where the numbers of each column start, and where the last one ends.
        starts: Vec<usize>,
        /// Of each column: smallest value, cuts, largest value; nothing for columns without values.
        cuts: Vec<f64>,
    },
}

/// The most levels a grid may have: they are 16-bit numbers.
pub(crate) const MOST_LEVELS: usize = 1 << 16;

/// The most levels that may have numbers of their own.
const MOST_DIRECT: usize = 1 << 10;

impl Spacing {
    /// The level of a value that is not zero, among `levels` levels.
    #[inline]
    pub fn level(&self, levels: usize, column: usize, value: f64) -> usize {
        let last = levels - 1;
        match self {
            Self::Power { top, exponent } => {
                let share = value / top;
                let share = if *exponent == 2 { share.max(0.0).sqrt() } else { share };
                // Casts of numbers out of range saturate.
                ((share * last as f64 + 0.5) as usize).clamp(1, last)
            }
            Self::Quantile { starts, cuts } => {
                let own = &cuts[starts[column]..starts[column + 1]];
                let Some(inner) = own.get(1..own.len().max(2) - 1) else { return last };
                let rank = inner.partition_point(|cut| *cut < value);
                (last * (rank + 1)).div_ceil(inner.len() + 1)
            }
        }
    }

    /// What finds the levels of many values at once: those of [`Spacing::level`].
    pub fn bin_mapper(&self, levels: usize) -> BinMapper {
        match self {
            Self::Power { top, exponent } => BinMapper::uniform(*top, *exponent == 2, levels),
            Self::Quantile { starts, cuts } => {
                let inner = |column: usize| {
                    let own = &cuts[starts[column]..starts[column + 1]];
                    own.get(1..own.len().max(2) - 1).unwrap_or(&[])
                };
                BinMapper::from_cuts(starts.len().saturating_sub(1), levels, inner)
            }
        }
    }

    /// What a level stands for.
    pub fn value(&self, levels: usize, level: usize) -> f64 {
        let share = level as f64 / (levels - 1) as f64;
        match self {
            Self::Power { top, exponent } => {
                top * if *exponent == 2 { share * share } else { share }
            }
            Self::Quantile { .. } => share,
        }
    }

    /// Whether a value lies beyond those the levels were made for.
    pub fn is_outside(&self, column: usize, value: f64) -> bool {
        match self {
            Self::Power { top, .. } => value > *top,
            Self::Quantile { starts, cuts } => {
                let own = &cuts[starts[column]..starts[column + 1]];
                own.is_empty() || value < own[0] || value > own[own.len() - 1]
            }
        }
    }

    /// Whether values below zero have levels.
    pub fn takes_negative(&self) -> bool {
        matches!(self, Self::Quantile { .. })
    }

    /// Its name: `uniform`, `power` or `quantile`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Power { exponent: 1, .. } => "uniform",
            Self::Power { .. } => "power",
            Self::Quantile { .. } => "quantile",
        }
    }

    /// Columns it knows; `None` if it is the same for all.
    fn columns(&self) -> Option<usize> {
        match self {
            Self::Power { .. } => None,
            Self::Quantile { starts, .. } => Some(starts.len().saturating_sub(1)),
        }
    }

    fn is_sound(&self) -> bool {
        match self {
            Self::Power { top, exponent } => {
                top.is_finite() && *top > 0.0 && (1..=2).contains(exponent)
            }
            Self::Quantile { starts, cuts } => {
                let ordered = |own: &[f64]| {
                    own.len() != 1
                        && own.windows(2).all(|pair| pair[0] <= pair[1])
                        && own.iter().all(|cut| cut.is_finite())
                };
                starts.first() == Some(&0)
                    && starts.last() == Some(&cuts.len())
                    && starts.windows(2).all(|pair| pair[0] <= pair[1])
                    && starts.windows(2).all(|pair| ordered(&cuts[pair[0]..pair[1]]))
            }
        }
    }
}

impl Grid {
    /// `factors` holds `rank` numbers for each level; those of level 0 are zero.
    ///
    /// # Errors
    /// If numbers are missing, too many or not finite, or the scale is none.
    pub fn new(scale: Spacing, rank: usize, factors: Vec<f32>) -> Result<Self, MachineError> {
        let levels = factors.len().checked_div(rank).unwrap_or(0);
        if !(2..=MOST_LEVELS).contains(&levels) || levels * rank != factors.len() {
            let found = factors.len();
            return Err(MachineError::Count { what: "factors", found, expected: 2 * rank.max(1) });
        }
        let bad = factors.iter().find(|factor| !factor.is_finite());
        if let Some(value) = bad.or(factors[..rank].iter().find(|factor| **factor != 0.0)) {
            let value = f64::from(*value);
            return Err(MachineError::Grid { reason: format!("a factor is {value}") });
        }
        if !scale.is_sound() {
            return Err(MachineError::Grid { reason: "its scale is not in order".to_owned() });
        }
        let is_direct = rank == levels - 1 && is_unit(rank, &factors);
        Ok(Self { scale, rank, factors, is_direct })
    }

    /// Every level above zero has one number of its own, so that weights are values of levels.
    ///
    /// # Errors
    /// If there are too few or too many levels, or the scale is none.
    pub fn direct(scale: Spacing, levels: usize) -> Result<Self, MachineError> {
        let rank = levels.saturating_sub(1);
        if !(1..MOST_DIRECT).contains(&rank) {
            return Err(MachineError::Grid { reason: format!("{levels} levels of their own") });
        }
        let mut factors = vec![0.0; levels * rank];
        (0..rank).for_each(|at| factors[(at + 1) * rank + at] = 1.0);
        Self::new(scale, rank, factors)
    }

    /// Whether weights are values of levels.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Where its levels lie.
    pub fn scale(&self) -> &Spacing {
        &self.scale
    }

    /// Numbers for each level.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many levels there are, zero included.
    pub fn levels(&self) -> usize {
        self.factors.len() / self.rank
    }

    /// Φ, level after level.
    pub fn factors(&self) -> &[f32] {
        &self.factors
    }

    /// The level of a value that is not zero.
    pub fn level(&self, column: usize, value: f64) -> usize {
        self.scale.level(self.levels(), column, value)
    }

    pub(crate) fn check(&self, columns: usize) -> Result<(), MachineError> {
        match self.scale.columns() {
            Some(found) if found != columns => {
                Err(MachineError::Count { what: "columns of levels", found, expected: columns })
            }
            _ => Ok(()),
        }
    }

    /// `W · Φ(level)` of one column, summed in doubles. Products of two singles are exact in doubles, so fused
    /// multiply-adds would give the same bits.
    pub fn read(&self, weights: &[f32], level: usize) -> f64 {
        if self.is_direct {
            // What the chain gives: one product with 1, all others with 0.
            return level.checked_sub(1).map_or(0.0, |at| 0.0 + f64::from(weights[at]));
        }
        let factors = &self.factors[level * self.rank..(level + 1) * self.rank];
        let pairs = weights.iter().zip(factors);
        pairs.fold(0.0, |sum, (w, phi)| sum + f64::from(*w) * f64::from(*phi))
    }
}

/// Whether level `b` has a 1 at place `b - 1`, and zeros elsewhere.
fn is_unit(rank: usize, factors: &[f32]) -> bool {
    let entry = |at: usize| if at / rank == at % rank + 1 { 1.0f32 } else { 0.0 };
    factors.iter().enumerate().all(|(at, factor)| factor.to_bits() == entry(at).to_bits())
}

#[cfg(test)]
mod tests {
    use mercer_simd::Isa;

    use super::*;

    fn grid(scale: Spacing) -> Grid {
        let factors = (0..256u16).map(f32::from).collect();
        Grid::new(scale, 1, factors).unwrap()
    }

    #[test]
    fn zero_alone_is_level_zero_and_levels_stand_for_themselves() {
        for exponent in [1, 2] {
            let grid = grid(Spacing::Power { top: 3.0, exponent });
            assert_eq!(grid.level(0, 1e-300), 1);
            assert_eq!((grid.level(0, 3.0), grid.level(0, 1e300)), (255, 255));
            for level in 1..256 {
                let value = grid.scale().value(256, level);
                assert_eq!(grid.level(0, value), level, "{exponent} {value}");
            }
            assert!(grid.scale().is_outside(0, 3.1) && !grid.scale().is_outside(0, 3.0));
        }
    }

    #[test]
    fn levels_side_by_side_are_those_of_each() {
        let cuts = vec![-2.0, -1.0, 0.3, 5.0, 9.0, 1.0, 1.0];
        let scales = [
            Spacing::Power { top: 3.0, exponent: 1 },
            Spacing::Power { top: 3.0, exponent: 2 },
            Spacing::Quantile { starts: vec![0, 5, 7, 7], cuts },
        ];
        let ends = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 3.0, 1e-300, -1e-300, 1e300];
        let values: Vec<f64> = (1..400).map(|i| f64::from(i) * 0.0083).chain(ends).collect();
        let columns: Vec<u32> = (0..values.len() as u32).map(|at| at % 3).collect();
        for (scale, isa) in scales.iter().flat_map(|s| Isa::available().iter().map(move |i| (s, i)))
        {
            let mut levels = vec![0; values.len()];
            scale.bin_mapper(256).bins(*isa, &columns, &values, &mut levels);
            for ((column, value), level) in columns.iter().zip(&values).zip(levels) {
                let wanted = scale.level(256, *column as usize, *value);
                assert_eq!(wanted, usize::from(level), "{value}");
            }
        }
    }

    #[test]
    fn direct_grids_give_the_bits_of_the_chain() {
        let scale = Spacing::Power { top: 1.0, exponent: 1 };
        let direct = Grid::direct(scale.clone(), 5).unwrap();
        let plain = Grid { is_direct: false, ..direct.clone() };
        let weights = [0.3f32, -0.0, 1e-40, -7.5];
        for level in 0..5 {
            let pair = [&direct, &plain].map(|grid| grid.read(&weights, level).to_bits());
            assert_eq!(pair[0], pair[1], "{level}");
        }
        assert!(direct.is_direct() && !grid(scale.clone()).is_direct());
        assert!(Grid::direct(scale.clone(), 1).is_err() && Grid::direct(scale, 5000).is_err());
        // Two levels and one number: the smallest of them.
        let least = Grid::new(Spacing::Power { top: 1.0, exponent: 1 }, 1, vec![0.0, 1.0]).unwrap();
        assert!(least.is_direct());
    }

    #[test]
    fn quantiles_spread_ranks_over_the_levels() {
        let scale = Spacing::Quantile {
            starts: vec![0, 4, 6, 6],
            cuts: vec![-2.0, -1.0, 5.0, 9.0, 1.0, 1.0],
        };
        let grid = grid(scale);
        assert_eq!([-7.0, 0.5, 6.0].map(|x| grid.level(0, x)), [85, 170, 255]);
        assert_eq!((grid.level(1, 1.0), grid.level(2, 4.0)), (255, 255));
        assert!(grid.scale().is_outside(2, 4.0) && grid.scale().is_outside(0, 9.5));
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        let new = |scale, factors| Grid::new(scale, 1, factors);
        let even = Spacing::Power { top: 1.0, exponent: 1 };
        assert!(new(even.clone(), vec![0.0]).is_err());
        assert!(new(even.clone(), vec![1.0, 1.0]).is_err());
        assert!(new(even, vec![0.0, f32::NAN]).is_err());
        assert!(new(Spacing::Power { top: -1.0, exponent: 1 }, vec![0.0, 1.0]).is_err());
        let cuts = Spacing::Quantile { starts: vec![0, 2], cuts: vec![2.0, 1.0] };
        assert!(new(cuts, vec![0.0, 1.0]).is_err());
    }
}
