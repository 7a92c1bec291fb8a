//! Plans and prediction sets that this user made or verified on this computer, remembered in the user's cache folder and nowhere else: what
//! lies beside a model may come from the same stranger. Verification itself is in `verify.rs`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mercer_data::write::AtomicFile;
use mercer_machine::{Conformal, Model, PlanSections, file};

use super::PlanTrust;

/// The digest by which a plan is remembered: SHA-256 of the digest of its machine, its texts, its arrays and its calibration.
pub fn plan_digest(sections: &PlanSections) -> String {
    file::plan_digest(sections)
}

/// A folder with one small file for each plan, and for each calibration of prediction sets, named by its digest.
#[derive(Debug, Clone)]
pub struct KnownPlans {
    folder: PathBuf,
}

/// What the files say. The number is raised when constants of an older version no longer count as verified.
const CONSTANTS: &str = "rules 1: constants verified\n";
const EVERYTHING: &str = "rules 1: fitted here, or verified and tested\n";
const SETS: &str = "rules 1: prediction sets calibrated or tested here\n";

impl KnownPlans {
    /// The plans in `plans` of a cache folder.
    pub fn in_folder(cache: &Path) -> Self {
        Self { folder: cache.join("plans") }
    }

    /// Those of the user: in `$MERCER_CACHE_DIR`, else in `mercer` of the cache folder of the platform
    /// (`$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`). `None` where there is no such folder: then no
    /// plan is known.
    pub fn of_user() -> Option<Self> {
        let folder = |name: &str| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        if let Some(own) = folder("MERCER_CACHE_DIR") {
            return Some(Self::in_folder(&own));
        }
        let cache = if cfg!(windows) {
            folder("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            folder("HOME").map(|home| home.join("Library").join("Caches"))
        } else {
            folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))
        };
        Some(Self::in_folder(&cache?.join("mercer")))
    }

    /// How far a plan is to be trusted: no further than what is remembered of it.
    pub fn trust(&self, sections: &PlanSections) -> PlanTrust {
        match fs::read_to_string(self.folder.join(plan_digest(sections))).as_deref() {
            Ok(EVERYTHING) => PlanTrust::Everything,
            Ok(CONSTANTS) => PlanTrust::Constants,
            _ => PlanTrust::Nothing,
        }
    }

    /// Remembers a plan; never forgets what was known of it.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn remember(&self, sections: &PlanSections, trust: PlanTrust) -> io::Result<()> {
        if trust <= self.trust(sections) {
            return Ok(());
        }
        let text = if trust == PlanTrust::Everything { EVERYTHING } else { CONSTANTS };
        self.write(&plan_digest(sections), text)
    }

    /// The calibration of a model's prediction sets, believed if it is remembered as this user's.
    pub fn sets(&self, model: &Model) -> Option<Conformal> {
        let conformal = model.conformal?;
        let text = fs::read_to_string(self.folder.join(file::sets_digest(model)?));
        Some(if text.is_ok_and(|text| text == SETS) { conformal.of_user() } else { conformal })
    }

    /// Remembers the calibration of a model's prediction sets, if it is this user's.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn remember_sets(&self, model: &Model) -> io::Result<()> {
        let is_of_user = model.conformal.is_some_and(|conformal| conformal.is_of_user());
        match file::sets_digest(model) {
            Some(digest) if is_of_user => self.write(&digest, SETS),
            _ => Ok(()),
        }
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut file = AtomicFile::create(&self.folder.join(name))?;
        file.write_all(text.as_bytes())?;
        file.commit()
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_kernel::parse;
    use mercer_machine::{Array, Machine, Output, Score, Section};

    fn plan() -> PlanSections {
        PlanSections {
            spec: "cascade(monomials, exact)".to_owned(),
            machine: "0123".to_owned(),
            sections: vec![Section::new("monomials").with("weights", Array::F64(vec![1.0, 2.0]))],
            calibration: None,
            tuning: None,
        }
    }

    #[test]
    fn a_plan_is_known_once_it_is_remembered_and_no_changed_plan_is() {
        let folder = std::env::temp_dir().join(format!("mercer-known-{}", std::process::id()));
        let known = KnownPlans::in_folder(&folder);
        assert_eq!(known.trust(&plan()), PlanTrust::Nothing);
        known.remember(&plan(), PlanTrust::Constants).unwrap();
        assert_eq!(known.trust(&plan()), PlanTrust::Constants);
        known.remember(&plan(), PlanTrust::Everything).unwrap();
        known.remember(&plan(), PlanTrust::Constants).unwrap();
        assert_eq!(known.trust(&plan()), PlanTrust::Everything);
        let mut other = plan();
        other.sections[0] = Section::new("monomials").with("weights", Array::F64(vec![1.0, 2.5]));
        assert_eq!(known.trust(&other), PlanTrust::Nothing);
        other = plan();
        other.machine = "0124".to_owned();
        assert_eq!(known.trust(&other), PlanTrust::Nothing);
        other = plan();
        other.spec = "exact".to_owned();
        assert_eq!(known.trust(&other), PlanTrust::Nothing);
        fs::remove_dir_all(&folder).unwrap();
    }

    fn model(offset: f64, quantile: f64) -> Model {
        let supports = mercer_data::Matrix::dense(1, vec![1.0]).unwrap();
        let score = Score::Expansion { supports: vec![0], coefficients: vec![2.0], offset };
        let machine =
            Machine::new(parse("linear").unwrap(), supports, vec![score], Output::Value).unwrap();
        let conformal = Some(Conformal::from_parts(0.9, 99, quantile).unwrap());
        Model { conformal, ..Model::from(machine) }
    }

    #[test]
    fn prediction_sets_are_known_once_they_are_remembered_and_no_changed_ones_are() {
        let folder = std::env::temp_dir().join(format!("mercer-sets-{}", std::process::id()));
        let known = KnownPlans::in_folder(&folder);
        let is_known = |model: &Model| known.sets(model).unwrap().is_of_user();
        let own =
            |model: Model| Model { conformal: model.conformal.map(Conformal::of_user), ..model };
        // What comes from a file, or is vouched for, is not remembered.
        known.remember_sets(&model(0.5, 1.0)).unwrap();
        let vouched = model(0.5, 1.0).conformal.map(Conformal::vouched);
        known.remember_sets(&Model { conformal: vouched, ..model(0.5, 1.0) }).unwrap();
        assert!(!is_known(&model(0.5, 1.0)));
        known.remember_sets(&own(model(0.5, 1.0))).unwrap();
        assert!(is_known(&model(0.5, 1.0)));
        assert!(!is_known(&model(0.5, 1.0 + f64::EPSILON)) && !is_known(&model(0.25, 1.0)));
        let mut scaled = model(0.5, 1.0);
        scaled.input.means = Some(vec![3.0]);
        assert!(!is_known(&scaled));
        fs::remove_dir_all(&folder).unwrap();
    }
}
