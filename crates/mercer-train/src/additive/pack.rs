//! Packing of rows as records of bins.
//! Values as they are, without bins, are packed in `linear/values.rs`.

use mercer_data::Row;
use mercer_simd::factors::{Records, RowKey};
use mercer_simd::{BinMapper, Isa};
use rayon::prelude::*;

use super::bins::{PIECE, ValueBins};
use crate::TrainError;
use crate::packed::{MemoryBudget, RecordShape, RowsToPack, Writer, full};
use crate::row_source::{RowPiece, pieces};

/// Packed rows, and how often each bin occurs.
pub(super) struct PackedBins {
    pub(super) writer: Writer,
    pub(super) counts: Vec<u64>,
}

/// Packs rows with their classes, in pieces on all threads where memory holds them all.
pub(super) fn pack(
    packing: RowsToPack<'_>,
    bins: &ValueBins,
    count: usize,
    budget: MemoryBudget,
) -> Result<PackedBins, TrainError> {
    let columns = packing.columns.kept();
    let shape = RecordShape { new: Records::new, columns, cells: count };
    let mut writer = Writer::new(budget, shape, packing.rows.len(), packing.source.nonzeros())?;
    let mut counts = vec![0; count];
    let threads = rayon::current_num_threads();
    let binning = Binning { mapper: bins.bin_mapper(count), packing };
    pieces(packing.source, packing.rows, |piece| {
        let is_small = threads == 1 || piece.rows.len() <= PIECE;
        if is_small || writer.memory().is_none() {
            return binning.pack(piece, &mut counts, &mut writer);
        }
        let Some(all) = writer.memory() else { return Ok(()) };
        // A few pieces at a time, so that little is held twice.
        for band in piece.cut(PIECE).chunks(threads) {
            let make = |part: &RowPiece<'_>| {
                let (mut records, mut counts) = (Records::new(columns, count), vec![0; count]);
                let made = binning.pack(*part, &mut counts, &mut records);
                made.map(|()| (records, counts))
            };
            let made: Vec<_> = band.par_iter().map(make).collect();
            for part in made {
                let (records, part_counts) = part?;
                if !all.join(&records) {
                    return Err(full());
                }
                counts.iter_mut().zip(&part_counts).for_each(|(all, part)| *all += part);
            }
        }
        Ok(())
    })?;
    Ok(PackedBins { writer, counts })
}

/// How rows become records.
struct Binning<'b> {
    mapper: BinMapper,
    packing: RowsToPack<'b>,
}

/// Some rows whose bins are found together.
#[derive(Default)]
struct BinBatch {
    /// Number and tag of each row, and where its entries end.
    rows: Vec<(RowKey, usize)>,
    columns: Vec<u32>,
    values: Vec<f64>,
    bins: Vec<u16>,
}

/// Entries whose bins are found together.
const AT_ONCE: usize = 4096;

impl BinBatch {
    fn push(&mut self, key: RowKey, row: Row<'_>) {
        match row {
            Row::Sparse { columns, values } if values.iter().all(|value| *value != 0.0) => {
                self.columns.extend_from_slice(columns);
                self.values.extend_from_slice(values);
            }
            row => row.nonzeros().for_each(|(column, value)| {
                self.columns.push(column);
                self.values.push(value);
            }),
        }
        self.rows.push((key, self.columns.len()));
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.columns.clear();
        self.values.clear();
    }
}

impl Binning<'_> {
    /// Packs some more rows.
    fn pack(
        &self,
        piece: RowPiece<'_>,
        counts: &mut [u64],
        sink: &mut impl Sink,
    ) -> Result<(), TrainError> {
        // Four counters for each bin: equal values often follow one another.
        let mut seen = vec![[0u64; 4]; counts.len()];
        let mut batch = BinBatch::default();
        for (number, row) in (piece.position as u32..).zip(piece.rows) {
            let tag = self.packing.class_of(*row);
            batch.push(RowKey { number, tag }, piece.row(*row));
            if batch.columns.len() >= AT_ONCE {
                self.flush(&mut batch, &mut seen, sink)?;
            }
        }
        self.flush(&mut batch, &mut seen, sink)?;
        for (all, seen) in counts.iter_mut().zip(&seen) {
            *all += seen.iter().sum::<u64>();
        }
        Ok(())
    }

    fn flush(
        &self,
        batch: &mut BinBatch,
        seen: &mut [[u64; 4]],
        sink: &mut impl Sink,
    ) -> Result<(), TrainError> {
        let BinBatch { rows, columns, values, bins } = batch;
        bins.resize(values.len(), 0);
        self.mapper.bins(Isa::current(), columns, values, bins);
        for (at, bin) in bins.iter().enumerate() {
            seen[usize::from(*bin)][at % 4] += 1;
        }
        self.packing.places.renumber(columns);
        let mut start = 0;
        for (key, end) in rows {
            let records = sink.at(key.number)?;
            if !records.push(*key, &columns[start..*end], &bins[start..*end]) {
                return Err(full());
            }
            start = *end;
        }
        batch.clear();
        Ok(())
    }
}

/// Where packed rows are written.
trait Sink {
    /// The records that the row of this number is to be pushed to.
    fn at(&mut self, number: u32) -> Result<&mut Records, TrainError>;
}

impl Sink for Records {
    fn at(&mut self, _number: u32) -> Result<&mut Records, TrainError> {
        Ok(self)
    }
}

impl Sink for Writer {
    fn at(&mut self, number: u32) -> Result<&mut Records, TrainError> {
        self.bucket(number)
    }
}
