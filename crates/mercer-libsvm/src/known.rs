//! Which models are known, and their packs. Models of this library are known by their address and what they were when they
//! were packed; models that a caller built are known by a fingerprint of all they hold, computed at each prediction.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};

use crate::fingerprint::Fingerprint;
use crate::layout::Fields;
use crate::pack::{Mode, Pack};
use crate::snapshot::Snapshot;

/// Packs of models of callers that are kept, until the model is given to one of LIBSVM's functions that free.
const KEPT: usize = 8;

/// A pack of a model that a caller built. Its content decides whether it is the right one.
#[derive(Debug)]
struct Foreign {
    content: Fingerprint,
    pack: Arc<Pack>,
    /// Where the model was last: once it is freed there, the pack is released.
    address: usize,
}

/// A model that this library allocated: nothing until its first prediction.
type Own = RwLock<Option<Arc<Known>>>;

/// A model as it was last seen.
#[derive(Debug)]
struct Known {
    snapshot: Snapshot,
    pack: OnceLock<Arc<Pack>>,
}

impl Known {
    /// # Safety
    /// As [`pack`].
    unsafe fn new(fields: &Fields) -> Arc<Self> {
        // SAFETY: as the caller of this function promises.
        let snapshot = unsafe { Snapshot::new(fields) };
        Arc::new(Self { snapshot, pack: OnceLock::new() })
    }
}

static OWN: LazyLock<RwLock<HashMap<usize, Arc<Own>>>> = LazyLock::new(RwLock::default);
/// The last one used is the last.
static FOREIGN: Mutex<Vec<Foreign>> = Mutex::new(Vec::new());

/// Remembers that this library allocated a model at this address.
pub(crate) fn remember(address: usize) {
    OWN.write().unwrap_or_else(PoisonError::into_inner).insert(address, Arc::default());
}

/// Forgets the model at this address, which is about to be released, and its pack.
pub(crate) fn forget(address: usize) {
    OWN.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
    let mut foreign = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
    foreign.retain(|kept| kept.address != address);
}

/// The pack of the model at this address.
///
/// # Safety
/// The members of the model are null or point to as much as LIBSVM's README says; every row has an end.
pub(crate) unsafe fn pack(address: usize, fields: &Fields) -> Arc<Pack> {
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner).get(&address).cloned();
    // SAFETY: as the caller of this function promises.
    unsafe { own.map_or_else(|| of_foreign(address, fields), |own| of_own(&own, fields)) }
}

/// # Safety
/// As [`pack`].
unsafe fn made(fields: &Fields) -> Arc<Pack> {
    // SAFETY: as the caller of this function promises.
    let (content, is_whole) = unsafe { (fields.content(), fields.is_whole()) };
    Arc::new(if is_whole { Pack::new(fields, &content, Mode::current()) } else { Pack::Direct })
}

/// Packs a model at its first prediction. A model that was changed since is answered in LIBSVM's way once and packed at the
/// next prediction, so that a program that changes a model before every prediction does not wait for a pack each time.
///
/// # Safety
/// As [`pack`].
unsafe fn of_own(own: &Own, fields: &Fields) -> Arc<Pack> {
    let known = own.read().unwrap_or_else(PoisonError::into_inner).clone();
    // SAFETY: as the caller of this function promises.
    unsafe {
        let known = match known {
            Some(known) if known.snapshot.is_of(fields) => known,
            Some(_) => {
                *own.write().unwrap_or_else(PoisonError::into_inner) = Some(Known::new(fields));
                return Arc::new(Pack::Direct);
            }
            None => {
                let mut place = own.write().unwrap_or_else(PoisonError::into_inner);
                place.get_or_insert_with(|| Known::new(fields)).clone()
            }
        };
        known.pack.get_or_init(|| made(fields)).clone()
    }
}

/// # Safety
/// As [`pack`].
unsafe fn of_foreign(address: usize, fields: &Fields) -> Arc<Pack> {
    // SAFETY: as the caller of this function promises.
    let content = unsafe { Fingerprint::of_content(fields) };
    let mut foreign = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = foreign.iter().position(|kept| kept.content == content) {
        let found = Foreign { address, ..foreign.remove(place) };
        let pack = found.pack.clone();
        foreign.push(found);
        return pack;
    }
    // Made while others wait: they would make it again.
    // SAFETY: as the caller of this function promises.
    let pack = unsafe { made(fields) };
    if foreign.len() >= KEPT {
        foreign.remove(0);
    }
    foreign.push(Foreign { content, pack: pack.clone(), address });
    pack
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout as _, svm_model_3, svm_node, svm_parameter};

    /// A caller's machine of one class: rows of one entry, and everything that belongs to them.
    struct Built {
        _rows: Vec<[svm_node; 2]>,
        _pointers: Vec<*mut svm_node>,
        _betas: Vec<f64>,
        _arrays: Vec<*mut f64>,
        _rho: Vec<f64>,
        model: svm_model_3,
    }

    fn built(scale: f64) -> Built {
        let count = 40;
        let end = svm_node { index: -1, value: 0.0 };
        let row = |at: i32| [svm_node { index: 1, value: f64::from(at) * scale }, end];
        let mut rows: Vec<[svm_node; 2]> = (0..count).map(row).collect();
        let mut pointers: Vec<*mut svm_node> =
            rows.iter_mut().map(|row| row.as_mut_ptr()).collect();
        let mut betas = vec![0.5; count as usize];
        let mut arrays = vec![betas.as_mut_ptr()];
        let mut rho = vec![3.0];
        let param = svm_parameter {
            svm_type: 2,
            kernel_type: 2,
            degree: 3,
            gamma: 0.5,
            coef0: 0.0,
            cache_size: 1.0,
            eps: 1e-3,
            C: 1.0,
            nr_weight: 0,
            weight_label: std::ptr::null_mut(),
            weight: std::ptr::null_mut(),
            nu: 0.5,
            p: 0.1,
            shrinking: 1,
            probability: 0,
        };
        let model = svm_model_3 {
            param,
            nr_class: 2,
            l: count,
            SV: pointers.as_mut_ptr(),
            sv_coef: arrays.as_mut_ptr(),
            rho: rho.as_mut_ptr(),
            probA: std::ptr::null_mut(),
            probB: std::ptr::null_mut(),
            sv_indices: std::ptr::null_mut(),
            label: std::ptr::null_mut(),
            nSV: std::ptr::null_mut(),
            free_sv: 0,
        };
        Built { _rows: rows, _pointers: pointers, _betas: betas, _arrays: arrays, _rho: rho, model }
    }

    #[test]
    fn a_callers_model_is_known_by_its_content_and_its_pack_is_released_with_it() {
        let (one, equal, other) = (built(0.1), built(0.1), built(0.2));
        // SAFETY: the members of the models are whole as long as these are.
        let of = |address: usize, built: &Built| unsafe { pack(address, &built.model.fields()) };
        let first = of(16, &one);
        assert!(Arc::ptr_eq(&first, &of(32, &equal)), "equal content at another address");
        let second = of(16, &other);
        assert!(!Arc::ptr_eq(&first, &second), "other content at the same address");
        let packs = [first, second].map(|pack| Arc::downgrade(&pack));
        let are_kept = || packs.each_ref().map(|pack| pack.upgrade().is_some());
        assert_eq!(are_kept(), [true, true]);
        forget(16);
        assert_eq!(are_kept(), [true, false]);
        forget(32);
        assert_eq!(are_kept(), [false, false]);
    }
}
