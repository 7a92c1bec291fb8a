//! What a model of this library was when it was packed, and whether it still is that: all numbers and addresses at each
//! prediction, the supports themselves a part at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fingerprint::folded;
use crate::layout::{Fields, svm_node};
use crate::memory;

/// Supports whose first entry is compared at each prediction, so that a change of all of them is noticed at once.
const PROBES: usize = 16;
/// Entries of supports, at least, that are compared at each prediction, one support after the other.
const ENTRIES: usize = 64;

/// Odd numbers without a pattern.
const KEYS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x243f_6a88_85a3_08d3];

/// The members of a model and digests of its supports.
#[derive(Debug)]
pub(crate) struct Snapshot {
    head: [u64; 7],
    rho: Vec<u64>,
    per_class: Vec<i32>,
    coefficients: Vec<Vec<u64>>,
    /// Addresses of the rows.
    supports: Vec<usize>,
    digests: Vec<u64>,
    probes: [u64; PROBES],
    /// The support that is compared next.
    next: AtomicUsize,
}

/// Type, kernel and sizes.
fn head(fields: &Fields) -> [u64; 7] {
    let param = &fields.param;
    [
        param.svm_type as u64,
        param.kernel_type as u64,
        param.degree as u64,
        param.gamma.to_bits(),
        param.coef0.to_bits(),
        fields.classes as u64,
        fields.count as u64,
    ]
}

/// The numbers as they lie in memory: equal bits are compared faster than equal numbers, and NaN equals itself.
fn bits(values: &[f64]) -> &[u64] {
    // SAFETY: both have the same size and alignment, and every value of one is one of the other.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

/// Addresses of rows as numbers, which are compared faster than pointers.
fn addresses(supports: &[*mut svm_node]) -> &[usize] {
    // SAFETY: both have the same size and alignment; the numbers are only compared.
    unsafe { std::slice::from_raw_parts(supports.as_ptr().cast(), supports.len()) }
}

/// A sum, so that the processor works on several entries at a time.
fn digest(row: &[svm_node]) -> u64 {
    let of_node =
        |node: &svm_node| folded(KEYS[0] ^ node.index as u64, KEYS[1] ^ node.value.to_bits());
    row.iter().map(of_node).fold(row.len() as u64, u64::wrapping_add)
}

/// The first entries of some supports, all over the model.
///
/// # Safety
/// The supports are null or have an end.
unsafe fn probes(supports: &[*mut svm_node]) -> [u64; PROBES] {
    std::array::from_fn(|probe| {
        let row = supports.get(probe * supports.len() / PROBES);
        // SAFETY: as the caller of this function promises, there is an entry.
        let first = row.and_then(|row| unsafe { row.as_ref() });
        first.map_or(0, |node| digest(std::slice::from_ref(node)))
    })
}

impl Snapshot {
    /// # Safety
    /// The members of the model are null or point to as much as LIBSVM's README says; every row has an end.
    pub(crate) unsafe fn new(fields: &Fields) -> Self {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let supports = memory::slice(fields.supports, fields.count);
            Self {
                head: head(fields),
                rho: bits(fields.rho()).to_vec(),
                per_class: fields.per_class().to_vec(),
                coefficients: fields.coefficients().map(|array| bits(array).to_vec()).collect(),
                supports: addresses(supports).to_vec(),
                digests: supports.iter().map(|row| digest(memory::nodes(*row))).collect(),
                probes: probes(supports),
                next: AtomicUsize::new(0),
            }
        }
    }

    /// Whether the model is still what it was, as far as this call looks: at all members, all numbers but those of the
    /// supports, the first entries of some supports, and all entries of a few supports, other ones at each call.
    ///
    /// # Safety
    /// As [`Snapshot::new`].
    pub(crate) unsafe fn is_of(&self, fields: &Fields) -> bool {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let supports = memory::slice(fields.supports, fields.count);
            self.head == head(fields)
                && self.rho == bits(fields.rho())
                && self.per_class == fields.per_class()
                && self.supports == addresses(supports)
                && fields.coefficients().map(bits).eq(self.coefficients.iter().map(Vec::as_slice))
                && self.probes == probes(supports)
                && self.next_are_same(supports)
        }
    }

    /// Compares the next few supports.
    ///
    /// # Safety
    /// As [`Snapshot::new`]; the supports are as many as they were.
    unsafe fn next_are_same(&self, supports: &[*mut svm_node]) -> bool {
        let (mut at, mut entries) = (self.next.load(Ordering::Relaxed), 0);
        for _ in 0..supports.len() {
            // SAFETY: as the caller of this function promises.
            let row = unsafe { memory::nodes(supports[at]) };
            if digest(row) != self.digests[at] {
                return false;
            }
            at = (at + 1) % supports.len();
            entries += row.len() + 1;
            if entries >= ENTRIES {
                break;
            }
        }
        self.next.store(at, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_row_counts() {
        let row = [svm_node { index: 1, value: 0.5 }, svm_node { index: 7, value: -2.0 }];
        assert_eq!(digest(&row), digest(&row.clone()));
        assert_ne!(digest(&row), digest(&row[..1]));
        for place in 0..row.len() {
            for bit in 0..64 {
                let mut changed = row;
                changed[place].value = f64::from_bits(changed[place].value.to_bits() ^ 1 << bit);
                assert_ne!(digest(&row), digest(&changed), "value {place}, bit {bit}");
            }
            for bit in 0..31 {
                let mut changed = row;
                changed[place].index ^= 1 << bit;
                assert_ne!(digest(&row), digest(&changed), "index {place}, bit {bit}");
            }
        }
    }
}
