//! Pools of threads, one for each size, made when first needed, and work that Ctrl-C ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// How often Python signals are checked.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs work beside the interpreter, which goes on; Ctrl-C raises the flag, and the exception is raised when
/// the work has seen it.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    threads: usize,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
    let (stop, (sender, mut receiver)) = (AtomicBool::new(false), channel());
    let stop = &stop;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The receiver waits for this, always.
            let _ = sender.send(run_on(threads, || work(stop)));
        });
        let mut raised = None;
        loop {
            // Only a unique reference may cross into work without the lock.
            let receiver = &mut receiver;
            match py.detach(move || receiver.recv_timeout(SIGNAL_INTERVAL)) {
                Ok(result) => break raised.map_or(Ok(result), Err),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(PyRuntimeError::new_err("the worker thread panicked"));
                }
            }
            raised = raised.or_else(|| py.check_signals().err());
            if raised.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    })
}

/// The thread that is a pool of its own.
static ALONE: OnceLock<ThreadId> = OnceLock::new();

thread_local! {
    /// Parallel work on this thread then stays there. The thread is never released, so one of the process has it: the first that asks.
    static POOL_OF_ONE: Option<ThreadPool> =
        ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok();
}

/// Whether parallel work of the caller's thread stays on that thread, so that small work needs no other: waking one costs more.
pub(crate) fn is_alone() -> bool {
    let current = std::thread::current().id();
    *ALONE.get_or_init(|| current) == current && POOL_OF_ONE.with(Option::is_some)
}

/// Pools by process and size: after a fork the threads of the parent do not exist.
static POOLS: Mutex<Option<HashMap<(u32, usize), Arc<ThreadPool>>>> = Mutex::new(None);

/// Runs work on `threads` threads, all cores if that is 0; never on more than [`mercer::threads::limit`], beyond which
/// Python's `n_jobs` is refused.
pub(crate) fn run_on<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        some => some.min(mercer::threads::limit()),
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
