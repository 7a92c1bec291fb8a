//! Matrix products for training, where speed counts and the last bits do not.

#![expect(unsafe_code, reason = "the gemm crate takes raw pointers")]

use gemm::{Parallelism, gemm};

fn product<T: Copy + 'static>(shape: [usize; 3], a: &[T], b: &[T], out: &mut [T], zero: T, one: T) {
    let [rows_a, rows_b, inner] = shape;
    assert_eq!(Some(a.len()), rows_a.checked_mul(inner), "a is rows_a times inner");
    assert_eq!(Some(b.len()), rows_b.checked_mul(inner), "b is rows_b times inner");
    assert_eq!(Some(out.len()), rows_a.checked_mul(rows_b), "out is rows_a times rows_b");
    let (row_b, row) = (rows_b as isize, inner as isize);
    // SAFETY: the lengths were checked; column strides come before row strides, and b is read
    // transposed: its element (k, j) is at j * inner + k.
    unsafe {
        gemm(
            rows_a,
            rows_b,
            inner,
            out.as_mut_ptr(),
            1,
            row_b,
            false,
            a.as_ptr(),
            1,
            row,
            b.as_ptr(),
            row,
            1,
            zero, // scales the old content of `out`
            one,  // scales the product
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// `out = A Bᵀ`, all row-major: `out[i * rows_b + j] = Σ_k a[i * inner + k] b[j * inner + k]`.
///
/// One thread; bits may change with the shape and the machine.
///
/// # Panics
/// If a length does not fit its shape.
pub fn gemm_nt(rows_a: usize, rows_b: usize, inner: usize, a: &[f64], b: &[f64], out: &mut [f64]) {
    product([rows_a, rows_b, inner], a, b, out, 0.0, 1.0);
}

/// [`gemm_nt`] in single precision.
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
    product([rows_a, rows_b, inner], a, b, out, 0.0, 1.0);
}

#[cfg(test)]
mod tests {
    use super::{gemm_nt, gemm_nt32};

    #[test]
    fn rows_times_rows_is_the_table_of_dot_products() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        let mut out = [7.0; 8];
        gemm_nt(2, 4, 3, &a, &b, &mut out);
        assert_eq!(out.map(|x| x as i32), [4, 4, 3, 6, 10, 13, 6, 15]);
        let mut single = [7.0; 8];
        gemm_nt32(2, 4, 3, &a.map(|x| x as f32), &b.map(|x| x as f32), &mut single);
        assert_eq!(single.map(|x| x as i32), [4, 4, 3, 6, 10, 13, 6, 15]);
    }

    #[test]
    fn an_inner_dimension_of_zero_gives_zeros() {
        let mut out = [7.0; 6];
        gemm_nt(2, 3, 0, &[], &[], &mut out);
        assert_eq!(out.map(f64::to_bits), [0; 6]);
    }
}
