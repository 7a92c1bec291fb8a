//! Which column of a table is the target, and why: one rule for every reader. What becomes of the other columns is in
//! `table/columns.rs`.

use std::fmt;

use super::table::columns::Fields;
use super::{Label, Options};
use crate::DataError;

/// Names of the target column if none is given.
const LABEL_NAMES: [&str; 3] = ["label", "target", "class"];

/// The target column of a table, and why it is that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetColumn {
    /// Its name, or its number from 1 in a table without names; `None` if no column is the target.
    pub column: Option<String>,
    /// Why.
    pub reason: TargetReason,
}

/// Why a column of a table is the target, or none is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetReason {
    /// [`Options::label`] names it, or says that there is none.
    Asked,
    /// The model was trained with a target of this name or number.
    TargetOfModel,
    /// It is called `label`, `target` or `class`.
    UsualName,
    /// The last column, where no model says what is needed.
    LastColumn,
    /// The only column that the model does not need; the last one, where columns have no names.
    LeftOver,
    /// Targets come from a second file.
    OtherFile,
    /// The model needs all columns.
    AllNeeded,
    /// The model needs none of several columns.
    SeveralLeft,
}

impl fmt::Display for TargetReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "as --label says",
            Self::TargetOfModel => "the target that the model was trained with",
            Self::UsualName => "by its name",
            Self::LastColumn => "the last column",
            Self::LeftOver => "the column that the model does not need",
            Self::OtherFile => "targets come from another file",
            Self::AllNeeded => "the model needs all columns",
            Self::SeveralLeft => "several columns are left that the model does not need",
        })
    }
}

impl fmt::Display for TargetColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.column {
            Some(name) => write!(f, "the target is column '{name}': {}", self.reason),
            None => write!(f, "no column is the target: {}", self.reason),
        }
    }
}

/// The field of the target and why; never one of those `taken` as features by their names, nor the id.
pub(super) fn find(
    fields: &Fields,
    options: &Options,
    id: Option<usize>,
    taken: &[usize],
) -> Result<(Option<usize>, TargetReason), DataError> {
    Ok(match &options.label {
        Label::Absent => (None, TargetReason::Asked),
        Label::Last => (Some(fields.count - 1), TargetReason::Asked),
        Label::Column(name) => (Some(fields.find(name)?), TargetReason::Asked),
        Label::Guess => guess(fields, options, id, taken),
    })
}

fn guess(
    fields: &Fields,
    options: &Options,
    id: Option<usize>,
    taken: &[usize],
) -> (Option<usize>, TargetReason) {
    let is_free = |field: &usize| Some(*field) != id && !taken.contains(field);
    let named = |name: &str| fields.named(name).filter(is_free);
    if let Some(field) = options.target.as_deref().and_then(named) {
        return (Some(field), TargetReason::TargetOfModel);
    }
    if let Some(field) = LABEL_NAMES.into_iter().find_map(named) {
        return (Some(field), TargetReason::UsualName);
    }
    if options.labels.is_some() {
        return (None, TargetReason::OtherFile);
    }
    let left: Vec<usize> = (0..fields.count).filter(is_free).collect();
    let has_model = options.features.is_some() || options.names.is_some();
    match (left.as_slice(), options.features) {
        (_, _) if !has_model => (left.last().copied(), TargetReason::LastColumn),
        ([], _) => (None, TargetReason::AllNeeded),
        ([only], _) if !taken.is_empty() => (Some(*only), TargetReason::LeftOver),
        (all, Some(features)) if taken.is_empty() && all.len() == features + 1 => {
            // In a table without names, the model knows its target by number.
            let number = options.target.as_ref().and_then(|number| number.parse::<usize>().ok());
            let known = number.and_then(|number| number.checked_sub(1)).filter(is_free);
            match known.filter(|field| fields.names.is_none() && *field < fields.count) {
                Some(field) => (Some(field), TargetReason::TargetOfModel),
                None => (all.last().copied(), TargetReason::LeftOver),
            }
        }
        (_, _) if taken.is_empty() => (None, TargetReason::AllNeeded),
        _ => (None, TargetReason::SeveralLeft),
    }
}
