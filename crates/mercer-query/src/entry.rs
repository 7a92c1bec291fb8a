//! The registry of stages: name, parameters, summary and how a stage is read from a model file. How a stage is fitted is
//! in `mercer_compile`, whose registry refers to these entries.

use mercer_machine::Section;
use mercer_spec::{Checked, Parameter, Spec, SpecError, signature};

use crate::stage::Stage;
use crate::verify::RestsOn;
use crate::{Exact, LoadError};

/// A stage by name: what its text may say, and how it comes back from a model file.
#[derive(Debug)]
pub struct StageEntry {
    /// Name of the stage.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its parameters: the fitter, the loader and `mercer list` all use this definition.
    pub parameters: &'static [Parameter],
    /// Makes the stage from stored arrays and checked arguments; checks every number, since files are not trusted.
    pub build: fn(&Section, &Checked<'_>, &Exact) -> Result<Box<dyn Stage>, LoadError>,
    /// What its answers rest on, and how that is verified.
    pub rests_on: RestsOn,
}

impl StageEntry {
    /// The name with its parameters and their defaults, as `mercer list` prints it.
    pub fn signature(&self) -> String {
        signature(self.name, self.parameters, false)
    }

    /// Checks the arguments of a text.
    ///
    /// # Errors
    /// If an argument is unknown, missing or outside its range.
    pub fn check<'a>(&self, spec: &'a Spec) -> Result<Checked<'a>, SpecError> {
        Checked::new(spec, self.parameters)
    }

    /// The stage that a section of a model file holds.
    pub(crate) fn load(
        &self,
        section: &Section,
        exact: &Exact,
    ) -> Result<Box<dyn Stage>, LoadError> {
        let refuse = |reason: &str| LoadError::unfit(self.name, reason);
        let spec: Spec = section.spec.parse().map_err(|_| refuse("its text cannot be read"))?;
        let arguments = self.check(&spec).map_err(|error| refuse(&error.to_string()))?;
        (self.build)(section, &arguments, exact)
    }
}

/// The entries by name.
pub mod entries {
    pub use crate::stages::anytime::ENTRY as ANYTIME;
    pub use crate::stages::compressed::ENTRY as COMPRESSED;
    pub use crate::stages::landmarks::ENTRY as LANDMARKS;
    pub use crate::stages::linear::ENTRY as LINEAR;
    pub use crate::stages::low_precision::ENTRY as LOW_PRECISION;
    pub use crate::stages::monomials::ENTRY as MONOMIALS;
    pub use crate::stages::nearest::ENTRY as NEAREST;
    pub use crate::stages::pca::ENTRY as PCA;
    pub use crate::stages::projected::ENTRY as PROJECTED;
    pub use crate::stages::spectral::ENTRY as SPECTRAL;
    pub use crate::stages::student::ENTRY as STUDENT;
    pub use crate::stages::table::ENTRY as TABLE;
    pub use crate::stages::taylor::ENTRY as TAYLOR;
}

/// All stages before the exact one, in the order in which `mercer list` shows them.
pub static STAGES: &[&StageEntry] = &[
    &entries::LOW_PRECISION,
    &entries::PROJECTED,
    &entries::SPECTRAL,
    &entries::TAYLOR,
    &entries::MONOMIALS,
    &entries::ANYTIME,
    &entries::COMPRESSED,
    &entries::TABLE,
    &entries::LINEAR,
    &entries::STUDENT,
    &entries::PCA,
    &entries::NEAREST,
    &entries::LANDMARKS,
];
