//! The AVX-512 backends (F, BW, DQ, VL), with and without VNNI: eight f64, sixteen f32, byte rows.

#![expect(unsafe_code, reason = "intrinsics, each behind the proof that its vector type carries")]

use std::arch::x86_64::{
    __m512, __m512d, __m512i, _mm_add_pd, _mm_add_sd, _mm_cvtsd_f64, _mm_unpackhi_pd,
    _mm256_add_pd, _mm256_castpd256_pd128, _mm256_extractf128_pd, _mm256_loadu_ps,
    _mm512_add_epi32, _mm512_add_pd, _mm512_add_ps, _mm512_castpd512_pd256, _mm512_cvtps_pd,
    _mm512_dpbusd_epi32, _mm512_extractf64x4_pd, _mm512_fmadd_pd, _mm512_fmadd_ps, _mm512_loadu_pd,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_madd_epi16, _mm512_set1_epi32, _mm512_set1_pd,
    _mm512_set1_ps, _mm512_setzero_si512, _mm512_slli_epi32, _mm512_srai_epi16, _mm512_storeu_pd,
    _mm512_storeu_ps, _mm512_storeu_si512, _mm512_sub_epi32,
};

use crate::avx2::{Permuted, vector, word_place};
use crate::vector::{ByteVector, SimdBackend, Task, Vector};

/// The backend for AVX-512 F, BW, DQ and VL.
pub struct Avx512Backend;

impl SimdBackend for Avx512Backend {
    type V64 = F64x8;
    type V32 = F32x16;
    type Bytes = Words32;
    type Compactor = Permuted;

    #[inline(always)]
    unsafe fn fold16(partials: &[f32; 16]) -> f64 {
        // SAFETY: as the caller of this function promises; there are sixteen numbers.
        unsafe { fold16(partials) }
    }
}

/// The backend that also uses the byte dot product of VNNI.
pub struct Avx512VnniBackend;

impl SimdBackend for Avx512VnniBackend {
    type V64 = F64x8;
    type V32 = F32x16;
    type Bytes = Quads16;
    type Compactor = Permuted;

    #[inline(always)]
    unsafe fn fold16(partials: &[f32; 16]) -> f64 {
        // SAFETY: as the caller of this function promises; there are sixteen numbers.
        unsafe { fold16(partials) }
    }
}

/// [`SimdBackend::fold16`] in registers.
///
/// # Safety
/// The processor must support AVX-512.
#[inline(always)]
unsafe fn fold16(partials: &[f32; 16]) -> f64 {
    // SAFETY: as the caller of this function promises; both loads lie inside the array.
    unsafe {
        let first = _mm512_cvtps_pd(_mm256_loadu_ps(partials.as_ptr()));
        let second = _mm512_cvtps_pd(_mm256_loadu_ps(partials.as_ptr().add(8)));
        let eight = _mm512_add_pd(first, second);
        let four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd::<1>(eight));
        let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    }
}

/// Compiles a task for AVX-512.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub fn run<T: Task>(task: T) -> T::Output {
    task.run::<Avx512Backend>()
}

/// Compiles a task for AVX-512 with VNNI.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn run_vnni<T: Task>(task: T) -> T::Output {
    task.run::<Avx512VnniBackend>()
}

vector! {
    /// Eight f64.
    F64x8: [f64; 8] in __m512d,
    _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd, _mm512_add_pd
}

vector! {
    /// Sixteen f32.
    F32x16: [f32; 16] in __m512,
    _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps, _mm512_add_ps
}

/// Thirty-two rows, two columns at a time: as [`crate::avx2::Words16`], twice as wide.
#[derive(Copy, Clone)]
pub struct Words32 {
    words: __m512i,
    highs: __m512i,
}

impl ByteVector for Words32 {
    const ROWS: usize = 32;
    const GROUP: usize = 2;
    const REGISTERS: usize = 3;
    type Query = __m512i;

    fn place(row: usize, column: usize, byte: u8) -> (usize, u8) {
        word_place(16, row, column, byte)
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has proved the instruction set.
        unsafe { Words32 { words: _mm512_setzero_si512(), highs: _mm512_setzero_si512() } }
    }

    #[inline(always)]
    unsafe fn query(word: u32) -> __m512i {
        // SAFETY: the caller has proved the instruction set.
        unsafe { _mm512_set1_epi32(word.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn multiply_add(&mut self, query: __m512i, rows: *const u8) {
        // SAFETY: the caller has proved the instruction set and gives 64 readable bytes.
        unsafe {
            let words = _mm512_loadu_si512(rows.cast());
            let highs = _mm512_srai_epi16::<8>(words);
            self.words = _mm512_add_epi32(self.words, _mm512_madd_epi16(words, query));
            self.highs = _mm512_add_epi32(self.highs, _mm512_madd_epi16(highs, query));
        }
    }

    #[inline(always)]
    unsafe fn store(self, correction: i32, to: *mut i32) {
        // SAFETY: a value proves the instruction set; the caller gives 32 writable elements.
        unsafe {
            let lows = _mm512_sub_epi32(self.words, _mm512_slli_epi32::<8>(self.highs));
            let highs = _mm512_add_epi32(self.highs, _mm512_set1_epi32(correction));
            _mm512_storeu_si512(to.cast(), lows);
            _mm512_storeu_si512(to.add(16).cast(), highs);
        }
    }
}

/// Sixteen rows, four columns at a time; rows are stored minus 128, as VNNI needs one signed factor.
#[derive(Copy, Clone)]
pub struct Quads16(__m512i);

impl ByteVector for Quads16 {
    const ROWS: usize = 16;
    const GROUP: usize = 4;
    const REGISTERS: usize = 6;
    type Query = __m512i;

    fn place(row: usize, column: usize, byte: u8) -> (usize, u8) {
        (4 * row + column, byte ^ 0x80)
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has proved the instruction set.
        Quads16(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn query(word: u32) -> __m512i {
        // SAFETY: the caller has proved the instruction set.
        unsafe { _mm512_set1_epi32(word.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn multiply_add(&mut self, query: __m512i, rows: *const u8) {
        // SAFETY: the caller has proved the instruction set and gives 64 readable bytes. The form
        // without saturation.
        unsafe {
            let rows = _mm512_loadu_si512(rows.cast());
            self.0 = _mm512_dpbusd_epi32(self.0, query, rows);
        }
    }

    #[inline(always)]
    unsafe fn store(self, correction: i32, to: *mut i32) {
        // SAFETY: a value proves the instruction set; the caller gives sixteen writable elements.
        unsafe {
            let sums = _mm512_add_epi32(self.0, _mm512_set1_epi32(correction));
            _mm512_storeu_si512(to.cast(), sums);
        }
    }
}
