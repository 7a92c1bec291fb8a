//! Rows of kernel values kept under a limit; the ones unused for longest go first.

use std::collections::HashSet;

use rayon::prelude::*;

/// Which row: a block of columns and an example.
pub(super) type Key = (u32, u32);

/// A row in segments of one length; the last may reach beyond the row.
pub(super) type Segments<T> = Vec<Vec<T>>;

/// No entry.
const NONE: u32 = u32::MAX;

/// What was computed is the same whether it was kept or not, so the cache changes time, never a result.
///
/// All segments have one length and serve again and again: rows of blocks of any length, shortened or
/// not, leave no holes in the memory of the process. Rows are found by their numbers and form a list in the
/// order of their last use: a solver asks for thousands of rows in a millisecond.
#[derive(Debug)]
pub(super) struct Cache<T> {
    /// The entry of each block and example, as far as they were asked for.
    places: Vec<Vec<u32>>,
    entries: Vec<Entry<T>>,
    /// Entries that hold no row.
    vacant: Vec<u32>,
    /// Both ends of the list.
    oldest: u32,
    newest: u32,
    /// Values per segment.
    segment: usize,
    free: Segments<T>,
    /// Segments there are, in rows or free, and how many there should be at most.
    count: usize,
    limit: usize,
}

#[derive(Debug)]
struct Entry<T> {
    key: Key,
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
            places: Vec::new(),
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

    fn find(&self, (block, example): Key) -> Option<u32> {
        let place = self.places.get(block as usize)?.get(example as usize)?;
        (*place != NONE).then_some(*place)
    }

    /// Marks a row as used; says whether it is there.
    pub(super) fn touch(&mut self, key: Key) -> bool {
        let Some(entry) = self.find(key) else {
            return false;
        };
        self.unlink(entry);
        self.link(entry);
        true
    }

    pub(super) fn get(&self, key: Key) -> Option<&[Vec<T>]> {
        self.find(key).map(|entry| self.entries[entry as usize].values.as_slice())
    }

    /// Takes an entry out of the list.
    fn unlink(&mut self, entry: u32) {
        let Entry { older, newer, .. } = self.entries[entry as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
    }

    /// Puts an entry at the new end of the list.
    fn link(&mut self, entry: u32) {
        let last = std::mem::replace(&mut self.newest, entry);
        (self.entries[entry as usize].older, self.entries[entry as usize].newer) = (last, NONE);
        match last {
            NONE => self.oldest = entry,
            _ => self.entries[last as usize].newer = entry,
        }
    }

    /// Forgets a row; its segments serve again.
    fn forget_entry(&mut self, entry: u32) {
        self.unlink(entry);
        let (block, example) = self.entries[entry as usize].key;
        self.places[block as usize][example as usize] = NONE;
        self.free.append(&mut self.entries[entry as usize].values);
        self.vacant.push(entry);
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
        let kept = |cache: &Self| cache.entries.len() - cache.vacant.len();
        while self.count + missing(self) > self.limit && kept(self) > keep && self.oldest != NONE {
            self.forget_entry(self.oldest);
        }
        // New memory is touched by all threads: the system hands out pages slowly.
        let (missing, segment) = (missing(self), self.segment);
        self.count += missing;
        self.free.par_extend((0..missing).into_par_iter().map(|_| vec![T::default(); segment]));
        (0..count).map(|_| self.free.split_off(self.free.len() - each)).collect()
    }

    /// Keeps a row that is not there.
    pub(super) fn insert(&mut self, key: Key, values: Segments<T>) {
        let new = Entry { key, values, older: NONE, newer: NONE };
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
        if self.places.len() <= block {
            self.places.resize_with(block + 1, Vec::new);
        }
        let places = &mut self.places[block];
        if places.len() <= example {
            places.resize(example + 1, NONE);
        }
        places[example] = entry;
        self.link(entry);
    }

    /// Keeps only some columns of the rows of a block, and only rows of these examples: the others are
    /// left out of the problem and not asked for again. Columns and examples increase.
    pub(super) fn compact(&mut self, block: u32, kept: &[u32], examples: &[u32]) {
        let examples: HashSet<u32> = examples.iter().copied().collect();
        self.forget_if(block, |example| !examples.contains(&example));
        let segment = self.segment;
        // Vacant entries have no segments.
        let entries = self.entries.iter_mut().filter(|entry| entry.key.0 == block);
        let entries: Vec<&mut Entry<T>> = entries.collect();
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
                entry.values.split_off(kept.len().div_ceil(segment).min(entry.values.len()))
            })
            .collect();
        self.free.extend(freed.into_iter().flatten());
    }

    /// Forgets all rows of a block.
    pub(super) fn forget(&mut self, block: u32) {
        self.forget_if(block, |_| true);
    }

    fn forget_if(&mut self, block: u32, gone: impl Fn(u32) -> bool) {
        let places = self.places.get(block as usize).map_or(&[][..], Vec::as_slice);
        let entries: Vec<u32> = (0u32..)
            .zip(places)
            .filter(|(example, entry)| **entry != NONE && gone(*example))
            .map(|(_, entry)| *entry)
            .collect();
        entries.into_iter().for_each(|entry| self.forget_entry(entry));
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
