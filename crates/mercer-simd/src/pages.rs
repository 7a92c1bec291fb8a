//! Hints about memory: huge pages for large buffers, and cache lines that are read soon.

#![cfg_attr(
    any(target_os = "linux", target_arch = "x86_64"),
    expect(unsafe_code, reason = "hints to the operating system and to the processor")
)]

/// Smaller buffers stay in small pages.
#[cfg(target_os = "linux")]
const WORTH_IT: usize = 1 << 20;

/// Asks for huge pages, which save address translations (TLB misses) when rows are read in random order. A hint;
/// call it before the memory is written for the first time.
pub fn large_pages<T>(memory: *const T, length: usize) {
    #[cfg(target_os = "linux")]
    {
        const LARGE: usize = 1 << 21;
        let (start, bytes) = (memory as usize, length.saturating_mul(size_of::<T>()));
        let end = start.saturating_add(bytes) / LARGE * LARGE;
        let start = start.next_multiple_of(LARGE);
        if bytes >= WORTH_IT && start < end {
            // SAFETY: the advice changes no contents and no rights, wherever it points; a range that is not mapped is
            // refused.
            unsafe {
                libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (memory, length);
}

/// Prefetches a cache line: a hint, sound for any address.
#[inline(always)]
pub(crate) fn prefetch<T>(from: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching never faults; SSE is part of the architecture.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}
