use std::sync::atomic::{AtomicU64, Ordering};

use super::Order;
use crate::pages::large_pages;

/// Words before the columns of a record: number, tag, own, length.
pub(super) const HEAD: usize = 4;

/// Rows packed one after the other: 16 bytes, then the columns (two or four bytes each), then the cells
/// (levels of one or two bytes, values of four or eight), to the next whole word. Columns and levels were
/// checked when they were packed.
#[derive(Debug)]
pub struct Records {
    words: Vec<u32>,
    shape: Shape,
    /// Whether other records may have the same stamp: they must not grow apart under it.
    is_sealed: bool,
}

/// What records are beside their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    rows: usize,
    /// All numbers of rows are below it.
    limit: usize,
    entries: usize,
    columns: usize,
    cells: Cells,
    stamp: u64,
}

/// What records were when their bytes were taken: with it, and with the same bytes, they can be had again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    words: usize,
    shape: Shape,
    sum: u64,
}

impl Seal {
    /// Bytes of the records.
    pub fn bytes(&self) -> usize {
        4 * self.words
    }
}

/// What stands beside a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cells {
    /// One of so many levels.
    Levels(usize),
    /// A value that a single holds.
    Singles,
    /// A value.
    Doubles,
}

/// What a record says of its row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Number of the row.
    pub row: u32,
    /// What the caller packed with it: a class, or the bits of a target.
    pub tag: u32,
    /// `Σ Φ·Ψ`, or the sum of squares, over its entries.
    pub own: f32,
}

static STAMP: AtomicU64 = AtomicU64::new(1);

impl Records {
    /// No rows yet, of so many columns and levels.
    ///
    /// # Panics
    /// If there are more than 65,536 levels or 2^32 columns.
    pub fn new(columns: usize, levels: usize) -> Self {
        assert!(levels <= 1 << 16 && columns <= 1 << 32, "too many levels or columns");
        Self::with(columns, Cells::Levels(levels))
    }

    /// No rows yet, of so many columns and of values as they are: as singles if those hold them all.
    ///
    /// # Panics
    /// If there are more than 2^32 columns.
    pub fn of_values(columns: usize, are_singles: bool) -> Self {
        assert!(columns <= 1 << 32, "too many columns");
        Self::with(columns, if are_singles { Cells::Singles } else { Cells::Doubles })
    }

    fn with(columns: usize, cells: Cells) -> Self {
        let stamp = STAMP.fetch_add(1, Ordering::Relaxed);
        let shape = Shape { rows: 0, limit: 0, entries: 0, columns, cells, stamp };
        Self { words: Vec::new(), shape, is_sealed: false }
    }

    /// Makes room for so many rows and entries in all, so that nothing is copied or wasted.
    pub fn reserve(&mut self, rows: usize, entries: usize) {
        self.words.reserve_exact(rows * HEAD + entries * self.entry_bytes() / 4 + rows);
        large_pages(self.words.as_ptr(), self.words.capacity());
    }

    /// Bytes of one entry.
    pub fn entry_bytes(&self) -> usize {
        self.column_bytes()
            + match self.shape.cells {
                Cells::Levels(levels) if levels <= 1 << 8 => 1,
                Cells::Levels(_) => 2,
                Cells::Singles => 4,
                Cells::Doubles => 8,
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

    /// What all numbers of rows are below.
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

    /// Number of levels; none where values are kept as they are.
    pub fn levels(&self) -> usize {
        match self.shape.cells {
            Cells::Levels(levels) => levels,
            Cells::Singles | Cells::Doubles => 0,
        }
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 4
    }

    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }

    /// Packs one more row under its number: the column and the level of each entry; returns whether there was room
    /// for it (16 GiB of records).
    ///
    /// # Panics
    /// If a column or level does not exist, or there is not one of each.
    pub fn push(&mut self, (number, tag): (u32, u32), columns: &[u32], levels: &[u16]) -> bool {
        let (length, start) = (columns.len(), self.words.len());
        let size = self.size(length);
        if start + size > u32::MAX as usize {
            return false;
        }
        let (column_limit, level_limit) = (self.shape.columns, self.levels());
        let unknown = |column: &u32| usize::from(*column as usize >= column_limit);
        let beyond = |level: &u16| usize::from(usize::from(*level) >= level_limit);
        let wrong =
            columns.iter().map(unknown).sum::<usize>() + levels.iter().map(beyond).sum::<usize>();
        assert!(
            wrong == 0 && levels.len() == length,
            "no such column or level, or not one of each"
        );
        self.grow();
        self.words.extend([number, tag, 0, length as u32]);
        self.words.resize(start + size, 0);
        let (is_narrow, column_bytes) = (self.is_narrow(), self.column_bytes());
        let places = bytes_mut(&mut self.words[start + HEAD..]);
        let (column_places, level_places) = places.split_at_mut(length * column_bytes);
        if is_narrow {
            fill(column_places, columns, |column| (column as u16).to_le_bytes());
        } else {
            fill(column_places, columns, u32::to_le_bytes);
        }
        if level_limit <= 1 << 8 {
            fill(level_places, levels, |level| [level as u8]);
        } else {
            fill(level_places, levels, u16::to_le_bytes);
        }
        self.shape.limit = self.shape.limit.max(number as usize + 1);
        self.shape.rows += 1;
        self.shape.entries += length;
        true
    }

    /// Adds the rows of other records of the same columns and cells; returns whether there was room.
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
        self.grow();
        self.words.extend_from_slice(&other.words);
        self.shape.limit = self.shape.limit.max(other.shape.limit);
        self.shape.rows += other.shape.rows;
        self.shape.entries += other.shape.entries;
        true
    }

    fn column_bytes(&self) -> usize {
        if self.is_narrow() { 2 } else { 4 }
    }

    /// Packs one more row of values as they are, with the sum of their squares; returns whether there was
    /// room for it.
    ///
    /// # Panics
    /// If a column does not exist, or the records are of levels.
    pub fn push_values(&mut self, named: (u32, u32), entries: &[(u32, f64)]) -> bool {
        let own = entries.iter().map(|(_, value)| value * value).sum::<f64>() as f32;
        match self.shape.cells {
            Cells::Levels(_) => panic!("records of levels"),
            Cells::Singles => self.append(named, own, entries, |value, out| {
                out.put((value as f32).to_bits(), 4);
            }),
            Cells::Doubles => self.append(named, own, entries, |value, out| {
                out.put(value.to_bits() as u32, 4);
                out.put((value.to_bits() >> 32) as u32, 4);
            }),
        }
    }

    fn append<T: Copy>(
        &mut self,
        (number, tag): (u32, u32),
        own: f32,
        entries: &[(u32, T)],
        put: impl Fn(T, &mut Bytes<'_>),
    ) -> bool {
        if self.words.len() + self.size(entries.len()) > u32::MAX as usize {
            return false;
        }
        assert!(
            entries.iter().all(|(column, _)| (*column as usize) < self.shape.columns),
            "no such column"
        );
        self.grow();
        self.words.extend([number, tag, own.to_bits(), entries.len() as u32]);
        let size = if self.is_narrow() { 2 } else { 4 };
        let mut out = Bytes { words: &mut self.words, word: 0, filled: 0 };
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

    /// Forgets the rows, keeps the memory; orders of the rows it had belong to it no longer.
    pub fn clear(&mut self) {
        self.words.clear();
        (self.shape.rows, self.shape.limit, self.shape.entries) = (0, 0, 0);
        self.is_sealed = true;
        self.grow();
    }

    /// Before rows are added: orders of records that were sealed like these belong to these no longer.
    fn grow(&mut self) {
        if std::mem::take(&mut self.is_sealed) {
            self.shape.stamp = STAMP.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The bytes of all rows, to be kept elsewhere, and what they were.
    pub fn seal(&mut self) -> (&[u8], Seal) {
        self.is_sealed = true;
        let seal = Seal { words: self.words.len(), shape: self.shape, sum: sum_of(&self.words) };
        (bytes(&self.words), seal)
    }

    /// Becomes the records whose bytes these are again; `fill` writes them and returns whether it could. Returns
    /// whether it could and they are the bytes that were sealed; if not, there are no rows.
    pub fn unseal(&mut self, seal: &Seal, fill: impl FnOnce(&mut [u8]) -> bool) -> bool {
        let mut words = std::mem::take(&mut self.words);
        self.clear();
        words.resize(seal.words, 0);
        if !(fill(bytes_mut(&mut words)) && sum_of(&words) == seal.sum) {
            return false;
        }
        (self.words, self.shape) = (words, seal.shape);
        self.is_sealed = true;
        true
    }

    /// Words that the record of `length` entries takes.
    pub(super) fn size(&self, length: usize) -> usize {
        HEAD + (length * self.entry_bytes()).div_ceil(4)
    }

    pub(super) fn entry(&self, place: usize) -> (Entry, usize) {
        let head = &self.words[place..place + HEAD];
        let entry = Entry { row: head[0], tag: head[1], own: f32::from_bits(head[2]) };
        (entry, head[3] as usize)
    }

    /// What the records say of their rows, in order.
    pub fn heads(&self) -> impl Iterator<Item = Entry> + '_ {
        let mut place = 0;
        std::iter::from_fn(move || {
            let (entry, length) = (place < self.words.len()).then(|| self.entry(place))?;
            place += self.size(length);
            Some(entry)
        })
    }

    /// These rows, by their numbers, in this order, the first `active` of them at work; none if one does not
    /// exist or stands twice.
    pub fn order_of(&self, numbers: &[u32], active: usize) -> Option<Order> {
        let mut place_of = vec![u32::MAX; self.shape.limit];
        let mut place = 0;
        while place < self.words.len() {
            let (entry, length) = self.entry(place);
            place_of[entry.row as usize] = place as u32;
            place += self.size(length);
        }
        let mut take = |number: &u32| {
            let place = std::mem::replace(place_of.get_mut(*number as usize)?, u32::MAX);
            (place != u32::MAX).then_some(place)
        };
        let places = numbers.iter().map(&mut take).collect::<Option<Vec<u32>>>()?;
        (active <= places.len()).then_some(Order { places, active, stamp: self.shape.stamp })
    }

    /// The numbers of the rows of an order, those at rest last.
    ///
    /// # Panics
    /// If the order is one of other records.
    pub fn numbers(&self, order: &Order) -> Vec<u32> {
        assert_eq!(order.stamp, self.shape.stamp, "an order of other records");
        order.places.iter().map(|place| self.words[*place as usize]).collect()
    }

    /// The rows that `keep` wants, in their own order, all at work.
    pub fn order(&self, keep: impl FnMut(Entry) -> bool) -> Order {
        let mut places = Vec::with_capacity(self.shape.rows);
        large_pages(places.as_ptr(), places.capacity());
        self.gather(keep, &mut places);
        places.shrink_to_fit();
        Order { active: places.len(), places, stamp: self.shape.stamp }
    }

    /// Makes an order what [`Records::order`] would make, in the memory that it has.
    ///
    /// # Panics
    /// If the order is one of other records.
    pub fn order_again(&self, order: &mut Order, keep: impl FnMut(Entry) -> bool) {
        assert_eq!(order.stamp, self.shape.stamp, "an order of other records");
        order.places.clear();
        self.gather(keep, &mut order.places);
        order.active = order.places.len();
    }

    fn gather(&self, mut keep: impl FnMut(Entry) -> bool, places: &mut Vec<u32>) {
        let mut place = 0;
        while place < self.words.len() {
            let (entry, length) = self.entry(place);
            if keep(entry) {
                places.push(place as u32);
            }
            place += self.size(length);
        }
    }

    pub(super) fn stamp(&self) -> u64 {
        self.shape.stamp
    }

    /// Gives every row `Σ own[level]` over its entries.
    ///
    /// # Panics
    /// If there is not one number per level.
    pub fn set_own(&mut self, own: &[f64]) {
        assert_eq!(own.len(), self.levels(), "one number per level");
        let (columns, is_bytes) = (self.column_bytes(), self.levels() <= 1 << 8);
        let mut place = 0;
        while place < self.words.len() {
            let length = self.words[place + 3] as usize;
            let end = place + self.size(length);
            let levels = &bytes(&self.words[place + HEAD..end])[length * columns..];
            let sum = if is_bytes {
                sum4(levels[..length].iter().map(|level| own[usize::from(*level)]))
            } else {
                let pairs = levels[..2 * length].chunks_exact(2);
                sum4(pairs.map(|pair| own[usize::from(u16::from_le_bytes([pair[0], pair[1]]))]))
            };
            self.words[place + 2] = (sum as f32).to_bits();
            place = end;
        }
    }
}

/// Bytes appended to words, little end first.
struct Bytes<'a> {
    words: &'a mut Vec<u32>,
    word: u32,
    filled: usize,
}

impl Bytes<'_> {
    /// Appends the lowest `bytes` (at most 4) bytes of a number that has no others.
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

/// Words as the bytes they are.
fn bytes(words: &[u32]) -> &[u8] {
    // SAFETY: any bytes of initialised words are bytes, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 4) }
}

/// Words as the bytes they are, to be written.
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

/// A sum that any changed word changes, eight words side by side.
fn sum_of(words: &[u32]) -> u64 {
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

/// Four sums over numbers `i mod 4`, joined: one chain would wait for itself.
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
