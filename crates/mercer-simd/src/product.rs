//! Matrix products for training, where speed counts and the last bits do not.

//! The crates of `gemm` for f32 and f64 are used directly: `gemm` itself also compiles complex numbers.

#![expect(unsafe_code, reason = "the gemm crates take raw pointers")]

use gemm_common::Parallelism;

/// Multiplies matrices: sizes, `out`, A and B with the strides of columns and rows, factors, conjugations.
type GemmFunction<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// A type of which `gemm` multiplies matrices.
pub(crate) trait HasGemm: Copy + 'static {
    /// The function for this processor.
    fn gemm_function() -> GemmFunction<Self>;
}

impl HasGemm for f32 {
    fn gemm_function() -> GemmFunction<Self> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

impl HasGemm for f64 {
    fn gemm_function() -> GemmFunction<Self> {
        gemm_f64::gemm::f64::get_gemm_fn()
    }
}

/// A matrix inside a slice: element `(i, j)` lies at `i * row + j * column`.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a, T> {
    /// The numbers.
    pub values: &'a [T],
    /// Distance from one row to the next.
    pub row: usize,
    /// Distance from one column to the next.
    pub column: usize,
}

impl<T> Strided<'_, T> {
    fn transposed(self) -> Self {
        Self { values: self.values, row: self.column, column: self.row }
    }
}

/// [`Strided`], to be written.
#[derive(Debug)]
pub struct StridedMut<'a, T> {
    /// The numbers.
    pub values: &'a mut [T],
    /// Distance from one row to the next.
    pub row: usize,
    /// Distance from one column to the next.
    pub column: usize,
}

/// The sizes of a matrix product: A is `rows` times `inner`, B is `inner` times `columns`.
#[derive(Debug, Clone, Copy)]
pub struct ProductShape {
    /// Rows of A and of the product.
    pub rows: usize,
    /// Columns of B and of the product.
    pub columns: usize,
    /// Columns of A, rows of B.
    pub inner: usize,
}

/// Whether every element of a matrix of this shape lies inside `length` numbers.
fn fits(rows: usize, columns: usize, row: usize, column: usize, length: usize) -> bool {
    if rows == 0 || columns == 0 {
        return true;
    }
    let last = (rows - 1).checked_mul(row).zip((columns - 1).checked_mul(column));
    let last = last.and_then(|(down, right)| down.checked_add(right));
    last.is_some_and(|last| last < length && isize::try_from(last).is_ok())
}

/// `out = keep out + add A B`; see [`crate::Real::product`].
pub(crate) fn product<T: HasGemm>(
    shape: ProductShape,
    a: Strided<'_, T>,
    b: Strided<'_, T>,
    out: &mut StridedMut<'_, T>,
    keep: T,
    add: T,
    is_kept: bool,
) {
    let ProductShape { rows, columns, inner } = shape;
    assert!(fits(rows, inner, a.row, a.column, a.values.len()), "a is rows times inner");
    assert!(fits(inner, columns, b.row, b.column, b.values.len()), "b is inner times columns");
    assert!(
        fits(rows, columns, out.row, out.column, out.values.len()),
        "out is rows times columns"
    );
    // `gemm` prefers an `out` whose columns are contiguous: the product of the transposed matrices otherwise.
    let (shape, a, b, row, column) = if out.column < out.row {
        let transposed = ProductShape { rows: columns, columns: rows, inner };
        (transposed, b.transposed(), a.transposed(), out.column, out.row)
    } else {
        (shape, a, b, out.row, out.column)
    };
    // SAFETY: every element of the three matrices lies inside its slice, as was just checked, and `out` is
    // borrowed alone.
    unsafe {
        T::gemm_function()(
            shape.rows,
            shape.columns,
            inner,
            out.values.as_mut_ptr(),
            column as isize,
            row as isize,
            is_kept,
            a.values.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.values.as_ptr(),
            b.column as isize,
            b.row as isize,
            keep,
            add,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

fn rows_by_rows<T: HasGemm>(shape: ProductShape, a: &[T], b: &[T], out: &mut [T], zero: T, one: T) {
    let ProductShape { rows: rows_a, columns: rows_b, inner } = shape;
    assert_eq!(Some(a.len()), rows_a.checked_mul(inner), "a is rows_a times inner");
    assert_eq!(Some(b.len()), rows_b.checked_mul(inner), "b is rows_b times inner");
    assert_eq!(Some(out.len()), rows_a.checked_mul(rows_b), "out is rows_a times rows_b");
    let a = Strided { values: a, row: inner, column: 1 };
    let b = Strided { values: b, row: 1, column: inner };
    let mut out = StridedMut { values: out, row: rows_b, column: 1 };
    product(shape, a, b, &mut out, zero, one, false);
}

/// `out = A Bᵀ`, all row-major: `out[i * rows_b + j] = Σ_k a[i * inner + k] b[j * inner + k]`.
///
/// One thread; bits may change with the shape and the processor.
///
/// # Panics
/// If a length does not fit its shape.
pub fn gemm_nt(rows_a: usize, rows_b: usize, inner: usize, a: &[f64], b: &[f64], out: &mut [f64]) {
    let shape = ProductShape { rows: rows_a, columns: rows_b, inner };
    rows_by_rows(shape, a, b, out, 0.0, 1.0);
}

/// [`gemm_nt`] in f32.
///
/// # Panics
/// If a length does not fit its shape.
pub fn gemm_nt32(
    rows_a: usize,
    rows_b: usize,
    inner: usize,
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
) {
    let shape = ProductShape { rows: rows_a, columns: rows_b, inner };
    rows_by_rows(shape, a, b, out, 0.0, 1.0);
}

#[cfg(test)]
mod tests {
    use super::{gemm_nt, gemm_nt32};

    #[test]
    fn rows_times_rows_is_the_matrix_of_dot_products() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        let mut out = [7.0; 8];
        gemm_nt(2, 4, 3, &a, &b, &mut out);
        assert_eq!(out.map(|x| x as i32), [4, 4, 3, 6, 10, 13, 6, 15]);
        let mut short = [7.0; 8];
        gemm_nt32(2, 4, 3, &a.map(|x| x as f32), &b.map(|x| x as f32), &mut short);
        assert_eq!(short.map(|x| x as i32), [4, 4, 3, 6, 10, 13, 6, 15]);
    }

    #[test]
    fn an_inner_dimension_of_zero_gives_zeros() {
        let mut out = [7.0; 6];
        gemm_nt(2, 3, 0, &[], &[], &mut out);
        assert_eq!(out.map(f64::to_bits), [0; 6]);
    }
}
