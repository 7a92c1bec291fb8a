//! Work that may take long and is no query of a plan: large bodies, exact scores, explanations. It runs apart from the threads
//! that take requests, at most so much of it at a time.

use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::panics::fault;

/// Work on fewer bytes of text is done where it is: a hand-over takes as long.
const SMALL: usize = 64 << 10;
/// Bytes of numbers that take as long as one byte of text: they are copied, not parsed.
const COPIED: usize = 16;

/// Bytes of text that take as long as so many bytes of numbers.
pub fn as_text(bytes: usize) -> usize {
    bytes / COPIED
}

/// Places for such work.
#[derive(Debug)]
pub struct Offload(Semaphore);

impl Offload {
    /// So much at a time.
    pub fn new(threads: usize) -> Self {
        Self(Semaphore::new(threads.max(1)))
    }

    /// Does some work: at once if it takes no longer than reading a few bytes of text, else apart.
    ///
    /// # Errors
    /// If it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        if bytes <= SMALL {
            return Ok(work());
        }
        // The threads are the runtime's own; places limit how many there are.
        let _place = self.0.acquire().await.map_err(|_| fault())?;
        tokio::task::spawn_blocking(work).await.map_err(|_| fault())
    }
}
