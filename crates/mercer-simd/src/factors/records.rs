use std::sync::atomic::{AtomicU64, Ordering};

/// Words before the columns of a record: number, tag, own, length.
pub(super) const HEAD: usize = 4;

/// Rows packed one after the other: 16 bytes, then the columns (two or four bytes each), then the levels
/// (one or two bytes each), to the next whole word. Columns and levels were checked when they were packed.
#[derive(Debug)]
pub struct Records {
    words: Vec<u32>,
    rows: usize,
    entries: usize,
    columns: usize,
    levels: usize,
    stamp: u64,
}

/// What a record says of its row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Position of the row.
    pub row: u32,
    /// What the caller packed with it: a class, or the bits of a target.
    pub tag: u32,
    /// `Σ Φ·Ψ` over its entries.
    pub own: f32,
}

/// Some rows of one set of records in some order; the first `len` of them are at work.
#[derive(Debug, Clone)]
pub struct Order {
    pub(super) places: Vec<u32>,
    pub(super) active: usize,
    pub(super) stamp: u64,
}

static STAMP: AtomicU64 = AtomicU64::new(1);

impl Records {
    /// No rows yet, of so many columns and levels.
    ///
    /// # Panics
    /// If there are more than 65,536 levels or 2^32 columns.
    pub fn new(columns: usize, levels: usize) -> Self {
        assert!(levels <= 1 << 16 && columns <= 1 << 32, "too many levels or columns");
        let stamp = STAMP.fetch_add(1, Ordering::Relaxed);
        Self { words: Vec::new(), rows: 0, entries: 0, columns, levels, stamp }
    }

    /// Makes room for so many rows and entries in all, so that nothing is copied or wasted.
    pub fn reserve(&mut self, rows: usize, entries: usize) {
        self.words.reserve_exact(rows * HEAD + entries * self.entry_bytes() / 4 + rows);
    }

    /// Bytes of one entry.
    pub fn entry_bytes(&self) -> usize {
        let column = if self.is_narrow() { 2 } else { 4 };
        column + if self.has_bytes() { 1 } else { 2 }
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.columns <= 1 << 16
    }

    pub(super) fn has_bytes(&self) -> bool {
        self.levels <= 1 << 8
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of entries of all rows.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 4
    }

    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }

    /// Packs one more row; returns whether there was room for it (16 GiB of records).
    ///
    /// # Panics
    /// If a column or level does not exist.
    pub fn push(&mut self, tag: u32, own: f32, entries: &[(u32, u16)]) -> bool {
        if self.words.len() + HEAD + entries.len() * 2 > u32::MAX as usize {
            return false;
        }
        let fits = |(column, level): &(u32, u16)| {
            (*column as usize) < self.columns && usize::from(*level) < self.levels
        };
        assert!(entries.iter().all(fits), "no such column or level");
        let number = u32::try_from(self.rows).expect("rows fit where words fit");
        self.words.extend([number, tag, own.to_bits(), entries.len() as u32]);
        let mut out = Bytes { words: &mut self.words, word: 0, filled: 0 };
        let (narrow, bytes) = (self.columns <= 1 << 16, self.levels <= 1 << 8);
        for (column, _) in entries {
            let size = if narrow { 2 } else { 4 };
            out.put(&column.to_le_bytes()[..size]);
        }
        for (_, level) in entries {
            let size = if bytes { 1 } else { 2 };
            out.put(&level.to_le_bytes()[..size]);
        }
        out.finish();
        self.rows += 1;
        self.entries += entries.len();
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

    /// The rows that `keep` wants, in their own order, all at work.
    pub fn order(&self, mut keep: impl FnMut(Entry) -> bool) -> Order {
        let mut places = Vec::with_capacity(self.rows);
        let mut place = 0;
        while place < self.words.len() {
            let (entry, length) = self.entry(place);
            if keep(entry) {
                places.push(place as u32);
            }
            place += self.size(length);
        }
        places.shrink_to_fit();
        Order { active: places.len(), places, stamp: self.stamp }
    }

    /// Rows of an order, in its order, those at rest included.
    ///
    /// # Panics
    /// If the order belongs to other records.
    pub fn rows_of(&self, order: &Order) -> Vec<u32> {
        assert_eq!(order.stamp, self.stamp, "an order of other records");
        order.places.iter().map(|place| self.words[*place as usize]).collect()
    }

    /// The order with these rows, of which the first `active` are at work; `None` if it is none of theirs.
    pub fn order_of(&self, rows: &[u32], active: usize) -> Option<Order> {
        let all = self.order(|_| true).places;
        let places: Option<Vec<u32>> =
            rows.iter().map(|row| all.get(*row as usize).copied()).collect();
        let places = places.filter(|_| active <= rows.len())?;
        Some(Order { places, active, stamp: self.stamp })
    }

    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Gives every row `Σ own[level]` over its entries.
    ///
    /// # Panics
    /// If there is not one number per level.
    pub fn set_own(&mut self, own: &[f64]) {
        assert_eq!(own.len(), self.levels, "one number per level");
        let (columns, bytes) = (if self.is_narrow() { 2 } else { 4 }, self.has_bytes());
        let mut place = 0;
        while place < self.words.len() {
            let length = self.words[place + 3] as usize;
            let start = 4 * (place + HEAD) + length * columns;
            let byte = |at: usize| (self.words[at / 4] >> (8 * (at % 4))) & 0xff;
            let level = |i: usize| {
                if bytes {
                    byte(start + i) as usize
                } else {
                    (byte(start + 2 * i) | (byte(start + 2 * i + 1) << 8)) as usize
                }
            };
            let sum: f64 = (0..length).map(|i| own[level(i)]).sum();
            self.words[place + 2] = (sum as f32).to_bits();
            place += self.size(length);
        }
    }

    /// Columns and levels of all rows, for whoever wants to look.
    pub fn for_each(&self, mut see: impl FnMut(Entry, &[(u32, u16)])) {
        let mut entries = Vec::new();
        let mut place = 0;
        while place < self.words.len() {
            let (entry, length) = self.entry(place);
            entries.clear();
            let at = |byte: usize| (self.words[place + HEAD + byte / 4] >> (8 * (byte % 4))) & 0xff;
            let column_bytes = if self.is_narrow() { 2 } else { 4 };
            let level_bytes = self.entry_bytes() - column_bytes;
            let number = |start: usize, bytes: usize| {
                (0..bytes).fold(0u32, |sum, byte| sum | (at(start + byte) << (8 * byte)))
            };
            for i in 0..length {
                let column = number(i * column_bytes, column_bytes);
                let level = number(length * column_bytes + i * level_bytes, level_bytes);
                entries.push((column, level as u16));
            }
            see(entry, &entries);
            place += self.size(length);
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
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.word |= u32::from(*byte) << (8 * self.filled);
            self.filled += 1;
            if self.filled == 4 {
                self.words.push(self.word);
                (self.word, self.filled) = (0, 0);
            }
        }
    }

    fn finish(self) {
        if self.filled > 0 {
            self.words.push(self.word);
        }
    }
}

impl Order {
    /// Rows at work.
    pub fn len(&self) -> usize {
        self.active
    }

    /// Whether none is at work.
    pub fn is_empty(&self) -> bool {
        self.active == 0
    }

    /// All rows, those at rest included.
    pub fn all(&self) -> usize {
        self.places.len()
    }

    /// Puts all rows to work again.
    pub fn restore(&mut self) {
        self.active = self.places.len();
    }

    /// Shuffles the rows at work; `below(n)` gives a number below `n`.
    pub fn shuffle(&mut self, mut below: impl FnMut(u32) -> u32) {
        for at in 0..self.active {
            let other = at + below((self.active - at) as u32) as usize;
            self.places.swap(at, other.min(self.active - 1));
        }
    }
}
