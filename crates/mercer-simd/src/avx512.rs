//! AVX-512 (F, BW, DQ, VL), with and without VNNI: eight doubles, sixteen singles, byte rows.

#![expect(unsafe_code, reason = "intrinsics, each behind the proof that its vector type carries")]

use std::arch::x86_64::{
    __m512, __m512d, __m512i, _mm256_loadu_si256, _mm512_add_epi32, _mm512_add_pd, _mm512_add_ps,
    _mm512_cvtepi8_epi16, _mm512_dpbusd_epi32, _mm512_fmadd_pd, _mm512_fmadd_ps, _mm512_loadu_pd,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_madd_epi16, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_set1_pd, _mm512_set1_ps, _mm512_setzero_si512, _mm512_storeu_pd, _mm512_storeu_ps,
    _mm512_storeu_si512,
};

use crate::avx2::vector;
use crate::vector::{ByteVector, Machine, Task, Vector};

/// The machine with AVX-512 F, BW, DQ and VL.
pub struct Avx512;

impl Machine for Avx512 {
    type V64 = F64x8;
    type V32 = F32x16;
    type Bytes = Pairs8;
}

/// The machine that also has the byte dot product of VNNI.
pub struct Avx512Vnni;

impl Machine for Avx512Vnni {
    type V64 = F64x8;
    type V32 = F32x16;
    type Bytes = Quads16;
}

/// Compiles a task for AVX-512.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub fn run<T: Task>(task: T) -> T::Output {
    task.run::<Avx512>()
}

/// Compiles a task for AVX-512 with VNNI.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn run_vnni<T: Task>(task: T) -> T::Output {
    task.run::<Avx512Vnni>()
}

vector! {
    /// Eight doubles.
    F64x8: [f64; 8] in __m512d,
    _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd, _mm512_add_pd
}

vector! {
    /// Sixteen singles.
    F32x16: [f32; 16] in __m512,
    _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps, _mm512_add_ps
}

/// Two sums for each of eight rows: bytes 0 and 1, bytes 2 and 3.
#[derive(Copy, Clone)]
pub struct Pairs8(__m512i);

impl ByteVector for Pairs8 {
    const ROWS: usize = 8;
    type Query = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has proved the instruction set.
        Pairs8(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn query(_bytes: *const u8, wide: *const i16) -> __m512i {
        // SAFETY: the caller has proved the instruction set and gives four readable words.
        unsafe { _mm512_set1_epi64(wide.cast::<i64>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn multiply_add<const Q: usize>(
        sums: &mut [Self; Q],
        queries: &[__m512i; Q],
        rows: *const i8,
    ) {
        // SAFETY: the caller has proved the instruction set and gives 32 readable bytes.
        let wide = unsafe { _mm512_cvtepi8_epi16(_mm256_loadu_si256(rows.cast())) };
        for q in 0..Q {
            // SAFETY: as above. Exact: |2 * 255 * 128| < 2^31, and the sum is bounded at packing.
            sums[q].0 = unsafe { _mm512_add_epi32(sums[q].0, _mm512_madd_epi16(wide, queries[q])) };
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        let mut pairs = [[0i32; 2]; 8];
        // SAFETY: the array has the size of the register; a value proves the instruction set.
        unsafe { _mm512_storeu_si512(pairs.as_mut_ptr().cast(), self.0) };
        for (row, pair) in pairs.iter().enumerate() {
            // SAFETY: the caller gives eight writable elements.
            unsafe { to.add(row).write(pair[0] + pair[1]) };
        }
    }
}

/// One sum for each of sixteen rows, four bytes at a time.
#[derive(Copy, Clone)]
pub struct Quads16(__m512i);

impl ByteVector for Quads16 {
    const ROWS: usize = 16;
    type Query = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has proved the instruction set.
        Quads16(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn query(bytes: *const u8, _wide: *const i16) -> __m512i {
        // SAFETY: the caller has proved the instruction set and gives four readable bytes.
        unsafe { _mm512_set1_epi32(bytes.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn multiply_add<const Q: usize>(
        sums: &mut [Self; Q],
        queries: &[__m512i; Q],
        rows: *const i8,
    ) {
        // SAFETY: the caller has proved the instruction set and gives 64 readable bytes.
        let rows = unsafe { _mm512_loadu_si512(rows.cast()) };
        for q in 0..Q {
            // SAFETY: as above. The form without saturation: exact while the sum fits 32 bits.
            sums[q].0 = unsafe { _mm512_dpbusd_epi32(sums[q].0, queries[q], rows) };
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: a value proves the instruction set; the caller gives sixteen writable elements.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }
}
