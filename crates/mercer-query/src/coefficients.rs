//! Coefficients of all scores, cut into chunks of supports, and weighted sums with them in f64 and f32. Kernel values
//! are computed elsewhere (`mercer_kernel::block`).

use mercer_kernel::bound::{larger, largest};
use mercer_machine::{Machine, Score};
use mercer_simd::Isa;

/// Coefficients of all expansions, cut into chunks of supports; scores that are zero throughout a chunk
/// are left out of it. With one-vs-one machines that leaves `k - 1` of `k (k - 1) / 2` scores.
#[derive(Debug)]
pub(crate) struct Coefficients {
    pub(crate) chunk_rows: usize,
    pub(crate) chunks: Vec<CoefficientChunk>,
}

/// Bounds on `Σ|β_i| v_i` of all scores at the cost of one: within a chunk every score takes the sum with
/// the largest `|β_i|` of any score. With a single score it is that sum itself.
#[derive(Debug)]
pub(crate) struct CoefficientSizes(pub(crate) Coefficients);

#[derive(Debug, Default)]
pub(crate) struct CoefficientChunk {
    pub(crate) scores: Vec<u32>,
    /// `chunk_rows` coefficients for each score named, zero-padded.
    pub(crate) values: Vec<f64>,
}

/// Supports of one class, if all have as many.
fn rows_per_class(machine: &Machine) -> usize {
    machine.supports().rows() / machine.classes().len().max(1)
}

impl Coefficients {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self::with(machine, |_, beta| beta)
    }

    /// Coefficients of the machine after a function of the support and the coefficient.
    pub(crate) fn with(machine: &Machine, map: impl Fn(usize, f64) -> f64) -> Self {
        // Long chunks amortise the call; short ones skip more zeros where classes are small.
        let chunk_rows = if rows_per_class(machine) >= 400 { 192 } else { 48 };
        Self::in_chunks(machine, chunk_rows, map)
    }

    fn in_chunks(machine: &Machine, chunk_rows: usize, map: impl Fn(usize, f64) -> f64) -> Self {
        let rows = machine.supports().rows();
        let mut chunks: Vec<CoefficientChunk> = Vec::new();
        chunks.resize_with(rows.div_ceil(chunk_rows), CoefficientChunk::default);
        for (number, score) in (0u32..).zip(machine.scores()) {
            let Score::Expansion { supports, coefficients, .. } = score else { continue };
            for (support, beta) in supports.iter().zip(coefficients) {
                let chunk = &mut chunks[*support as usize / chunk_rows];
                if chunk.scores.last() != Some(&number) {
                    chunk.scores.push(number);
                    chunk.values.resize(chunk.scores.len() * chunk_rows, 0.0);
                }
                let start = (chunk.scores.len() - 1) * chunk_rows;
                chunk.values[start + *support as usize % chunk_rows] =
                    map(*support as usize, *beta);
            }
        }
        Self { chunk_rows, chunks }
    }

    /// The largest size of a coefficient of each support, over all scores: chunk by chunk one row.
    pub(crate) fn sizes(machine: &Machine, map: impl Fn(usize, f64) -> f64) -> CoefficientSizes {
        Self::with(machine, |support, beta| map(support, beta).abs()).largest()
    }

    /// The largest of the coefficients of each support, none of them negative.
    fn largest(mut self) -> CoefficientSizes {
        for chunk in &mut self.chunks {
            let mut most = vec![0.0f64; self.chunk_rows];
            for row in chunk.values.chunks_exact(self.chunk_rows) {
                most.iter_mut().zip(row).for_each(|(most, size)| *most = larger(*most, *size));
            }
            chunk.values = most;
        }
        CoefficientSizes(self)
    }

    /// Adds the kernel values of one query against supports `first..first + values.len()` to the eight
    /// partial sums of each score: partial `i mod 8` takes support `i`, in index order.
    pub(crate) fn add(&self, isa: Isa, first: usize, values: &[f64], partials: &mut [[f64; 8]]) {
        debug_assert!(first.is_multiple_of(8), "tiles start at whole lanes");
        let mut at = 0;
        while at < values.len() {
            let (chunk, inside) = ((first + at) / self.chunk_rows, (first + at) % self.chunk_rows);
            let count = (self.chunk_rows - inside).min(values.len() - at);
            let CoefficientChunk { scores, values: betas } = &self.chunks[chunk];
            let values = &values[at..at + count];
            if !scores.is_empty() {
                let (rows, stride) = (&betas[inside..], self.chunk_rows);
                mercer_simd::scattered_sums(isa, values, rows, stride, scores, partials);
            }
            at += count;
        }
    }
}

impl CoefficientSizes {
    /// Adds the bound for the values of one query, none negative, against supports from `first` on.
    pub(crate) fn add(&self, isa: Isa, first: usize, values: &[f64], sizes: &mut [f64]) {
        let Self(Coefficients { chunk_rows, chunks }) = self;
        let mut at = 0;
        while at < values.len() {
            let (chunk, inside) = ((first + at) / chunk_rows, (first + at) % chunk_rows);
            let count = (chunk_rows - inside).min(values.len() - at);
            let CoefficientChunk { scores, values: most } = &chunks[chunk];
            if !scores.is_empty() {
                let mut partial = [[0.0; 8]];
                let row = &most[inside..inside + count];
                mercer_simd::weighted_sums(isa, &values[at..at + count], 0, &[row], &mut partial);
                let sum = mercer_simd::fold8(&partial[0]);
                scores.iter().for_each(|score| sizes[*score as usize] += sum);
            }
            at += count;
        }
    }
}

/// Coefficients of all expansions in single precision, scaled so that the largest is about 1, with the
/// bounds of [`CoefficientSizes`]: one pass over the values serves all sums of a chunk.
#[derive(Debug)]
pub(crate) struct CoefficientsF32 {
    pub(crate) chunk_rows: usize,
    pub(crate) chunks: Vec<CoefficientChunkF32>,
    unit: f64,
}

#[derive(Debug, Default)]
pub(crate) struct CoefficientChunkF32 {
    pub(crate) scores: Vec<u32>,
    /// The largest sizes, rounded up, then `chunk_rows` coefficients for each score named.
    pub(crate) values: Vec<f32>,
}

/// Where [`CoefficientsF32::add`] adds: one number for each score.
#[derive(Debug)]
pub(crate) struct SumsAndSizes<'a> {
    pub sums: &'a mut [f64],
    pub sizes: &'a mut [f64],
}

impl CoefficientsF32 {
    /// `None` if the coefficients cannot be scaled.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        // Each chunk ends with a sum across the chains of every score; that costs more than some zeros.
        let chunk_rows = match rows_per_class(machine) {
            0..100 => 48,
            _ => 192,
        };
        let wide = Coefficients::in_chunks(machine, chunk_rows, |_, beta| beta);
        let sizes = Coefficients::in_chunks(machine, chunk_rows, |_, beta| beta.abs()).largest().0;
        let all = sizes.chunks.iter().flat_map(|chunk| &chunk.values);
        let most = largest(all.copied());
        if !(1e-250..=1e250).contains(&most) {
            return None;
        }
        // The exponent alone: the largest power of two that is not above it.
        let unit = f64::from_bits(most.to_bits() & 0x7FF0_0000_0000_0000);
        let scaled = |(wide, size): (&CoefficientChunk, &CoefficientChunk)| {
            // f32 values are rounded to nearest, so one step up is at least the size.
            let up = |size: &f64| if *size == 0.0 { 0.0 } else { ((size / unit) as f32).next_up() };
            let mut values: Vec<f32> = size.values.iter().map(up).collect();
            values.extend(wide.values.iter().map(|beta| (beta / unit) as f32));
            CoefficientChunkF32 { scores: wide.scores.clone(), values }
        };
        let chunks = wide.chunks.iter().zip(&sizes.chunks).map(scaled).collect();
        Some(Self { chunk_rows: wide.chunk_rows, chunks, unit })
    }

    /// What coefficients were divided by: a power of two.
    pub(crate) fn unit(&self) -> f64 {
        self.unit
    }

    /// Adds what the values of one query, none negative, against supports from `first` on give to the sums
    /// and the bounds of all scores, both in units of [`CoefficientsF32::unit`]. `scratch` is any memory.
    pub(crate) fn add(
        &self,
        isa: Isa,
        first: usize,
        values: &[f32],
        out: SumsAndSizes<'_>,
        scratch: &mut Vec<f64>,
    ) {
        let SumsAndSizes { sums, sizes } = out;
        let mut at = 0;
        while at < values.len() {
            let (chunk, inside) = ((first + at) / self.chunk_rows, (first + at) % self.chunk_rows);
            let count = (self.chunk_rows - inside).min(values.len() - at);
            let CoefficientChunkF32 { scores, values: rows } = &self.chunks[chunk];
            if !scores.is_empty() {
                scratch.clear();
                scratch.resize(scores.len() + 1, 0.0);
                let (values, rows) = (&values[at..at + count], &rows[inside..]);
                mercer_simd::weighted_sums32(isa, values, rows, self.chunk_rows, scratch);
                for (score, sum) in scores.iter().zip(&scratch[1..]) {
                    sums[*score as usize] += sum;
                    sizes[*score as usize] += scratch[0];
                }
            }
            at += count;
        }
    }
}
