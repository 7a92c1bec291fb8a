//! The stages before the exact one; each has its fitting half in the compile room.

mod anytime;
mod low_precision;
mod projected;
mod spectral;

pub(crate) use anytime::LOADER as ANYTIME;
pub(crate) use low_precision::LOADER as LOW_PRECISION;
pub(crate) use projected::LOADER as PROJECTED;
pub(crate) use spectral::LOADER as SPECTRAL;
