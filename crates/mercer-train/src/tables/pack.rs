//! Rows become packed records of levels.

use mercer_data::Row;
use mercer_simd::factors::{Records, RowKey};
use mercer_simd::{BinMapper, Isa};
use rayon::prelude::*;

use super::columns::{Columns, Places};
use super::quantise::{Levels, PIECE, full};
use super::rows::{Piece, Rows, pieces};
use super::store::{Room, Writer};
use crate::TrainError;

/// Packed rows, and how often each level occurs.
pub(super) struct Packed {
    pub(super) writer: Writer,
    pub(super) counts: Vec<u64>,
}

/// Packs rows with one tag each, in pieces on all threads where memory holds them all.
pub(super) fn pack(
    examples: &dyn Rows,
    rows: &[u32],
    tags: impl Fn(u32) -> u32 + Sync,
    (levels, count): (&Levels, usize),
    (columns, places): (&Columns, &Places),
    room: Room,
) -> Result<Packed, TrainError> {
    let shape = (columns.kept(), count);
    let sizes = (rows.len(), examples.nonzeros());
    let mut writer = Writer::new(room, (Records::new, shape), sizes)?;
    let mut counts = vec![0; count];
    let threads = rayon::current_num_threads();
    let binning = Binning { mapper: levels.bin_mapper(count), places, tags: &tags };
    pieces(examples, rows, |piece| {
        let is_small = threads == 1 || piece.rows.len() <= PIECE;
        if is_small || writer.memory().is_none() {
            return binning.pack(piece, &mut counts, &mut writer);
        }
        let Some(all) = writer.memory() else { return Ok(()) };
        // A few pieces at a time, so that little is held twice.
        for band in piece.cut(PIECE).chunks(threads) {
            let make = |part: &Piece<'_>| {
                let (mut own, mut counts) = (Records::new(shape.0, count), vec![0; count]);
                let made = binning.pack(*part, &mut counts, &mut own);
                made.map(|()| (own, counts))
            };
            let made: Vec<_> = band.par_iter().map(make).collect();
            for part in made {
                let (own, seen) = part?;
                if !all.join(&own) {
                    return Err(full());
                }
                counts.iter_mut().zip(&seen).for_each(|(all, own)| *all += own);
            }
        }
        Ok(())
    })?;
    Ok(Packed { writer, counts })
}

/// How rows become records.
struct Binning<'b, F> {
    mapper: BinMapper,
    places: &'b Places,
    tags: &'b F,
}

/// Some rows whose levels are found together.
#[derive(Default)]
struct Batch {
    /// Number and tag of each row, and where its entries end.
    rows: Vec<(RowKey, usize)>,
    columns: Vec<u32>,
    values: Vec<f64>,
    levels: Vec<u16>,
}

/// Entries whose levels are found together.
const AT_ONCE: usize = 4096;

impl Batch {
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

impl<F: Fn(u32) -> u32> Binning<'_, F> {
    /// Packs some more rows.
    fn pack(
        &self,
        piece: Piece<'_>,
        counts: &mut [u64],
        sink: &mut impl Sink,
    ) -> Result<(), TrainError> {
        // Four counters for each level: equal values often follow one another.
        let mut seen = vec![[0u64; 4]; counts.len()];
        let mut batch = Batch::default();
        for (number, row) in (piece.position as u32..).zip(piece.rows) {
            batch.push(RowKey { number, tag: (self.tags)(*row) }, piece.row(*row));
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
        batch: &mut Batch,
        seen: &mut [[u64; 4]],
        sink: &mut impl Sink,
    ) -> Result<(), TrainError> {
        let Batch { rows, columns, values, levels } = batch;
        levels.resize(values.len(), 0);
        self.mapper.bins(Isa::current(), columns, values, levels);
        for (at, level) in levels.iter().enumerate() {
            seen[usize::from(*level)][at % 4] += 1;
        }
        self.places.renumber(columns);
        let mut start = 0;
        for (key, end) in rows {
            let records = sink.at(key.number)?;
            if !records.push(*key, &columns[start..*end], &levels[start..*end]) {
                return Err(full());
            }
            start = *end;
        }
        batch.clear();
        Ok(())
    }
}

/// Where rows go.
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
