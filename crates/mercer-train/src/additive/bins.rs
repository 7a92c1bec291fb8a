//! Bins of values: where they lie, and which value each of them represents.
//! How rows are stored as bins is in `pack`; the kernel on the bins in `maps`.

use mercer_data::Row;
use mercer_machine::Spacing;
use mercer_simd::BinMapper;
use rayon::prelude::*;

use crate::TrainError;
use crate::packed::check_range;
use crate::row_source::{RowPiece, RowSource, pieces};

/// Where the bins of values lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinPlacement {
    /// None: values as they are, for linear machines.
    Off,
    /// Even steps, or steps finer near zero where most values are small.
    Auto,
    /// Even steps.
    Uniform,
    /// Bin `b` represents `(b / 255)²` of the largest value.
    Power,
    /// Ranks within each column.
    Quantile,
}

impl BinPlacement {
    pub(crate) const WORDS: &'static [&'static str] = &["auto", "uniform", "power", "quantile"];
    pub(crate) const LINEAR_WORDS: &'static [&'static str] =
        &["off", "auto", "uniform", "power", "quantile"];

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "off" => Self::Off,
            "uniform" => Self::Uniform,
            "power" => Self::Power,
            "quantile" => Self::Quantile,
            _ => Self::Auto,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Uniform => "uniform",
            Self::Power => "power",
            Self::Quantile => "quantile",
        }
    }
}

/// The bins of a training: those a machine can keep, or signed ones for linear machines.
#[derive(Debug, Clone)]
pub(super) enum ValueBins {
    Kept(Spacing),
    /// Odd and even numbers of 127 steps on either side of zero: bin `b` below 128 represents
    /// `b - 128` steps, others for `b - 127` steps of `top / 127`.
    Signed {
        top: f64,
    },
}

impl ValueBins {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Kept(spacing) => spacing.name(),
            Self::Signed { .. } => "signed",
        }
    }

    /// Finds the bin of a value.
    pub(super) fn bin_mapper(&self, count: usize) -> BinMapper {
        match self {
            Self::Kept(spacing) => spacing.bin_mapper(count),
            Self::Signed { top } => BinMapper::signed(*top),
        }
    }

    /// The value that each bin represents.
    pub(super) fn values(&self, count: usize) -> Vec<f64> {
        let value = |bin: usize| match self {
            _ if bin == 0 => 0.0,
            Self::Kept(spacing) => spacing.value(count, bin),
            Self::Signed { top } if bin < 128 => top * (bin as f64 - 128.0) / 127.0,
            Self::Signed { top } => top * (bin as f64 - 127.0).min(127.0) / 127.0,
        };
        (0..count).map(value).collect()
    }
}

/// Extremes of the non-zero values, and how many are small.
struct ValueRange {
    top: f64,
    low: f64,
    /// The first negative value: row, column, both from 1, and the value.
    negative: Option<(usize, usize, f64)>,
}

/// Rows that one thread takes at a time.
pub(super) const PIECE: usize = 4096;

fn value_range(examples: &dyn RowSource, rows: &[u32]) -> Result<ValueRange, TrainError> {
    let extremes = |piece: RowPiece<'_>| {
        let (mut tops, mut lows) = ([0.0f64; 8], [0.0f64; 8]);
        for row in piece.rows {
            let values = match piece.row(*row) {
                Row::Dense(values) | Row::Sparse { values, .. } => values,
            };
            // Eight at a time, so that they are compared side by side.
            let (whole, rest) = values.as_chunks::<8>();
            for chunk in whole {
                for (lane, value) in chunk.iter().enumerate() {
                    tops[lane] = if *value > tops[lane] { *value } else { tops[lane] };
                    lows[lane] = if *value < lows[lane] { *value } else { lows[lane] };
                }
            }
            tops[0] = rest.iter().copied().fold(tops[0], f64::max);
            lows[0] = rest.iter().copied().fold(lows[0], f64::min);
        }
        (tops.into_iter().fold(0.0, f64::max), lows.into_iter().fold(0.0, f64::min))
    };
    let wider = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.min(b.1));
    let (mut range, mut negative) = ((0.0, 0.0), None);
    pieces(examples, rows, |piece| {
        let parts = piece.cut(PIECE).into_par_iter().map(extremes);
        let here = parts.reduce(|| (0.0, 0.0), wider);
        if here.1 < 0.0 && negative.is_none() {
            let first = piece.nonzeros().find(|(.., value)| *value < 0.0);
            negative =
                first.map(|(row, column, value)| (row as usize + 1, column as usize + 1, value));
        }
        range = wider(range, here);
        Ok(())
    })?;
    Ok(ValueRange { top: range.0, low: range.1, negative })
}

/// Whether most non-zero values are below an eighth of the largest: even steps would be coarse there.
fn mostly_small(examples: &dyn RowSource, rows: &[u32], top: f64) -> Result<bool, TrainError> {
    let stride = rows.len().div_ceil(2000).max(1);
    let (mut small, mut all) = (0u64, 0u64);
    pieces(examples, rows, |piece| {
        let skip = piece.position.next_multiple_of(stride) - piece.position;
        for row in piece.rows.iter().skip(skip).step_by(stride) {
            for (_, value) in piece.row(*row).nonzeros() {
                small += u64::from(value < top / 8.0);
                all += 1;
            }
        }
        Ok(())
    })?;
    Ok(2 * small > all)
}

/// The bins for these rows.
pub(super) fn choose(
    examples: &dyn RowSource,
    rows: &[u32],
    placement: BinPlacement,
    kernel: &str,
    is_linear: bool,
) -> Result<ValueBins, TrainError> {
    if placement == BinPlacement::Quantile {
        return Ok(ValueBins::Kept(quantiles(examples, rows)?));
    }
    let ValueRange { top, low, negative } = value_range(examples, rows)?;
    if let (Some((row, column, value)), false) = (negative, is_linear) {
        let kernel = kernel.to_owned();
        return Err(TrainError::NegativeForBins { row, column, value, kernel });
    }
    let largest = top.max(-low);
    check_range(largest)?;
    // Without any value any bins will do.
    let top = if largest > 0.0 { largest } else { 1.0 };
    if low < 0.0 {
        return Ok(ValueBins::Signed { top });
    }
    let exponent = match placement {
        BinPlacement::Power => 2,
        BinPlacement::Auto if !is_linear && mostly_small(examples, rows, top)? => 2,
        _ => 1,
    };
    Ok(ValueBins::Kept(Spacing::Power { top, exponent }))
}

/// Values of a column that are read for its quantiles, at most.
const SAMPLE: usize = 20_000;

/// Up to 254 cuts between values of each column, equally many values apart, none within equal values.
fn quantiles(examples: &dyn RowSource, rows: &[u32]) -> Result<Spacing, TrainError> {
    let columns = examples.columns();
    let mut counts = vec![0usize; columns];
    pieces(examples, rows, |piece| {
        piece.nonzeros().for_each(|(_, column, _)| counts[column as usize] += 1);
        Ok(())
    })?;
    let (mut starts, mut cuts) = (vec![0], Vec::new());
    // A band of columns at a time, so that the values held are few.
    let mut first = 0;
    while first < columns {
        let mut last = first;
        let mut held = 0;
        while last < columns && (last == first || held + counts[last].min(SAMPLE) <= 1 << 22) {
            held += counts[last].min(SAMPLE);
            last += 1;
        }
        for mut values in band(examples, rows, first..last, &counts)? {
            values.sort_unstable_by(f64::total_cmp);
            push_cuts(&values, &mut cuts);
            starts.push(cuts.len());
        }
        first = last;
    }
    Ok(Spacing::Quantile { starts, cuts })
}

/// Values of some columns, every so many where there are very many; extremes are always among them.
fn band(
    examples: &dyn RowSource,
    rows: &[u32],
    columns: std::ops::Range<usize>,
    counts: &[usize],
) -> Result<Vec<Vec<f64>>, TrainError> {
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); columns.len()];
    let mut seen = vec![0usize; columns.len()];
    let mut extremes = vec![(f64::INFINITY, f64::NEG_INFINITY); columns.len()];
    pieces(examples, rows, |piece| {
        for (_, column, value) in piece.nonzeros() {
            if !columns.contains(&(column as usize)) {
                continue;
            }
            let at = column as usize - columns.start;
            let stride = counts[column as usize].div_ceil(SAMPLE);
            if seen[at].is_multiple_of(stride) {
                values[at].push(value);
            }
            seen[at] += 1;
            extremes[at] = (extremes[at].0.min(value), extremes[at].1.max(value));
        }
        Ok(())
    })?;
    for (values, (low, high)) in values.iter_mut().zip(extremes) {
        if !values.is_empty() {
            values.extend([low, high]);
        }
    }
    Ok(values)
}

/// Smallest value, cuts and largest value of sorted values.
fn push_cuts(values: &[f64], cuts: &mut Vec<f64>) {
    let [first, .., last] = values else { return };
    cuts.push(*first);
    let mut before = f64::NEG_INFINITY;
    for part in 1..255 {
        let at = part * values.len() / 255;
        let (left, right) = (values[at.max(1) - 1], values[at]);
        let cut = left + (right - left) / 2.0;
        if left < right && cut > before && cut >= left && cut < right {
            cuts.push(cut);
            before = cut;
        }
    }
    // Few distinct values: a cut between any two neighbours.
    let distinct = values.windows(2).filter(|pair| pair[0] < pair[1]).count();
    if distinct < 254 {
        let inner = cuts.iter().rposition(|cut| cut == first).expect("the smallest was pushed");
        cuts.truncate(inner + 1);
        let between = values.windows(2).filter(|pair| pair[0] < pair[1]);
        cuts.extend(between.map(|pair| pair[0] + (pair[1] - pair[0]) / 2.0));
    }
    cuts.push(*last);
}
