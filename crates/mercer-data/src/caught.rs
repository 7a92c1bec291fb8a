//! Panics that become sentences: around code that is not ours, and at the border to callers who cannot catch them. Errors
//! that are expected have types of their own.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// How many calls of [`caught`] this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Threads that are in [`caught`]: pools work for them.
static CAUGHT: AtomicUsize = AtomicUsize::new(0);

/// Counts a thread as long as it lives.
struct Inside;

impl Inside {
    fn new() -> Self {
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            CAUGHT.fetch_add(1, Ordering::SeqCst);
        }
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if DEPTH.replace(DEPTH.get() - 1) == 1 {
            CAUGHT.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Whether a panic of this thread, or of the pool that it belongs to, is caught.
fn is_caught() -> bool {
    let in_pool = || rayon::current_thread_index().is_some() && CAUGHT.load(Ordering::SeqCst) > 0;
    DEPTH.get() > 0 || in_pool()
}

/// Runs work; a panic becomes its message and is not printed, also where a thread of a pool works for the caller.
///
/// # Errors
/// If the work panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !is_caught() {
                before(info);
            }
        }));
    });
    let inside = Inside::new();
    let ended = catch_unwind(AssertUnwindSafe(work));
    drop(inside);
    ended.map_err(|panic| said(&*panic))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What this test says to itself when it runs in a process of its own.
    const VARIABLE: &str = "MERCER_TEST_CAUGHT";

    #[test]
    fn a_panic_becomes_its_message_and_only_others_are_printed() {
        if std::env::var_os(VARIABLE).is_some() {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            assert_eq!(caught(|| 3), Ok(3));
            assert_eq!(caught(|| -> u8 { panic!("first") }), Err("first".to_owned()));
            let in_pool = || -> u8 { pool.install(|| panic!("second {}", 2)) };
            assert_eq!(caught(in_pool), Err("second 2".to_owned()));
            assert_eq!(
                caught(|| caught(|| -> u8 { panic!("third") })),
                Ok(Err("third".to_owned()))
            );
            assert!(std::thread::spawn(|| panic!("printed")).join().is_err());
            return;
        }
        let own = std::env::current_exe().unwrap();
        let name = "caught::tests::a_panic_becomes_its_message_and_only_others_are_printed";
        let output =
            Command::new(own).args(["--exact", name, "--nocapture"]).env(VARIABLE, "1").output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("printed"), "{said}");
        for message in ["first", "second", "third"] {
            assert!(!said.contains(message), "{said}");
        }
    }
}
