//! Fingerprints of models that callers built: 128 bits of what a prediction depends on. Two models with the same fingerprint are taken for
//! one; no address alone decides that.

use crate::layout::Fields;
use crate::memory;

/// 128 bits, from two sums of products of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u64; 2]);

/// Odd numbers without a pattern (digits of the golden ratio and of π).
const KEYS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];

/// Takes words one pair after the other; four sums run side by side, as a processor can.
struct Hasher {
    lanes: [u64; 4],
}

/// The two halves of a product of 128 bits, joined.
pub(crate) fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher {
    fn new() -> Self {
        Self { lanes: KEYS }
    }

    /// A pair of words enters two of the sums with different keys.
    fn pair(&mut self, a: u64, b: u64) {
        let [one, two, three, four] = self.lanes;
        self.lanes = [three, four, folded(one ^ a, KEYS[0] ^ b), folded(two ^ b, KEYS[1] ^ a)];
    }

    fn finish(mut self) -> Fingerprint {
        for _ in 0..4 {
            self.pair(KEYS[2], KEYS[3]);
        }
        let [one, two, three, four] = self.lanes;
        Fingerprint([folded(one ^ KEYS[2], three), folded(two ^ KEYS[3], four)])
    }

    fn numbers(&mut self, values: &[f64]) {
        self.pair(values.len() as u64, 1);
        for pair in values.chunks(2) {
            self.pair(pair[0].to_bits(), pair.get(1).map_or(0, |value| value.to_bits()));
        }
    }

    fn integers(&mut self, values: &[i32]) {
        self.pair(values.len() as u64, 2);
        values.iter().for_each(|value| self.pair(*value as u64, 3));
    }

    /// Type, kernel and sizes.
    fn head(&mut self, fields: &Fields) {
        let param = &fields.param;
        self.pair(param.svm_type as u64, param.kernel_type as u64);
        self.pair(param.degree as u64, param.gamma.to_bits());
        self.pair(param.coef0.to_bits(), fields.classes as u64);
        self.pair(fields.count as u64, 4);
    }

    /// # Safety
    /// The members of the model are null or point to as much as LIBSVM's README says.
    unsafe fn coefficients(&mut self, fields: &Fields) {
        // SAFETY: as the caller of this function promises.
        unsafe {
            self.numbers(fields.rho());
            self.integers(fields.labels());
            self.integers(fields.per_class());
            fields.coefficients().for_each(|array| self.numbers(array));
        }
    }
}

impl Fingerprint {
    /// Of everything that a prediction depends on, the supports included.
    ///
    /// # Safety
    /// The members of the model are null or point to as much as LIBSVM's README says; every row has an end.
    pub(crate) unsafe fn of_content(fields: &Fields) -> Self {
        let mut hasher = Hasher::new();
        hasher.head(fields);
        // SAFETY: as the caller of this function promises.
        unsafe {
            hasher.coefficients(fields);
            for row in memory::slice(fields.supports, fields.count) {
                for node in memory::nodes(*row) {
                    hasher.pair(node.index as u64, node.value.to_bits());
                }
                hasher.pair(u64::MAX, 5);
            }
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[(u64, u64)]) -> Fingerprint {
        let mut hasher = Hasher::new();
        words.iter().for_each(|(a, b)| hasher.pair(*a, *b));
        hasher.finish()
    }

    #[test]
    fn every_bit_and_the_order_count() {
        let words = [(0, 0), (1, 2), (3, 4)];
        let first = of(&words);
        assert_eq!(first, of(&words));
        assert_ne!(first, of(&[(1, 2), (0, 0), (3, 4)]));
        assert_ne!(first, of(&words[..2]));
        for place in 0..words.len() {
            for bit in 0..64 {
                let mut changed = words;
                changed[place].0 ^= 1 << bit;
                assert_ne!(first, of(&changed), "word {place}, bit {bit}");
                let mut changed = words;
                changed[place].1 ^= 1 << bit;
                assert_ne!(first, of(&changed), "second word {place}, bit {bit}");
            }
        }
    }
}
