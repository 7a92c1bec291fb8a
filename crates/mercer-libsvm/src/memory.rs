//! Memory of models: arrays that `free` of the C library releases, as callers and LIBSVM's own functions do; and arrays of
//! callers as slices.

use std::ffi::c_int;

use crate::layout::{Fields, svm_node};

/// A copy of some values in memory of `malloc`; null if there is none left.
pub(crate) fn copied<T: Copy>(values: &[T]) -> *mut T {
    let bytes = size_of_val(values).max(1);
    // SAFETY: `malloc` takes any size.
    let pointer = unsafe { libc::malloc(bytes) }.cast::<T>();
    if !pointer.is_null() {
        // SAFETY: `malloc` gave that many bytes, aligned for every type of these structures; they overlap nothing.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), pointer, values.len()) };
    }
    pointer
}

/// As [`copied`], and a null pointer where there is nothing to copy.
pub(crate) fn copied_if<T: Copy>(values: Option<&[T]>) -> *mut T {
    values.map_or(std::ptr::null_mut(), copied)
}

/// Releases an array of [`copied`] or of the caller's `malloc`; null is right.
///
/// # Safety
/// The pointer is null or came from `malloc` and is not used afterwards.
pub(crate) unsafe fn release<T>(pointer: *mut T) {
    // SAFETY: as the caller of this function promises.
    unsafe { libc::free(pointer.cast()) };
}

/// `count` values; none where the pointer is null or the count is not positive.
///
/// # Safety
/// A pointer that is not null points to that many values, which nobody changes while they are used.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, count: c_int) -> &'a [T] {
    match usize::try_from(count) {
        // SAFETY: as the caller of this function promises.
        Ok(count) if !pointer.is_null() => unsafe { std::slice::from_raw_parts(pointer, count) },
        _ => &[],
    }
}

/// As [`slice`], for results.
///
/// # Safety
/// A pointer that is not null points to that many values, which nobody else uses meanwhile.
pub(crate) unsafe fn slice_mut<'a, T>(pointer: *mut T, count: usize) -> &'a mut [T] {
    if pointer.is_null() {
        return &mut [];
    }
    // SAFETY: as the caller of this function promises.
    unsafe { std::slice::from_raw_parts_mut(pointer, count) }
}

/// The entries of a row, without its end; none for a null pointer.
///
/// # Safety
/// A pointer that is not null points to entries of which one has the index -1, and nobody changes them while they are
/// used.
pub(crate) unsafe fn nodes<'a>(pointer: *const svm_node) -> &'a [svm_node] {
    if pointer.is_null() {
        return &[];
    }
    let mut count = 0;
    // SAFETY: the entries up to the one with index -1 can be read, as the caller of this function promises.
    while unsafe { (*pointer.add(count)).index } != -1 {
        count += 1;
    }
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(pointer, count) }
}

/// What a model points to, as slices. Members that are null or do not fit together are empty.
#[derive(Debug, Clone)]
pub(crate) struct Content<'a> {
    pub(crate) supports: Vec<&'a [svm_node]>,
    /// `nr_class - 1` coefficients for each support.
    pub(crate) coefficients: Vec<&'a [f64]>,
    pub(crate) rho: &'a [f64],
    pub(crate) labels: &'a [c_int],
    pub(crate) per_class: &'a [c_int],
}

impl Fields {
    /// How many decision values there are.
    pub(crate) fn scores(&self) -> usize {
        if self.param.is_classification() {
            let classes = self.class_count();
            classes * classes.saturating_sub(1) / 2
        } else {
            1
        }
    }

    /// Never negative.
    pub(crate) fn class_count(&self) -> usize {
        usize::try_from(self.classes).unwrap_or(0)
    }

    /// # Safety
    /// The members are null or point to as much as LIBSVM's README says.
    pub(crate) unsafe fn rho<'a>(&self) -> &'a [f64] {
        // SAFETY: as the caller of this function promises.
        unsafe { slice(self.rho, self.scores() as c_int) }
    }

    /// # Safety
    /// As [`Fields::rho`].
    pub(crate) unsafe fn labels<'a>(&self) -> &'a [c_int] {
        // SAFETY: as the caller of this function promises.
        unsafe { slice(self.labels, self.classes) }
    }

    /// # Safety
    /// As [`Fields::rho`].
    pub(crate) unsafe fn per_class<'a>(&self) -> &'a [c_int] {
        // SAFETY: as the caller of this function promises.
        unsafe { slice(self.per_class, self.classes) }
    }

    /// The number of support vectors, never negative.
    pub(crate) fn vectors(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// How many arrays of coefficients there are.
    fn arrays(&self) -> c_int {
        if self.param.is_classification() { self.classes.saturating_sub(1) } else { 1 }
    }

    /// Whether all numbers that a prediction needs are there.
    ///
    /// # Safety
    /// As [`Fields::rho`].
    pub(crate) unsafe fn is_whole(&self) -> bool {
        // SAFETY: as the caller of this function promises.
        let (rho, labels, per_class) = unsafe { (self.rho(), self.labels(), self.per_class()) };
        // SAFETY: as the caller of this function promises.
        let arrays = unsafe { slice(self.coefficients, self.arrays()) };
        let is_classes = || {
            let sum: i64 = per_class.iter().map(|one| i64::from(*one)).sum();
            labels.len() == self.class_count()
                && per_class.len() == self.class_count()
                && per_class.iter().all(|one| *one >= 0)
                && sum == i64::from(self.count)
        };
        let has_vectors = self.count == 0 || (self.count > 0 && !self.supports.is_null());
        has_vectors
            && rho.len() == self.scores()
            && arrays.len() == usize::try_from(self.arrays()).unwrap_or(0)
            && (self.count == 0 || arrays.iter().all(|array| !array.is_null()))
            && (!self.param.is_classification() || is_classes())
    }

    /// One array of coefficients of a model that is whole.
    ///
    /// # Safety
    /// As [`Fields::rho`]; the model is whole, and there is such an array.
    pub(crate) unsafe fn coefficients_at<'a>(&self, array: usize) -> &'a [f64] {
        // SAFETY: as the caller of this function promises.
        unsafe { slice(*self.coefficients.add(array), self.count) }
    }

    /// The coefficients of the supports: one array, or `nr_class - 1` of them.
    ///
    /// # Safety
    /// As [`Fields::rho`].
    pub(crate) unsafe fn coefficients<'a>(&self) -> impl Iterator<Item = &'a [f64]> + use<'a> {
        let (arrays, count) = (self.arrays(), self.count);
        // SAFETY: as the caller of this function promises.
        let arrays = unsafe { slice(self.coefficients, arrays) };
        // SAFETY: as the caller of this function promises.
        arrays.iter().map(move |array| unsafe { slice(*array, count) })
    }

    /// All rows and numbers of a model.
    ///
    /// # Safety
    /// As [`Fields::rho`]; every row has an end.
    pub(crate) unsafe fn content<'a>(&self) -> Content<'a> {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let rows = slice(self.supports, self.count);
            Content {
                supports: rows.iter().map(|row| nodes(*row)).collect(),
                coefficients: self.coefficients().collect(),
                rho: self.rho(),
                labels: self.labels(),
                per_class: self.per_class(),
            }
        }
    }
}
