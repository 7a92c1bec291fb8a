//! Rows of an update: the original ones without those to forget, then the new ones.
//! Where their training starts is in [`super::start`].

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use mercer_data::{Dataset, Matrix, MatrixBuilder, Row, Targets};
use mercer_machine::ClassName;

use super::{Update, WeightedRows};
use crate::TrainError;

/// Rows by their values that are not zero, bit for bit: dense and sparse rows are compared.
pub(super) struct RowIndex<'a> {
    rows: &'a Matrix,
    seed: u64,
    places: HashMap<u64, Vec<u32>>,
}

impl<'a> RowIndex<'a> {
    pub(super) fn new(rows: &'a Matrix) -> Self {
        let seed = RandomState::new().hash_one(0);
        let mut places: HashMap<u64, Vec<u32>> = HashMap::with_capacity(rows.rows());
        for (at, row) in (0u32..).zip(rows.iter()) {
            places.entry(digest(seed, row)).or_default().push(at);
        }
        Self { rows, seed, places }
    }

    /// The first row that equals this one.
    pub(super) fn find(&self, row: Row<'_>) -> Option<u32> {
        let same = |at: &&u32| bits(self.rows.row(**at as usize)).eq(bits(row));
        self.places.get(&digest(self.seed, row))?.iter().find(same).copied()
    }
}

fn bits(row: Row<'_>) -> impl Iterator<Item = (u32, u64)> {
    row.nonzeros().map(|(column, value)| (column, value.to_bits()))
}

/// A hash of the columns and values of a row: halves of products of 128 bits, one for each value.
fn digest(seed: u64, row: Row<'_>) -> u64 {
    bits(row).fold(seed, |state, (column, value)| {
        let mixed = state ^ value;
        let factor = 0x9E37_79B9_7F4A_7C15 ^ (u64::from(column) << 32);
        let product = u128::from(mixed) * u128::from(factor);
        (product as u64) ^ ((product >> 64) as u64)
    })
}

/// The rows of the new problem.
pub(super) struct JoinedRows {
    pub(super) data: Dataset,
    pub(super) weights: Option<Vec<f64>>,
}

/// The original rows that are not forgotten, in their order, then the new ones.
///
/// # Errors
/// If widths, targets or weights do not fit, or a row to forget is none of the original ones.
pub(super) fn join(update: &Update<'_>, has_targets: bool) -> Result<JoinedRows, TrainError> {
    let original = update.original;
    check("original rows", original, original, has_targets)?;
    if let Some(added) = update.added {
        check("new rows", added, original, has_targets)?;
    }
    let forgotten = match update.forgotten {
        Some(rows) => forgotten(original.data, rows, has_targets)?,
        None => Vec::new(),
    };
    let mut is_forgotten = vec![false; original.data.examples.rows()];
    forgotten.iter().for_each(|row| is_forgotten[*row] = true);
    let kept: Vec<usize> = (0..is_forgotten.len()).filter(|row| !is_forgotten[*row]).collect();
    let pick = |weights: &[f64]| -> Vec<f64> { kept.iter().map(|row| weights[*row]).collect() };
    let stays = if forgotten.is_empty() { None } else { Some(original.data.select(&kept)) };
    let stays = stays.as_ref().unwrap_or(original.data);
    let Some(added) = update.added else {
        let weights = original.weights.map(pick);
        return Ok(JoinedRows { data: stays.clone(), weights });
    };
    let data = Dataset {
        examples: append(&stays.examples, &added.data.examples)?,
        targets: append_targets(&stays.targets, &added.data.targets),
        names: stays.names.clone(),
    };
    let ones = |rows: &Dataset| vec![1.0; rows.examples.rows()];
    let weights = (original.weights.is_some() || added.weights.is_some()).then(|| {
        let mut all = original.weights.map_or_else(|| ones(stays), pick);
        all.extend(added.weights.map_or_else(|| ones(added.data), <[f64]>::to_vec));
        all
    });
    Ok(JoinedRows { data, weights })
}

fn check(
    what: &'static str,
    rows: WeightedRows<'_>,
    original: WeightedRows<'_>,
    has_targets: bool,
) -> Result<(), TrainError> {
    let other = |reason: String| Err(TrainError::OtherRows { what, reason });
    let (examples, count) = (&rows.data.examples, rows.data.examples.rows());
    check_width(what, examples, &original.data.examples)?;
    if has_targets && rows.data.targets.len() != count {
        return other(format!("there are {} targets for {count} rows", rows.data.targets.len()));
    }
    match rows.weights {
        Some(weights) if weights.len() != count => {
            Err(TrainError::WeightCount { found: weights.len(), rows: count })
        }
        _ => Ok(()),
    }
}

/// Rows that list their values may end before the last column; tables may not.
fn check_width(what: &'static str, rows: &Matrix, original: &Matrix) -> Result<(), TrainError> {
    let (found, expected) = (rows.columns(), original.columns());
    if found != expected && !rows.is_sparse() && !original.is_sparse() {
        let reason = format!("they have {found} columns, not {expected}");
        return Err(TrainError::OtherRows { what, reason });
    }
    Ok(())
}

fn append(first: &Matrix, second: &Matrix) -> Result<Matrix, TrainError> {
    let columns = first.columns().max(second.columns());
    if let (Some(a), Some(b)) = (first.as_dense(), second.as_dense()) {
        let joined = Matrix::dense(columns, [a, b].concat());
        return Ok(joined.map_err(mercer_machine::MachineError::from)?);
    }
    let mut builder = MatrixBuilder::with_capacity(
        first.rows() + second.rows(),
        first.nonzeros() + second.nonzeros(),
    );
    builder.append(first, 0..first.rows());
    builder.append(second, 0..second.rows());
    Ok(builder.finish(columns))
}

/// Targets as texts, as a class is printed.
fn texts(targets: &Targets) -> Vec<String> {
    match targets {
        Targets::Absent => Vec::new(),
        Targets::Numbers(numbers) => {
            numbers.iter().map(|value| ClassName::Number(*value).to_string()).collect()
        }
        Targets::Names(names) => names.clone(),
    }
}

fn append_targets(first: &Targets, second: &Targets) -> Targets {
    match (first, second) {
        (Targets::Absent, _) | (_, Targets::Absent) => Targets::Absent,
        (Targets::Numbers(a), Targets::Numbers(b)) => Targets::Numbers([&a[..], b].concat()),
        _ => Targets::Names([texts(first), texts(second)].concat()),
    }
}

/// A target that can be compared: the bits of a number, or a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TargetKey {
    Absent,
    Number(u64),
    Text(String),
}

fn target_keys(rows: &Dataset, other: &Dataset, has_targets: bool) -> Vec<TargetKey> {
    match (&rows.targets, &other.targets) {
        _ if !has_targets => vec![TargetKey::Absent; rows.examples.rows()],
        // -0 and 0 are the same.
        (Targets::Numbers(numbers), Targets::Numbers(_)) => {
            numbers.iter().map(|value| TargetKey::Number((value + 0.0).to_bits())).collect()
        }
        _ => texts(&rows.targets).into_iter().map(TargetKey::Text).collect(),
    }
}

/// Positions of the rows to forget: the first of equal rows that is not yet taken.
fn forgotten(
    original: &Dataset,
    rows: &Dataset,
    has_targets: bool,
) -> Result<Vec<usize>, TrainError> {
    let what = "rows to forget";
    check_width(what, &rows.examples, &original.examples)?;
    if has_targets && rows.targets.len() != rows.examples.rows() {
        let reason = "they need the targets that they were trained with".to_owned();
        return Err(TrainError::OtherRows { what, reason });
    }
    // Only rows that are asked for are looked up; equal ones have the place of the first.
    let index = RowIndex::new(&rows.examples);
    let targets = target_keys(rows, original, has_targets);
    let mut places: Vec<Vec<(usize, TargetKey)>> = vec![Vec::new(); targets.len()];
    let keys = target_keys(original, rows, has_targets);
    for ((at, row), target) in original.examples.iter().enumerate().zip(keys) {
        if let Some(first) = index.find(row) {
            places[first as usize].push((at, target));
        }
    }
    let mut taken = vec![false; original.examples.rows()];
    let mut positions = Vec::with_capacity(targets.len());
    for (number, (row, target)) in (1..).zip(rows.examples.iter().zip(&targets)) {
        let equal = index.find(row).map_or(&[][..], |first| &places[first as usize]);
        let same = || equal.iter().filter(|(_, other)| other == target);
        match same().find(|(at, _)| !taken[*at]) {
            Some((at, _)) => {
                taken[*at] = true;
                positions.push(*at);
            }
            None => {
                let reason = match (equal.len(), same().count()) {
                    (0, _) => "is none of the original rows".to_owned(),
                    (_, 0) => "is one of the original rows, but with another target".to_owned(),
                    (_, count) => format!(
                        "is asked for more often than it is there ({count} times among the original rows)"
                    ),
                };
                return Err(TrainError::NoSuchRow { row: number, reason });
            }
        }
    }
    Ok(positions)
}
