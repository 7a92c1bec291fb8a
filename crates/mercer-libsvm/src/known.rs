//! Which models are known, and their packs. Models of this library are known by their address and what they were when they
//! were packed; models that a caller built are known by a fingerprint of all they hold, computed at each prediction.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};

use crate::fingerprint::Fingerprint;
use crate::layout::Fields;
use crate::pack::{Mode, Pack};
use crate::snapshot::Snapshot;

/// Packs of models of callers that are kept.
const KEPT: usize = 8;

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
static FOREIGN: Mutex<Vec<(Fingerprint, Arc<Pack>)>> = Mutex::new(Vec::new());

/// Remembers that this library allocated a model at this address.
pub(crate) fn remember(address: usize) {
    OWN.write().unwrap_or_else(PoisonError::into_inner).insert(address, Arc::default());
}

/// Forgets the model at this address, which is about to be released.
pub(crate) fn forget(address: usize) {
    OWN.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
}

/// The pack of the model at this address.
///
/// # Safety
/// The members of the model are null or point to as much as LIBSVM's README says; every row has an end.
pub(crate) unsafe fn pack(address: usize, fields: &Fields) -> Arc<Pack> {
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner).get(&address).cloned();
    // SAFETY: as the caller of this function promises.
    unsafe { own.map_or_else(|| of_foreign(fields), |own| of_own(&own, fields)) }
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
unsafe fn of_foreign(fields: &Fields) -> Arc<Pack> {
    // SAFETY: as the caller of this function promises.
    let content = unsafe { Fingerprint::of_content(fields) };
    let mut foreign = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = foreign.iter().position(|(known, _)| *known == content) {
        let found = foreign.remove(place);
        let pack = found.1.clone();
        foreign.push(found);
        return pack;
    }
    // Made while others wait: they would make it again.
    // SAFETY: as the caller of this function promises.
    let pack = unsafe { made(fields) };
    if foreign.len() >= KEPT {
        foreign.remove(0);
    }
    foreign.push((content, pack.clone()));
    pack
}
