//! A growable buffer of numbers, aligned to a cache line.

#![expect(unsafe_code, reason = "views whole cache lines as slices of numbers")]

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::pages::large_pages;

/// Plain numbers for which any bits are a value and zero bits are zero.
///
/// # Safety
/// Implementors have no padding, no invalid bit pattern, and an alignment of at most 64.
pub unsafe trait PlainNumber: Copy + Send + Sync + 'static {}

// SAFETY: plain numbers.
unsafe impl PlainNumber for f64 {}
// SAFETY: plain numbers.
unsafe impl PlainNumber for f32 {}
// SAFETY: plain numbers.
unsafe impl PlainNumber for i8 {}
// SAFETY: plain numbers.
unsafe impl PlainNumber for u8 {}
// SAFETY: plain numbers.
unsafe impl PlainNumber for i16 {}

#[derive(Copy, Clone, Debug)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// A buffer of numbers that starts on a 64-byte boundary.
#[derive(Clone, Debug)]
pub struct AlignedBuffer<T> {
    memory: Vec<Line>,
    length: usize,
    element: PhantomData<T>,
}

impl<T: PlainNumber> AlignedBuffer<T> {
    /// `length` zeros.
    pub fn zeroed(length: usize) -> Self {
        let mut lines = AlignedBuffer { memory: Vec::new(), length: 0, element: PhantomData };
        lines
            .memory
            .reserve_exact(length.saturating_mul(size_of::<T>()).div_ceil(size_of::<Line>()));
        large_pages(lines.memory.as_ptr(), lines.memory.capacity());
        lines.grow(length);
        lines
    }

    /// Appends elements up to `length`: those that were there before a [`AlignedBuffer::clear`], then zeros. Allocates
    /// only beyond the largest length so far.
    pub fn grow(&mut self, length: usize) {
        assert!(length >= self.length, "only clear shortens");
        let bytes = length.checked_mul(size_of::<T>()).expect("a buffer larger than memory");
        let lines = bytes.div_ceil(size_of::<Line>());
        if lines > self.memory.len() {
            self.memory.resize(lines, Line([0; 8]));
        }
        self.length = length;
    }

    /// Sets the length to 0 and keeps the contents: after [`AlignedBuffer::grow`], write before reading.
    pub fn clear(&mut self) {
        self.length = 0;
    }
}

impl<T: PlainNumber> Deref for AlignedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `grow` keeps at least `length` initialised elements in `memory`; `PlainNumber` accepts
        // any bits and needs no more alignment than a line has.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.length) }
    }
}

impl<T: PlainNumber> DerefMut for AlignedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::AlignedBuffer;

    #[test]
    fn grown_elements_are_zero_or_what_they_were_before_a_clear() {
        let mut numbers = AlignedBuffer::<f32>::zeroed(3);
        numbers[2] = 7.0;
        numbers.grow(33);
        assert_eq!(numbers[2].to_bits(), 7.0f32.to_bits());
        numbers[32] = 8.0;
        numbers.clear();
        assert!(numbers.is_empty());
        numbers.grow(50);
        assert!(numbers[33..].iter().all(|x| x.to_bits() == 0));
        assert_eq!(
            (numbers[2].to_bits(), numbers[32].to_bits()),
            (7.0f32.to_bits(), 8.0f32.to_bits())
        );
        assert_eq!(numbers.as_ptr().align_offset(64), 0);
    }
}
