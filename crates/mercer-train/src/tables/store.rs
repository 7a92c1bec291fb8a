//! Packed examples: in memory, or in a file of chunks that are read one after the other.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Mutex;

use mercer_simd::factors::{Records, RecordsMeta, RowHead};

use crate::TrainError;

/// Packed examples.
#[derive(Debug)]
pub(super) struct Store {
    rows: usize,
    entries: usize,
    columns: usize,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Records),
    Disk(Disk),
}

/// Chunks in a file that has no name: it is gone when the training is, however that ends.
#[derive(Debug)]
struct Disk {
    chunks: Vec<Chunk>,
    /// What the records say of all rows, by their numbers.
    heads: Vec<RowHead>,
    file: Mutex<File>,
    failure: Mutex<Option<String>>,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    meta: RecordsMeta,
    offset: u64,
}

/// Chunks that a training holds in memory at most: questions at work at once, and buffers while it writes.
pub(super) const HELD: usize = 4;
/// Chunks are not smaller.
const LEAST_CHUNK: usize = 4096;

impl Store {
    pub(super) fn in_memory(records: Records) -> Self {
        let (rows, entries, columns) = (records.rows(), records.entries(), records.columns());
        Self { rows, entries, columns, place: Place::Memory(records) }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of entries of all rows.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Number of columns.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Number of chunks; 1 in memory.
    pub(super) fn chunks(&self) -> usize {
        match &self.place {
            Place::Memory(_) => 1,
            Place::Disk(disk) => disk.chunks.len(),
        }
    }

    /// Whether the examples are in a file.
    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.place, Place::Disk(_))
    }

    /// Memory in use while so many questions are at work.
    pub(super) fn bytes(&self, at_work: usize) -> usize {
        match &self.place {
            Place::Memory(records) => records.bytes(),
            Place::Disk(disk) => {
                let largest = disk.chunks.iter().map(|chunk| chunk.meta.bytes()).max();
                at_work.min(HELD) * largest.unwrap_or(0) + disk.heads.len() * size_of::<RowHead>()
            }
        }
    }

    /// What went wrong with the file, if anything did.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        let Place::Disk(disk) = &self.place else { return Ok(()) };
        let failure = disk.failure.lock().expect("no thread fails while it holds the text");
        match failure.as_ref() {
            Some(reason) => Err(TrainError::ExampleFile { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Every chunk in order; of a file that fails what is left, and [`Store::check`] tells.
    pub(super) fn each(&self, mut see: impl FnMut(usize, &Records)) {
        let mut buffer = Self::buffer();
        for chunk in 0..self.chunks() {
            if let Some(records) = self.chunk(chunk, &mut buffer) {
                see(chunk, records);
            }
        }
    }

    /// Something to read chunks into.
    pub(super) fn buffer() -> Records {
        Records::new(0, 1)
    }

    /// One chunk; none where the file failed.
    pub(super) fn chunk<'s>(
        &'s self,
        number: usize,
        buffer: &'s mut Records,
    ) -> Option<&'s Records> {
        match &self.place {
            Place::Memory(records) => Some(records),
            Place::Disk(disk) => {
                let Chunk { meta, offset } = disk.chunks[number];
                read(&disk.file, &meta, offset, buffer)
                    .map_err(|reason| {
                        let failure = disk.failure.lock();
                        let mut failure = failure.expect("no thread fails while it holds the text");
                        failure.get_or_insert(reason);
                    })
                    .ok()?;
                Some(buffer)
            }
        }
    }

    /// What the records say of every row; nothing is read from a file.
    pub(super) fn heads(&self, mut see: impl FnMut(RowHead)) {
        match &self.place {
            Place::Memory(records) => records.heads().for_each(see),
            Place::Disk(disk) => disk.heads.iter().for_each(|entry| see(*entry)),
        }
    }
}

fn read(
    file: &Mutex<File>,
    meta: &RecordsMeta,
    offset: u64,
    into: &mut Records,
) -> Result<(), String> {
    let mut reason = None;
    let is_same = into.import(meta, |bytes| {
        let mut file = file.lock().expect("no thread fails while it holds the file");
        let found = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(bytes));
        reason = found.err().map(|error| error.to_string());
        reason.is_none()
    });
    if is_same { Ok(()) } else { Err(reason.unwrap_or_else(|| "its bytes changed".to_owned())) }
}

/// Takes packed rows: in memory while they fit, and dealt out at random to the chunks of a file where they do not.
#[derive(Debug)]
pub(super) struct Writer {
    seed: u64,
    like: fn(usize, usize) -> Records,
    shape: (usize, usize),
    /// One in memory; else one for each chunk, written out when it is full.
    buckets: Vec<Bucket>,
    most: usize,
    file: Option<File>,
}

#[derive(Debug)]
struct Bucket {
    records: Records,
    written: Vec<Chunk>,
}

/// How much room there is, and how rows are dealt out where it does not suffice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) bytes: usize,
    pub(super) seed: u64,
}

impl Writer {
    /// For so many rows and entries; `like` makes records of a shape.
    pub(super) fn new(
        room: Room,
        (like, shape): (fn(usize, usize) -> Records, (usize, usize)),
        (rows, entries): (usize, usize),
    ) -> Result<Self, TrainError> {
        let mut first = like(shape.0, shape.1);
        // The head of a record and what fills its last word, then its entries.
        let needed = rows.saturating_mul(18).saturating_add(entries * first.entry_bytes());
        let (file, count) = if needed <= room.bytes {
            first.reserve(rows, entries);
            (None, 1)
        } else {
            let chunk = (room.bytes / HELD).max(LEAST_CHUNK);
            (Some(tempfile::tempfile().map_err(failed)?), needed.div_ceil(chunk))
        };
        let most = (room.bytes / HELD / count).clamp(LEAST_CHUNK, 1 << 24);
        let mut buckets = vec![Bucket { records: first, written: Vec::new() }];
        let more = || Bucket { records: like(shape.0, shape.1), written: Vec::new() };
        buckets.extend(std::iter::repeat_with(more).take(count - 1));
        Ok(Self { seed: room.seed, like, shape, buckets, most, file })
    }

    /// The records that the row of this number is to be pushed to.
    pub(super) fn bucket(&mut self, number: u32) -> Result<&mut Records, TrainError> {
        let count = self.buckets.len() as u64;
        let chosen = if count == 1 {
            0
        } else {
            let mixed = (self.seed ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (((mixed >> 32) * count) >> 32) as usize
        };
        let bucket = &mut self.buckets[chosen];
        if let Some(file) = &mut self.file
            && bucket.records.bytes() >= self.most
        {
            bucket.written.push(write(file, &mut bucket.records)?);
            bucket.records.clear();
        }
        Ok(&mut bucket.records)
    }

    /// Whether all rows are in memory, and their records.
    pub(super) fn memory(&mut self) -> Option<&mut Records> {
        self.file.is_none().then(|| &mut self.buckets[0].records)
    }

    /// No more rows. Each is given what `own` makes of its chunk.
    pub(super) fn finish(self, own: impl Fn(&mut Records)) -> Result<Store, TrainError> {
        let Self { mut buckets, file, like, shape, .. } = self;
        let Some(mut file) = file else {
            let mut records = buckets.swap_remove(0).records;
            own(&mut records);
            return Ok(Store::in_memory(records));
        };
        for bucket in &mut buckets {
            bucket.written.push(write(&mut file, &mut bucket.records)?);
            bucket.records = like(shape.0, shape.1);
        }
        let (scattered, mut whole) = (Mutex::new(file), tempfile::tempfile().map_err(failed)?);
        let (mut chunks, mut heads, mut entries) = (Vec::new(), Vec::new(), 0);
        let mut buffer = like(shape.0, shape.1);
        for bucket in buckets {
            let mut records = like(shape.0, shape.1);
            for piece in &bucket.written {
                read(&scattered, &piece.meta, piece.offset, &mut buffer)
                    .map_err(|reason| TrainError::ExampleFile { reason })?;
                if !records.join(&buffer) {
                    return Err(TrainError::TooLarge {
                        what: "a chunk of examples",
                        limit: "16 GiB",
                    });
                }
            }
            own(&mut records);
            entries += records.entries();
            heads.extend(records.heads());
            if records.rows() > 0 {
                chunks.push(write(&mut whole, &mut records)?);
            }
        }
        heads.sort_unstable_by_key(|entry: &RowHead| entry.row);
        let disk = Disk { chunks, heads, file: Mutex::new(whole), failure: Mutex::new(None) };
        let (rows, columns) = (disk.heads.len(), shape.0);
        Ok(Store { rows, entries, columns, place: Place::Disk(disk) })
    }
}

fn write(file: &mut File, records: &mut Records) -> Result<Chunk, TrainError> {
    let offset = file.seek(SeekFrom::End(0)).map_err(failed)?;
    let (bytes, meta) = records.export();
    file.write_all(bytes).map_err(failed)?;
    Ok(Chunk { meta, offset })
}

fn failed(error: std::io::Error) -> TrainError {
    TrainError::ExampleFile { reason: error.to_string() }
}
