//! The store of packed examples: in memory, or in a file of chunks that are read one after the other.
//! How one row is laid out is in `mercer_simd::factors`; what its cells mean is decided by the solvers.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Mutex;

use mercer_simd::factors::{Records, RecordsMeta, RowHead};

use crate::TrainError;

/// Packed examples.
#[derive(Debug)]
pub(crate) struct ExampleStore {
    rows: usize,
    entries: usize,
    columns: usize,
    place: Storage,
}

#[derive(Debug)]
enum Storage {
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

/// Chunks that a training holds in memory at most: subproblems solved at once, and buffers while it writes.
pub(crate) const MAX_CHUNKS_IN_MEMORY: usize = 4;
/// Chunks are not smaller.
const LEAST_CHUNK: usize = 4096;

impl ExampleStore {
    pub(crate) fn in_memory(records: Records) -> Self {
        let (rows, entries, columns) = (records.rows(), records.entries(), records.columns());
        Self { rows, entries, columns, place: Storage::Memory(records) }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of entries of all rows.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Number of chunks; 1 in memory.
    pub(crate) fn chunks(&self) -> usize {
        match &self.place {
            Storage::Memory(_) => 1,
            Storage::Disk(disk) => disk.chunks.len(),
        }
    }

    /// Whether the examples are in a file.
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(self.place, Storage::Disk(_))
    }

    /// Memory in use while so many subproblems are solved.
    pub(crate) fn bytes(&self, active: usize) -> usize {
        match &self.place {
            Storage::Memory(records) => records.bytes(),
            Storage::Disk(disk) => {
                let largest = disk.chunks.iter().map(|chunk| chunk.meta.bytes()).max();
                active.min(MAX_CHUNKS_IN_MEMORY) * largest.unwrap_or(0)
                    + disk.heads.len() * size_of::<RowHead>()
            }
        }
    }

    /// What went wrong with the file, if anything did.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        let Storage::Disk(disk) = &self.place else { return Ok(()) };
        let failure = disk.failure.lock().expect("no thread fails while it holds the text");
        match failure.as_ref() {
            Some(reason) => Err(TrainError::ExampleFile { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Every chunk in order; of a file that fails what is left, and [`ExampleStore::check`] tells.
    pub(crate) fn each(&self, mut see: impl FnMut(usize, &Records)) {
        let mut buffer = Self::buffer();
        for chunk in 0..self.chunks() {
            if let Some(records) = self.chunk(chunk, &mut buffer) {
                see(chunk, records);
            }
        }
    }

    /// Something to read chunks into.
    pub(crate) fn buffer() -> Records {
        Records::new(0, 1)
    }

    /// One chunk; none where the file failed.
    pub(crate) fn chunk<'s>(
        &'s self,
        number: usize,
        buffer: &'s mut Records,
    ) -> Option<&'s Records> {
        match &self.place {
            Storage::Memory(records) => Some(records),
            Storage::Disk(disk) => {
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
    pub(crate) fn heads(&self, mut see: impl FnMut(RowHead)) {
        match &self.place {
            Storage::Memory(records) => records.heads().for_each(see),
            Storage::Disk(disk) => disk.heads.iter().for_each(|entry| see(*entry)),
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
        let outcome = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(bytes));
        reason = outcome.err().map(|error| error.to_string());
        reason.is_none()
    });
    if is_same { Ok(()) } else { Err(reason.unwrap_or_else(|| "its bytes changed".to_owned())) }
}

/// Takes packed rows: in memory while they fit, and dealt out at random to the chunks of a file where they do not.
#[derive(Debug)]
pub(crate) struct Writer {
    seed: u64,
    shape: RecordShape,
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

/// Memory for packed rows, and the seed by which rows are dealt to chunks where it does not suffice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryBudget {
    pub(crate) bytes: usize,
    pub(crate) seed: u64,
}

/// The kind of records that rows are packed into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordShape {
    /// Makes empty records of so many columns and cells.
    pub(crate) new: fn(usize, usize) -> Records,
    pub(crate) columns: usize,
    /// What `new` takes beside the columns: bins, or 1 for values in f32.
    pub(crate) cells: usize,
}

impl RecordShape {
    fn records(self) -> Records {
        (self.new)(self.columns, self.cells)
    }
}

impl Writer {
    /// For so many rows and entries.
    pub(crate) fn new(
        budget: MemoryBudget,
        shape: RecordShape,
        rows: usize,
        entries: usize,
    ) -> Result<Self, TrainError> {
        let mut first = shape.records();
        // The head of a record and what fills its last word, then its entries.
        let needed = rows.saturating_mul(18).saturating_add(entries * first.entry_bytes());
        let (file, count) = if needed <= budget.bytes {
            first.reserve(rows, entries);
            (None, 1)
        } else {
            let chunk = (budget.bytes / MAX_CHUNKS_IN_MEMORY).max(LEAST_CHUNK);
            (Some(tempfile::tempfile().map_err(failed)?), needed.div_ceil(chunk))
        };
        let most = (budget.bytes / MAX_CHUNKS_IN_MEMORY / count).clamp(LEAST_CHUNK, 1 << 24);
        let mut buckets = vec![Bucket { records: first, written: Vec::new() }];
        let more = || Bucket { records: shape.records(), written: Vec::new() };
        buckets.extend(std::iter::repeat_with(more).take(count - 1));
        Ok(Self { seed: budget.seed, shape, buckets, most, file })
    }

    /// The records that the row of this number is to be pushed to.
    pub(crate) fn bucket(&mut self, number: u32) -> Result<&mut Records, TrainError> {
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
    pub(crate) fn memory(&mut self) -> Option<&mut Records> {
        self.file.is_none().then(|| &mut self.buckets[0].records)
    }

    /// No more rows; `complete` is called with the records of each chunk, and may set squared norms.
    pub(crate) fn finish(
        self,
        complete: impl Fn(&mut Records),
    ) -> Result<ExampleStore, TrainError> {
        let Self { mut buckets, file, shape, .. } = self;
        let Some(mut file) = file else {
            let mut records = buckets.swap_remove(0).records;
            complete(&mut records);
            return Ok(ExampleStore::in_memory(records));
        };
        for bucket in &mut buckets {
            bucket.written.push(write(&mut file, &mut bucket.records)?);
            bucket.records = shape.records();
        }
        let (scattered, mut whole) = (Mutex::new(file), tempfile::tempfile().map_err(failed)?);
        let (mut chunks, mut heads, mut entries) = (Vec::new(), Vec::new(), 0);
        let mut buffer = shape.records();
        for bucket in buckets {
            let mut records = shape.records();
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
            complete(&mut records);
            entries += records.entries();
            heads.extend(records.heads());
            if records.rows() > 0 {
                chunks.push(write(&mut whole, &mut records)?);
            }
        }
        heads.sort_unstable_by_key(|entry: &RowHead| entry.row);
        let disk = Disk { chunks, heads, file: Mutex::new(whole), failure: Mutex::new(None) };
        let (rows, columns) = (disk.heads.len(), shape.columns);
        Ok(ExampleStore { rows, entries, columns, place: Storage::Disk(disk) })
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
