//! Which models there are: files and folders that are named, their versions, loading and exchanging. A model is exchanged
//! whole: requests that began with the old one end with it. Nothing here knows a protocol.

mod files;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use mercer_machine::Model;

use self::files::{address_name, files};
use crate::failure::{Failure, Kind};
use crate::served::{LoadOptions, ServedModel};

/// Which versions of a model are served.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VersionPolicy {
    /// The one with the largest number; the next one if that cannot be loaded.
    #[default]
    Latest,
    /// All of them.
    All,
    /// Those with these numbers, as far as a model has them.
    Named(Vec<u64>),
}

impl std::str::FromStr for VersionPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "latest" => Ok(Self::Latest),
            "all" => Ok(Self::All),
            numbers => numbers
                .split(',')
                .map(|number| number.trim().parse())
                .collect::<Result<_, _>>()
                .map(Self::Named)
                .map_err(|_| format!("'{text}' is not latest, all, or numbers such as 1,3")),
        }
    }
}

impl<'de> serde::Deserialize<'de> for VersionPolicy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Written {
            Word(String),
            Numbers(Vec<u64>),
        }
        match Written::deserialize(deserializer)? {
            Written::Word(word) => word.parse().map_err(serde::de::Error::custom),
            Written::Numbers(numbers) => Ok(Self::Named(numbers)),
        }
    }
}

/// What the index says of a version.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct IndexEntry {
    /// The model.
    pub name: String,
    /// Its version.
    pub version: String,
    /// READY or UNAVAILABLE.
    pub state: &'static str,
    /// Why it is unavailable, or why a newer file of it was not taken.
    pub reason: String,
}

/// What a file was when it was read.
#[derive(Debug, Clone, PartialEq)]
struct FileState {
    path: PathBuf,
    modified: Option<SystemTime>,
    length: u64,
}

impl FileState {
    fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self {
            path: path.to_owned(),
            modified: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
            length: metadata.map_or(0, |metadata| metadata.len()),
        }
    }
}

/// A version of a model.
#[derive(Debug, Clone)]
struct Entry {
    file: FileState,
    served: Option<Arc<ServedModel>>,
    reason: String,
    /// Whether it was unloaded on request: only a request loads it again.
    is_unloaded: bool,
    /// Whether it is loaded on request: then its file is read again, and its alarm is over.
    is_forgotten: bool,
    /// Whether a program gave it from memory: it has no file.
    is_given: bool,
}

type Versions = BTreeMap<u64, Entry>;

/// All models.
#[derive(Debug)]
pub struct Repository {
    sources: Vec<PathBuf>,
    policy: VersionPolicy,
    load_options: LoadOptions,
    models: ArcSwap<BTreeMap<String, Versions>>,
    /// Held while models are loaded: one change at a time.
    changing: Mutex<()>,
}

/// Which files of a model are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilesToRead {
    /// Those that are new or changed.
    Changed,
    /// Those that are served, whether or not they changed.
    Again,
}

/// How a change of models went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Names and versions that were loaded.
    pub loaded: Vec<(String, u64)>,
    /// Names, versions and reasons of those that could not be.
    pub failed: Vec<(String, u64, String)>,
    /// Names and versions that are served no longer: their files are gone, or a later version is served.
    pub removed: Vec<(String, u64)>,
}

impl Repository {
    /// Models of these files and folders; none is loaded yet.
    pub fn new(sources: Vec<PathBuf>, policy: VersionPolicy, load_options: LoadOptions) -> Self {
        let (models, changing) = (ArcSwap::default(), Mutex::new(()));
        Self { sources, policy, load_options, models, changing }
    }

    /// Without files: a program gives the models ([`Repository::put`]).
    pub fn without_files() -> Self {
        let load_options = LoadOptions { trust_plan: true, audit: 0.0, seed: 1 };
        Self::new(Vec::new(), VersionPolicy::default(), load_options)
    }

    /// Which versions of a model are served.
    pub fn policy(&self) -> &VersionPolicy {
        &self.policy
    }

    /// Loads what is new or changed, and drops what is gone. A file that cannot be loaded leaves the old model in place; where only
    /// the latest version is served, the latest that can be loaded is.
    ///
    /// # Errors
    /// If two files have the same name and version, or a name cannot be part of an address.
    pub fn refresh(&self) -> Result<Changes, Failure> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.find()?;
        let old = self.models.load_full();
        let (mut new, mut changes) = (BTreeMap::new(), Changes::default());
        for (name, versions) in &found {
            let kept = self.kept(name, versions, old.get(name), FilesToRead::Changed, &mut changes);
            new.insert(name.clone(), kept);
        }
        for (name, versions) in old.iter() {
            for (version, entry) in versions {
                if entry.is_given {
                    let own: &mut Versions = new.entry(name.clone()).or_default();
                    own.entry(*version).or_insert_with(|| entry.clone());
                } else if !new.get(name).is_some_and(|now| now.contains_key(version)) {
                    changes.removed.push((name.clone(), *version));
                }
            }
        }
        self.models.store(Arc::new(new));
        changes.loaded.sort();
        changes.failed.sort();
        Ok(changes)
    }

    /// Serves a model from memory in place of all versions of that name. Its plan is believed: the program has just fitted it.
    ///
    /// # Errors
    /// If the name cannot be part of an address, or the plan does not fit the machine.
    pub fn put(&self, name: &str, model: Model) -> Result<(), String> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        address_name(name).map_err(|failure| failure.message)?;
        let mut models = BTreeMap::clone(&self.models.load());
        let last = models.get(name).and_then(|versions| versions.keys().next_back().copied());
        let version = last.unwrap_or(0) + 1;
        let options = LoadOptions { trust_plan: true, ..self.load_options };
        let served = ServedModel::new(name, version, model, options);
        let entry = Entry {
            file: FileState { path: PathBuf::new(), modified: None, length: 0 },
            served: Some(Arc::new(served.map_err(|error| error.to_string())?)),
            reason: String::new(),
            is_unloaded: false,
            is_forgotten: false,
            is_given: true,
        };
        models.insert(name.to_owned(), Versions::from([(version, entry)]));
        self.models.store(Arc::new(models));
        Ok(())
    }

    /// The versions of a model as they are from now on. No model is left without a version because its newer files cannot be loaded.
    fn kept(
        &self,
        name: &str,
        found: &BTreeMap<u64, PathBuf>,
        before: Option<&Versions>,
        wanted: FilesToRead,
        changes: &mut Changes,
    ) -> Versions {
        let mut kept = Versions::new();
        for (version, path) in found.iter().rev() {
            let own = before.and_then(|before| before.get(version));
            // Only what is served last needs to be read again: older versions stand in for those that cannot be.
            let is_forgotten = wanted == FilesToRead::Again
                && (self.policy != VersionPolicy::Latest
                    || kept.is_empty()
                    || own.is_some_and(|own| own.is_unloaded));
            let forgotten =
                own.filter(|_| is_forgotten).map(|own| Entry { is_forgotten: true, ..own.clone() });
            let entry = self.entry(name, *version, path, forgotten.as_ref().or(own), changes);
            let is_settled = entry.served.is_some() || entry.is_unloaded;
            kept.insert(*version, entry);
            if is_settled && self.policy == VersionPolicy::Latest {
                break;
            }
        }
        let is_settled = |entry: &Entry| entry.served.is_some() || entry.is_unloaded;
        if !kept.values().any(is_settled)
            && let Some((version, last)) =
                before.into_iter().flatten().rev().find(|(_, entry)| entry.served.is_some())
        {
            // Its file is gone, and nothing that came after it can be loaded.
            kept.insert(*version, last.clone());
        }
        kept
    }

    /// The entry of a file: the old one if nothing changed.
    fn entry(
        &self,
        name: &str,
        version: u64,
        path: &Path,
        before: Option<&Entry>,
        changes: &mut Changes,
    ) -> Entry {
        let file = FileState::of(path);
        if let Some(before) = before
            && (before.file == file || before.is_unloaded)
            && !before.is_forgotten
        {
            return before.clone();
        }
        match ServedModel::load(name, version, path, self.load_options) {
            Ok(served) => {
                let is_known = |old: &&Arc<ServedModel>| old.digest == served.digest;
                let old = before.filter(|before| !before.is_forgotten);
                let old = old.and_then(|old| old.served.as_ref()).filter(is_known);
                if old.is_some_and(|old| old.is_alarmed.load(Ordering::Acquire)) {
                    // The same model again is no new model: its alarm stays until it is loaded on request.
                    served.raise_alarm();
                }
                changes.loaded.push((name.to_owned(), version));
                let served = Some(Arc::new(served));
                Entry {
                    file,
                    served,
                    reason: String::new(),
                    is_unloaded: false,
                    is_forgotten: false,
                    is_given: false,
                }
            }
            Err(error) => {
                changes.failed.push((name.to_owned(), version, error.to_string()));
                let served = before.and_then(|before| before.served.clone());
                Entry {
                    file,
                    served,
                    reason: error.to_string(),
                    is_unloaded: false,
                    is_forgotten: false,
                    is_given: false,
                }
            }
        }
    }

    /// The files of all models by name and version, as far as the policy may take them.
    fn find(&self) -> Result<BTreeMap<String, BTreeMap<u64, PathBuf>>, Failure> {
        let mut found: BTreeMap<String, BTreeMap<u64, PathBuf>> = BTreeMap::new();
        for source in &self.sources {
            for (name, version, path) in files(source)? {
                let versions = found.entry(name.clone()).or_default();
                if let Some(other) = versions.insert(version, path.clone()) {
                    let (one, other) = (other.display(), path.display());
                    let what = format!("{one} and {other} are both version {version} of '{name}'");
                    return Err(Failure::invalid(what));
                }
            }
        }
        for versions in found.values_mut() {
            match &self.policy {
                // The latest that can be loaded is known later.
                VersionPolicy::All | VersionPolicy::Latest => {}
                VersionPolicy::Named(numbers) => {
                    versions.retain(|number, _| numbers.contains(number));
                }
            }
        }
        found.retain(|_, versions| !versions.is_empty());
        Ok(found)
    }

    /// A model that is ready: of that version, or the latest.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, name: &str, version: Option<&str>) -> Result<Arc<ServedModel>, Failure> {
        let models = self.models.load();
        let versions = models
            .get(name)
            .ok_or_else(|| Failure::new(Kind::NotFound, format!("there is no model '{name}'")))?;
        let wanted = match version.filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(text.parse::<u64>().map_err(|_| no_version(name, text))?),
        };
        let entry = match wanted {
            Some(version) => {
                let entry = versions.get(&version);
                Some(entry.ok_or_else(|| no_version(name, &version.to_string()))?)
            }
            None => {
                let ready = versions.values().rev().find(|entry| entry.served.is_some());
                ready.or_else(|| versions.values().next_back())
            }
        };
        match entry {
            Some(Entry { served: Some(served), .. }) => Ok(Arc::clone(served)),
            Some(entry) => {
                let what = format!("the model '{name}' is not ready: {}", entry.reason);
                Err(Failure::new(Kind::Unavailable, what))
            }
            None => Err(Failure::new(Kind::NotFound, format!("there is no model '{name}'"))),
        }
    }

    /// All versions that are ready.
    pub fn served(&self) -> Vec<Arc<ServedModel>> {
        let models = self.models.load();
        let entries = models.values().flat_map(BTreeMap::values);
        entries.filter_map(|entry| entry.served.clone()).collect()
    }

    /// Whether every model has a version that is ready.
    pub fn is_ready(&self) -> bool {
        let models = self.models.load();
        let is_ready = |versions: &Versions| versions.values().any(|entry| entry.served.is_some());
        !models.is_empty() && models.values().all(is_ready)
    }

    /// Names of models without a version that answers.
    pub fn without_version(&self) -> Vec<String> {
        let models = self.models.load();
        let is_missing = |(_, versions): &(&String, &Versions)| {
            versions.values().all(|entry| entry.served.is_none())
        };
        models.iter().filter(is_missing).map(|(name, _)| name.clone()).collect()
    }

    /// Loads a model of the repository again, whether or not its file changed.
    ///
    /// # Errors
    /// If there is no such model, or it cannot be loaded: then the old one stays.
    pub fn load(&self, name: &str) -> Result<(), Failure> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.find()?;
        let versions = found.get(name).ok_or_else(|| {
            Failure::new(Kind::NotFound, format!("there is no file of a model '{name}'"))
        })?;
        let mut models = BTreeMap::clone(&self.models.load());
        let mut changes = Changes::default();
        let kept = self.kept(name, versions, models.get(name), FilesToRead::Again, &mut changes);
        models.insert(name.to_owned(), kept);
        self.models.store(Arc::new(models));
        match changes.failed.into_iter().next() {
            Some((_, _, reason)) => Err(Failure::invalid(reason)),
            None => Ok(()),
        }
    }

    /// Takes a model out of service until it is loaded on request.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn unload(&self, name: &str) -> Result<(), Failure> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut models = BTreeMap::clone(&self.models.load());
        let versions = models
            .get_mut(name)
            .ok_or_else(|| Failure::new(Kind::NotFound, format!("there is no model '{name}'")))?;
        for entry in versions.values_mut() {
            entry.served = None;
            entry.is_unloaded = true;
            "unloaded".clone_into(&mut entry.reason);
        }
        self.models.store(Arc::new(models));
        Ok(())
    }

    /// What there is, ready or not.
    pub fn index(&self, only_ready: bool) -> Vec<IndexEntry> {
        let models = self.models.load();
        let mut index = Vec::new();
        for (name, versions) in models.iter() {
            for (version, entry) in versions {
                let is_ready = entry.served.is_some();
                if is_ready || !only_ready {
                    let state = if is_ready { "READY" } else { "UNAVAILABLE" };
                    let reason = stands_in(versions, *version).unwrap_or(entry.reason.clone());
                    let (name, version) = (name.clone(), version.to_string());
                    index.push(IndexEntry { name, version, state, reason });
                }
            }
        }
        index
    }

    /// Versions of a model that are ready, as texts.
    pub fn versions(&self, name: &str) -> Vec<String> {
        let models = self.models.load();
        let ready = models.get(name).into_iter().flatten();
        ready
            .filter(|(_, entry)| entry.served.is_some())
            .map(|(version, _)| version.to_string())
            .collect()
    }
}

/// Why a version that answers is not the latest, if a newer one cannot be loaded.
fn stands_in(versions: &Versions, version: u64) -> Option<String> {
    let own = versions.get(&version).filter(|entry| entry.reason.is_empty())?;
    let (newest, entry) = versions.iter().next_back().filter(|(newest, _)| **newest > version)?;
    (own.served.is_some() && entry.served.is_none())
        .then(|| format!("version {newest} is not served: {}", entry.reason))
}

fn no_version(name: &str, version: &str) -> Failure {
    Failure::new(Kind::NotFound, format!("the model '{name}' has no version '{version}'"))
}
