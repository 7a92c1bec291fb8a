//! Many chains of fused multiply-adds side by side: all scores of a linear machine in one pass over a row. One chain alone is
//! [`crate::chain`].

#![expect(
    unsafe_code,
    reason = "vectors of weights are read through pointers, whose bounds are checked per place"
)]

use crate::isa::Isa;
use crate::vector::{SimdBackend, Task, Vector};

/// Numbers behind the last weights: no vector has more.
const PAD: usize = 8;

/// Weights of many chains, those of one place side by side, so that one read of a value serves all of them.
#[derive(Debug, Clone)]
pub struct ChainWeights {
    /// Of each place those of all chains, and [`PAD`] zeros behind the last.
    weights: Vec<f64>,
    places: usize,
    chains: usize,
}

impl ChainWeights {
    /// One chain for each vector of weights; missing ones are zero.
    pub fn new(vectors: &[&[f64]]) -> Self {
        let (places, chains) = (vectors.iter().map(|v| v.len()).max().unwrap_or(0), vectors.len());
        let mut weights = vec![0.0; places * chains + PAD];
        for (chain, vector) in vectors.iter().enumerate() {
            for (place, weight) in weights[chain..].iter_mut().step_by(chains).zip(*vector) {
                *place = *weight;
            }
        }
        Self { weights, places, chains }
    }

    /// As [`crate::chain`] for each vector of weights at once. `columns` are the places of the values, which increase; without
    /// them the values are those of places 0, 1, ... Values beyond all weights do not count.
    ///
    /// # Panics
    /// If there are fewer columns than values, or not one sum for each chain.
    pub fn sums(&self, isa: Isa, columns: Option<&[u32]>, values: &[f64], sums: &mut [f64]) {
        assert_eq!(sums.len(), self.chains, "one sum for each chain");
        let columns = columns.map(|columns| &columns[..values.len()]);
        isa.run(Chains { all: self, columns, values, sums });
    }
}

struct Chains<'a> {
    all: &'a ChainWeights,
    columns: Option<&'a [u32]>,
    values: &'a [f64],
    sums: &'a mut [f64],
}

impl Task for Chains<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        match self.all.chains.div_ceil(B::V64::LANES) {
            0 => {}
            1 => self.registers::<B::V64, 1>(),
            2 => self.registers::<B::V64, 2>(),
            3 => self.registers::<B::V64, 3>(),
            4 => self.registers::<B::V64, 4>(),
            5 | 6 => self.registers::<B::V64, 6>(),
            _ => self.in_memory::<B::V64>(),
        }
    }
}

impl Chains<'_> {
    /// The weights of all chains at the place of one value; `None` beyond all weights.
    #[inline(always)]
    fn weights(&self, at: usize) -> Option<*const f64> {
        let place = self.columns.map_or(at, |columns| columns[at] as usize);
        let start = (place < self.all.places).then(|| place * self.all.chains)?;
        Some(self.all.weights[start..].as_ptr())
    }

    /// All sums in at most `N` registers. Lanes beyond the last chain sum weights of the next place, and are dropped.
    #[inline(always)]
    fn registers<V: Vector<Element = f64>, const N: usize>(self) {
        let count = self.all.chains.div_ceil(V::LANES);
        // SAFETY: `V` belongs to the backend this body is compiled for. A vector begins at a chain of its place, so it ends at
        // most `LANES - 1 < PAD` numbers behind the weights of that place, and `weights` has `PAD` behind the last.
        unsafe {
            let mut sums = [V::splat(0.0); N];
            for at in 0..self.values.len() {
                let Some(weights) = self.weights(at) else { break };
                let value = V::splat(self.values[at]);
                for (number, sum) in sums.iter_mut().enumerate() {
                    // Always true but for the last of six; registers have constant numbers.
                    if number < count {
                        *sum = V::load(weights.add(number * V::LANES)).fma(value, *sum);
                    }
                }
            }
            for (sum, out) in sums.into_iter().zip(self.sums.chunks_mut(V::LANES)) {
                let mut lanes = [0.0; PAD];
                sum.store(lanes.as_mut_ptr());
                out.copy_from_slice(&lanes[..out.len()]);
            }
        }
    }

    /// The sums of many chains in memory: the weights of a place are read once, one after the other.
    #[inline(always)]
    fn in_memory<V: Vector<Element = f64>>(self) {
        let chains = self.all.chains;
        let mut sums = vec![0.0; chains.next_multiple_of(V::LANES)];
        for at in 0..self.values.len() {
            let Some(weights) = self.weights(at) else { break };
            // SAFETY: as in `registers`; `sums` has whole vectors.
            unsafe {
                let value = V::splat(self.values[at]);
                for first in (0..chains).step_by(V::LANES) {
                    let sum = sums.as_mut_ptr().add(first);
                    V::load(weights.add(first)).fma(value, V::load(sum)).store(sum);
                }
            }
        }
        self.sums.copy_from_slice(&sums[..chains]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain;

    #[test]
    fn chains_side_by_side_are_the_bits_of_each_alone() {
        let values: Vec<f64> = (0..70).map(|i| (f64::from(i) * 0.7).cos()).collect();
        // Places beyond the weights end the chain; one vector is shorter than the others.
        let places: Vec<u32> = (0..70).step_by(3).collect();
        let chosen: Vec<f64> = places.iter().map(|place| values[*place as usize]).collect();
        let everywhere: Vec<u32> = (0..70).collect();
        for count in [1, 2, 7, 8, 9, 16, 20, 31, 32, 33, 105] {
            let length = |chain: usize| if chain == 1 { 41 } else { 50 };
            let weight = |chain: usize, at: usize| ((chain * 57 + at) as f64).sin();
            let vectors: Vec<Vec<f64>> = (0..count)
                .map(|chain| (0..length(chain)).map(|at| weight(chain, at)).collect())
                .collect();
            let all = ChainWeights::new(&vectors.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let of = |isa: Isa, places: Option<&[u32]>, values: &[f64]| {
                let mut sums = vec![f64::NAN; count];
                all.sums(isa, places, values, &mut sums);
                sums.into_iter().map(f64::to_bits).collect::<Vec<u64>>()
            };
            for isa in Isa::available() {
                assert_eq!(of(*isa, None, &values), of(*isa, Some(&everywhere), &values));
                for (vector, sum) in vectors.iter().zip(of(*isa, Some(&places), &chosen)) {
                    let pairs = places.iter().map(|place| *place as usize);
                    let pairs = pairs.filter_map(|at| Some((vector.get(at)?, &values[at])));
                    assert_eq!(sum, chain(*isa, pairs).to_bits());
                }
            }
        }
    }
}
