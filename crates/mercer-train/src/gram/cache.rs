//! Rows of kernel values kept under a limit; the ones unused for longest go first.

use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::prelude::*;

/// Which row: a block of columns and an example.
pub(super) type Key = (u32, u32);

/// What was computed is the same whether it was kept or not, so the cache changes time, never a result.
#[derive(Debug)]
pub(super) struct Cache<T> {
    entries: HashMap<Key, Entry<T>>,
    /// Keys by the time of their last use.
    order: BTreeMap<u64, Key>,
    clock: u64,
    bytes: usize,
    peak: usize,
    limit: usize,
}

#[derive(Debug)]
struct Entry<T> {
    values: Vec<T>,
    used: u64,
}

impl<T: Copy + Default + Send> Cache<T> {
    pub(super) fn new(limit: usize) -> Self {
        let (entries, order) = (HashMap::new(), BTreeMap::new());
        Self { entries, order, clock: 0, bytes: 0, peak: 0, limit }
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

    pub(super) fn get(&self, key: Key) -> Option<&[T]> {
        self.entries.get(&key).map(|entry| entry.values.as_slice())
    }

    /// Makes room for `count` rows of `length` values, never at the cost of the last `keep` used rows.
    /// Returns buffers of that length, those of forgotten rows where they fit.
    pub(super) fn make_room(&mut self, count: usize, length: usize, keep: usize) -> Vec<Vec<T>> {
        let needed = count * length * size_of::<T>();
        let mut buffers = Vec::with_capacity(count);
        while self.bytes + needed > self.limit && self.order.len() > keep {
            let Some((_, key)) = self.order.pop_first() else { break };
            if let Some(entry) = self.entries.remove(&key) {
                self.bytes -= entry.values.len() * size_of::<T>();
                if entry.values.len() == length && buffers.len() < count {
                    buffers.push(entry.values);
                }
            }
        }
        // New memory is touched by all threads: the system hands out pages slowly.
        let missing = count - buffers.len();
        buffers.par_extend((0..missing).into_par_iter().map(|_| vec![T::default(); length]));
        buffers
    }

    pub(super) fn insert(&mut self, key: Key, values: Vec<T>) {
        self.clock += 1;
        self.bytes += values.len() * size_of::<T>();
        self.peak = self.peak.max(self.bytes);
        self.order.insert(self.clock, key);
        self.entries.insert(key, Entry { values, used: self.clock });
    }

    /// Keeps only some columns of the rows of a block, and only rows of these examples: the others are
    /// left out of the problem and not asked for again. Columns and examples increase.
    pub(super) fn compact(&mut self, block: u32, kept: &[u32], examples: &[u32]) {
        let examples: HashSet<u32> = examples.iter().copied().collect();
        let gone = |key: &Key| key.0 == block && !examples.contains(&key.1);
        self.forget_if(gone);
        let entries = self.entries.iter_mut().filter(|(key, _)| key.0 == block);
        let entries: Vec<&mut Entry<T>> = entries.map(|(_, entry)| entry).collect();
        let freed: usize = entries
            .into_par_iter()
            .map(|entry| {
                let freed = entry.values.len() - kept.len();
                // A new buffer: cutting the old one leaves a hole that no later row fits.
                entry.values = kept.iter().map(|from| entry.values[*from as usize]).collect();
                freed
            })
            .sum();
        self.bytes -= freed * size_of::<T>();
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
                self.bytes -= entry.values.len() * size_of::<T>();
            }
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The most bytes held at once.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_unused_for_longest_goes_first() {
        let mut cache = Cache::<f32>::new(3 * 4 * 2);
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
    fn compacted_rows_keep_the_named_columns() {
        let mut cache = Cache::<f32>::new(1000);
        cache.insert((1, 7), vec![1.0, 2.0, 3.0, 4.0]);
        cache.insert((0, 7), vec![5.0, 6.0]);
        cache.insert((1, 8), vec![0.0; 4]);
        cache.compact(1, &[1, 3], &[5, 7]);
        assert!(cache.get((1, 8)).is_none());
        assert_eq!(cache.get((1, 7)), Some(&[2.0, 4.0][..]));
        assert_eq!(cache.get((0, 7)), Some(&[5.0, 6.0][..]));
        cache.forget(1);
        assert!(cache.get((1, 7)).is_none() && cache.get((0, 7)).is_some());
    }
}
