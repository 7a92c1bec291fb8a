//! Limits of memory and threads: tables with a number for each column, allocations that are refused with an error, and the
//! most threads that a program starts.
//!
//! A sparse matrix may name any column below 2^32, so a small file can claim a very wide table. A table is made only
//! where the stored values justify its size. What a training may use in total is `--memory`, not this file.

use crate::DataError;

/// Numbers that a table may have whatever is stored.
pub const SMALL_TABLE: usize = 1 << 20;
/// Numbers that a table may have for each stored value.
pub const NUMBERS_PER_VALUE: usize = 1024;

/// Checks the size of a table that belongs to rows with `stored` values.
///
/// # Errors
/// If there are more than [`SMALL_TABLE`] numbers, and more than [`NUMBERS_PER_VALUE`] for each stored value.
pub fn check_table(what: &'static str, numbers: usize, stored: usize) -> Result<(), DataError> {
    let limit = SMALL_TABLE.max(stored.saturating_mul(NUMBERS_PER_VALUE));
    if numbers <= limit { Ok(()) } else { Err(DataError::TableTooLarge { what, numbers, limit }) }
}

/// A vector of equal values.
///
/// # Errors
/// If the memory cannot be allocated.
pub fn filled<T: Clone>(what: &'static str, count: usize, value: T) -> Result<Vec<T>, DataError> {
    let mut values = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    values.try_reserve_exact(count).map_err(|_| DataError::OutOfMemory { what, bytes })?;
    values.resize(count, value);
    Ok(values)
}

/// Threads per core at most: more of them only compete, and very many stop a computer.
pub const THREADS_PER_CORE: usize = 4;

/// More threads than are useful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{place} asks for {found} threads; at most {limit} are used here, {THREADS_PER_CORE} for each core"
)]
pub struct TooManyThreads {
    /// An option, a file or a variable.
    pub place: &'static str,
    /// Threads asked for.
    pub found: usize,
    /// The limit.
    pub limit: usize,
}

/// The cores of this computer, as far as this process may use them.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Checks a number of threads on a computer with so many cores. `place` says where the number comes from.
///
/// # Errors
/// If there are more than [`THREADS_PER_CORE`] for each core.
pub fn check_threads(
    place: &'static str,
    found: usize,
    cores: usize,
) -> Result<(), TooManyThreads> {
    let limit = cores.saturating_mul(THREADS_PER_CORE);
    if found > limit { Err(TooManyThreads { place, found, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_as_large_as_the_stored_values_justify() {
        assert!(check_table("a table", SMALL_TABLE, 0).is_ok());
        assert!(check_table("a table", 5000 * NUMBERS_PER_VALUE, 5000).is_ok());
        let said = check_table("a table", 1 << 32, 3).unwrap_err().to_string();
        assert_eq!(
            said,
            "a table would take 4294967296 numbers, one or more for each column; for so few values at most 1048576 \
             are accepted: number the columns consecutively"
        );
    }

    #[test]
    fn four_threads_per_core_are_the_most() {
        assert_eq!(check_threads("--threads", 8, 2), Ok(()));
        let said = check_threads("--threads", 9, 2).unwrap_err().to_string();
        assert_eq!(said, "--threads asks for 9 threads; at most 8 are used here, 4 for each core");
    }

    #[test]
    fn memory_that_does_not_exist_is_an_error() {
        let said = filled("a table", usize::MAX / 8, 0.0).unwrap_err().to_string();
        assert!(said.starts_with("a table takes 17179869184.0 GiB, which"), "{said}");
    }
}
