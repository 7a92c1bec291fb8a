//! Model files: Mercer's own format and the formats of other programs, in one registry. Data files are read in
//! `mercer_data`.

pub mod c;
mod fold;
mod liblinear;
mod libsvm;
mod mercer;
mod onnx;
mod text;

use std::fs;
use std::io::Write;
use std::path::Path;

use mercer_data::write::AtomicFile;

use crate::{Machine, MachineError, Model, PlanSections};

/// A format of model files.
#[derive(Debug)]
pub struct Format {
    /// Its name in `--format`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    recognise: fn(&[u8]) -> bool,
    read: fn(&[u8]) -> Result<Model, MachineError>,
    write: fn(&Model, &mut dyn Write) -> Result<(), MachineError>,
}

/// All formats; one line each.
pub static FORMATS: &[&Format] =
    &[&mercer::FORMAT, &libsvm::FORMAT, &liblinear::FORMAT, &onnx::FORMAT, &c::DOUBLE, &c::FLOAT];

/// Reads a model file of any known format.
pub fn load(path: &Path) -> Result<Model, MachineError> {
    from_bytes(&fs::read(path)?)
}

/// Reads a model of any known format.
pub fn from_bytes(bytes: &[u8]) -> Result<Model, MachineError> {
    let model = (recognise(bytes)?.read)(bytes)?;
    model.check()?;
    Ok(model)
}

/// The format of these bytes.
pub fn recognise(bytes: &[u8]) -> Result<&'static Format, MachineError> {
    if bytes.is_empty() {
        return Err(MachineError::Unrecognised { reason: "the file is empty" });
    }
    let found = FORMATS.iter().copied().find(|format| (format.recognise)(bytes));
    found.ok_or(MachineError::Unrecognised {
        reason: "neither a mercer model, nor LIBSVM or LIBLINEAR model text (which begin with svm_type \
                 or solver_type), nor an ONNX model",
    })
}

/// Writes a model file. It replaces an existing file only when it is complete.
pub fn save(model: &Model, format: &Format, path: &Path) -> Result<(), MachineError> {
    model.check()?;
    let mut file = AtomicFile::create_private(path)?;
    (format.write)(model, &mut file)?;
    Ok(file.commit()?)
}

/// A model in one of the formats, as bytes.
pub fn to_bytes(model: &Model, format: &Format) -> Result<Vec<u8>, MachineError> {
    model.check()?;
    let mut bytes = Vec::new();
    (format.write)(model, &mut bytes)?;
    Ok(bytes)
}

/// SHA-256 of a machine (kernel, output and all numbers) as text. A plan holds the digest of its machine.
pub fn digest(machine: &Machine) -> String {
    mercer::digest(machine)
}

/// SHA-256 of a plan with the machine it was made for, as text: how a plan is told from any other.
pub fn plan_digest(plan: &PlanSections) -> String {
    mercer::plan_digest(plan)
}

/// SHA-256 of the calibration of a model's prediction sets with all that it rests on, as text; `None` without one.
pub fn sets_digest(model: &Model) -> Option<String> {
    model.conformal.as_ref().map(|conformal| mercer::sets_digest(model, conformal))
}

/// The format of that name.
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

#[cfg(test)]
mod tests;
