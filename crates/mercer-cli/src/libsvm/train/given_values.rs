//! `svm-train -t 4`: rows of kernel values, each with the serial number of its example.

use std::sync::Arc;

use mercer::data::{Dataset, Matrix};
use mercer::kernel::{Gram, KernelRef};
use mercer::machine::{Machine, MachineError, Output, Score};
use mercer::train::Expansion;

/// The serial numbers of rows of kernel values.
#[derive(Debug)]
pub(super) struct GivenValues {
    /// From 1: the column in which other rows have the value with this one.
    serials: Vec<usize>,
    /// Values of each row.
    columns: usize,
    kernel: KernelRef,
}

impl GivenValues {
    /// Takes rows `0:serial 1:value ...` apart; the examples to train on are numbers of rows.
    pub(super) fn new(rows: Dataset) -> anyhow::Result<(Dataset, Self)> {
        let columns = rows.examples.columns().saturating_sub(1);
        let mut serials = Vec::with_capacity(rows.examples.rows());
        for (line, row) in (1..).zip(rows.examples.iter()) {
            let serial = row.get(0);
            anyhow::ensure!(
                serial != 0.0,
                "row {line}: the first column must be 0:sample_serial_number"
            );
            anyhow::ensure!(
                (1.0..=columns as f64).contains(&serial),
                "row {line}: the serial number {serial} is outside 1 to {columns}"
            );
            serials.push(serial as usize);
        }
        let examples = Gram::serials(serials.len())?;
        let kernel = Arc::new(Gram::with_columns(rows.examples, serials.clone()));
        Ok((Dataset { examples, ..rows }, Self { serials, columns, kernel }))
    }

    pub(super) fn kernel(&self) -> KernelRef {
        self.kernel.clone()
    }

    /// The machine for queries that are rows of kernel values.
    pub(super) fn machine(
        &self,
        expansions: &[Expansion],
        output: Output,
    ) -> Result<Machine, MachineError> {
        let serial = |example: &u32| self.serials[*example as usize] - 1;
        let mut used: Vec<usize> =
            expansions.iter().flat_map(|expansion| &expansion.examples).map(serial).collect();
        used.sort_unstable();
        used.dedup();
        let score = |expansion: &Expansion| {
            let mut betas = vec![0.0; used.len()];
            for (example, beta) in expansion.examples.iter().zip(&expansion.coefficients) {
                // Rows with one serial number are one vector.
                betas[used.partition_point(|known| *known < serial(example))] += beta;
            }
            Score::expansion(&betas, expansion.offset)
        };
        let scores = expansions.iter().map(score).collect();
        let supports: Matrix = Gram::units(&used, self.columns);
        Machine::new(mercer::kernel::parse("precomputed")?, supports, scores, output)
    }
}
