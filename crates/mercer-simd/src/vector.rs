//! The vector traits: each algorithm is written once against them and compiled for every backend.

#![expect(unsafe_code, reason = "loads, stores and constructors that need a proven feature")]

/// A few numbers side by side in one register.
///
/// A value can only be made by the unsafe constructors, whose callers have proved that the processor
/// supports the type; the other methods rely on that proof and are safe.
pub trait Vector: Copy {
    /// What each lane holds.
    type Element: Element;
    /// How many lanes.
    const LANES: usize;

    /// The same number in all lanes.
    ///
    /// # Safety
    /// The processor must support this type's instruction set.
    unsafe fn splat(x: Self::Element) -> Self;

    /// Reads `LANES` numbers.
    ///
    /// # Safety
    /// As for `splat`; `from` must be readable for `LANES` elements (any alignment).
    unsafe fn load(from: *const Self::Element) -> Self;

    /// Writes `LANES` numbers.
    ///
    /// # Safety
    /// `to` must be writable for `LANES` elements (any alignment).
    unsafe fn store(self, to: *mut Self::Element);

    /// `self * factor + term`, rounded once.
    fn fma(self, factor: Self, term: Self) -> Self;

    /// `self + other`.
    fn add(self, other: Self) -> Self;
}

/// Products of unsigned bytes of several rows with those of a query, summed modulo 2^32.
///
/// Some instructions need one signed factor, so half or all of the rows may be stored minus 128; `store`
/// adds the correction.
pub trait ByteVector: Copy {
    /// Rows covered by one register of bytes.
    const ROWS: usize;
    /// Columns multiplied together: 2 or 4.
    const GROUP: usize;
    /// Registers side by side in a panel, at most 6.
    const REGISTERS: usize;
    /// A group of query bytes, the same for all rows.
    type Query: Copy;

    /// The position within a register of the byte of a row and a column of the group, and the byte to store.
    fn place(row: usize, column: usize, byte: u8) -> (usize, u8);

    /// Zero sums.
    ///
    /// # Safety
    /// The processor must support this type's instruction set.
    unsafe fn zero() -> Self;

    /// A group of query bytes: two 16-bit words or four bytes.
    ///
    /// # Safety
    /// As for `zero`.
    unsafe fn query(word: u32) -> Self::Query;

    /// Adds the products of a group in each of `ROWS` rows.
    ///
    /// # Safety
    /// As for `zero`; `rows` must be readable for `ROWS * GROUP` bytes.
    unsafe fn multiply_add(&mut self, query: Self::Query, rows: *const u8);

    /// Writes one sum per row; `correction` is 128 times the sum of all query bytes.
    ///
    /// # Safety
    /// As for `zero`; `to` must be writable for `ROWS` elements.
    unsafe fn store(self, correction: i32, to: *mut i32);
}

/// Selects non-zero values, eight at a time.
pub trait Compactor {
    /// Writes a weight for each of eight values that is not zero and whose row is not [`crate::NO_ROW`], in
    /// order; returns how many there were.
    ///
    /// # Safety
    /// The processor must support this type's instruction set; `values` and `rows` must be readable for eight
    /// elements, and `to` writable for eight, of which those not counted may hold anything afterwards.
    unsafe fn compact(values: *const f64, rows: *const u32, to: *mut crate::Weight) -> usize;
}

/// The vector types of one instruction set.
pub trait SimdBackend {
    /// A vector of f64.
    type V64: Vector<Element = f64>;
    /// Vector of f32.
    type V32: Vector<Element = f32>;
    /// Byte multiplier.
    type Bytes: ByteVector;
    /// Selection of non-zero values.
    type Compactor: Compactor;

    /// The sum of sixteen numbers in f64: `h_i = p_i + p_(i+8)`, then [`crate::fold8`] of the eight. All backends give the same bits.
    ///
    /// # Safety
    /// The processor must support this instruction set.
    unsafe fn fold16(partials: &[f32; 16]) -> f64 {
        let half = |i: usize| f64::from(partials[i]) + f64::from(partials[i + 8]);
        crate::fold8(&std::array::from_fn(half))
    }
}

/// A computation written once and compiled for each instruction set by [`crate::Isa::run`].
pub trait Task {
    /// What it returns.
    type Output;
    /// Whether it uses [`SimdBackend::Bytes`]. Backends that differ in nothing else compile the other tasks once.
    const USES_BYTES: bool = false;
    /// The body; implementations are `#[inline(always)]` so that they take the caller's features.
    fn run<B: SimdBackend>(self) -> Self::Output;
}

/// How consecutive chunks of columns are combined into one dot product.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Join {
    /// The chain goes on in the same accumulator: one rounding per column, in column order.
    Continue,
    /// Each chunk starts from zero and its sum is added: fewer consecutive roundings.
    Add,
}

/// A number type that panels can hold: `f64` or `f32`.
///
/// # Safety
/// Implementors are plain numbers: any bit pattern is a value and zero bits are zero.
pub unsafe trait Element: Copy + Default + Send + Sync + 'static {
    /// Lanes in 64 bytes; widths are multiples of it.
    const PAD: usize;
    /// How chunks are combined.
    const JOIN: Join;
    /// The vector of this type on a backend.
    type On<B: SimdBackend>: Vector<Element = Self>;

    /// Columns per chunk, for a product of `columns` columns with `queries` queries.
    fn chunk(columns: usize, queries: usize) -> usize;

    /// `self * self + term`, rounded once.
    fn square_add(self, term: Self) -> Self;

    /// `self + 0`, which turns −0 into +0.
    fn positive_zero(self) -> Self;
}

// SAFETY: a plain number.
unsafe impl Element for f64 {
    const PAD: usize = 8;
    const JOIN: Join = Join::Continue;
    type On<B: SimdBackend> = B::V64;

    fn chunk(columns: usize, queries: usize) -> usize {
        // One query reads the panel once, sequentially. More queries read each strip of a chunk
        // again: 64 columns of 24 lanes are 12 KiB and stay in the first cache with the
        // queries. Chunks of equal size, so that none is short.
        if queries == 1 {
            columns.max(1)
        } else {
            columns.div_ceil(columns.div_ceil(64).max(1)).max(1)
        }
    }

    #[inline(always)]
    fn square_add(self, term: Self) -> Self {
        self.mul_add(self, term)
    }

    #[inline(always)]
    fn positive_zero(self) -> Self {
        self + 0.0
    }
}

// SAFETY: a plain number.
unsafe impl Element for f32 {
    const PAD: usize = 16;
    const JOIN: Join = Join::Add;
    type On<B: SimdBackend> = B::V32;

    fn chunk(columns: usize, _queries: usize) -> usize {
        // Sixteen chunks of at least 32 columns (less does not pay) and at most 128 (the L1 cache).
        // Independent of the number of queries: chunks determine the rounding.
        columns.div_ceil(16).clamp(32, 128)
    }

    #[inline(always)]
    fn square_add(self, term: Self) -> Self {
        self.mul_add(self, term)
    }

    #[inline(always)]
    fn positive_zero(self) -> Self {
        self + 0.0
    }
}
