//! A cache of kernel rows under a memory limit, with least-recently-used eviction.
//!
//! It does not compute rows (`columns.rs` does).

use std::collections::HashSet;

use rayon::prelude::*;

/// A row: the number of a block of columns and the example.
pub(super) type RowKey = (u32, u32);

/// A row in segments of equal length; the last one may be longer than needed.
pub(super) type Segments<T> = Vec<Vec<T>>;

/// Marks a missing entry.
const NONE: u32 = u32::MAX;

/// Cached kernel rows. A row has the same bits whether it was cached or not, so the cache changes run time only.
///
/// All segments have the same length and are reused, so rows of different lengths do not fragment memory. Entries are
/// found by index and linked in the order of their last use: a solver asks for thousands of rows per millisecond.
#[derive(Debug)]
pub(super) struct Cache<T> {
    /// The entry of each block and example, [`NONE`] if it is not cached.
    entry_of: Vec<Vec<u32>>,
    entries: Vec<CacheEntry<T>>,
    /// Indices of unused entries.
    vacant: Vec<u32>,
    /// Both ends of the list of entries.
    oldest: u32,
    newest: u32,
    /// Values per segment.
    segment: usize,
    free: Segments<T>,
    /// Number of allocated segments, used or free, and their limit.
    count: usize,
    limit: usize,
}

#[derive(Debug)]
struct CacheEntry<T> {
    key: RowKey,
    values: Segments<T>,
    /// Neighbours in the list.
    older: u32,
    newer: u32,
}

impl<T: Copy + Default + Send + Sync> Cache<T> {
    /// `limit` in bytes, `segment` in values, at least one.
    pub(super) fn new(limit: usize, segment: usize) -> Self {
        let segment = segment.max(1);
        let limit = limit / (segment * size_of::<T>());
        Self {
            entry_of: Vec::new(),
            entries: Vec::new(),
            vacant: Vec::new(),
            oldest: NONE,
            newest: NONE,
            segment,
            free: Vec::new(),
            count: 0,
            limit,
        }
    }

    /// Values per segment.
    pub(super) fn segment(&self) -> usize {
        self.segment
    }

    fn find(&self, key: RowKey) -> Option<u32> {
        let (block, example) = key;
        let entry = self.entry_of.get(block as usize)?.get(example as usize)?;
        (*entry != NONE).then_some(*entry)
    }

    /// Marks a row as used; returns whether it is cached.
    pub(super) fn touch(&mut self, key: RowKey) -> bool {
        let Some(entry) = self.find(key) else {
            return false;
        };
        self.unlink(entry);
        self.link(entry);
        true
    }

    pub(super) fn get(&self, key: RowKey) -> Option<&[Vec<T>]> {
        self.find(key).map(|entry| self.entries[entry as usize].values.as_slice())
    }

    /// Removes an entry from the list.
    fn unlink(&mut self, entry: u32) {
        let CacheEntry { older, newer, .. } = self.entries[entry as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
    }

    /// Appends an entry as the newest of the list.
    fn link(&mut self, entry: u32) {
        let last = std::mem::replace(&mut self.newest, entry);
        (self.entries[entry as usize].older, self.entries[entry as usize].newer) = (last, NONE);
        match last {
            NONE => self.oldest = entry,
            _ => self.entries[last as usize].newer = entry,
        }
    }

    /// Removes a row; its segments can be reused.
    fn remove_entry(&mut self, entry: u32) {
        self.unlink(entry);
        let (block, example) = self.entries[entry as usize].key;
        self.entry_of[block as usize][example as usize] = NONE;
        self.free.append(&mut self.entries[entry as usize].values);
        self.vacant.push(entry);
    }

    /// Segments for `count` rows of `length` values. Old rows are evicted, but never the `keep` most recently used.
    pub(super) fn allocate(
        &mut self,
        count: usize,
        length: usize,
        keep: usize,
    ) -> Vec<Segments<T>> {
        let each = length.div_ceil(self.segment);
        let needed = count * each;
        let missing = |cache: &Self| needed.saturating_sub(cache.free.len());
        let cached = |cache: &Self| cache.entries.len() - cache.vacant.len();
        while self.count + missing(self) > self.limit && cached(self) > keep && self.oldest != NONE
        {
            self.remove_entry(self.oldest);
        }
        // All threads touch new memory, because the system is slow to hand out pages.
        let (missing, segment) = (missing(self), self.segment);
        self.count += missing;
        self.free.par_extend((0..missing).into_par_iter().map(|_| vec![T::default(); segment]));
        (0..count).map(|_| self.free.split_off(self.free.len() - each)).collect()
    }

    /// Adds a row that is not cached.
    pub(super) fn insert(&mut self, key: RowKey, values: Segments<T>) {
        let new = CacheEntry { key, values, older: NONE, newer: NONE };
        let entry = match self.vacant.pop() {
            Some(entry) => {
                self.entries[entry as usize] = new;
                entry
            }
            None => {
                self.entries.push(new);
                self.entries.len() as u32 - 1
            }
        };
        let (block, example) = (key.0 as usize, key.1 as usize);
        if self.entry_of.len() <= block {
            self.entry_of.resize_with(block + 1, Vec::new);
        }
        let entries = &mut self.entry_of[block];
        if entries.len() <= example {
            entries.resize(example + 1, NONE);
        }
        entries[example] = entry;
        self.link(entry);
    }

    /// Keeps only some columns of the rows of a block, and only rows of these examples (shrinking). Columns and
    /// examples are in increasing order.
    pub(super) fn compact(&mut self, block: u32, kept: &[u32], examples: &[u32]) {
        let examples: HashSet<u32> = examples.iter().copied().collect();
        self.remove_if(block, |example| !examples.contains(&example));
        let segment = self.segment;
        // Vacant entries have no segments.
        let entries = self.entries.iter_mut().filter(|entry| entry.key.0 == block);
        let entries: Vec<&mut CacheEntry<T>> = entries.collect();
        let freed: Vec<Segments<T>> = entries
            .into_par_iter()
            .map_init(Vec::new, |narrow: &mut Vec<T>, entry| {
                narrow.clear();
                let mut rest = kept;
                for (values, start) in entry.values.iter().zip((0..).step_by(segment)) {
                    let inside = rest.partition_point(|from| (*from as usize) < start + segment);
                    let (here, later) = rest.split_at(inside);
                    narrow.extend(here.iter().map(|from| values[*from as usize - start]));
                    rest = later;
                }
                for (out, values) in entry.values.iter_mut().zip(narrow.chunks(segment)) {
                    out[..values.len()].copy_from_slice(values);
                }
                entry.values.split_off(kept.len().div_ceil(segment).min(entry.values.len()))
            })
            .collect();
        self.free.extend(freed.into_iter().flatten());
    }

    /// Removes all rows of a block.
    pub(super) fn remove_block(&mut self, block: u32) {
        self.remove_if(block, |_| true);
    }

    fn remove_if(&mut self, block: u32, remove: impl Fn(u32) -> bool) {
        let entry_of = self.entry_of.get(block as usize).map_or(&[][..], Vec::as_slice);
        let entries: Vec<u32> = (0u32..)
            .zip(entry_of)
            .filter(|(example, entry)| **entry != NONE && remove(*example))
            .map(|(_, entry)| *entry)
            .collect();
        entries.into_iter().for_each(|entry| self.remove_entry(entry));
    }

    /// Limit of allocated segments.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Peak bytes: segments are never freed.
    pub(super) fn peak(&self) -> usize {
        self.count * self.segment * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_row_is_evicted_first() {
        let mut cache = Cache::<f32>::new(3 * 4 * 2, 2);
        for row in 0..3 {
            let mut rows = cache.allocate(1, 2, 0);
            cache.insert((0, row), rows.pop().unwrap());
        }
        assert!(cache.touch((0, 0)));
        let mut rows = cache.allocate(1, 2, 1);
        cache.insert((0, 3), rows.pop().unwrap());
        assert!(cache.get((0, 1)).is_none());
        assert!(cache.get((0, 0)).is_some() && cache.get((0, 2)).is_some());
        assert_eq!(cache.peak(), 24);
    }

    #[test]
    fn compacted_rows_keep_the_named_columns_and_free_the_rest() {
        let mut cache = Cache::<f32>::new(7 * 4 * 3, 3);
        let mut rows = cache.allocate(2, 7, 0);
        for (value, number) in rows[0].iter_mut().flatten().zip(0u8..) {
            *value = f32::from(number);
        }
        cache.insert((1, 8), rows.pop().unwrap());
        cache.insert((1, 7), rows.pop().unwrap());
        let mut other = cache.allocate(1, 2, 2).pop().unwrap();
        other[0][..2].copy_from_slice(&[5.0, 6.0]);
        cache.insert((0, 7), other);
        cache.compact(1, &[1, 3, 4, 6], &[5, 7]);
        assert!(cache.get((1, 8)).is_none());
        let kept: Vec<f32> = cache.get((1, 7)).unwrap().iter().flatten().copied().collect();
        assert_eq!(kept[..4], [1.0, 3.0, 4.0, 6.0]);
        assert_eq!(cache.get((0, 7)).unwrap()[0][..2], [5.0, 6.0]);
        assert_eq!(cache.allocate(1, 12, 2)[0].len(), 4);
        assert_eq!(cache.peak(), 7 * 4 * 3, "freed segments are reused");
        cache.remove_block(1);
        assert!(cache.get((1, 7)).is_none() && cache.get((0, 7)).is_some());
    }
}
