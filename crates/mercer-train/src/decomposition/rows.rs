//! Where the rows of a training are: in memory, or in a temporary file of blocks ([`RowFile`]).
//! The rounds over them are in `run`, the bytes of a block in `blocks`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Mutex;

use mercer_data::{LiveColumns, Matrix, MatrixBuilder};
use mercer_kernel::KernelRef;
use rayon::prelude::*;

use super::blocks::RowBlock;
use super::scores::RoundSupports;
use crate::TrainError;
use crate::gram::{F32_LIMIT, F32Rows, Source};
use crate::row_source::RowSource;

/// Rows that are shown or stored at once.
const BLOCK_ROWS: usize = 8192;

/// Rows of one subproblem, wherever they are.
pub(crate) trait TrainingRows {
    /// Number of rows.
    fn len(&self) -> usize;

    /// Some rows, in this order.
    ///
    /// # Errors
    /// If they cannot be read.
    fn gather(&self, rows: &[u32]) -> Result<Matrix, TrainError>;

    /// Shows all rows in blocks, with the number of each.
    ///
    /// # Errors
    /// If they cannot be read.
    fn each(&self, see: &mut dyn FnMut(&[u32], &Matrix)) -> Result<(), TrainError>;

    /// How rows become f32 for kernel values; `None` where these need f64.
    fn f32_rows(&self, kernel: &KernelRef) -> Option<F32Rows>;

    /// Adds the sums of all rows.
    ///
    /// # Errors
    /// If the rows cannot be read.
    fn add_sums(&self, supports: &RoundSupports<'_>, sums: &mut [f64]) -> Result<(), TrainError> {
        self.each(&mut |rows, block| {
            let mut found: Vec<f64> = rows.iter().map(|row| sums[*row as usize]).collect();
            supports.add_rows(|at| block.row(at), &mut found);
            rows.iter().zip(found).for_each(|(row, sum)| sums[*row as usize] = sum);
        })
    }
}

/// Rows in memory.
pub(super) struct MemoryRows<'r> {
    pub(super) source: &'r Source<'r>,
    /// The example of each row.
    pub(super) examples: Vec<u32>,
}

impl TrainingRows for MemoryRows<'_> {
    fn len(&self) -> usize {
        self.examples.len()
    }

    fn gather(&self, rows: &[u32]) -> Result<Matrix, TrainError> {
        let examples = rows.iter().map(|row| self.examples[*row as usize] as usize);
        Ok(self.source.examples.select(examples))
    }

    fn each(&self, see: &mut dyn FnMut(&[u32], &Matrix)) -> Result<(), TrainError> {
        let rows: Vec<u32> = (0..self.examples.len() as u32).collect();
        for rows in rows.chunks(BLOCK_ROWS) {
            see(rows, &self.gather(rows)?);
        }
        Ok(())
    }

    fn f32_rows(&self, kernel: &KernelRef) -> Option<F32Rows> {
        let Source { examples, centre, fits_f32, .. } = self.source;
        let per_row = examples.nonzeros() as f64 / examples.rows().max(1) as f64;
        let live = LiveColumns::of(examples);
        fits_f32.then(|| F32Rows::centred(kernel, live, per_row, centre.as_deref())).flatten()
    }

    fn add_sums(&self, supports: &RoundSupports<'_>, sums: &mut [f64]) -> Result<(), TrainError> {
        supports.add_rows(|at| self.source.examples.row(self.examples[at] as usize), sums);
        Ok(())
    }
}

/// All examples in a file without a name: it is gone when the training is, however that ends.
#[derive(Debug)]
pub(crate) struct RowFile {
    file: Mutex<File>,
    blocks: Vec<StoredBlock>,
    columns: usize,
    is_dense: bool,
    /// Subtracted before distances are computed.
    pub(crate) centre: Option<Vec<f64>>,
    /// Columns that are not zero in every row, in increasing order.
    live: Vec<u32>,
    nonzeros: usize,
    /// Whether kernel values fit in f32.
    fits_f32: bool,
}

#[derive(Debug, Clone, Copy)]
struct StoredBlock {
    offset: u64,
    bytes: usize,
    first: usize,
    rows: usize,
}

impl RowFile {
    /// Writes the examples of a source, block by block.
    ///
    /// # Errors
    /// If they cannot be read or written, or the kernel has no finite value there; `check` refuses a block.
    pub(crate) fn write(
        source: &dyn RowSource,
        kernel: &KernelRef,
        check: &dyn Fn(usize, &Matrix) -> Result<(), TrainError>,
    ) -> Result<Self, TrainError> {
        let columns = source.columns();
        let mut file = tempfile::tempfile().map_err(failed)?;
        let (mut blocks, mut offset, mut centre) = (Vec::new(), 0, None);
        let (mut is_dense, mut fits_f32) = (true, true);
        let (mut live, mut nonzeros) = (BTreeSet::new(), 0);
        source.each(&mut |first, matrix| {
            check(first, matrix)?;
            for start in (0..matrix.rows()).step_by(BLOCK_ROWS) {
                let rows = matrix.select(start..(start + BLOCK_ROWS).min(matrix.rows()));
                let rows =
                    rows.with_columns(columns).map_err(mercer_machine::MachineError::from)?;
                if blocks.is_empty() {
                    centre = crate::gram::Source::new(kernel, &rows).centre;
                }
                let number = |row: usize| first + start + row;
                fits_f32 &= largest_diagonal(kernel, &rows, number)? < F32_LIMIT;
                is_dense &= !rows.is_sparse();
                live.extend(LiveColumns::of(&rows).columns());
                nonzeros += rows.nonzeros();
                let count = rows.rows();
                let bytes = RowBlock::new(rows).to_bytes();
                file.write_all(&bytes).map_err(failed)?;
                blocks.push(StoredBlock {
                    offset,
                    bytes: bytes.len(),
                    first: first + start,
                    rows: count,
                });
                offset += bytes.len() as u64;
            }
            Ok(())
        })?;
        let (file, live) = (Mutex::new(file), live.into_iter().collect());
        Ok(Self { file, blocks, columns, is_dense, centre, live, nonzeros, fits_f32 })
    }

    /// Some examples, in this order.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn select(&self, examples: &[u32]) -> Result<Matrix, TrainError> {
        let mut order: Vec<u32> = (0..examples.len() as u32).collect();
        order.sort_by_key(|at| examples[*at as usize]);
        let mut gathered = MatrixBuilder::new();
        let mut left = &order[..];
        for block in &self.blocks {
            let end = block.first + block.rows;
            let here = left.partition_point(|at| (examples[*at as usize] as usize) < end);
            if here > 0 {
                let rows = self.read(block)?;
                for at in &left[..here] {
                    gathered.push_row(rows.row(examples[*at as usize] as usize - block.first));
                }
                left = &left[here..];
            }
        }
        let sorted = gathered.finish(self.columns);
        let mut place = vec![0usize; order.len()];
        for (at, wanted) in order.iter().enumerate() {
            place[*wanted as usize] = at;
        }
        let rows = sorted.select(place);
        Ok(if self.is_dense { rows.to_dense() } else { rows })
    }

    /// How rows become f32 for kernel values; `None` where these need f64.
    fn f32_rows(&self, kernel: &KernelRef) -> Option<F32Rows> {
        let rows = self.blocks.last().map_or(0, |block| block.first + block.rows);
        let per_row = self.nonzeros as f64 / rows.max(1) as f64;
        let live = LiveColumns::new(self.columns, self.live.clone());
        let centre = self.centre.as_deref();
        self.fits_f32.then(|| F32Rows::centred(kernel, live, per_row, centre)).flatten()
    }

    /// The rows of a subproblem.
    pub(crate) fn view(&self, examples: &[u32]) -> FileView<'_> {
        let all = self.blocks.last().map_or(0, |block| block.first + block.rows);
        let mut row_of = vec![u32::MAX; all];
        for (row, example) in (0u32..).zip(examples) {
            row_of[*example as usize] = row;
        }
        FileView { file: self, examples: examples.to_vec(), row_of }
    }

    fn read(&self, block: &StoredBlock) -> Result<Matrix, TrainError> {
        let mut bytes = vec![0; block.bytes];
        let mut file = self.file.lock().expect("no thread fails while it holds the file");
        let read =
            file.seek(SeekFrom::Start(block.offset)).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(failed)?;
        let rows = RowBlock::from_bytes(&bytes).map(RowBlock::into_rows);
        rows.map_err(|error| TrainError::ExampleFile { reason: error.to_string() })
    }
}

/// The rows of one subproblem in a file.
pub(crate) struct FileView<'f> {
    file: &'f RowFile,
    /// The example of each row.
    examples: Vec<u32>,
    /// The row of each example; `u32::MAX` for examples of other subproblems.
    row_of: Vec<u32>,
}

impl TrainingRows for FileView<'_> {
    fn len(&self) -> usize {
        self.examples.len()
    }

    fn gather(&self, rows: &[u32]) -> Result<Matrix, TrainError> {
        let examples: Vec<u32> = rows.iter().map(|row| self.examples[*row as usize]).collect();
        self.file.select(&examples)
    }

    fn f32_rows(&self, kernel: &KernelRef) -> Option<F32Rows> {
        self.file.f32_rows(kernel)
    }

    fn each(&self, see: &mut dyn FnMut(&[u32], &Matrix)) -> Result<(), TrainError> {
        for block in &self.file.blocks {
            let numbers = &self.row_of[block.first..block.first + block.rows];
            let used = || (0..block.rows).filter(|at| numbers[*at] != u32::MAX);
            let rows: Vec<u32> = used().map(|at| numbers[at]).collect();
            if !rows.is_empty() {
                let block_rows = self.file.read(block)?;
                if rows.len() == block.rows {
                    see(&rows, &block_rows);
                } else {
                    see(&rows, &block_rows.select(used()));
                }
            }
        }
        Ok(())
    }
}

/// The largest kernel value of a row with itself.
fn largest_diagonal(
    kernel: &KernelRef,
    rows: &Matrix,
    number: impl Fn(usize) -> usize,
) -> Result<f64, TrainError> {
    let value = |row: usize| kernel.value(rows.row(row), rows.row(row));
    let values: Vec<f64> = (0..rows.rows()).into_par_iter().map(value).collect();
    match values.iter().position(|value| !value.is_finite()) {
        Some(row) => Err(TrainError::KernelNotFinite { row: number(row) + 1, value: values[row] }),
        None => Ok(values.into_iter().fold(0.0, |most, value| value.abs().max(most))),
    }
}

fn failed(error: std::io::Error) -> TrainError {
    TrainError::ExampleFile { reason: error.to_string() }
}
