//! Property of blocks: they have the bits of kernel values computed one by one.

use std::sync::Arc;

use mercer_data::{Matrix, Row};
use mercer_kernel::block::{Packed, Queries};
use mercer_kernel::{Form, KernelRef};
use mercer_simd::Isa;

use super::kernels::{Verdict, centred, same};

/// Queries per block to try.
pub const SIZES: [usize; 5] = [1, 2, 7, 64, 256];

/// Supports, queries, and what the single values are.
#[derive(Debug)]
pub struct BlockProperty<'a> {
    kernel: KernelRef,
    supports: &'a Matrix,
    queries: &'a Matrix,
    centre: Option<&'a [f64]>,
    /// `expected[query * supports + support]`
    expected: Vec<f64>,
}

impl<'a> BlockProperty<'a> {
    /// Computes the single values. For `Shift` kernels they are those of the centred rows; others
    /// ignore the centre. Queries may be wider or narrower than supports.
    pub fn new(
        kernel: KernelRef,
        supports: &'a Matrix,
        queries: &'a Matrix,
        centre: Option<&'a [f64]>,
    ) -> Self {
        let shift = centre.filter(|_| matches!(kernel.form(), Form::Shift(_)));
        let (left, right) = match shift {
            Some(centre) => (centred(queries, centre), centred(supports, centre)),
            None => (queries.clone(), supports.clone()),
        };
        let mut expected = Vec::with_capacity(left.rows() * right.rows());
        for query in left.iter() {
            expected.extend(right.iter().map(|support| kernel.value(query, support)));
        }
        Self { kernel, supports, queries, centre, expected }
    }

    /// Checks blocks of each size on each instruction set, for both storages of both sides.
    pub fn check(&self, sizes: &[usize], sets: &[Isa]) -> Verdict {
        for supports in [self.supports.to_dense(), self.supports.to_sparse()] {
            let packed = Packed::new(self.kernel.clone(), &supports, self.centre);
            self.in_pieces(supports.clone())?;
            let mut block = packed.queries();
            for queries in [self.queries.to_dense(), self.queries.to_sparse()] {
                for size in sizes {
                    for isa in sets {
                        self.block(&packed, &mut block, &queries, *size, *isa).map_err(|what| {
                            let side = |sparse| if sparse { "sparse" } else { "dense" };
                            format!(
                                "{}: {what} (block of {size}, {isa}, {} {} supports, {} queries)",
                                self.kernel.spec(),
                                supports.rows(),
                                side(supports.is_sparse()),
                                side(queries.is_sparse()),
                            )
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks panels that are packed piece by piece for each block, and then as a whole.
    fn in_pieces(&self, supports: Matrix) -> Verdict {
        let mut packed = Packed::shared(self.kernel.clone(), &Arc::new(supports), self.centre);
        packed.set_in_pieces();
        let mut block = packed.queries();
        for size in [1, 7] {
            self.block(&packed, &mut block, self.queries, size, Isa::current())
                .map_err(|what| format!("{}: {what} (in pieces)", self.kernel.spec()))?;
            packed.pack();
        }
        Ok(())
    }

    /// Compares the first blocks of `size` queries; two of small ones, to see that nothing is left over.
    fn block(
        &self,
        packed: &Packed,
        block: &mut Queries,
        queries: &Matrix,
        size: usize,
        isa: Isa,
    ) -> Verdict {
        let supports = self.supports.rows();
        let blocks = if size < 64 { 2 } else { 1 };
        let stop = queries.rows().min(blocks * size);
        for first in (0..stop).step_by(size) {
            let rows: Vec<Row<'_>> =
                (first..stop.min(first + size)).map(|query| queries.row(query)).collect();
            let found = values(packed, block, &rows, isa)?;
            let expected = &self.expected[first * supports..][..rows.len() * supports];
            let differs = |at: &usize| !same(found[*at], expected[*at]);
            if let Some(at) = (0..found.len()).find(differs) {
                let (query, support) = (first + at / supports, at % supports);
                return Err(format!(
                    "query {query}, support {support}: {:e} in the block, {:e} alone",
                    found[at], expected[at]
                ));
            }
        }
        Ok(())
    }
}

/// Values of one block, query after query; each must be visited exactly once.
fn values(
    packed: &Packed,
    block: &mut Queries,
    rows: &[Row<'_>],
    isa: Isa,
) -> Result<Vec<f64>, String> {
    let supports = packed.rows();
    let mut found = vec![0.0; rows.len() * supports];
    let mut visits = vec![0u8; found.len()];
    let mut scratch = Vec::new();
    packed.load(isa, rows.iter().copied(), block);
    if block.len() != rows.len() {
        return Err(format!("{} of {} queries loaded", block.len(), rows.len()));
    }
    packed.visit(isa, block, rows.iter().copied(), &mut scratch, |tile| {
        for query in tile.queries.clone() {
            let place = query * supports + tile.rows.start..query * supports + tile.rows.end;
            found[place.clone()].copy_from_slice(tile.of(query));
            visits[place].iter_mut().for_each(|count| *count += 1);
        }
    });
    match visits.iter().position(|count| *count != 1) {
        None => Ok(found),
        Some(at) => Err(format!(
            "query {}, support {} is visited {} times",
            at / supports,
            at % supports,
            visits[at]
        )),
    }
}
