use std::ops::Range;

use mercer_data::Matrix;
use mercer_kernel::Domain;
use mercer_machine::Machine;
use rayon::prelude::*;

use crate::{Decision, Exact, QueryError};

/// How a machine is asked: for now, exactly. Work runs in the rayon pool of the caller.
#[derive(Debug)]
pub struct Plan {
    exact: Exact,
}

impl Plan {
    /// Every query is evaluated exactly.
    pub fn exact(machine: &Machine) -> Self {
        Self { exact: Exact::new(machine) }
    }

    /// The stage that closes what is left.
    pub fn closing(&self) -> &Exact {
        &self.exact
    }

    /// Decisions for all rows, in order.
    pub fn decide(&self, rows: &Matrix) -> Result<Vec<Decision>, QueryError> {
        self.check(rows)?;
        let blocks = self.blocks(rows.rows());
        let parts = blocks.into_par_iter().map_init(
            || self.exact.scratch(),
            |scratch, range| {
                let first = range.start;
                self.exact.decide(range.map(|row| rows.row(row)), first, scratch)
            },
        );
        Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Exact scores of all rows, one row after the other; never anything but exact.
    pub fn scores(&self, rows: &Matrix) -> Result<Vec<f64>, QueryError> {
        self.check(rows)?;
        let count = self.exact.machine().scores().len();
        let blocks = self.blocks(rows.rows());
        let parts = blocks.into_par_iter().map_init(
            || self.exact.scratch(),
            |scratch, range| {
                let mut out = vec![0.0; range.len() * count];
                self.exact.scores(range.map(|row| rows.row(row)), scratch, &mut out);
                out
            },
        );
        let scores = parts.collect::<Vec<_>>().concat();
        match scores.iter().position(|score| !score.is_finite()) {
            Some(at) => Err(QueryError::NotFinite { row: at / count + 1, value: scores[at] }),
            None => Ok(scores),
        }
    }

    /// Rows cut into blocks, small enough that all threads get some.
    fn blocks(&self, rows: usize) -> Vec<Range<usize>> {
        let threads = rayon::current_num_threads().max(1);
        let even = rows.div_ceil(threads).next_multiple_of(8).max(8);
        let size = self.exact.block().min(even);
        (0..rows).step_by(size).map(|start| start..(start + size).min(rows)).collect()
    }

    /// Refuses rows outside the kernel's domain.
    fn check(&self, rows: &Matrix) -> Result<(), QueryError> {
        let kernel = self.exact.machine().kernel();
        if kernel.domain() == Domain::Real {
            return Ok(());
        }
        for (row, values) in (1..).zip(rows.iter()) {
            if let Some((column, value)) = values.nonzeros().find(|(_, value)| *value < 0.0) {
                let (column, kernel) = (column as usize + 1, kernel.spec().name().to_owned());
                return Err(QueryError::Negative { row, column, value, kernel });
            }
        }
        Ok(())
    }
}
