//! Pools of threads of a bounded size, for programs that let their users choose the number of threads. Computations
//! themselves run in the rayon pool of the caller.

use std::num::NonZero;

use mercer_data::limits::{THREADS_PER_CORE, TooManyThreads, check_threads, cores};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The variable from which rayon takes the number of threads if none is given.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// Why there is no pool of that size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadsError {
    /// More threads than are useful.
    #[error(transparent)]
    TooMany(#[from] TooManyThreads),
    /// The operating system refused.
    #[error("threads cannot be started: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
}

/// The largest number of threads on this computer.
pub fn limit() -> usize {
    cores().saturating_mul(THREADS_PER_CORE)
}

/// The number of threads to use: the one given, else that of `RAYON_NUM_THREADS`, else one for each core.
///
/// # Errors
/// If it is beyond [`limit`].
pub fn count(given: Option<NonZero<usize>>) -> Result<usize, ThreadsError> {
    let variable = std::env::var(VARIABLE).ok().and_then(|text| text.trim().parse().ok());
    choose(given, variable, cores())
}

fn choose(
    given: Option<NonZero<usize>>,
    variable: Option<usize>,
    cores: usize,
) -> Result<usize, ThreadsError> {
    let (place, found) = match (given, variable) {
        (Some(given), _) => ("the command", given.get()),
        (None, Some(found)) if found > 0 => (VARIABLE, found),
        (None, _) => return Ok(cores),
    };
    check_threads(place, found, cores)?;
    Ok(found)
}

/// A pool of [`count`] threads.
///
/// # Errors
/// As [`count`], and if the threads cannot be started.
pub fn pool(given: Option<NonZero<usize>>) -> Result<ThreadPool, ThreadsError> {
    let pool = ThreadPoolBuilder::new().num_threads(count(given)?).build();
    pool.map_err(|error| ThreadsError::Refused { reason: error.to_string() })
}

/// Makes [`count`] threads those of the whole process, in whichever thread of it something is computed. Programs do this once.
///
/// # Errors
/// As [`pool`], and if it was done before.
pub fn of_process(given: Option<NonZero<usize>>) -> Result<(), ThreadsError> {
    let built = ThreadPoolBuilder::new().num_threads(count(given)?).build_global();
    built.map_err(|error| ThreadsError::Refused { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_threads_per_core_are_the_most() {
        assert_eq!(choose(None, None, 2), Ok(2));
        assert_eq!(choose(None, Some(0), 2), Ok(2));
        assert_eq!(choose(None, Some(3), 2), Ok(3));
        assert_eq!(choose(NonZero::new(8), Some(100_000), 2), Ok(8));
        let said = |given, variable| choose(given, variable, 2).unwrap_err().to_string();
        assert_eq!(
            said(NonZero::new(100_000), None),
            "the command asks for 100000 threads; at most 8 are used here, 4 for each core"
        );
        assert!(said(None, Some(9)).starts_with("RAYON_NUM_THREADS asks for 9 threads"));
    }
}
