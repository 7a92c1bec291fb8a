//! The AVX2 + FMA backend: vectors of four f64, eight f32, sixteen byte rows.

#![expect(unsafe_code, reason = "intrinsics, each behind the proof that its vector type carries")]

use std::arch::x86_64::{
    __m256, __m256d, __m256i, _CMP_NEQ_UQ, _mm_add_pd, _mm_add_sd, _mm_cvtsd_f64, _mm_loadu_ps,
    _mm_unpackhi_pd, _mm256_add_epi32, _mm256_add_pd, _mm256_add_ps, _mm256_castpd256_pd128,
    _mm256_castsi256_ps, _mm256_cmp_pd, _mm256_cmpeq_epi32, _mm256_cvtpd_ps, _mm256_cvtps_pd,
    _mm256_extractf128_pd, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_movemask_pd, _mm256_movemask_ps,
    _mm256_permute2f128_ps, _mm256_permutevar8x32_epi32, _mm256_permutevar8x32_ps, _mm256_set_m128,
    _mm256_set1_epi32, _mm256_set1_pd, _mm256_set1_ps, _mm256_setzero_pd, _mm256_setzero_si256,
    _mm256_slli_epi32, _mm256_srai_epi16, _mm256_storeu_pd, _mm256_storeu_ps, _mm256_storeu_si256,
    _mm256_sub_epi32, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

use crate::projection::Weight;
use crate::vector::{ByteVector, Compactor, SimdBackend, Task, Vector};

/// The backend for AVX2 and FMA.
pub struct Avx2Backend;

impl SimdBackend for Avx2Backend {
    type V64 = F64x4;
    type V32 = F32x8;
    type Bytes = Words16;
    type Compactor = Permuted;

    #[inline(always)]
    unsafe fn fold16(partials: &[f32; 16]) -> f64 {
        // SAFETY: as the caller of this function promises; the loads lie inside the array.
        unsafe {
            let four = |at: usize| _mm256_cvtps_pd(_mm_loadu_ps(partials.as_ptr().add(at)));
            let low = _mm256_add_pd(four(0), four(8));
            let four = _mm256_add_pd(low, _mm256_add_pd(four(4), four(12)));
            let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
    }
}

/// Compiles a task for AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub fn run<T: Task>(task: T) -> T::Output {
    task.run::<Avx2Backend>()
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
    /// Four f64.
    F64x4: [f64; 4] in __m256d,
    _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd, _mm256_add_pd
}

vector! {
    /// Eight f32.
    F32x8: [f32; 8] in __m256,
    _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps, _mm256_add_ps
}

/// Eight entries at a time: those that are kept move to the front by a permutation from a table.
pub struct Permuted;

/// For each 8-bit mask, the indices of its set bits in order (the rest is arbitrary).
static PERMUTATIONS: [[u32; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            if set >> place & 1 == 1 {
                all[set][count] = place;
                count += 1;
            }
            place += 1;
        }
        set += 1;
    }
    all
};

impl Compactor for Permuted {
    #[inline(always)]
    unsafe fn compact(values: *const f64, rows: *const u32, to: *mut Weight) -> usize {
        // SAFETY: the caller has proved the instruction set and gives eight readable values and rows and eight
        // writable weights, each a row before a value.
        unsafe {
            let (low, high) = (_mm256_loadu_pd(values), _mm256_loadu_pd(values.add(4)));
            let rows = _mm256_loadu_si256(rows.cast());
            let zero = _mm256_setzero_pd();
            let low_set = _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_NEQ_UQ>(low, zero));
            let high_set = _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_NEQ_UQ>(high, zero));
            let none = _mm256_cmpeq_epi32(rows, _mm256_set1_epi32(-1));
            let left_out = _mm256_movemask_ps(_mm256_castsi256_ps(none));
            let set = (low_set | high_set << 4) & !left_out;
            let indices = PERMUTATIONS[(set & 0xff).unsigned_abs() as usize];
            let indices = _mm256_loadu_si256(indices.as_ptr().cast());
            let floats = _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
            let floats = _mm256_permutevar8x32_ps(floats, indices);
            let rows = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(rows, indices));
            let (even, odd) = (_mm256_unpacklo_ps(rows, floats), _mm256_unpackhi_ps(rows, floats));
            let to = to.cast::<f32>();
            _mm256_storeu_ps(to, _mm256_permute2f128_ps::<0x20>(even, odd));
            _mm256_storeu_ps(to.add(8), _mm256_permute2f128_ps::<0x31>(even, odd));
            (set & 0xff).count_ones() as usize
        }
    }
}

/// Sixteen rows, two columns at a time, a 16-bit word holding a byte of row `r` and one of row `r + 8`.
///
/// The word is `w = low + 256 high`, with `high` signed (stored minus 128). So `low·x` needs no unpacking:
/// it is `w·x - 256 high·x`, and one shift per 32 bytes serves two multiplications.
#[derive(Copy, Clone)]
pub struct Words16 {
    words: __m256i,
    highs: __m256i,
}

impl ByteVector for Words16 {
    const ROWS: usize = 16;
    const GROUP: usize = 2;
    const REGISTERS: usize = 4;
    type Query = __m256i;

    fn place(row: usize, column: usize, byte: u8) -> (usize, u8) {
        word_place(8, row, column, byte)
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has proved the instruction set.
        unsafe { Words16 { words: _mm256_setzero_si256(), highs: _mm256_setzero_si256() } }
    }

    #[inline(always)]
    unsafe fn query(word: u32) -> __m256i {
        // SAFETY: the caller has proved the instruction set.
        unsafe { _mm256_set1_epi32(word.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn multiply_add(&mut self, query: __m256i, rows: *const u8) {
        // SAFETY: the caller has proved the instruction set and gives 32 readable bytes.
        unsafe {
            let words = _mm256_loadu_si256(rows.cast());
            let highs = _mm256_srai_epi16::<8>(words);
            self.words = _mm256_add_epi32(self.words, _mm256_madd_epi16(words, query));
            self.highs = _mm256_add_epi32(self.highs, _mm256_madd_epi16(highs, query));
        }
    }

    #[inline(always)]
    unsafe fn store(self, correction: i32, to: *mut i32) {
        // SAFETY: a value proves the instruction set; the caller gives sixteen writable elements.
        unsafe {
            let lows = _mm256_sub_epi32(self.words, _mm256_slli_epi32::<8>(self.highs));
            let highs = _mm256_add_epi32(self.highs, _mm256_set1_epi32(correction));
            _mm256_storeu_si256(to.cast(), lows);
            _mm256_storeu_si256(to.add(8).cast(), highs);
        }
    }
}

/// Where a byte lies when word `2 r + c` holds column `c` of row `r` below that of row `r + half`, the
/// latter minus 128.
pub(crate) fn word_place(half: usize, row: usize, column: usize, byte: u8) -> (usize, u8) {
    let word = 2 * (row % half) + column;
    if row < half { (2 * word, byte) } else { (2 * word + 1, byte ^ 0x80) }
}
