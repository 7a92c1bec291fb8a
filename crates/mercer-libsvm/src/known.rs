//! Which models are known, and their packs. Models of this library are known by their address and a fingerprint of their
//! members; models that a caller built are known by a fingerprint of all they hold, computed at each prediction.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};

use crate::fingerprint::Fingerprint;
use crate::layout::Fields;
use crate::pack::{Mode, Pack};

/// Packs of models of callers that are kept.
const KEPT: usize = 8;

/// A model that this library allocated.
#[derive(Debug)]
struct Own {
    members: Fingerprint,
    pack: OnceLock<Arc<Pack>>,
}

static OWN: LazyLock<RwLock<HashMap<usize, Arc<Own>>>> = LazyLock::new(RwLock::default);
/// The last one used is the last.
static FOREIGN: Mutex<Vec<(Fingerprint, Arc<Pack>)>> = Mutex::new(Vec::new());

/// Remembers a model that this library allocated at this address.
///
/// # Safety
/// The members of the model point to as much as LIBSVM's README says.
pub(crate) unsafe fn remember(address: usize, fields: &Fields) {
    // SAFETY: as the caller of this function promises.
    let members = unsafe { Fingerprint::of_members(fields) };
    let own = Arc::new(Own { members, pack: OnceLock::new() });
    OWN.write().unwrap_or_else(PoisonError::into_inner).insert(address, own);
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
    let make = || {
        // SAFETY: as the caller of this function promises.
        let content = unsafe { fields.content() };
        Arc::new(if content.is_whole(fields) {
            Pack::new(fields, &content, Mode::current())
        } else {
            Pack::Direct
        })
    };
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner).get(&address).cloned();
    if let Some(own) = own {
        // SAFETY: as the caller of this function promises.
        if own.members == unsafe { Fingerprint::of_members(fields) } {
            return own.pack.get_or_init(make).clone();
        }
    }
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
    let pack = make();
    if foreign.len() >= KEPT {
        foreign.remove(0);
    }
    foreign.push((content, pack.clone()));
    pack
}
