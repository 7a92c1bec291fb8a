//! Speed of the kernels on one thread, best of several runs.

use std::hint::black_box;
use std::time::Instant;

use mercer_simd::{DenseQueries, DenseQueries64, Isa, Panels64, SparseQueries64, gemm_nt};

fn best(runs: usize, mut work: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }
}

fn main() {
    for (rows, columns) in [(1595, 584), (13376, 717)] {
        doubles(rows, columns);
    }
}

fn doubles(rows: usize, columns: usize) {
    let isa = Isa::current();
    let block = 256;
    let mut noise = Noise(7);
    let supports: Vec<f64> = (0..rows * columns).map(|_| noise.next()).collect();
    let asked: Vec<f64> = (0..block * columns).map(|_| noise.next()).collect();
    let panels = Panels64::pack(rows, columns, |row, buffer| {
        buffer.copy_from_slice(&supports[row * columns..][..columns]);
    });
    let flops = 2.0 * (rows * columns * block) as f64;
    let runs = if rows > 5000 { 5 } else { 20 };
    println!("{rows} x {columns} f64, {block} queries, {isa}");

    let mut table = vec![0.0; rows * block];
    let seconds = best(runs, || {
        gemm_nt(block, rows, columns, &asked, &supports, &mut table)
    });
    println!(
        "  gemm crate              {:8.1} GFLOP/s",
        flops / seconds / 1e9
    );
    let seconds = best(runs, || {
        gemm_nt(rows, block, columns, &supports, &asked, &mut table)
    });
    println!(
        "  gemm crate, transposed  {:8.1} GFLOP/s",
        flops / seconds / 1e9
    );

    for wide in [4, 8] {
        let stride = wide * 48;
        let mut out = vec![0.0; stride * block];
        let mut queries = DenseQueries64::new(columns);
        let seconds = best(runs, || {
            queries.clear();
            queries.push_rows(&asked, block, columns);
            for first in (0..panels.panels()).step_by(wide) {
                let range = first..panels.panels().min(first + wide);
                panels.dots_dense(isa, &queries, range, &mut out, stride);
            }
        });
        println!(
            "  dense, {stride} lanes        {:8.1} GFLOP/s",
            flops / seconds / 1e9
        );
        let mut sparse = SparseQueries64::new(columns);
        for row in asked.chunks(columns) {
            let columns: Vec<u32> = (0..columns)
                .filter(|&c| row[c] < -0.31)
                .map(|c| c as u32)
                .collect();
            let values: Vec<f64> = columns.iter().map(|&c| row[c as usize]).collect();
            sparse.push(&columns, &values);
        }
        let share = sparse.stored() as f64 / asked.len() as f64;
        let sparse_seconds = best(runs, || {
            for first in (0..panels.panels()).step_by(wide) {
                let range = first..panels.panels().min(first + wide);
                panels.dots_sparse(isa, &sparse, range, &mut out, stride);
            }
        });
        println!(
            "  sparse ({share:.2}), {stride} lanes {:6.1} GFLOP/s, {:.2} times as fast as dense",
            share * flops / sparse_seconds / 1e9,
            seconds / sparse_seconds
        );
    }
    for few in [1, 2, 3, 4, 8, 16] {
        let mut queries = DenseQueries::new(columns);
        queries.push_rows(&asked, few, columns);
        let stride = panels.lanes(0..panels.panels()).len();
        let mut out = vec![0.0; stride * few];
        let seconds = best(4 * runs, || {
            panels.dots_dense(isa, &queries, 0..panels.panels(), &mut out, stride);
        });
        println!(
            "  {few:2} queries: {:8.1} us, {:5.1} GB/s, {:5.1} GFLOP/s",
            seconds * 1e6,
            panels.bytes() as f64 / seconds / 1e9,
            few as f64 * flops / block as f64 / seconds / 1e9
        );
    }
    let seconds = best(4 * runs, || {
        let mut sums = [0.0; 32];
        for chunk in supports.chunks_exact(32) {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum += x;
            }
        }
        black_box(sums);
    });
    println!(
        "  plain sum of the same bytes {:5.1} GB/s",
        panels.bytes() as f64 / seconds / 1e9
    );
}
