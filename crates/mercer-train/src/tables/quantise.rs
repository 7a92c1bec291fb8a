//! Values become levels: which levels, and the packed rows.

use mercer_data::{Matrix, Row};
use mercer_machine::Spacing;
use mercer_simd::factors::Records;
use rayon::prelude::*;

use crate::TrainError;

/// Which levels the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelsWanted {
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

impl LevelsWanted {
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

    #[inline]
    fn level(&self, levels: usize, column: usize, value: f64) -> usize {
        match self {
            Self::Kept(scale) => scale.level(levels, column, value),
            Self::Signed { top } => {
                let steps = ((value.abs() / top * 127.0 + 0.5) as usize).clamp(1, 127);
                if value < 0.0 { 128 - steps } else { 127 + steps }
            }
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
const PIECE: usize = 4096;

fn survey(examples: &Matrix, rows: &[u32]) -> Survey {
    let piece = |rows: &[u32]| {
        let (mut tops, mut lows) = ([0.0f64; 8], [0.0f64; 8]);
        for row in rows {
            let values = match examples.row(*row as usize) {
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
    let (top, low) = rows
        .par_chunks(PIECE)
        .map(piece)
        .reduce(|| (0.0, 0.0), |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.min(b.1)));
    let entries =
        || rows.iter().flat_map(|row| examples.row(*row as usize).nonzeros().map(|e| (*row, e)));
    let negative = if low < 0.0 {
        let first = entries().find(|(_, (_, value))| *value < 0.0);
        first.map(|(row, (column, value))| (row as usize + 1, column as usize + 1, value))
    } else {
        None
    };
    Survey { top, low, negative }
}

/// Whether most non-zero values are below an eighth of the largest: even steps would be coarse there.
fn mostly_small(examples: &Matrix, rows: &[u32], top: f64) -> bool {
    let stride = rows.len().div_ceil(2000).max(1);
    let (mut small, mut all) = (0u64, 0u64);
    for row in rows.iter().step_by(stride) {
        for (_, value) in examples.row(*row as usize).nonzeros() {
            small += u64::from(value < top / 8.0);
            all += 1;
        }
    }
    2 * small > all
}

/// The levels for these rows.
pub(super) fn levels(
    examples: &Matrix,
    rows: &[u32],
    wanted: LevelsWanted,
    kernel: &str,
    is_linear: bool,
) -> Result<Levels, TrainError> {
    if wanted == LevelsWanted::Quantile {
        return Ok(Levels::Kept(quantiles(examples, rows)));
    }
    let Survey { top, low, negative } = survey(examples, rows);
    if let (Some((row, column, value)), false) = (negative, is_linear) {
        let kernel = kernel.to_owned();
        return Err(TrainError::NegativeLevels { row, column, value, kernel });
    }
    let largest = top.max(-low);
    check_range(largest)?;
    // Without any value any levels will do.
    let top = if largest > 0.0 { largest } else { 1.0 };
    if low < 0.0 {
        return Ok(Levels::Signed { top });
    }
    let exponent = match wanted {
        LevelsWanted::Power => 2,
        LevelsWanted::Auto if !is_linear && mostly_small(examples, rows, top) => 2,
        _ => 1,
    };
    Ok(Levels::Kept(Spacing::Power { top, exponent }))
}

/// Squares of values must be numbers that singles hold.
fn check_range(largest: f64) -> Result<(), TrainError> {
    if largest > 1e15 || (largest > 0.0 && largest < 1e-15) {
        return Err(TrainError::LevelRange { value: largest });
    }
    Ok(())
}

/// Rows with their values as they are: as singles if those hold them all.
pub(super) fn pack_values(
    examples: &Matrix,
    rows: &[u32],
    tags: impl Fn(u32) -> u32,
) -> Result<Records, TrainError> {
    let (mut largest, mut are_singles) = (0.0f64, true);
    for row in rows {
        for (_, value) in examples.row(*row as usize).nonzeros() {
            largest = largest.max(value.abs());
            are_singles &= f64::from(value as f32) == value;
        }
    }
    check_range(largest)?;
    let mut records = Records::of_values(examples.columns(), are_singles);
    records
        .reserve(rows.len(), if rows.len() == examples.rows() { examples.nonzeros() } else { 0 });
    let mut entries = Vec::new();
    for row in rows {
        entries.clear();
        entries.extend(examples.row(*row as usize).nonzeros());
        if !records.push_values(tags(*row), &entries) {
            return Err(TrainError::TooLarge { what: "packed examples", limit: "16 GiB" });
        }
    }
    Ok(records)
}

/// Values of a column that are looked at for its quantiles, at most.
const SAMPLE: usize = 20_000;

/// Up to 254 cuts between values of each column, equally many values apart, none within equal values.
fn quantiles(examples: &Matrix, rows: &[u32]) -> Spacing {
    let columns = examples.columns();
    let mut counts = vec![0usize; columns];
    for row in rows {
        for (column, _) in examples.row(*row as usize).nonzeros() {
            counts[column as usize] += 1;
        }
    }
    let (mut starts, mut cuts) = (vec![0], Vec::new());
    // A band of columns at a time, so that the values held are few.
    let mut first = 0;
    while first < columns {
        let mut last = first;
        let mut held = 0;
        while last < columns && (last == first || held + counts[last] <= 1 << 22) {
            held += counts[last];
            last += 1;
        }
        for mut values in band(examples, rows, first..last, &counts) {
            values.sort_unstable_by(f64::total_cmp);
            push_cuts(&values, &mut cuts);
            starts.push(cuts.len());
        }
        first = last;
    }
    Spacing::Quantile { starts, cuts }
}

/// Values of some columns, every so many where there are very many; extremes are always among them.
fn band(
    examples: &Matrix,
    rows: &[u32],
    columns: std::ops::Range<usize>,
    counts: &[usize],
) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); columns.len()];
    let mut seen = vec![0usize; columns.len()];
    let mut extremes = vec![(f64::INFINITY, f64::NEG_INFINITY); columns.len()];
    for row in rows {
        for (column, value) in examples.row(*row as usize).nonzeros() {
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
    }
    for (values, (low, high)) in values.iter_mut().zip(extremes) {
        if !values.is_empty() {
            values.extend([low, high]);
        }
    }
    values
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

/// Packed rows, and how often each level occurs.
pub(super) struct Packed {
    pub(super) records: Records,
    pub(super) counts: Vec<u64>,
}

/// Packs rows with one tag each, in pieces on all threads.
pub(super) fn pack(
    examples: &Matrix,
    rows: &[u32],
    tags: impl Fn(u32) -> u32 + Sync,
    (levels, count): (&Levels, usize),
) -> Result<Packed, TrainError> {
    let full = || TrainError::TooLarge { what: "packed examples", limit: "16 GiB" };
    let mut packed = Packed::new(examples.columns(), count);
    let entries = if rows.len() == examples.rows() { examples.nonzeros() } else { 0 };
    packed.records.reserve(rows.len(), entries);
    let threads = rayon::current_num_threads();
    if threads == 1 || rows.len() <= PIECE {
        let fits = packed.add(examples, rows, &tags, levels);
        return if fits { Ok(packed) } else { Err(full()) };
    }
    // A few pieces at a time, so that little is held twice.
    for band in rows.chunks(PIECE * threads) {
        let made: Vec<Option<Packed>> = band
            .par_chunks(PIECE)
            .map(|rows| {
                let mut piece = Packed::new(examples.columns(), count);
                piece.add(examples, rows, &tags, levels).then_some(piece)
            })
            .collect();
        for piece in made {
            let piece = piece.filter(|piece| packed.records.join(&piece.records));
            let Some(piece) = piece else { return Err(full()) };
            packed.counts.iter_mut().zip(&piece.counts).for_each(|(all, own)| *all += own);
        }
    }
    Ok(packed)
}

impl Packed {
    fn new(columns: usize, levels: usize) -> Self {
        Self { records: Records::new(columns, levels), counts: vec![0; levels] }
    }

    /// Packs some more rows; returns whether there was room.
    fn add(
        &mut self,
        examples: &Matrix,
        rows: &[u32],
        tags: &impl Fn(u32) -> u32,
        levels: &Levels,
    ) -> bool {
        let Self { records, counts } = self;
        let count = counts.len();
        // Four counters for each level: equal values often follow one another.
        let mut seen = vec![[0u64; 4]; count];
        let mut at = 0;
        let mut level_of = |column: u32, value: f64| {
            let level = levels.level(count, column as usize, value);
            seen[level][at % 4] += 1;
            at += 1;
            (column, level as u16)
        };
        for row in rows {
            let (tag, row) = (tags(*row), examples.row(*row as usize));
            let length = match row {
                Row::Dense(values) | Row::Sparse { values, .. } => {
                    values.iter().filter(|value| **value != 0.0).count()
                }
            };
            let fits = match row {
                Row::Sparse { columns, values } if length == values.len() => {
                    let entries = columns.iter().zip(values);
                    let entries = entries.map(|(column, value)| level_of(*column, *value));
                    records.push(tag, length, entries)
                }
                row => {
                    let entries = row.nonzeros().map(|(column, value)| level_of(column, value));
                    records.push(tag, length, entries)
                }
            };
            if !fits {
                return false;
            }
        }
        for (all, seen) in counts.iter_mut().zip(&seen) {
            *all += seen.iter().sum::<u64>();
        }
        true
    }
}
