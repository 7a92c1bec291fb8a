//! Huge pages for large buffers (a hint to the operating system).

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "a hint to the kernel about a range of ours")
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
