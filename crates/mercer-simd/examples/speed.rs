//! Speed of the kernels on one thread, best of several runs.
//!
//! `cargo run --release -p mercer-simd --example speed [dense|few|sparse|f32|bytes|maths]…`

use std::hint::black_box;
use std::time::Instant;

use mercer_simd::{
    BytePanels, DenseQueries32, DenseQueries64, Isa, Panels32, Panels64, SparseQueries64, Term,
    exp, exp32, gaussian, gemm_nt, gemm_nt32, ln, polynomial, tanh, weighted_sums,
};

const BLOCK: usize = 256;
/// Panels per call: 192 f64 rows, whose block of products stays in the cache.
const TILE: usize = 4;

fn best(runs: usize, mut work: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

/// Uniform in [−½, ½).
fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

/// A name on the command line and what it measures.
type Measurement = (&'static str, fn(&Problem));

struct Problem {
    rows: usize,
    columns: usize,
    runs: usize,
    supports: Vec<f64>,
    queried: Vec<f64>,
}

impl Problem {
    fn new(rows: usize, columns: usize, runs: usize) -> Self {
        println!("{rows} x {columns}, {BLOCK} queries, {}", Isa::current());
        let (supports, queried) = (noise(rows * columns, 7), noise(BLOCK * columns, 8));
        Problem { rows, columns, runs, supports, queried }
    }

    fn flops(&self, queries: usize) -> f64 {
        2.0 * (self.rows * self.columns * queries) as f64
    }

    fn pack(&self) -> Panels64 {
        Panels64::pack(self.rows, self.columns, |row, buffer| {
            buffer.copy_from_slice(&self.supports[row * self.columns..][..self.columns]);
        })
    }

    fn dense(&self) {
        let mut table = vec![0.0; self.rows * BLOCK];
        let (rows, columns) = (self.rows, self.columns);
        let gemm = best(self.runs, || {
            gemm_nt(BLOCK, rows, columns, &self.queried, &self.supports, &mut table);
        });
        let transposed = best(self.runs, || {
            gemm_nt(rows, BLOCK, columns, &self.supports, &self.queried, &mut table);
        });
        let ours = self.time_dense();
        let rate = |seconds: f64| self.flops(BLOCK) / seconds / 1e9;
        println!(
            "  f64 gemm crate {:6.1} GFLOP/s, transposed {:6.1}",
            rate(gemm),
            rate(transposed)
        );
        println!("  f64 dense      {:6.1} GFLOP/s", rate(ours));
    }

    /// Packing of the queries included.
    fn time_dense(&self) -> f64 {
        let panels = self.pack();
        let stride = TILE * Panels64::WIDTH;
        let mut out = vec![0.0; stride * BLOCK];
        let mut queries = DenseQueries64::new(self.columns);
        best(self.runs, || {
            queries.clear();
            queries.push_rows(&self.queried, BLOCK, self.columns);
            for first in (0..panels.panels()).step_by(TILE) {
                let range = first..panels.panels().min(first + TILE);
                panels.dots_dense(Isa::current(), &queries, range, &mut out, stride);
            }
        })
    }

    fn sparse(&self) {
        let panels = self.pack();
        let stride = TILE * Panels64::WIDTH;
        let mut out = vec![0.0; stride * BLOCK];
        let mut queries = SparseQueries64::new(self.columns);
        for row in self.queried.chunks(self.columns) {
            let kept = (0..self.columns).filter(|&c| row[c] < -0.31);
            let (columns, values): (Vec<u32>, Vec<f64>) = kept.map(|c| (c as u32, row[c])).unzip();
            queries.push(&columns, &values);
        }
        let share = queries.stored() as f64 / self.queried.len() as f64;
        let seconds = best(self.runs, || {
            for first in (0..panels.panels()).step_by(TILE) {
                let range = first..panels.panels().min(first + TILE);
                panels.dots_sparse(Isa::current(), &queries, range, &mut out, stride);
            }
        });
        let rate = share * self.flops(BLOCK) / seconds / 1e9;
        let gain = self.time_dense() / seconds;
        println!("  f64 sparse {share:.2} {rate:6.1} GFLOP/s, {gain:.2} times as fast as dense");
    }

    fn few(&self) {
        let panels = self.pack();
        let stride = panels.lanes(0..panels.panels()).len();
        for few in [1, 2, 3, 4, 8, 16] {
            let mut queries = DenseQueries64::new(self.columns);
            queries.push_rows(&self.queried, few, self.columns);
            let mut out = vec![0.0; stride * few];
            let seconds = best(4 * self.runs, || {
                panels.dots_dense(Isa::current(), &queries, 0..panels.panels(), &mut out, stride);
            });
            let traffic = panels.bytes() as f64 / seconds / 1e9;
            let rate = self.flops(few) / seconds / 1e9;
            println!("  f64 {few:2} queries {traffic:6.1} GB/s {rate:6.1} GFLOP/s");
        }
        let seconds = best(4 * self.runs, || {
            let mut sums = [0.0; 32];
            for chunk in self.supports.chunks_exact(32) {
                for (sum, x) in sums.iter_mut().zip(chunk) {
                    *sum += x;
                }
            }
            black_box(sums);
        });
        println!(
            "  plain sum of the same bytes {:6.1} GB/s",
            panels.bytes() as f64 / seconds / 1e9
        );
    }

    fn f32(&self) {
        let to_f32 = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<_>>();
        let (supports, queried) = (to_f32(&self.supports), to_f32(&self.queried));
        let (rows, columns) = (self.rows, self.columns);
        let panels = Panels32::pack(rows, columns, |row, buffer| {
            buffer.copy_from_slice(&supports[row * columns..][..columns]);
        });
        let mut table = vec![0.0; rows * BLOCK];
        let gemm = best(self.runs, || {
            gemm_nt32(BLOCK, rows, columns, &queried, &supports, &mut table);
        });
        let stride = TILE * Panels32::WIDTH;
        let mut out = vec![0.0; stride * BLOCK];
        let mut queries = DenseQueries32::new(columns);
        for count in [1, 8, BLOCK] {
            let seconds = best(self.runs, || {
                queries.clear();
                queries.push_rows(&queried, count, columns);
                for first in (0..panels.panels()).step_by(TILE) {
                    let range = first..panels.panels().min(first + TILE);
                    panels.dots_dense(Isa::current(), &queries, range, &mut out, stride);
                }
            });
            println!("  f32 {count:3} queries {:6.1} GFLOP/s", self.flops(count) / seconds / 1e9);
        }
        println!("  f32 gemm crate  {:6.1} GFLOP/s", self.flops(BLOCK) / gemm / 1e9);
    }

    fn bytes(&self) {
        let (rows, columns) = (self.rows, self.columns);
        let panels = BytePanels::pack(Isa::current(), rows, columns, |row, buffer| {
            for (byte, x) in buffer.iter_mut().zip(&self.supports[row * columns..]) {
                *byte = (x * 255.0 + 127.5) as u8;
            }
        });
        let queried: Vec<u8> = self.queried.iter().map(|x| (x * 255.0 + 127.5) as u8).collect();
        let stride = panels.lanes(0..panels.panels()).len();
        for count in [1, 8, BLOCK] {
            let mut out = vec![0; stride * count];
            let mut queries = panels.queries();
            let seconds = best(self.runs, || {
                queries.clear();
                queried.chunks(columns).take(count).for_each(|row| queries.push(row));
                panels.dots(&queries, 0..count, 0..panels.panels(), &mut out, stride);
            });
            println!("  u8  {count:3} queries {:6.1} GOP/s", self.flops(count) / seconds / 1e9);
        }
    }
}

fn maths() {
    let isa = Isa::current();
    let arguments: Vec<f64> = noise(4096, 9).iter().map(|x| x * 20.0 - 10.0).collect();
    let positive: Vec<f64> = arguments.iter().map(|x| x.abs()).collect();
    let mut work = arguments.clone();
    let mut report = |name: &str, from: &[f64], call: &mut dyn FnMut(&mut [f64])| {
        let mut least = f64::INFINITY;
        for _ in 0..2000 {
            work.copy_from_slice(from);
            let start = Instant::now();
            call(&mut work);
            least = least.min(start.elapsed().as_secs_f64());
        }
        println!("  {name:24} {:6.2} ns per element", least * 1e9 / 4096.0);
    };
    report("exp", &arguments, &mut |x| exp(isa, x));
    report("ln", &positive, &mut |x| ln(isa, x));
    report("tanh", &arguments, &mut |x| tanh(isa, x));
    report("gaussian", &arguments, &mut |x| gaussian(isa, x, 1.0, &positive, 0.5));
    report("polynomial 3", &arguments, &mut |x| polynomial(isa, x, 0.5, 1.0, 3));
    let terms = [
        Term::Min,
        Term::Chi2,
        Term::Hellinger,
        Term::AbsDifference,
        Term::JensenShannon,
        Term::PowerMean(-3.0),
    ];
    let panels = Panels64::pack(48, 4096 / 48, |row, buffer| {
        buffer.copy_from_slice(&positive[row * 85..][..85]);
    });
    for term in terms {
        report(&format!("{term:?}"), &positive, &mut |x| {
            let (row, out) = x.split_at_mut(85);
            panels.accumulate(isa, term, row, 0..1, &mut out[..48]);
        });
    }
    for scores in [1, 4, 10] {
        let coefficients = vec![positive.as_slice(); scores];
        let mut partials = vec![[0.0; 8]; scores];
        report(&format!("weighted sums, {scores} scores"), &arguments, &mut |x| {
            weighted_sums(isa, x, 0, &coefficients, &mut partials);
        });
    }
    let mut values: Vec<f32> = arguments.iter().map(|&x| x as f32).collect();
    report("exp32, twice on itself", &arguments, &mut |_| exp32(isa, &mut values));
}

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let is_selected = |name: &str| names.is_empty() || names.iter().any(|word| word == name);
    for (rows, columns, runs) in [(1595, 584, 20), (13376, 717, 5)] {
        let problem = Problem::new(rows, columns, runs);
        let parts: [Measurement; 5] = [
            ("dense", Problem::dense),
            ("sparse", Problem::sparse),
            ("few", Problem::few),
            ("f32", Problem::f32),
            ("bytes", Problem::bytes),
        ];
        for (name, part) in parts {
            if is_selected(name) {
                part(&problem);
            }
        }
    }
    if is_selected("maths") {
        maths();
    }
}
