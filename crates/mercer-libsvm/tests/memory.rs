//! What the first prediction of a model allocates. It has a process of its own, because it counts every allocation.

#![expect(
    unsafe_code,
    reason = "an allocator that counts, and functions that are called as a C program does"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CString;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use mercer_libsvm::{functions, svm_model_3, svm_node};

/// The system's allocator, with the bytes in use and the most that there were.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), SeqCst) + layout.size(), SeqCst);
        // SAFETY: as the caller of this function promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), SeqCst);
        // SAFETY: as the caller of this function promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const VECTORS: usize = 3000;
const COLUMNS: usize = 256;

/// Vectors of 42 ones in 256 columns: integers hold them.
fn model() -> String {
    let half = VECTORS / 2;
    let mut text = format!(
        "svm_type c_svc\nkernel_type rbf\ngamma 0.05\nnr_class 2\ntotal_sv {VECTORS}\nrho 0.01\nlabel 1 -1\n\
         nr_sv {half} {half}\nSV\n"
    );
    let mut state = 3u64;
    for at in 0..VECTORS {
        let _ = write!(text, "{}", if at < half { 1 } else { -1 });
        for place in 0..42 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let _ = write!(text, " {}:1", 6 * place + 1 + (state >> 40) as usize % 6);
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_first_prediction_does_not_pack_the_supports_in_f64() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    std::fs::write(&path, model()).unwrap();
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let row = [svm_node { index: 7, value: 1.0 }, svm_node { index: -1, value: 0.0 }];
    // SAFETY: the name ends with NUL, the row with -1; the model is used until it is freed.
    let label = unsafe {
        let mut model = functions::svm_load_model::<svm_model_3>(name.as_ptr());
        MOST.store(NOW.load(SeqCst), SeqCst);
        let before = NOW.load(SeqCst);
        let label = functions::svm_predict(model.cast_const(), row.as_ptr());
        let grown = MOST.load(SeqCst) - before;
        assert!(grown < VECTORS * COLUMNS * size_of::<f64>(), "{grown} bytes");
        functions::svm_free_and_destroy_model(&raw mut model);
        label
    };
    assert!(label == 1.0 || label == -1.0);
}
