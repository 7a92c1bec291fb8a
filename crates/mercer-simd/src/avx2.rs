//! AVX2 with FMA: four doubles, eight singles, four byte rows.

#![expect(unsafe_code, reason = "intrinsics, each behind the proof that its vector type carries")]

use std::arch::x86_64::{
    __m256, __m256d, __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_add_pd, _mm256_add_ps,
    _mm256_cvtepi8_epi16, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_ps,
    _mm256_madd_epi16, _mm256_set1_epi64x, _mm256_set1_pd, _mm256_set1_ps, _mm256_setzero_si256,
    _mm256_storeu_pd, _mm256_storeu_ps, _mm256_storeu_si256,
};

use crate::vector::{ByteVector, Machine, Task, Vector};

/// The machine with AVX2 and FMA.
pub struct Avx2;

impl Machine for Avx2 {
    type V64 = F64x4;
    type V32 = F32x8;
    type Bytes = Pairs4;
}

/// Compiles a task for AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub fn run<T: Task>(task: T) -> T::Output {
    task.run::<Avx2>()
}

macro_rules! vector {
    ($(#[$doc:meta])* $name:ident: [$element:ty; $lanes:literal] in $register:ty,
     $splat:ident, $load:ident, $store:ident, $fma:ident, $add:ident) => {
        $(#[$doc])*
        #[derive(Copy, Clone)]
        pub struct $name($register);

        impl Vector for $name {
            type Element = $element;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(x: $element) -> Self {
                // SAFETY: the caller has proved the instruction set.
                $name(unsafe { $splat(x) })
            }

            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: the caller has proved the instruction set and gives readable lanes.
                $name(unsafe { $load(from) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: a value proves the instruction set; the caller gives writable lanes.
                unsafe { $store(to, self.0) }
            }

            #[inline(always)]
            fn fma(self, factor: Self, term: Self) -> Self {
                // SAFETY: a value proves the instruction set.
                $name(unsafe { $fma(self.0, factor.0, term.0) })
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: a value proves the instruction set.
                $name(unsafe { $add(self.0, other.0) })
            }
        }
    };
}
pub(crate) use vector;

vector! {
    /// Four doubles.
    F64x4: [f64; 4] in __m256d,
    _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd, _mm256_add_pd
}

vector! {
    /// Eight singles.
    F32x8: [f32; 8] in __m256,
    _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps, _mm256_add_ps
}

/// Two sums for each of four rows: bytes 0 and 1, bytes 2 and 3.
#[derive(Copy, Clone)]
pub struct Pairs4(__m256i);

impl ByteVector for Pairs4 {
    const ROWS: usize = 4;
    type Query = __m256i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has proved the instruction set.
        Pairs4(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn query(_bytes: *const u8, wide: *const i16) -> __m256i {
        // SAFETY: the caller has proved the instruction set and gives four readable words.
        unsafe { _mm256_set1_epi64x(wide.cast::<i64>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn multiply_add<const Q: usize>(
        sums: &mut [Self; Q],
        queries: &[__m256i; Q],
        rows: *const i8,
    ) {
        // SAFETY: the caller has proved the instruction set and gives 16 readable bytes.
        let wide = unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(rows.cast())) };
        for q in 0..Q {
            // SAFETY: as above. Exact: |2 * 255 * 128| < 2^31, and the sum is bounded at packing.
            sums[q].0 = unsafe { _mm256_add_epi32(sums[q].0, _mm256_madd_epi16(wide, queries[q])) };
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        let mut pairs = [[0i32; 2]; 4];
        // SAFETY: the array has the size of the register; a value proves the instruction set.
        unsafe { _mm256_storeu_si256(pairs.as_mut_ptr().cast(), self.0) };
        for (row, pair) in pairs.iter().enumerate() {
            // SAFETY: the caller gives four writable elements.
            unsafe { to.add(row).write(pair[0] + pair[1]) };
        }
    }
}
