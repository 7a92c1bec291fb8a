//! Bins of the values of additive machines, and their encodings. How machines use them: `score.rs`.
//! Bins are made by the additive solvers of `mercer-train`.

use mercer_simd::BinMapper;

use crate::MachineError;

/// How the values of a column are binned, and the encoding Φ of each bin.
///
/// Zero has bin 0, and no other value has it. The encoding of a bin is a vector of `rank` numbers: dot
/// products of two encodings are values of the scalar kernel, or close to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Bins {
    spacing: Spacing,
    rank: usize,
    encoding: Vec<f32>,
    /// Whether encodings are one-hot: weights are then the values of the bins themselves.
    is_one_hot: bool,
}

/// Where the bins lie.
#[derive(Debug, Clone, PartialEq)]
pub enum Spacing {
    /// The centre of bin `b` of `n` is `top (b / n)^exponent` in every column; the nearest one on that scale
    /// is taken, found by the f64 operations of [`Spacing::bin`], which define it within a rounding of a cut. Values
    /// above `top` are clamped.
    Power {
        /// Largest value.
        top: f64,
        /// 1 for even steps, 2 for steps that are finer near zero.
        exponent: u32,
    },
    /// Each column has its own cuts. The number of cuts below a value is its rank, and ranks are spread
    /// evenly over the bins. Values may be negative.
    Quantile {
        /// Where the numbers of each column start, and where the last one ends.
        starts: Vec<usize>,
        /// Of each column: smallest value, cuts, largest value; nothing for columns without values.
        cuts: Vec<f64>,
    },
}

/// The largest number of bins: bin numbers have 16 bits.
const MOST_BINS: usize = 1 << 16;

/// The largest number of bins with a one-hot encoding.
const MOST_ONE_HOT: usize = 1 << 10;

impl Spacing {
    /// The bin of a value that is not zero, among `count` bins.
    #[inline]
    pub fn bin(&self, count: usize, column: usize, value: f64) -> usize {
        let last = count - 1;
        match self {
            Self::Power { top, exponent } => {
                let share = value / top;
                let share = if *exponent == 2 { share.max(0.0).sqrt() } else { share };
                // Casts of numbers out of range saturate.
                ((share * last as f64 + 0.5) as usize).clamp(1, last)
            }
            Self::Quantile { starts, cuts } => {
                let in_column = &cuts[starts[column]..starts[column + 1]];
                let Some(inner) = in_column.get(1..in_column.len().max(2) - 1) else { return last };
                let rank = inner.partition_point(|cut| *cut < value);
                (last * (rank + 1)).div_ceil(inner.len() + 1)
            }
        }
    }

    /// What finds the bins of many values at once: the same as [`Spacing::bin`].
    pub fn bin_mapper(&self, count: usize) -> BinMapper {
        match self {
            Self::Power { top, exponent } => BinMapper::uniform(*top, *exponent == 2, count),
            Self::Quantile { starts, cuts } => {
                let inner = |column: usize| {
                    let in_column = &cuts[starts[column]..starts[column + 1]];
                    in_column.get(1..in_column.len().max(2) - 1).unwrap_or(&[])
                };
                BinMapper::from_cuts(starts.len().saturating_sub(1), count, inner)
            }
        }
    }

    /// The centre of a bin among `count` bins.
    pub fn value(&self, count: usize, bin: usize) -> f64 {
        let share = bin as f64 / (count - 1) as f64;
        match self {
            Self::Power { top, exponent } => {
                top * if *exponent == 2 { share * share } else { share }
            }
            Self::Quantile { .. } => share,
        }
    }

    /// Whether a value lies outside the range that the bins cover.
    pub fn is_outside(&self, column: usize, value: f64) -> bool {
        match self {
            Self::Power { top, .. } => value > *top,
            Self::Quantile { starts, cuts } => {
                let in_column = &cuts[starts[column]..starts[column + 1]];
                in_column.is_empty()
                    || value < in_column[0]
                    || value > in_column[in_column.len() - 1]
            }
        }
    }

    /// Whether values below zero have bins.
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

    /// The number of columns that have cuts; `None` if bins are the same for all columns.
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
                let ordered = |cuts: &[f64]| {
                    cuts.len() != 1
                        && cuts.windows(2).all(|pair| pair[0] <= pair[1])
                        && cuts.iter().all(|cut| cut.is_finite())
                };
                starts.first() == Some(&0)
                    && starts.last() == Some(&cuts.len())
                    && starts.windows(2).all(|pair| pair[0] <= pair[1])
                    && starts.windows(2).all(|pair| ordered(&cuts[pair[0]..pair[1]]))
            }
        }
    }
}

impl Bins {
    /// `encoding` holds `rank` numbers for each bin; those of bin 0 are zero.
    ///
    /// # Errors
    /// If numbers are missing, too many or not finite, or the spacing is not valid.
    pub fn new(spacing: Spacing, rank: usize, encoding: Vec<f32>) -> Result<Self, MachineError> {
        let count = encoding.len().checked_div(rank).unwrap_or(0);
        if !(2..=MOST_BINS).contains(&count) || count * rank != encoding.len() {
            let (found, expected) = (encoding.len(), 2 * rank.max(1));
            return Err(MachineError::Count { what: "numbers of an encoding", found, expected });
        }
        let bad = encoding.iter().find(|number| !number.is_finite());
        if let Some(value) = bad.or(encoding[..rank].iter().find(|number| **number != 0.0)) {
            let value = f64::from(*value);
            return Err(MachineError::Bins { reason: format!("the encoding holds {value}") });
        }
        if !spacing.is_sound() {
            return Err(MachineError::Bins { reason: "their spacing is not valid".to_owned() });
        }
        let is_one_hot = rank == count - 1 && is_one_hot(rank, &encoding);
        Ok(Self { spacing, rank, encoding, is_one_hot })
    }

    /// One-hot encoding: every bin but the first has one number of its own, so that weights are values of
    /// bins.
    ///
    /// # Errors
    /// If there are too few or too many bins, or the spacing is not valid.
    pub fn one_hot(spacing: Spacing, count: usize) -> Result<Self, MachineError> {
        let rank = count.saturating_sub(1);
        if !(1..MOST_ONE_HOT).contains(&rank) {
            let reason = format!("{count} bins cannot have a one-hot encoding");
            return Err(MachineError::Bins { reason });
        }
        let mut encoding = vec![0.0; count * rank];
        (0..rank).for_each(|at| encoding[(at + 1) * rank + at] = 1.0);
        Self::new(spacing, rank, encoding)
    }

    /// Whether the encoding is one-hot: weights are then values of bins.
    pub fn is_one_hot(&self) -> bool {
        self.is_one_hot
    }

    /// Where the bins lie.
    pub fn spacing(&self) -> &Spacing {
        &self.spacing
    }

    /// Length of the encoding of a bin.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many bins there are, bin 0 included.
    pub fn count(&self) -> usize {
        self.encoding.len() / self.rank
    }

    /// Φ, bin after bin.
    pub fn encoding(&self) -> &[f32] {
        &self.encoding
    }

    /// The bin of a value that is not zero.
    pub fn bin(&self, column: usize, value: f64) -> usize {
        self.spacing.bin(self.count(), column, value)
    }

    pub(crate) fn check(&self, columns: usize) -> Result<(), MachineError> {
        match self.spacing.columns() {
            Some(found) if found != columns => {
                Err(MachineError::Count { what: "columns with bins", found, expected: columns })
            }
            _ => Ok(()),
        }
    }

    /// `W · Φ(bin)` of one column, summed in f64. Products of two f32 values are exact in f64, so fused
    /// multiply-adds would give the same bits.
    pub fn dot(&self, weights: &[f32], bin: usize) -> f64 {
        if self.is_one_hot {
            // The same sum: one product with 1, all others with 0.
            return bin.checked_sub(1).map_or(0.0, |at| 0.0 + f64::from(weights[at]));
        }
        let encoding = &self.encoding[bin * self.rank..(bin + 1) * self.rank];
        let pairs = weights.iter().zip(encoding);
        pairs.fold(0.0, |sum, (w, phi)| sum + f64::from(*w) * f64::from(*phi))
    }
}

/// Whether bin `b` has a 1 at position `b - 1`, and zeros elsewhere.
fn is_one_hot(rank: usize, encoding: &[f32]) -> bool {
    let entry = |at: usize| if at / rank == at % rank + 1 { 1.0f32 } else { 0.0 };
    encoding.iter().enumerate().all(|(at, number)| number.to_bits() == entry(at).to_bits())
}

#[cfg(test)]
mod tests {
    use mercer_simd::Isa;

    use super::*;

    fn bins(spacing: Spacing) -> Bins {
        let encoding = (0..256u16).map(f32::from).collect();
        Bins::new(spacing, 1, encoding).unwrap()
    }

    #[test]
    fn only_zero_has_bin_zero_and_centres_lie_in_their_bins() {
        for exponent in [1, 2] {
            let bins = bins(Spacing::Power { top: 3.0, exponent });
            assert_eq!(bins.bin(0, 1e-300), 1);
            assert_eq!((bins.bin(0, 3.0), bins.bin(0, 1e300)), (255, 255));
            for bin in 1..256 {
                let value = bins.spacing().value(256, bin);
                assert_eq!(bins.bin(0, value), bin, "{exponent} {value}");
            }
            assert!(bins.spacing().is_outside(0, 3.1) && !bins.spacing().is_outside(0, 3.0));
        }
    }

    #[test]
    fn bins_of_many_values_are_those_of_each() {
        let cuts = vec![-2.0, -1.0, 0.3, 5.0, 9.0, 1.0, 1.0];
        let spacings = [
            Spacing::Power { top: 3.0, exponent: 1 },
            Spacing::Power { top: 3.0, exponent: 2 },
            Spacing::Quantile { starts: vec![0, 5, 7, 7], cuts },
        ];
        let ends = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 3.0, 1e-300, -1e-300, 1e300];
        let values: Vec<f64> = (1..400).map(|i| f64::from(i) * 0.0083).chain(ends).collect();
        let columns: Vec<u32> = (0..values.len() as u32).map(|at| at % 3).collect();
        for (spacing, isa) in
            spacings.iter().flat_map(|s| Isa::available().iter().map(move |i| (s, i)))
        {
            let mut bins = vec![0; values.len()];
            spacing.bin_mapper(256).bins(*isa, &columns, &values, &mut bins);
            for ((column, value), bin) in columns.iter().zip(&values).zip(bins) {
                let expected = spacing.bin(256, *column as usize, *value);
                assert_eq!(expected, usize::from(bin), "{value}");
            }
        }
    }

    #[test]
    fn one_hot_encodings_give_the_bits_of_the_sum() {
        let spacing = Spacing::Power { top: 1.0, exponent: 1 };
        let one_hot = Bins::one_hot(spacing.clone(), 5).unwrap();
        let plain = Bins { is_one_hot: false, ..one_hot.clone() };
        let weights = [0.3f32, -0.0, 1e-40, -7.5];
        for bin in 0..5 {
            let pair = [&one_hot, &plain].map(|bins| bins.dot(&weights, bin).to_bits());
            assert_eq!(pair[0], pair[1], "{bin}");
        }
        assert!(one_hot.is_one_hot() && !bins(spacing.clone()).is_one_hot());
        assert!(
            Bins::one_hot(spacing.clone(), 1).is_err() && Bins::one_hot(spacing, 5000).is_err()
        );
        // Two bins and one number: the smallest of them.
        let least = Bins::new(Spacing::Power { top: 1.0, exponent: 1 }, 1, vec![0.0, 1.0]).unwrap();
        assert!(least.is_one_hot());
    }

    #[test]
    fn quantiles_spread_ranks_over_the_bins() {
        let spacing = Spacing::Quantile {
            starts: vec![0, 4, 6, 6],
            cuts: vec![-2.0, -1.0, 5.0, 9.0, 1.0, 1.0],
        };
        let bins = bins(spacing);
        assert_eq!([-7.0, 0.5, 6.0].map(|x| bins.bin(0, x)), [85, 170, 255]);
        assert_eq!((bins.bin(1, 1.0), bins.bin(2, 4.0)), (255, 255));
        assert!(bins.spacing().is_outside(2, 4.0) && bins.spacing().is_outside(0, 9.5));
    }

    #[test]
    fn bins_that_are_not_valid_are_refused() {
        let new = |spacing, encoding| Bins::new(spacing, 1, encoding);
        let even = Spacing::Power { top: 1.0, exponent: 1 };
        assert!(new(even.clone(), vec![0.0]).is_err());
        assert!(new(even.clone(), vec![1.0, 1.0]).is_err());
        assert!(new(even, vec![0.0, f32::NAN]).is_err());
        assert!(new(Spacing::Power { top: -1.0, exponent: 1 }, vec![0.0, 1.0]).is_err());
        let cuts = Spacing::Quantile { starts: vec![0, 2], cuts: vec![2.0, 1.0] };
        assert!(new(cuts, vec![0.0, 1.0]).is_err());
    }
}
