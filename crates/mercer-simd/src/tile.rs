//! The inner loops of the products: small tiles of accumulators that stay in registers.
//!
//! A lane is a row of the panel; a column is broadcast from the query. No sum ever crosses lanes, so
//! each dot product is the same chain whatever the width of a register or the number of queries.

#![expect(unsafe_code, reason = "pointer arithmetic inside panels, bounded by the safe drivers")]
#![expect(clippy::needless_range_loop, reason = "plain indices into register arrays unroll fully")]

use std::ops::Range;

use crate::aligned::PlainNumber;
use crate::panels::Panels;
use crate::queries::{DenseQueries, GROUP, SparseEntry, SparseQueries};
use crate::vector::{Element, Join, SimdBackend, Task, Vector};

/// Bytes of queries that stay in the second cache beside a panel and its products.
const RESIDENT: usize = 512 * 1024;

/// Dense queries against panels; sizes were checked by the caller.
pub(crate) struct DenseDots<'a, T> {
    pub panels: &'a Panels<T>,
    pub queries: &'a DenseQueries<T>,
    pub range: Range<usize>,
    pub out: &'a mut [T],
    pub stride: usize,
}

/// A chunk of columns of one panel against all queries.
#[derive(Copy, Clone)]
struct TileSweep<T> {
    /// First column of the chunk, first lane of the panel.
    panel: *const T,
    /// Lanes of the panel.
    width: usize,
    /// Columns of the chunk.
    steps: usize,
    /// First column of the chunk, first query of the first group.
    queries: *const T,
    /// From one group of queries to the next.
    group: usize,
    /// First query, first lane of the panel.
    out: *mut T,
    /// From one query's row to the next in `out`.
    stride: usize,
    first: bool,
    last: bool,
}

impl<T: Element + PlainNumber> Task for DenseDots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let columns = self.panels.columns();
        let queries = self.queries.values();
        let chunk = T::chunk(columns, self.queries.len());
        let chunks = columns.div_ceil(chunk).max(1);
        let panels = self.range.len();
        // A small block of queries stays in the cache: then read the panels straight through. Of a
        // large one only a chunk stays: then take all panels before the next chunk.
        let by_panel = size_of_val(queries) <= RESIDENT;
        for step in 0..panels * chunks {
            let (panel, at) = if by_panel {
                (step / chunks, step % chunks)
            } else {
                (step % panels, step / panels)
            };
            let begin = at * chunk;
            let steps = chunk.min(columns - begin);
            let width = self.panels.width(self.range.start + panel);
            let sweep = TileSweep {
                panel: self.panels.panel(self.range.start + panel)[begin * width..].as_ptr(),
                width,
                steps,
                queries: queries[begin * GROUP..].as_ptr(),
                group: GROUP * columns,
                out: self.out[panel * Panels::<T>::WIDTH..].as_mut_ptr(),
                stride: self.stride,
                first: at == 0,
                last: at + 1 == chunks,
            };
            // SAFETY: `dots_dense` checked that `out` holds all queries times all lanes of the
            // range, and the pointers above start inside their slices; `B` is the backend of the
            // target features this body was inlined into.
            unsafe { sweep.all_queries::<T::On<B>>(self.queries.len()) };
        }
    }
}

impl<T: Element> TileSweep<T> {
    /// Runs over blocks of queries as large as the registers allow.
    #[inline(always)]
    unsafe fn all_queries<V: Vector<Element = T>>(self, queries: usize) {
        // SAFETY: every block consists of queries that exist and lies within a group or fills two.
        unsafe {
            if V::LANES == T::PAD {
                // AVX-512: 32 registers, each a whole cache line.
                let (eights, fours) = (queries / 8 * 8, queries / 4 * 4);
                self.strips::<V, 3, 8>(0..eights);
                self.strips::<V, 3, 4>(eights..fours);
                self.strips::<V, 6, 2>(fours..queries / 2 * 2);
            } else {
                // AVX2: 16 registers. Six rows by two queries leaves one free; with three by four
                // the compiler spills an accumulator and halves the speed.
                self.strips::<V, 6, 2>(0..queries / 2 * 2);
            }
            if queries % 2 == 1 {
                self.single::<V>(queries - 1..queries);
            }
        }
    }

    #[inline(always)]
    unsafe fn single<V: Vector<Element = T>>(self, queries: Range<usize>) {
        // SAFETY: as for `strips`.
        unsafe {
            if V::LANES == T::PAD {
                self.strips::<V, 6, 1>(queries);
            } else {
                self.strips::<V, 12, 1>(queries);
            }
        }
    }

    /// Cuts the panel into strips of `N` registers, then two, then one; all queries over each strip.
    #[inline(always)]
    unsafe fn strips<V: Vector<Element = T>, const N: usize, const Q: usize>(
        self,
        queries: Range<usize>,
    ) {
        let mut lane = 0;
        // SAFETY: strips end within the width of the panel.
        unsafe {
            while lane + N * V::LANES <= self.width {
                self.strip::<V, N, Q>(lane, queries.clone());
                lane += N * V::LANES;
            }
            if N > 4 && lane + 4 * V::LANES <= self.width {
                self.strip::<V, 4, Q>(lane, queries.clone());
                lane += 4 * V::LANES;
            }
            while lane + 2 * V::LANES <= self.width {
                self.strip::<V, 2, Q>(lane, queries.clone());
                lane += 2 * V::LANES;
            }
            if lane < self.width {
                self.strip::<V, 1, Q>(lane, queries);
            }
        }
    }

    #[inline(always)]
    unsafe fn strip<V: Vector<Element = T>, const N: usize, const Q: usize>(
        self,
        lane: usize,
        queries: Range<usize>,
    ) {
        let panel = self.panel.wrapping_add(lane);
        let tiles = queries.len() / Q;
        for tile in 0..tiles {
            let query = queries.start + tile * Q;
            let tile = TileSweep {
                panel,
                queries: self.queries.wrapping_add(query / GROUP * self.group + query % GROUP),
                out: self.out.wrapping_add(query * self.stride + lane),
                ..self
            };
            // SAFETY: the strip and the `Q` queries exist.
            unsafe { tile.tile::<V, N, Q>() };
        }
    }

    /// `N` registers of rows times `Q` queries over the columns of the chunk.
    #[inline(always)]
    unsafe fn tile<V: Vector<Element = T>, const N: usize, const Q: usize>(self) {
        // SAFETY: the callers keep `N * LANES` lanes of each column, `Q` queries and their places
        // in `out` inside the slices; `V` belongs to the backend this body is compiled for.
        unsafe {
            let zero = V::splat(T::default());
            let mut sums = [[zero; N]; Q];
            if T::JOIN == Join::Continue && !self.first {
                for q in 0..Q {
                    for n in 0..N {
                        sums[q][n] = V::load(self.out.add(q * self.stride + n * V::LANES));
                    }
                }
            }
            let mut panel = self.panel;
            let mut query = self.queries;
            for _ in 0..self.steps {
                if N > Q {
                    step_by_rows::<V, N, Q>(panel, query, self.group, &mut sums);
                } else {
                    step_by_queries::<V, N, Q>(panel, query, self.group, &mut sums);
                }
                panel = panel.add(self.width);
                query = query.add(GROUP);
            }
            self.finish::<V, N, Q>(sums);
        }
    }

    /// Joins the sums to those of earlier chunks and writes them.
    #[inline(always)]
    unsafe fn finish<V: Vector<Element = T>, const N: usize, const Q: usize>(
        self,
        sums: [[V; N]; Q],
    ) {
        // SAFETY: as for `tile`.
        unsafe {
            let zero = V::splat(T::default());
            for q in 0..Q {
                for n in 0..N {
                    let place = self.out.add(q * self.stride + n * V::LANES);
                    let mut sum = sums[q][n];
                    if T::JOIN == Join::Add && !self.first {
                        sum = V::load(place).add(sum);
                    }
                    if self.last {
                        sum = sum.add(zero);
                    }
                    sum.store(place);
                }
            }
        }
    }
}

/// One column with the queries held in registers and the rows streaming by: for `N > Q`.
#[inline(always)]
unsafe fn step_by_rows<V: Vector, const N: usize, const Q: usize>(
    panel: *const V::Element,
    query: *const V::Element,
    group: usize,
    sums: &mut [[V; N]; Q],
) {
    // SAFETY: the caller gives `N` registers of rows and `Q` queries.
    unsafe {
        let mut factors = [V::splat(*query); Q];
        for q in 1..Q {
            factors[q] = V::splat(*query.add(q / GROUP * group + q % GROUP));
        }
        for n in 0..N {
            let row = V::load(panel.add(n * V::LANES));
            for q in 0..Q {
                sums[q][n] = row.fma(factors[q], sums[q][n]);
            }
        }
    }
}

/// One column with the rows held in registers and the queries streaming by: for `N <= Q`.
#[inline(always)]
unsafe fn step_by_queries<V: Vector, const N: usize, const Q: usize>(
    panel: *const V::Element,
    query: *const V::Element,
    group: usize,
    sums: &mut [[V; N]; Q],
) {
    // SAFETY: the caller gives `N` registers of rows and `Q` queries.
    unsafe {
        let mut rows = [V::load(panel); N];
        for n in 1..N {
            rows[n] = V::load(panel.add(n * V::LANES));
        }
        for q in 0..Q {
            let factor = V::splat(*query.add(q / GROUP * group + q % GROUP));
            for n in 0..N {
                sums[q][n] = rows[n].fma(factor, sums[q][n]);
            }
        }
    }
}

/// Sparse queries against panels; sizes were checked by the caller.
pub(crate) struct SparseDots<'a, T> {
    pub panels: &'a Panels<T>,
    pub queries: &'a SparseQueries<T>,
    pub range: Range<usize>,
    pub out: &'a mut [T],
    pub stride: usize,
}

impl<T: Element + PlainNumber> Task for SparseDots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let chunks = self.queries.chunks();
        for (at, panel) in self.range.enumerate() {
            let width = self.panels.width(panel);
            let values = self.panels.panel(panel);
            let out = &mut self.out[at * Panels::<T>::WIDTH..];
            for (step, chunk) in chunks.iter().enumerate() {
                let (first, last) = (step == 0, step + 1 == chunks.len());
                let mut start = 0;
                for (query, &end) in chunk.ends.iter().enumerate() {
                    let entries = &chunk.entries[start..end];
                    let out = &mut out[query * self.stride..][..width];
                    // SAFETY: `push` checked that the columns exist, `values` is a whole panel, and
                    // `out` covers its lanes; `B` is the backend this body is compiled for.
                    unsafe {
                        SparseSweep { values, width, entries, first, last }.panel::<T::On<B>>(out);
                    };
                    start = end;
                }
            }
        }
    }
}

/// The entries of one query within a chunk, against one panel.
#[derive(Copy, Clone)]
struct SparseSweep<'a, T> {
    values: &'a [T],
    width: usize,
    entries: &'a [SparseEntry<T>],
    first: bool,
    last: bool,
}

impl<T: Element> SparseSweep<'_, T> {
    /// Whole panel, then half panels, then single cache lines.
    #[inline(always)]
    unsafe fn panel<V: Vector<Element = T>>(self, out: &mut [T]) {
        let mut lane = 0;
        // SAFETY: each strip ends within the width of the panel.
        unsafe {
            if V::LANES == T::PAD {
                if self.width == 6 * V::LANES {
                    return self.strip::<V, 6>(0, out);
                }
                if self.width >= 4 * V::LANES {
                    self.strip::<V, 4>(0, out);
                    lane = 4 * V::LANES;
                } else if self.width >= 2 * V::LANES {
                    self.strip::<V, 2>(0, out);
                    lane = 2 * V::LANES;
                }
                while lane < self.width {
                    self.strip::<V, 1>(lane, out);
                    lane += V::LANES;
                }
            } else {
                if self.width == 12 * V::LANES {
                    return self.strip::<V, 12>(0, out);
                }
                // As many accumulators as fit: a walk waits for each multiply-add, however few they are.
                if self.width >= 8 * V::LANES {
                    self.strip::<V, 8>(0, out);
                    lane = 8 * V::LANES;
                } else if self.width >= 6 * V::LANES {
                    self.strip::<V, 6>(0, out);
                    lane = 6 * V::LANES;
                } else if self.width >= 4 * V::LANES {
                    self.strip::<V, 4>(0, out);
                    lane = 4 * V::LANES;
                }
                while lane < self.width {
                    self.strip::<V, 2>(lane, out);
                    lane += 2 * V::LANES;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn strip<V: Vector<Element = T>, const N: usize>(self, lane: usize, out: &mut [T]) {
        // SAFETY: the caller keeps `lane + N * LANES` within the width and the columns within the
        // panel; `V` belongs to the backend this body is compiled for.
        unsafe {
            let zero = V::splat(T::default());
            let out = out.as_mut_ptr().add(lane);
            let panel = self.values.as_ptr().add(lane);
            let mut sums = [zero; N];
            if T::JOIN == Join::Continue && !self.first {
                for n in 0..N {
                    sums[n] = V::load(out.add(n * V::LANES));
                }
            }
            for entry in self.entries {
                let rows = panel.add(entry.column as usize * self.width);
                let x = V::splat(entry.value);
                for n in 0..N {
                    sums[n] = V::load(rows.add(n * V::LANES)).fma(x, sums[n]);
                }
            }
            for n in 0..N {
                let place = out.add(n * V::LANES);
                let mut sum = sums[n];
                if T::JOIN == Join::Add && !self.first {
                    sum = V::load(place).add(sum);
                }
                if self.last {
                    sum = sum.add(zero);
                }
                sum.store(place);
            }
        }
    }
}
