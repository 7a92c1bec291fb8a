//! Values become levels: which levels; and rows of values as they are.

use mercer_data::Row;
use mercer_machine::Spacing;
use mercer_simd::BinMapper;
use mercer_simd::factors::{Records, RowKey};
use rayon::prelude::*;

use super::columns::{Columns, Places};
use super::rows::{Piece, Rows, pieces};
use super::store::{Room, Writer};
use crate::TrainError;

/// Which levels the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinPlacement {
    /// None: values as they are, for linear machines.
    Off,
    /// Even steps, or steps finer near zero where most values are small.
    Auto,
    /// Even steps.
    Uniform,
    /// Level `b` stands for `(b / 255)²` of the largest value.
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

/// Levels that training uses: those a machine can keep, or signed ones for linear machines.
#[derive(Debug, Clone)]
pub(super) enum Levels {
    Kept(Spacing),
    /// Odd and even numbers of 127 steps on either side of zero: level `b` below 128 stands for
    /// `b - 128` steps, others for `b - 127` steps of `top / 127`.
    Signed {
        top: f64,
    },
}

impl Levels {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Kept(scale) => scale.name(),
            Self::Signed { .. } => "signed",
        }
    }

    /// What finds the level of a value.
    pub(super) fn bin_mapper(&self, levels: usize) -> BinMapper {
        match self {
            Self::Kept(scale) => scale.bin_mapper(levels),
            Self::Signed { top } => BinMapper::signed(*top),
        }
    }

    /// What each level stands for.
    pub(super) fn values(&self, levels: usize) -> Vec<f64> {
        let value = |level: usize| match self {
            _ if level == 0 => 0.0,
            Self::Kept(scale) => scale.value(levels, level),
            Self::Signed { top } if level < 128 => top * (level as f64 - 128.0) / 127.0,
            Self::Signed { top } => top * (level as f64 - 127.0).min(127.0) / 127.0,
        };
        (0..levels).map(value).collect()
    }
}

/// Extremes of the non-zero values, and how many are small.
struct Survey {
    top: f64,
    low: f64,
    /// The first negative value: row, column, both from 1, and the value.
    negative: Option<(usize, usize, f64)>,
}

/// Rows that one thread takes at a time.
pub(super) const PIECE: usize = 4096;

fn survey(examples: &dyn Rows, rows: &[u32]) -> Result<Survey, TrainError> {
    let extremes = |piece: Piece<'_>| {
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
    let (mut found, mut negative) = ((0.0, 0.0), None);
    pieces(examples, rows, |piece| {
        let parts = piece.cut(PIECE).into_par_iter().map(extremes);
        let here = parts.reduce(|| (0.0, 0.0), wider);
        if here.1 < 0.0 && negative.is_none() {
            let first = piece.nonzeros().find(|(.., value)| *value < 0.0);
            negative =
                first.map(|(row, column, value)| (row as usize + 1, column as usize + 1, value));
        }
        found = wider(found, here);
        Ok(())
    })?;
    Ok(Survey { top: found.0, low: found.1, negative })
}

/// Whether most non-zero values are below an eighth of the largest: even steps would be coarse there.
fn mostly_small(examples: &dyn Rows, rows: &[u32], top: f64) -> Result<bool, TrainError> {
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

/// The levels for these rows.
pub(super) fn levels(
    examples: &dyn Rows,
    rows: &[u32],
    wanted: BinPlacement,
    kernel: &str,
    is_linear: bool,
) -> Result<Levels, TrainError> {
    if wanted == BinPlacement::Quantile {
        return Ok(Levels::Kept(quantiles(examples, rows)?));
    }
    let Survey { top, low, negative } = survey(examples, rows)?;
    if let (Some((row, column, value)), false) = (negative, is_linear) {
        let kernel = kernel.to_owned();
        return Err(TrainError::NegativeForBins { row, column, value, kernel });
    }
    let largest = top.max(-low);
    check_range(largest)?;
    // Without any value any levels will do.
    let top = if largest > 0.0 { largest } else { 1.0 };
    if low < 0.0 {
        return Ok(Levels::Signed { top });
    }
    let exponent = match wanted {
        BinPlacement::Power => 2,
        BinPlacement::Auto if !is_linear && mostly_small(examples, rows, top)? => 2,
        _ => 1,
    };
    Ok(Levels::Kept(Spacing::Power { top, exponent }))
}

/// Squares of values must be numbers that singles hold.
pub(super) fn check_range(largest: f64) -> Result<(), TrainError> {
    if largest > 1e15 || (largest > 0.0 && largest < 1e-15) {
        return Err(TrainError::BinRange { value: largest });
    }
    Ok(())
}

/// Rows with their values as they are: as singles if those hold them all.
pub(super) fn pack_values(
    examples: &dyn Rows,
    rows: &[u32],
    tags: impl Fn(u32) -> u32,
    (columns, places): (&Columns, &Places),
    room: Room,
) -> Result<Writer, TrainError> {
    let (mut largest, mut are_singles) = (0.0f64, true);
    pieces(examples, rows, |piece| {
        for (.., value) in piece.nonzeros() {
            largest = largest.max(value.abs());
            are_singles &= f64::from(value as f32) == value;
        }
        Ok(())
    })?;
    check_range(largest)?;
    let like = |columns, singles| Records::of_values(columns, singles == 1);
    let shape = (columns.kept(), usize::from(are_singles));
    let mut writer = Writer::new(room, (like, shape), (rows.len(), examples.nonzeros()))?;
    let mut entries = Vec::new();
    pieces(examples, rows, |piece| {
        for (position, row) in (piece.position as u32..).zip(piece.rows) {
            entries.clear();
            let row_of = piece.row(*row).nonzeros();
            entries.extend(row_of.map(|(column, value)| (places.of(column), value)));
            if !writer
                .bucket(position)?
                .push_values(RowKey { number: position, tag: tags(*row) }, &entries)
            {
                return Err(full());
            }
        }
        Ok(())
    })?;
    Ok(writer)
}

/// Rows without their values, for solvers that have these elsewhere.
pub(super) fn pack_heads(
    rows: &[u32],
    tags: impl Fn(u32) -> u32,
    columns: usize,
    room: Room,
) -> Result<Writer, TrainError> {
    let like = |columns, _| Records::of_values(columns, true);
    let mut writer = Writer::new(room, (like, (columns, 1)), (rows.len(), 0))?;
    for (position, row) in (0u32..).zip(rows) {
        if !writer.bucket(position)?.push_values(RowKey { number: position, tag: tags(*row) }, &[])
        {
            return Err(full());
        }
    }
    Ok(writer)
}

pub(super) fn full() -> TrainError {
    TrainError::TooLarge { what: "packed examples", limit: "16 GiB" }
}

/// Values of a column that are looked at for its quantiles, at most.
const SAMPLE: usize = 20_000;

/// Up to 254 cuts between values of each column, equally many values apart, none within equal values.
fn quantiles(examples: &dyn Rows, rows: &[u32]) -> Result<Spacing, TrainError> {
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
    examples: &dyn Rows,
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
