//! The vectors that a walk visits: the supports, or a reduced set in their place (\[DM03\], section 5.3).

use mercer_machine::{Array, Machine, Score, Section};
use mercer_query::Exact;

use super::settings::NearestSettings;
use super::unfit;
use crate::compress::{Compression, Goal, compressor};
use crate::{CompileError, Task};

/// The vectors that are visited, as a machine of their own.
pub(super) enum WalkedVectors<'a> {
    Supports(&'a Exact),
    Reduced(Box<Exact>),
}

impl<'a> WalkedVectors<'a> {
    /// The supports, or the reduced set that the text asks for.
    pub(super) fn new(settings: &NearestSettings, task: &Task<'a>) -> Result<Self, CompileError> {
        let Some((count, method)) = settings.reduced else {
            return Ok(Self::Supports(task.exact));
        };
        let machine = task.exact.machine();
        if count >= machine.supports().rows() {
            let supports = machine.supports().rows();
            return Err(unfit(format!(
                "a reduced set of {count} vectors is not smaller than {supports} supports"
            )));
        }
        let method = compressor(method).map_err(|error| unfit(error.to_string()))?;
        let compression = Compression::new(machine, method).goal(Goal::Size(count));
        let found = compression.keep_vectors(true).watch(task.watch).run()?.machine;
        let (kernel, vectors) = (machine.kernel().clone(), found.supports().as_ref().clone());
        let scores = found.scores().to_vec();
        let reduced = Machine::new(kernel, vectors, scores, machine.output().clone())
            .and_then(|reduced| reduced.with_centre(machine.centre().map(<[f64]>::to_vec)))
            .map_err(|error| unfit(error.to_string()))?;
        Ok(Self::Reduced(Box::new(Exact::new(&reduced))))
    }

    /// The machine of the vectors, packed.
    pub(super) fn exact(&self) -> &Exact {
        match self {
            Self::Supports(exact) => exact,
            Self::Reduced(exact) => exact,
        }
    }

    /// Whether all vectors together are not the machine.
    pub(super) fn is_reduced(&self) -> bool {
        matches!(self, Self::Reduced(_))
    }

    /// Adds the vectors to the section, where they are not the supports.
    pub(super) fn arrays(&self, section: Section) -> Section {
        let Self::Reduced(exact) = self else { return section };
        let vectors = exact.machine().supports();
        let (mut starts, mut columns, mut values) = (vec![0u32], Vec::new(), Vec::new());
        for row in vectors.iter() {
            for (column, value) in row.nonzeros() {
                columns.push(column);
                values.push(value);
            }
            starts.push(values.len() as u32);
        }
        let dense = |score: &Score| score.dense(vectors.rows());
        let coefficients = exact.machine().scores().iter().flat_map(dense).collect();
        section
            .with("vectors_starts", Array::U32(starts))
            .with("vectors_columns", Array::U32(columns))
            .with("vectors_values", Array::F64(values))
            .with("coefficients", Array::F64(coefficients))
    }
}
