//! Many chains of fused multiply-adds side by side: all scores of a linear machine in one pass over a row. One chain alone is
//! [`crate::chain`].

#![expect(
    unsafe_code,
    reason = "vectors of weights are read through pointers, whose bounds are checked per place"
)]

use crate::aligned::AlignedBuffer;
use crate::isa::Isa;
use crate::pages::prefetch;
use crate::vector::{SimdBackend, Task, Vector};

/// Numbers of a cache line. No vector has more, so as many zeros stand behind the last weights.
const LINE: usize = 8;
/// Weights beyond this count do not fit a near cache: those of the next values are prefetched.
const FAR: usize = 1 << 16;
/// Values whose weights are prefetched at a time.
const AHEAD: usize = 8;
/// Cache lines prefetched of a place, at most; the hardware prefetcher finds the rest.
const LINES: usize = 3;

/// Weights of many chains, those of one place side by side, so that one read of a value serves all of them.
#[derive(Debug, Clone)]
pub struct ChainWeights {
    /// `stride` numbers for each place, and [`LINE`] zeros behind the last.
    weights: AlignedBuffer<f64>,
    places: usize,
    chains: usize,
    /// At least `chains`: places begin on cache lines, or do not cross them.
    stride: usize,
}

impl ChainWeights {
    /// One chain for each vector of weights; missing ones are zero.
    pub fn new(vectors: &[&[f64]]) -> Self {
        let (places, chains) = (vectors.iter().map(|v| v.len()).max().unwrap_or(0), vectors.len());
        let stride = match chains {
            0..=4 => chains.next_power_of_two(),
            _ => chains.next_multiple_of(LINE),
        };
        let mut weights = AlignedBuffer::zeroed(places * stride + LINE);
        for (chain, vector) in vectors.iter().enumerate() {
            for (place, weight) in weights[chain..].iter_mut().step_by(stride).zip(*vector) {
                *place = *weight;
            }
        }
        Self { weights, places, chains, stride }
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
    fn run<B: SimdBackend>(mut self) {
        let (lanes, chains) = (B::V64::LANES, self.all.chains);
        // As many sums as there are registers, but for the value and the weights.
        let most = if lanes == LINE { 16 } else { 12 };
        for first in (0..chains).step_by(most * lanes) {
            match (chains - first).div_ceil(lanes).min(most) {
                1 => self.group::<B::V64, 1>(first),
                2 => self.group::<B::V64, 2>(first),
                3 => self.group::<B::V64, 3>(first),
                4 => self.group::<B::V64, 4>(first),
                5 => self.group::<B::V64, 5>(first),
                6 => self.group::<B::V64, 6>(first),
                7 => self.group::<B::V64, 7>(first),
                8 => self.group::<B::V64, 8>(first),
                9 => self.group::<B::V64, 9>(first),
                10 => self.group::<B::V64, 10>(first),
                11 => self.group::<B::V64, 11>(first),
                12 => self.group::<B::V64, 12>(first),
                13 => self.group::<B::V64, 13>(first),
                14 => self.group::<B::V64, 14>(first),
                15 => self.group::<B::V64, 15>(first),
                _ => self.group::<B::V64, 16>(first),
            }
        }
    }
}

impl Chains<'_> {
    /// The weights at the place of one value, from chain `first` on; `None` beyond all weights.
    #[inline(always)]
    fn weights(&self, at: usize, first: usize) -> Option<*const f64> {
        let place = self.columns.map_or(at, |columns| columns[at] as usize);
        let start = (place < self.all.places).then(|| place * self.all.stride)?;
        Some(self.all.weights[start + first..].as_ptr())
    }

    /// The sums of the chains from `first` on, in `N` registers. Lanes beyond the last chain are dropped.
    #[inline(always)]
    fn group<V: Vector<Element = f64>, const N: usize>(&mut self, first: usize) {
        let lines = (N * V::LANES).div_ceil(LINE).min(LINES);
        let is_far = self.columns.is_some() && self.all.weights.len() > FAR;
        let ahead = if is_far { AHEAD } else { self.values.len() };
        // SAFETY: `V` belongs to the backend this body is compiled for. A vector begins at a chain of its place, so it ends at
        // most `LANES - 1 < LINE` numbers behind the weights of that place, and `weights` has `LINE` behind the last.
        unsafe {
            let mut sums = [V::splat(0.0); N];
            for at in 0..self.values.len() {
                if at + ahead < self.values.len()
                    && let Some(weights) = self.weights(at + ahead, first)
                {
                    (0..lines).for_each(|line| prefetch(weights.wrapping_add(line * LINE)));
                }
                let Some(weights) = self.weights(at, first) else { break };
                let value = V::splat(self.values[at]);
                for (number, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(weights.add(number * V::LANES)).fma(value, *sum);
                }
            }
            let out = self.sums[first..].chunks_mut(V::LANES);
            for (sum, out) in sums.into_iter().zip(out) {
                let mut lanes = [0.0; LINE];
                sum.store(lanes.as_mut_ptr());
                out.copy_from_slice(&lanes[..out.len()]);
            }
        }
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
        for count in [1, 2, 3, 7, 8, 9, 16, 20, 31, 32, 33, 49, 105, 128, 130] {
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
