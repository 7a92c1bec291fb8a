use mercer_machine::Section;

use super::{Fitter, no_arguments};

/// Nothing to fit: the supports are rounded when the plan is loaded.
pub(super) static FITTER: Fitter = Fitter {
    name: "low_precision",
    summary: "all supports in single precision, with a proved range; rbf, polynomial, linear",
    fit: |spec, _| {
        no_arguments("low_precision", spec)?;
        Ok(Section::new("low_precision"))
    },
};
