//! Pools of threads, one for each size, made when first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Pools by process and size: after a fork the threads of the parent do not exist.
static POOLS: Mutex<Option<HashMap<(u32, usize), Arc<ThreadPool>>>> = Mutex::new(None);

/// Runs work on `threads` threads, all of the machine's if that is 0.
pub(crate) fn within<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        some => some,
    };
    match pool(threads) {
        Some(pool) => pool.install(work),
        // No thread can be made: the global pool or the caller's own thread will do.
        None => work(),
    }
}

fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    let key = (std::process::id(), threads);
    if let Some(pool) = pools.get(&key) {
        return Some(Arc::clone(pool));
    }
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    let pool = builder.thread_name(|number| format!("mercer-{number}")).build().ok()?;
    pools.insert(key, Arc::new(pool));
    pools.get(&key).cloned()
}
