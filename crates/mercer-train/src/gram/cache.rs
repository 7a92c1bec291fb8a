//! Rows of kernel values kept under a limit; the ones unused for longest go first.

use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::prelude::*;

/// Which row: a block of columns and an example.
pub(super) type Key = (u32, u32);

/// A row in segments of one length; the last may reach beyond the row.
pub(super) type Segments<T> = Vec<Vec<T>>;

/// What was computed is the same whether it was kept or not, so the cache changes time, never a result.
///
/// All segments have one length and serve again and again: rows of blocks of any length, shortened or
/// not, leave no holes in the memory of the process.
#[derive(Debug)]
pub(super) struct Cache<T> {
    entries: HashMap<Key, Entry<T>>,
    /// Keys by the time of their last use.
    order: BTreeMap<u64, Key>,
    clock: u64,
    /// Values per segment.
    segment: usize,
    free: Segments<T>,
    /// Segments there are, in rows or free, and how many there should be at most.
    count: usize,
    limit: usize,
}

#[derive(Debug)]
struct Entry<T> {
    values: Segments<T>,
    used: u64,
}

impl<T: Copy + Default + Send + Sync> Cache<T> {
    /// `limit` in bytes, `segment` in values, at least one.
    pub(super) fn new(limit: usize, segment: usize) -> Self {
        let segment = segment.max(1);
        let limit = limit / (segment * size_of::<T>());
        let (entries, order) = (HashMap::new(), BTreeMap::new());
        Self { entries, order, clock: 0, segment, free: Vec::new(), count: 0, limit }
    }

    /// Values per segment.
    pub(super) fn segment(&self) -> usize {
        self.segment
    }

    /// Marks a row as used; says whether it is there.
    pub(super) fn touch(&mut self, key: Key) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else {
            return false;
        };
        self.clock += 1;
        self.order.remove(&entry.used);
        self.order.insert(self.clock, key);
        entry.used = self.clock;
        true
    }

    pub(super) fn get(&self, key: Key) -> Option<&[Vec<T>]> {
        self.entries.get(&key).map(|entry| entry.values.as_slice())
    }

    /// Room for `count` rows of `length` values, never at the cost of the last `keep` used rows.
    pub(super) fn make_room(
        &mut self,
        count: usize,
        length: usize,
        keep: usize,
    ) -> Vec<Segments<T>> {
        let each = length.div_ceil(self.segment);
        let needed = count * each;
        let missing = |cache: &Self| needed.saturating_sub(cache.free.len());
        while self.count + missing(self) > self.limit && self.order.len() > keep {
            let Some((_, key)) = self.order.pop_first() else { break };
            if let Some(entry) = self.entries.remove(&key) {
                self.free.extend(entry.values);
            }
        }
        // New memory is touched by all threads: the system hands out pages slowly.
        let (missing, segment) = (missing(self), self.segment);
        self.count += missing;
        self.free.par_extend((0..missing).into_par_iter().map(|_| vec![T::default(); segment]));
        (0..count).map(|_| self.free.split_off(self.free.len() - each)).collect()
    }

    pub(super) fn insert(&mut self, key: Key, values: Segments<T>) {
        self.clock += 1;
        self.order.insert(self.clock, key);
        self.entries.insert(key, Entry { values, used: self.clock });
    }

    /// Keeps only some columns of the rows of a block, and only rows of these examples: the others are
    /// left out of the problem and not asked for again. Columns and examples increase.
    pub(super) fn compact(&mut self, block: u32, kept: &[u32], examples: &[u32]) {
        let examples: HashSet<u32> = examples.iter().copied().collect();
        let gone = |key: &Key| key.0 == block && !examples.contains(&key.1);
        self.forget_if(gone);
        let segment = self.segment;
        let entries = self.entries.iter_mut().filter(|(key, _)| key.0 == block);
        let entries: Vec<&mut Entry<T>> = entries.map(|(_, entry)| entry).collect();
        let freed: Vec<Segments<T>> = entries
            .into_par_iter()
            .map_init(Vec::new, |narrow: &mut Vec<T>, entry| {
                narrow.clear();
                let mut rest = kept;
                for (values, start) in entry.values.iter().zip((0..).step_by(segment)) {
                    let inside = rest.partition_point(|from| (*from as usize) < start + segment);
                    let (here, behind) = rest.split_at(inside);
                    narrow.extend(here.iter().map(|from| values[*from as usize - start]));
                    rest = behind;
                }
                for (place, values) in entry.values.iter_mut().zip(narrow.chunks(segment)) {
                    place[..values.len()].copy_from_slice(values);
                }
                entry.values.split_off(kept.len().div_ceil(segment))
            })
            .collect();
        self.free.extend(freed.into_iter().flatten());
    }

    /// Forgets all rows of a block.
    pub(super) fn forget(&mut self, block: u32) {
        self.forget_if(|key| key.0 == block);
    }

    fn forget_if(&mut self, gone: impl Fn(&Key) -> bool) {
        let keys: Vec<Key> = self.entries.keys().copied().filter(gone).collect();
        for key in keys {
            if let Some(entry) = self.entries.remove(&key) {
                self.order.remove(&entry.used);
                self.free.extend(entry.values);
            }
        }
    }

    /// Segments there should be at most.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The most bytes held at once: segments are never given back.
    pub(super) fn peak(&self) -> usize {
        self.count * self.segment * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_unused_for_longest_goes_first() {
        let mut cache = Cache::<f32>::new(3 * 4 * 2, 2);
        for row in 0..3 {
            let mut room = cache.make_room(1, 2, 0);
            cache.insert((0, row), room.pop().unwrap());
        }
        assert!(cache.touch((0, 0)));
        let mut room = cache.make_room(1, 2, 1);
        cache.insert((0, 3), room.pop().unwrap());
        assert!(cache.get((0, 1)).is_none());
        assert!(cache.get((0, 0)).is_some() && cache.get((0, 2)).is_some());
        assert_eq!(cache.peak(), 24);
    }

    #[test]
    fn compacted_rows_keep_the_named_columns_and_free_the_rest() {
        let mut cache = Cache::<f32>::new(7 * 4 * 3, 3);
        let mut room = cache.make_room(2, 7, 0);
        for (row, values) in room[0].iter_mut().flatten().zip(0u8..) {
            *row = f32::from(values);
        }
        cache.insert((1, 8), room.pop().unwrap());
        cache.insert((1, 7), room.pop().unwrap());
        let mut other = cache.make_room(1, 2, 2).pop().unwrap();
        other[0][..2].copy_from_slice(&[5.0, 6.0]);
        cache.insert((0, 7), other);
        cache.compact(1, &[1, 3, 4, 6], &[5, 7]);
        assert!(cache.get((1, 8)).is_none());
        let kept: Vec<f32> = cache.get((1, 7)).unwrap().iter().flatten().copied().collect();
        assert_eq!(kept[..4], [1.0, 3.0, 4.0, 6.0]);
        assert_eq!(cache.get((0, 7)).unwrap()[0][..2], [5.0, 6.0]);
        assert_eq!(cache.make_room(1, 12, 2)[0].len(), 4);
        assert_eq!(cache.peak(), 7 * 4 * 3, "freed segments serve again");
        cache.forget(1);
        assert!(cache.get((1, 7)).is_none() && cache.get((0, 7)).is_some());
    }
}
