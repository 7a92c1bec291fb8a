//! Targets in a second file, joined to the rows of the first.

use std::path::Path;

use super::{Chunks, Label, Options, TargetColumn, TargetReason, open_alone};
use crate::{DataError, Dataset, Targets};

/// Rows of one file with the targets of another.
pub(super) fn join(
    rows: Box<dyn Chunks>,
    labels: &Path,
    options: &Options,
) -> Result<Box<dyn Chunks>, DataError> {
    let options = Options {
        label: Label::Last,
        unpacked_limit: options.unpacked_limit,
        unpacked_any_ratio: options.unpacked_any_ratio,
        ..Options::default()
    };
    let labels = open_alone(labels, &options)?;
    Ok(Box::new(Joined { rows, labels, pending: Targets::Numbers(Vec::new()), given: 0 }))
}

struct Joined {
    rows: Box<dyn Chunks>,
    labels: Box<dyn Chunks>,
    /// Labels read and not handed out yet.
    pending: Targets,
    given: usize,
}

impl Chunks for Joined {
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError> {
        let Some(mut chunk) = self.rows.next_chunk(rows)? else {
            let left = self.pending.len() + usize::from(self.more(1)?);
            return match left {
                0 => Ok(None),
                _ => Err(DataError::LabelCount { rows: self.given, labels: self.given + left }),
            };
        };
        let needed = chunk.examples.rows();
        while self.pending.len() < needed && self.more(needed)? {}
        if self.pending.len() < needed {
            let labels = self.given + self.pending.len();
            return Err(DataError::LabelCount { rows: self.given + needed, labels });
        }
        self.given += needed;
        chunk.targets = match &mut self.pending {
            Targets::Numbers(all) => Targets::Numbers(all.drain(..needed).collect()),
            Targets::Names(all) => Targets::Names(all.drain(..needed).collect()),
            Targets::Absent => Targets::Absent,
        };
        Ok(Some(chunk))
    }

    fn ignored(&self) -> &[String] {
        self.rows.ignored()
    }

    fn ids(&self) -> Option<&[String]> {
        self.rows.ids()
    }

    fn target(&self) -> Option<TargetColumn> {
        self.rows.target()?;
        Some(TargetColumn { column: None, reason: TargetReason::OtherFile })
    }

    fn means(&self) -> Option<&[f64]> {
        self.rows.means()
    }
}

impl Joined {
    /// Reads further labels; false at their end.
    fn more(&mut self, rows: usize) -> Result<bool, DataError> {
        let Some(chunk) = self.labels.next_chunk(rows)? else {
            return Ok(false);
        };
        let columns = chunk.examples.columns();
        let more = match (chunk.targets, columns) {
            (Targets::Absent, 1) => {
                Targets::Numbers(chunk.examples.iter().map(|row| row.get(0)).collect())
            }
            (Targets::Absent, _) => return Err(DataError::LabelColumns { columns }),
            (targets, 0) => targets,
            (_, columns) => return Err(DataError::LabelColumns { columns: columns + 1 }),
        };
        super::gather::join_targets(&mut self.pending, &more);
        Ok(true)
    }
}
