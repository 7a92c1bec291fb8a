//! Work that may take long and is no query of a plan: large bodies, exact scores, explanations. It has threads of its own, so
//! that those that take requests stay free, and no more of it runs at a time than there are of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

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

type Task = Box<dyn FnOnce() + Send>;

/// Threads for such work; they end once this is dropped and what waits is done.
#[derive(Debug)]
pub struct Offload(Sender<Task>);

impl Offload {
    /// Starts so many threads.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn start(threads: usize) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads.max(1) {
            let receiver = Arc::clone(&receiver);
            let name = format!("mercer-offload-{number}");
            std::thread::Builder::new().name(name).spawn(move || do_all(&receiver))?;
        }
        Ok(Self(sender))
    }

    /// Does some work: at once if it takes no longer than reading a few bytes of text, else apart. Work whose caller leaves
    /// before its turn comes is left out.
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
        let (reply, answer) = oneshot::channel();
        let task = move || {
            if !reply.is_closed() {
                // A caller that has gone is no error.
                drop(reply.send(work()));
            }
        };
        self.0.send(Box::new(task)).map_err(|_| fault())?;
        answer.await.map_err(|_| fault())
    }
}

/// One thread: takes what comes, in its order.
fn do_all(tasks: &Mutex<Receiver<Task>>) {
    loop {
        // The lock is held while this thread waits: the others wait for the lock instead.
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = task else { return };
        // Its caller is told of a panic by what it waits for.
        drop(catch_unwind(AssertUnwindSafe(task)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LARGE: usize = SMALL + 1;

    fn thread_name() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn large_work_has_threads_of_its_own_and_small_work_none() {
        let offload = Offload::start(2).unwrap();
        let own = thread_name();
        assert_eq!(offload.run(SMALL, thread_name).await.unwrap(), own);
        assert!(offload.run(LARGE, thread_name).await.unwrap().starts_with("mercer-offload-"));
    }

    #[tokio::test]
    async fn a_panic_is_told_to_its_caller_and_the_thread_stays() {
        let offload = Offload::start(1).unwrap();
        let broken = || assert!(std::env::args().count() > 1000, "on purpose");
        assert_eq!(offload.run(LARGE, broken).await.unwrap_err(), fault());
        assert_eq!(offload.run(LARGE, || 7).await.unwrap(), 7);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_more_runs_at_a_time_than_there_are_threads_and_who_leaves_is_left_out() {
        let offload = Arc::new(Offload::start(1).unwrap());
        let (begun, at_work) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (free, is_free) = std::sync::mpsc::channel::<()>();
        let (own, counted, busy) = (Arc::clone(&offload), Arc::clone(&begun), Arc::clone(&at_work));
        let first = tokio::spawn(async move {
            let wait = move || {
                busy.fetch_add(1, Ordering::SeqCst);
                let _ = is_free.recv();
                busy.fetch_sub(1, Ordering::SeqCst);
                counted.fetch_add(1, Ordering::SeqCst);
            };
            own.run(LARGE, wait).await
        });
        while at_work.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let count = |begun: &Arc<AtomicUsize>, at_work: &Arc<AtomicUsize>| {
            let (begun, at_work) = (Arc::clone(begun), Arc::clone(at_work));
            move || {
                assert_eq!(at_work.load(Ordering::SeqCst), 0, "beside another");
                begun.fetch_add(1, Ordering::SeqCst);
            }
        };
        // This one leaves before its turn comes.
        tokio::select! {
            biased;
            _ = offload.run(LARGE, count(&begun, &at_work)) => panic!("nobody has let it begin"),
            () = tokio::task::yield_now() => {}
        }
        drop(free);
        assert!(first.await.unwrap().is_ok());
        offload.run(LARGE, count(&begun, &at_work)).await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 2, "the first and the last");
    }
}
