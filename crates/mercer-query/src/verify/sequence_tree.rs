//! How the sequences of `anytime` hang together: side by side, or as a tree in which a sequence goes on from its parent's
//! basis. Shared by the loader and by the verification; it knows no numbers.

use mercer_machine::Section;

/// No parent.
const ROOT: u32 = u32::MAX;
/// Most steps from the root to a leaf.
const MOST_STEPS: usize = 1 << 16;

/// Parents, children and lengths of sequences.
#[derive(Debug)]
pub(crate) struct SequenceTree {
    counts: Vec<usize>,
    parents: Vec<Option<usize>>,
    children: Vec<Option<[usize; 2]>>,
    /// Steps of all ancestors.
    before: Vec<usize>,
}

impl SequenceTree {
    /// From `counts` and, where there is a tree, `parents`; none if they do not make one binary tree whose parents come
    /// before their children.
    pub(crate) fn new(section: &Section, counts: &[u32]) -> Option<Self> {
        let counts: Vec<usize> = counts.iter().map(|count| *count as usize).collect();
        let alone = vec![ROOT; counts.len()];
        let parents = section.u32s("parents").unwrap_or(&alone);
        let is_tree = section.u32s("parents").is_some();
        if parents.len() != counts.len() || (is_tree && parents.first() != Some(&ROOT)) {
            return None;
        }
        let mut tree =
            Self { counts, parents: Vec::new(), children: Vec::new(), before: Vec::new() };
        let mut found: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
        for (number, parent) in parents.iter().enumerate() {
            let parent = (*parent != ROOT).then_some(*parent as usize);
            if parent.is_some_and(|parent| parent >= number)
                || (is_tree && parent.is_none() && number > 0)
            {
                return None;
            }
            let before = parent.map_or(0, |parent| tree.before[parent] + tree.counts[parent]);
            if before + tree.counts[number] > MOST_STEPS {
                return None;
            }
            tree.before.push(before);
            tree.parents.push(parent);
            if let Some(parent) = parent {
                found[parent].push(number);
            }
        }
        for children in found {
            tree.children.push(match children[..] {
                [] => None,
                [first, second] => Some([first, second]),
                _ => return None,
            });
        }
        Some(tree)
    }

    /// Steps of all sequences.
    pub(crate) fn steps(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Entries of all rows of T.
    pub(crate) fn triangle(&self) -> usize {
        let own = self.counts.iter().zip(&self.before);
        own.map(|(count, before)| count * before + count * (count + 1) / 2).sum()
    }

    /// Steps of the ancestors of a sequence.
    pub(crate) fn before(&self, number: usize) -> usize {
        self.before[number]
    }

    /// Its parent.
    pub(crate) fn parent(&self, number: usize) -> Option<usize> {
        self.parents[number]
    }

    /// Its children.
    pub(crate) fn children(&self, number: usize) -> Option<[usize; 2]> {
        self.children[number]
    }

    /// Whether any sequence has children.
    pub(crate) fn has_splits(&self) -> bool {
        self.children.iter().any(Option::is_some)
    }

    /// The sequences from the root to this one.
    pub(crate) fn path(&self, number: usize) -> Vec<usize> {
        let mut path: Vec<usize> =
            std::iter::successors(Some(number), |node| self.parents[*node]).collect();
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_machine::Array;

    fn tree(counts: &[u32], parents: Option<&[u32]>) -> Option<SequenceTree> {
        let section = Section::new("anytime".to_owned());
        let section = match parents {
            Some(parents) => section.with("parents", Array::U32(parents.to_vec())),
            None => section,
        };
        SequenceTree::new(&section, counts)
    }

    #[test]
    fn rows_below_the_root_go_back_to_its_first_step() {
        let found = tree(&[2, 3, 1], Some(&[ROOT, 0, 0])).unwrap();
        assert_eq!((found.steps(), found.triangle()), (6, 3 + (3 + 4 + 5) + 3));
        assert_eq!((found.path(2), found.before(2)), (vec![0, 2], 2));
        assert_eq!((found.children(0), found.children(1)), (Some([1, 2]), None));
        let flat = tree(&[2, 3], None).unwrap();
        assert_eq!((flat.triangle(), flat.has_splits()), (9, false));
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        for parents in [
            &[0, 0, 0][..],
            &[ROOT, 2, 0],
            &[ROOT, ROOT, 0],
            &[ROOT, 0],
            &[ROOT, 0, 1],
            &[ROOT, 0, 0, 0],
            &[1, ROOT, 0],
        ] {
            assert!(tree(&vec![1; parents.len().max(3)], Some(parents)).is_none(), "{parents:?}");
        }
        assert!(tree(&[1 << 15, 1 << 15, 1 << 15], Some(&[ROOT, 0, 0])).is_some());
        assert!(tree(&[1 << 15, 1 << 16, 1], Some(&[ROOT, 0, 0])).is_none());
    }
}
