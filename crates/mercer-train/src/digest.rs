//! The digest by which a checkpoint or a search journal recognises its training.
//! The files themselves are in [`crate::checkpoint`] and `search/journal.rs`.

use mercer_data::Targets;
use sha2::{Digest, Sha256};

use crate::row_source::RowSource;
use crate::{TrainError, Training};

/// A digest of everything that decides the result: `what` is trained (kernel and formulation), data, solver
/// and options, but no limits.
pub(crate) fn of(
    what: &str,
    examples: &dyn RowSource,
    targets: &Targets,
    training: &Training,
) -> Result<[u8; 32], TrainError> {
    let mut sha = Sha256::new();
    let class_weights: Vec<String> =
        training.class_weights.iter().map(|(name, weight)| format!("{name}={weight:?}")).collect();
    let text = format!(
        "{what} {} {:?} {:?} {} {class_weights:?} {} {}",
        training.solver.spec(),
        training.scheme_used(),
        training.tolerance_used(),
        training.memory,
        examples.rows(),
        examples.columns(),
    );
    sha.update(text.as_bytes());
    let mut buffer = Vec::new();
    examples.each(&mut |_, matrix| {
        for row in matrix.iter() {
            buffer.clear();
            for (column, value) in row.nonzeros() {
                buffer.extend_from_slice(&column.to_le_bytes());
                buffer.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            buffer.extend_from_slice(&u32::MAX.to_le_bytes());
            sha.update(&buffer);
        }
        Ok(())
    })?;
    match targets {
        Targets::Absent => {}
        Targets::Numbers(numbers) => {
            numbers.iter().for_each(|value| sha.update(value.to_bits().to_le_bytes()));
        }
        Targets::Names(names) => names.iter().for_each(|name| {
            sha.update((name.len() as u64).to_le_bytes());
            sha.update(name.as_bytes());
        }),
    }
    for weight in training.weights.iter().flatten() {
        sha.update(weight.to_bits().to_le_bytes());
    }
    Ok(sha.finalize().into())
}
