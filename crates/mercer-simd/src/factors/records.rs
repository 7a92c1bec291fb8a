//! Training rows packed for sequential reads: the memory layout of the linear and additive solvers.
//!
//! What the cells of a record stand for is told by an encoding (`encoding.rs`), in which order rows are read by an
//! [`super::Order`] (`order.rs`).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::pages::large_pages;

/// Words before the columns of a record: number, tag, squared norm, length.
pub(super) const HEAD: usize = 4;

/// Rows packed one after the other.
///
/// A record is a head of 16 bytes, the columns (two or four bytes each), then the cells (bins of one or two bytes,
/// values of four or eight), padded to a whole word. Columns and bins were checked when they were packed.
#[derive(Debug)]
pub struct Records {
    words: Vec<u32>,
    shape: Shape,
    /// Whether other records may have the same generation; this one takes a new generation before it grows.
    is_exported: bool,
}

/// Sizes of records, without their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    rows: usize,
    /// One more than the largest row number.
    limit: usize,
    entries: usize,
    columns: usize,
    cells: Cells,
    generation: u64,
}

/// What [`Records::import`] needs beside the bytes of [`Records::export`]: sizes and a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordsMeta {
    words: usize,
    shape: Shape,
    checksum: u64,
}

impl RecordsMeta {
    /// Bytes of the records.
    pub fn bytes(&self) -> usize {
        4 * self.words
    }
}

/// What a record holds for each column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cells {
    /// One of so many bins.
    Bins(usize),
    /// A value that f32 represents exactly.
    F32,
    /// A value.
    F64,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowHead {
    /// Number of the row.
    pub row: u32,
    /// What the caller packed with the row: a class, or the bits of a target.
    pub tag: u32,
    /// `K(x, x)`: `Σ Φ·Ψ`, or the sum of squares, over its entries.
    pub squared_norm: f32,
}

/// The name of a row in records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKey {
    /// Number of the row; unique in its records.
    pub number: u32,
    /// Anything the caller wants back with the row: a class, or the bits of a target.
    pub tag: u32,
}

static NEXT_GENERATION: AtomicU64 = AtomicU64::new(1);

impl Records {
    /// No rows yet, of so many columns and bins.
    ///
    /// # Panics
    /// If there are more than 65,536 bins or 2^32 columns.
    pub fn new(columns: usize, bins: usize) -> Self {
        assert!(bins <= 1 << 16 && columns <= 1 << 32, "too many bins or columns");
        Self::with(columns, Cells::Bins(bins))
    }

    /// No rows yet, of so many columns and of unencoded values, stored as f32 if that is exact for all of them.
    ///
    /// # Panics
    /// If there are more than 2^32 columns.
    pub fn of_values(columns: usize, are_f32: bool) -> Self {
        assert!(columns <= 1 << 32, "too many columns");
        Self::with(columns, if are_f32 { Cells::F32 } else { Cells::F64 })
    }

    fn with(columns: usize, cells: Cells) -> Self {
        let generation = NEXT_GENERATION.fetch_add(1, Ordering::Relaxed);
        let shape = Shape { rows: 0, limit: 0, entries: 0, columns, cells, generation };
        Self { words: Vec::new(), shape, is_exported: false }
    }

    /// Reserves memory for so many rows and entries in all.
    pub fn reserve(&mut self, rows: usize, entries: usize) {
        self.words.reserve_exact(rows * HEAD + entries * self.entry_bytes() / 4 + rows);
        large_pages(self.words.as_ptr(), self.words.capacity());
    }

    /// Bytes of one entry.
    pub fn entry_bytes(&self) -> usize {
        self.column_bytes()
            + match self.shape.cells {
                Cells::Bins(bins) if bins <= 1 << 8 => 1,
                Cells::Bins(_) => 2,
                Cells::F32 => 4,
                Cells::F64 => 8,
            }
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.shape.columns <= 1 << 16
    }

    pub(super) fn cells(&self) -> Cells {
        self.shape.cells
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.shape.rows
    }

    /// One more than the largest row number.
    pub fn limit(&self) -> usize {
        self.shape.limit
    }

    /// Number of entries of all rows.
    pub fn entries(&self) -> usize {
        self.shape.entries
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.shape.columns
    }

    /// Number of bins; 0 for unencoded values.
    pub fn bins(&self) -> usize {
        match self.shape.cells {
            Cells::Bins(bins) => bins,
            Cells::F32 | Cells::F64 => 0,
        }
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 4
    }

    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }

    /// Packs one more row: the column and the bin of each entry. Returns whether it fits (16 GiB of records).
    ///
    /// # Panics
    /// If a column or bin does not exist, or there is not one of each.
    pub fn push(&mut self, key: RowKey, columns: &[u32], bins: &[u16]) -> bool {
        let RowKey { number, tag } = key;
        let (length, start) = (columns.len(), self.words.len());
        let size = self.size(length);
        if start + size > u32::MAX as usize {
            return false;
        }
        let (column_limit, bin_limit) = (self.shape.columns, self.bins());
        let unknown = |column: &u32| usize::from(*column as usize >= column_limit);
        let beyond = |bin: &u16| usize::from(usize::from(*bin) >= bin_limit);
        let wrong =
            columns.iter().map(unknown).sum::<usize>() + bins.iter().map(beyond).sum::<usize>();
        assert!(wrong == 0 && bins.len() == length, "no such column or bin, or not one of each");
        self.start_new_generation_if_exported();
        self.words.extend([number, tag, 0, length as u32]);
        self.words.resize(start + size, 0);
        let (is_narrow, column_bytes) = (self.is_narrow(), self.column_bytes());
        let places = bytes_mut(&mut self.words[start + HEAD..]);
        let (column_places, bin_places) = places.split_at_mut(length * column_bytes);
        if is_narrow {
            fill(column_places, columns, |column| (column as u16).to_le_bytes());
        } else {
            fill(column_places, columns, u32::to_le_bytes);
        }
        if bin_limit <= 1 << 8 {
            fill(bin_places, bins, |bin| [bin as u8]);
        } else {
            fill(bin_places, bins, u16::to_le_bytes);
        }
        self.shape.limit = self.shape.limit.max(number as usize + 1);
        self.shape.rows += 1;
        self.shape.entries += length;
        true
    }

    /// Adds the rows of other records of the same columns and cells; returns whether they fit.
    ///
    /// # Panics
    /// If they have other columns or cells.
    pub fn join(&mut self, other: &Self) -> bool {
        assert_eq!(
            (self.shape.columns, self.shape.cells),
            (other.shape.columns, other.shape.cells),
            "records alike"
        );
        let start = self.words.len();
        if start + other.words.len() > u32::MAX as usize {
            return false;
        }
        self.start_new_generation_if_exported();
        self.words.extend_from_slice(&other.words);
        self.shape.limit = self.shape.limit.max(other.shape.limit);
        self.shape.rows += other.shape.rows;
        self.shape.entries += other.shape.entries;
        true
    }

    fn column_bytes(&self) -> usize {
        if self.is_narrow() { 2 } else { 4 }
    }

    /// Packs one more row of unencoded values and their squared norm; returns whether it fits.
    ///
    /// # Panics
    /// If a column does not exist, or the records are of bins.
    pub fn push_values(&mut self, key: RowKey, entries: &[(u32, f64)]) -> bool {
        let squared_norm = entries.iter().map(|(_, value)| value * value).sum::<f64>() as f32;
        match self.shape.cells {
            Cells::Bins(_) => panic!("records of bins"),
            Cells::F32 => self.append(key, squared_norm, entries, |value, out| {
                out.put((value as f32).to_bits(), 4);
            }),
            Cells::F64 => self.append(key, squared_norm, entries, |value, out| {
                out.put(value.to_bits() as u32, 4);
                out.put((value.to_bits() >> 32) as u32, 4);
            }),
        }
    }

    fn append<T: Copy>(
        &mut self,
        key: RowKey,
        squared_norm: f32,
        entries: &[(u32, T)],
        put: impl Fn(T, &mut WordWriter<'_>),
    ) -> bool {
        let RowKey { number, tag } = key;
        if self.words.len() + self.size(entries.len()) > u32::MAX as usize {
            return false;
        }
        assert!(
            entries.iter().all(|(column, _)| (*column as usize) < self.shape.columns),
            "no such column"
        );
        self.start_new_generation_if_exported();
        self.words.extend([number, tag, squared_norm.to_bits(), entries.len() as u32]);
        let size = if self.is_narrow() { 2 } else { 4 };
        let mut out = WordWriter { words: &mut self.words, word: 0, filled: 0 };
        for (column, _) in entries {
            out.put(*column, size);
        }
        for (_, cell) in entries {
            put(*cell, &mut out);
        }
        out.finish();
        self.shape.limit = self.shape.limit.max(number as usize + 1);
        self.shape.rows += 1;
        self.shape.entries += entries.len();
        true
    }

    /// Removes the rows and keeps the memory; earlier orders become invalid.
    pub fn clear(&mut self) {
        self.words.clear();
        (self.shape.rows, self.shape.limit, self.shape.entries) = (0, 0, 0);
        self.is_exported = true;
        self.start_new_generation_if_exported();
    }

    /// Called before rows are added: after an export, orders of the exported rows become invalid here.
    fn start_new_generation_if_exported(&mut self) {
        if std::mem::take(&mut self.is_exported) {
            self.shape.generation = NEXT_GENERATION.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The bytes of all rows, to be stored elsewhere, and what [`Records::import`] needs with them.
    pub fn export(&mut self) -> (&[u8], RecordsMeta) {
        self.is_exported = true;
        let meta = RecordsMeta {
            words: self.words.len(),
            shape: self.shape,
            checksum: checksum(&self.words),
        };
        (bytes(&self.words), meta)
    }

    /// Replaces these records by exported ones; `fill` writes their bytes and returns whether it could. Returns
    /// whether it could and the checksum agrees; if not, there are no rows.
    pub fn import(&mut self, meta: &RecordsMeta, fill: impl FnOnce(&mut [u8]) -> bool) -> bool {
        let mut words = std::mem::take(&mut self.words);
        self.clear();
        words.resize(meta.words, 0);
        if !(fill(bytes_mut(&mut words)) && checksum(&words) == meta.checksum) {
            return false;
        }
        (self.words, self.shape) = (words, meta.shape);
        self.is_exported = true;
        true
    }

    /// Words that the record of `length` entries takes.
    pub(super) fn size(&self, length: usize) -> usize {
        HEAD + (length * self.entry_bytes()).div_ceil(4)
    }

    pub(super) fn head(&self, offset: usize) -> (RowHead, usize) {
        let head = &self.words[offset..offset + HEAD];
        let row = RowHead { row: head[0], tag: head[1], squared_norm: f32::from_bits(head[2]) };
        (row, head[3] as usize)
    }

    /// The heads of all records, in order.
    pub fn heads(&self) -> impl Iterator<Item = RowHead> + '_ {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let (row, length) = (offset < self.words.len()).then(|| self.head(offset))?;
            offset += self.size(length);
            Some(row)
        })
    }

    pub(super) fn generation(&self) -> u64 {
        self.shape.generation
    }

    /// Sets the squared norm of every row: `Σ per_bin[bin]` over its entries.
    ///
    /// # Panics
    /// If there is not one number per bin.
    pub fn set_squared_norms(&mut self, per_bin: &[f64]) {
        assert_eq!(per_bin.len(), self.bins(), "one number per bin");
        let (columns, is_bytes) = (self.column_bytes(), self.bins() <= 1 << 8);
        let mut offset = 0;
        while offset < self.words.len() {
            let length = self.words[offset + 3] as usize;
            let end = offset + self.size(length);
            let bins = &bytes(&self.words[offset + HEAD..end])[length * columns..];
            let sum = if is_bytes {
                sum4(bins[..length].iter().map(|bin| per_bin[usize::from(*bin)]))
            } else {
                let pairs = bins[..2 * length].chunks_exact(2);
                sum4(pairs.map(|pair| per_bin[usize::from(u16::from_le_bytes([pair[0], pair[1]]))]))
            };
            self.words[offset + 2] = (sum as f32).to_bits();
            offset = end;
        }
    }
}

/// Appends bytes to words, least significant byte first.
struct WordWriter<'a> {
    words: &'a mut Vec<u32>,
    word: u32,
    filled: usize,
}

impl WordWriter<'_> {
    /// Appends the lowest `bytes` (at most 4) bytes of a number whose other bytes are zero.
    fn put(&mut self, number: u32, bytes: usize) {
        let both = u64::from(self.word) | (u64::from(number) << (8 * self.filled));
        self.word = both as u32;
        self.filled += bytes;
        if self.filled >= 4 {
            self.words.push(self.word);
            self.word = (both >> 32) as u32;
            self.filled -= 4;
        }
    }

    fn finish(self) {
        if self.filled > 0 {
            self.words.push(self.word);
        }
    }
}

/// The bytes of words.
fn bytes(words: &[u32]) -> &[u8] {
    // SAFETY: any bytes of initialised words are bytes, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 4) }
}

/// The bytes of words, to be written.
fn bytes_mut(words: &mut [u32]) -> &mut [u8] {
    // SAFETY: as above; whatever is written, the words stay words.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 4) }
}

/// Writes `N` bytes of each number.
#[inline(always)]
fn fill<const N: usize, T: Copy>(places: &mut [u8], numbers: &[T], bytes: impl Fn(T) -> [u8; N]) {
    let places = &mut places.as_chunks_mut::<N>().0[..numbers.len()];
    for at in 0..numbers.len() {
        places[at] = bytes(numbers[at]);
    }
}

/// A checksum, eight words side by side.
fn checksum(words: &[u32]) -> u64 {
    let mut lanes = [0x9e37_79b9u32; 8];
    let (whole, rest) = words.as_chunks::<8>();
    for chunk in whole {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = (*lane ^ word).wrapping_mul(0x0100_0193).rotate_left(5);
        }
    }
    for (lane, word) in lanes.iter_mut().zip(rest) {
        *lane = (*lane ^ word).wrapping_mul(0x0100_0193).rotate_left(5);
    }
    let join = |sum: u64, lane: &u32| (sum ^ u64::from(*lane)).wrapping_mul(0x0100_0000_01b3);
    lanes.iter().fold(words.len() as u64, join)
}

/// Four sums over numbers `i mod 4`, then joined: a single chain would be bound by the latency of additions.
fn sum4(mut numbers: impl Iterator<Item = f64>) -> f64 {
    let mut sums = [0.0; 4];
    'all: loop {
        for sum in &mut sums {
            let Some(number) = numbers.next() else { break 'all };
            *sum += number;
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}
