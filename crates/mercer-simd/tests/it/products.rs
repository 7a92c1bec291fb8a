//! Properties of the packed products: the same bits whatever the instruction set, batch or storage.

use crate::common::{Noise, bits, sparse};
use mercer_simd::{
    DenseQueries32, DenseQueries64, Isa, Panels32, Panels64, SparseQueries32, SparseQueries64, dot,
    dot_sparse, scatter_column,
};

/// Rows, columns, queries: empty, single, odd, at and around every boundary of the layouts.
const SHAPES: [[usize; 3]; 22] = [
    [0, 3, 2],
    [1, 1, 1],
    [3, 0, 2],
    [5, 7, 0],
    [8, 2, 3],
    [9, 64, 4],
    [17, 65, 5],
    [23, 128, 6],
    [24, 129, 7],
    [31, 3, 8],
    [39, 200, 9],
    [40, 31, 11],
    [47, 63, 12],
    [48, 5, 13],
    [49, 127, 15],
    [95, 33, 16],
    [96, 19, 17],
    [97, 257, 5],
    [144, 12, 20],
    [151, 300, 3],
    [200, 1, 2],
    [77, 40, 33],
];

struct Case {
    rows: usize,
    columns: usize,
    supports: Vec<Vec<f64>>,
    queried: Vec<Vec<f64>>,
}

fn cases() -> impl Iterator<Item = Case> {
    SHAPES.into_iter().enumerate().map(|(seed, [rows, columns, queries])| {
        let mut noise = Noise::new(seed as u64 + 1);
        Case {
            rows,
            columns,
            supports: (0..rows).map(|_| noise.wilds(columns)).collect(),
            queried: (0..queries).map(|_| noise.wilds(columns)).collect(),
        }
    })
}

impl Case {
    fn pack(&self) -> Panels64 {
        Panels64::pack(self.rows, self.columns, |row, buffer| {
            buffer.copy_from_slice(&self.supports[row]);
        })
    }

    fn dense(&self, queried: &[Vec<f64>]) -> DenseQueries64 {
        let mut queries = DenseQueries64::new(self.columns);
        for row in queried {
            queries.push(row);
        }
        queries
    }

    fn sparse(&self, queried: &[Vec<f64>]) -> SparseQueries64 {
        let mut queries = SparseQueries64::new(self.columns);
        for row in queried {
            let (columns, values) = sparse(row);
            queries.push(&columns, &values);
        }
        queries
    }
}

/// The specification: one chain, written out.
fn chain(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (x, z)| x.mul_add(*z, sum)) + 0.0
}

#[test]
fn every_product_is_the_chain_in_column_order() {
    for case in cases() {
        let panels = case.pack();
        let all = 0..panels.panels();
        let lanes = panels.lanes(all.clone()).len();
        let mut expected = vec![0.0; lanes * case.queried.len()];
        for (q, x) in case.queried.iter().enumerate() {
            for (row, z) in case.supports.iter().enumerate() {
                expected[q * lanes + row] = chain(x, z);
            }
        }
        for &isa in Isa::available() {
            let mut out = vec![f64::NAN; expected.len()];
            panels.dots_dense(isa, &case.dense(&case.queried), all.clone(), &mut out, lanes);
            assert_eq!(bits(&out), bits(&expected), "dense {isa} {}", case.columns);
            out.fill(f64::NAN);
            panels.dots_sparse(isa, &case.sparse(&case.queried), all.clone(), &mut out, lanes);
            assert_eq!(bits(&out), bits(&expected), "sparse {isa} {}", case.columns);
        }
    }
}

#[test]
fn parts_of_panels_and_of_batches_give_the_same_bits() {
    for case in cases() {
        let panels = case.pack();
        let whole = panels.lanes(0..panels.panels()).len();
        for &isa in Isa::available() {
            let mut expected = vec![0.0; whole * case.queried.len()];
            let all = case.dense(&case.queried);
            panels.dots_dense(isa, &all, 0..panels.panels(), &mut expected, whole);
            for panel in 0..panels.panels() {
                let lanes = panels.lanes(panel..panel + 1);
                let stride = lanes.len() + 3;
                for (q, x) in case.queried.iter().enumerate() {
                    let one = case.dense(std::slice::from_ref(x));
                    let mut out = vec![0.0; lanes.len()];
                    panels.dots_dense(isa, &one, panel..panel + 1, &mut out, stride);
                    assert_eq!(bits(&out), bits(&expected[q * whole..][lanes.clone()]));
                    let one = case.sparse(std::slice::from_ref(x));
                    panels.dots_sparse(isa, &one, panel..panel + 1, &mut out, stride);
                    assert_eq!(bits(&out), bits(&expected[q * whole..][lanes.clone()]));
                }
            }
        }
    }
}

#[test]
fn nothing_outside_the_output_range_is_written() {
    let mut noise = Noise::new(3);
    let panels = Panels64::pack(50, 9, |_, row| row.fill(0.5));
    let mut queries = DenseQueries64::new(9);
    let mut stored = SparseQueries64::new(9);
    for _ in 0..7 {
        let row = noise.wilds(9);
        queries.push(&row);
        let (columns, values) = sparse(&row);
        stored.push(&columns, &values);
    }
    for &isa in Isa::available() {
        for dense in [true, false] {
            let mut out = vec![f64::INFINITY; 6 * 60 + 56 + 5];
            if dense {
                panels.dots_dense(isa, &queries, 0..2, &mut out, 60);
            } else {
                panels.dots_sparse(isa, &stored, 0..2, &mut out, 60);
            }
            for (at, value) in out.iter().enumerate() {
                let gap = at % 60 >= 56 || at >= 6 * 60 + 56;
                assert_eq!(value.is_infinite(), gap, "{isa} place {at}");
            }
        }
    }
}

#[test]
fn pairs_of_rows_in_any_storage_agree_with_the_chain() {
    for case in cases() {
        for x in &case.queried {
            let (xc, xv) = sparse(x);
            for &isa in Isa::available() {
                let mut scattered = vec![0.0; case.rows];
                for (&column, &value) in xc.iter().zip(&xv) {
                    let of: Vec<f64> = case.supports.iter().map(|z| z[column as usize]).collect();
                    let (rows, values) = sparse(&of);
                    scatter_column(isa, value, &rows, &values, &mut scattered);
                }
                for (row, z) in case.supports.iter().enumerate() {
                    let expected = chain(x, z).to_bits();
                    let (zc, zv) = sparse(z);
                    assert_eq!(dot(isa, x, z).to_bits(), expected);
                    assert_eq!(dot_sparse(isa, &xc, &xv, &zc, &zv).to_bits(), expected);
                    assert_eq!(scattered[row].to_bits(), expected);
                }
            }
        }
    }
}

#[test]
fn squared_norms_are_products_with_oneself() {
    for case in cases() {
        let of = |rows: &[Vec<f64>]| rows.iter().map(|x| chain(x, x)).collect::<Vec<_>>();
        for &isa in Isa::available() {
            let mut norms = vec![f64::NAN; case.queried.len()];
            case.dense(&case.queried).squared_norms(isa, &mut norms);
            assert_eq!(bits(&norms), bits(&of(&case.queried)));
            norms.fill(f64::NAN);
            case.sparse(&case.queried).squared_norms(isa, &mut norms);
            assert_eq!(bits(&norms), bits(&of(&case.queried)));
            let mut norms = vec![f64::NAN; case.rows];
            case.pack().squared_norms(isa, &mut norms);
            assert_eq!(bits(&norms), bits(&of(&case.supports)));
        }
    }
}

#[test]
fn packing_loses_nothing_and_blocks_are_reusable() {
    for case in cases() {
        let panels = case.pack();
        assert_eq!((panels.rows(), panels.columns()), (case.rows, case.columns));
        let lanes = panels.lanes(0..panels.panels());
        assert_eq!(panels.bytes(), 8 * lanes.len() * case.columns);
        assert!(lanes.len() >= case.rows && lanes.len() < case.rows + 8);
        let mut row = vec![0.0; case.columns];
        for (at, expected) in case.supports.iter().enumerate() {
            panels.copy_row(at, &mut row);
            assert_eq!(bits(&row), bits(expected));
        }
        let flat: Vec<f64> = case.queried.concat();
        let mut queries = case.dense(&case.supports);
        queries.clear();
        queries.push_rows(&flat, case.queried.len(), case.columns);
        let mut again = vec![0.0; case.queried.len()];
        queries.squared_norms(Isa::best(), &mut again);
        let mut fresh = vec![0.0; case.queried.len()];
        case.dense(&case.queried).squared_norms(Isa::best(), &mut fresh);
        assert_eq!(bits(&again), bits(&fresh));
    }
}

#[test]
fn single_precision_keeps_its_bits_and_its_error_bound() {
    for (seed, [rows, columns, queries]) in SHAPES.into_iter().enumerate() {
        let mut noise = Noise::new(100 + seed as u64);
        let mut row = || (0..columns).map(|_| noise.between(-1.0, 1.0) as f32).collect::<Vec<_>>();
        let supports: Vec<Vec<f32>> = (0..rows).map(|_| row()).collect();
        let queried: Vec<Vec<f32>> = (0..queries).map(|_| row()).collect();
        let panels = Panels32::pack(rows, columns, |at, buffer| {
            buffer.copy_from_slice(&supports[at]);
        });
        let lanes = panels.lanes(0..panels.panels()).len();
        let mut block = DenseQueries32::new(columns);
        for x in &queried {
            block.push(x);
        }
        let products = |isa, block: &DenseQueries32| {
            let mut out = vec![f32::NAN; lanes * block.len()];
            panels.dots_dense(isa, block, 0..panels.panels(), &mut out, lanes);
            out.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let expected = products(Isa::SCALAR, &block);
        for &isa in Isa::available() {
            assert_eq!(products(isa, &block), expected, "{isa} {rows} {columns} {queries}");
            for (q, x) in queried.iter().enumerate() {
                let mut one = DenseQueries32::new(columns);
                one.push(x);
                assert_eq!(products(isa, &one), expected[q * lanes..][..lanes]);
            }
        }
        let n = Panels32::dot_error_terms(columns) as f64;
        let gamma = n * 2.0_f64.powi(-24) / (1.0 - n * 2.0_f64.powi(-24));
        for (q, x) in queried.iter().enumerate() {
            for (at, z) in supports.iter().enumerate() {
                // Products of f32 are exact in f64; the sum of 300 of them nearly so.
                let terms = || x.iter().zip(z).map(|(&a, &b)| f64::from(a) * f64::from(b));
                let computed = f64::from(f32::from_bits(expected[q * lanes + at]));
                let slack = 1e-13;
                let size = terms().map(f64::abs).sum::<f64>();
                assert!((computed - terms().sum::<f64>()).abs() <= gamma * size + slack);
            }
        }
    }
}

#[test]
fn sparse_f32_queries_have_the_bits_of_dense_ones() {
    for (seed, [rows, columns, queries]) in SHAPES.into_iter().chain([[100, 785, 9]]).enumerate() {
        let mut noise = Noise::new(seed as u64 + 301);
        let mut row = |density: f64| -> Vec<f32> {
            let tiny = [1.0, 1e-30, 1e-42];
            let mut value = || (noise.between(-1.0, 1.0) as f32) * tiny[noise.below(3)];
            let values: Vec<f32> = (0..columns).map(|_| value()).collect();
            values
                .into_iter()
                .map(|x| if noise.between(0.0, 1.0) < density { x } else { 0.0 })
                .collect()
        };
        let supports: Vec<Vec<f32>> = (0..rows).map(|_| row(0.7)).collect();
        let queried: Vec<Vec<f32>> = (0..queries).map(|_| row(0.3)).collect();
        let panels = Panels32::pack(rows, columns, |at, buffer| {
            buffer.copy_from_slice(&supports[at]);
        });
        let lanes = panels.lanes(0..panels.panels()).len();
        let (mut dense, mut sparse) = (DenseQueries32::new(columns), SparseQueries32::new(columns));
        for x in &queried {
            dense.push(x);
            let entries = (0u32..).zip(x).filter(|(_, x)| **x != 0.0);
            let (at, values): (Vec<u32>, Vec<f32>) = entries.map(|(at, x)| (at, *x)).unzip();
            sparse.push(&at, &values);
        }
        for &isa in Isa::available() {
            let (mut one, mut two) =
                (vec![f32::NAN; lanes * queries], vec![f32::NAN; lanes * queries]);
            panels.dots_dense(isa, &dense, 0..panels.panels(), &mut one, lanes);
            panels.dots_sparse(isa, &sparse, 0..panels.panels(), &mut two, lanes);
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&one), bits(&two), "{isa} {rows} {columns} {queries}");
        }
    }
}
