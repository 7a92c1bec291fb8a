//! The first eigenvectors in f32: most queries need no more of them, and no more digits. What they leave open goes on
//! in f64, in `spectral.rs`.

use mercer_machine::MachineError;
use mercer_simd::Isa;

use super::super::coordinates::{Basis, CHUNK};
use super::{ChunkProducts, QuadraticForm, SpectralScratch};
use crate::Exact;
use crate::block::Block;
use crate::c::{CFile, StageSite};
use crate::certify::quadratic::{Checkpoint, Energy};
use crate::tracker::DecisionTracker;

/// Chunks of each score.
const ROUNDS: usize = 6;

/// Eigenvectors of all scores, chunk by chunk, the scores one after the other within each round; a chunk
/// that a score does not fill ends in rows of zeros.
#[derive(Debug)]
pub(super) struct F32Rounds {
    basis: Basis,
    rounds: usize,
    /// Of each chunk.
    checkpoints: Vec<Checkpoint>,
}

impl F32Rounds {
    /// `vectors` are those of all scores, live columns and the constant one. `None` for centred machines, whose
    /// coordinates are not those of the form, and where there is no eigenvector.
    pub(super) fn new(forms: &[QuadraticForm], vectors: &[f64], exact: &Exact) -> Option<Self> {
        let columns = exact.packed().live_columns();
        let most = forms.iter().map(|form| form.values.len()).max()?;
        let rounds = most.div_ceil(CHUNK).min(ROUNDS);
        if rounds == 0 || columns == 0 || exact.machine().centre().is_some() {
            return None;
        }
        let mut rows = vec![0.0f32; rounds * forms.len() * CHUNK * columns];
        let mut checkpoints = Vec::new();
        for round in 0..rounds {
            let mut first = 0;
            for (score, form) in forms.iter().enumerate() {
                let count = form.values.len();
                let used = ((round + 1) * CHUNK).min(count);
                for vector in (round * CHUNK).min(count)..used {
                    let place = (round * forms.len() + score) * CHUNK + vector % CHUNK;
                    let from = &vectors[(first + vector) * (columns + 1)..][..columns];
                    let to = &mut rows[place * columns..(place + 1) * columns];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as f32);
                }
                checkpoints.push(form.bound.checkpoint_f32(used, &form.values[used..]));
                first += count;
            }
        }
        Some(Self { basis: Basis::new(&rows, exact), rounds, checkpoints })
    }

    /// Writes the rounds in C; returns how many there are.
    pub(super) fn write(
        &self,
        site: &StageSite<'_>,
        file: &mut CFile<'_>,
    ) -> Result<usize, MachineError> {
        let scores = self.checkpoints.len() / self.rounds;
        let rounds = (0..self.rounds).map(|round| {
            let rows = round * scores * CHUNK..(round + 1) * scores * CHUNK;
            self.basis.charge_once(rows, &mut file.charged)
        });
        let costs: Vec<u64> = rounds.collect();
        file.integers("uint64_t", &site.name("single_costs"), costs)?;
        self.basis.write(site, file)?;
        let name = site.name("single_checkpoints");
        file.text(&format!("static const struct checkpoint {name}[] = {{\n"))?;
        for checkpoint in &self.checkpoints {
            file.text(&format!("    {},\n", super::c::checkpoint(checkpoint)))?;
        }
        file.text("};\n\n")?;
        Ok(self.rounds)
    }

    pub(super) fn bytes(&self) -> usize {
        self.basis.bytes()
    }

    /// Proves what f32 can; energies of the open queries are known.
    pub(super) fn run(
        &self,
        isa: Isa,
        forms: &[QuadraticForm],
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut SpectralScratch,
    ) {
        let scores = forms.len();
        for round in 0..self.rounds {
            let rows = round * scores * CHUNK..(round + 1) * scores * CHUNK;
            if !self.basis.charge_and_project(isa, rows, 0, block, tracker) {
                return;
            }
            let (open, computed) = block.open_with_coordinates();
            for query in open {
                for (score, form) in forms.iter().enumerate() {
                    let (chunk, at) = (round * scores + score, *query as usize * scores + score);
                    let energy = scratch.energies[at].filter(Energy::suits_f32);
                    let Some(energy) = energy else { continue };
                    let first = round * CHUNK;
                    if first >= form.values.len() {
                        continue;
                    }
                    let count = CHUNK.min(form.values.len() - first);
                    scratch.coordinates.clear();
                    let rows = chunk * CHUNK..chunk * CHUNK + count;
                    self.basis.read(computed, *query, rows, &mut scratch.coordinates);
                    scratch.products.clear();
                    scratch.products.extend(scratch.coordinates.iter().map(|y| f64::from(*y)));
                    let sums = &mut scratch.sums[at];
                    if tracker.is_observed() {
                        let checkpoint =
                            |used: usize| form.bound.checkpoint_f32(used, &form.values[used..]);
                        let observe = |range, used| tracker.observe(*query, score, range, used);
                        let products = ChunkProducts { first, values: &scratch.products };
                        form.observe(products, *sums, energy, checkpoint, observe);
                    }
                    form.add(first, &scratch.products, sums);
                    let range = form.bound.range(&self.checkpoints[chunk], energy, sums.0, sums.1);
                    if let Some(range) = range {
                        tracker.prove(*query, score, range, first + count);
                    }
                }
                tracker.settle_if_proved(*query);
            }
            block.compact(tracker);
        }
    }
}
