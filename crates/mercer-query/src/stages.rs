//! The stages before the exact one; each has its fitting half in the compile room.

mod anytime;
mod compressed;
mod landmarks;
mod linear;
mod low_precision;
mod monomials;
mod nearest;
mod pca;
mod projected;
mod projection;
mod residual;
mod singly;
mod spectral;
mod student;
mod table;
mod taylor;

pub(crate) use anytime::LOADER as ANYTIME;
pub(crate) use compressed::LOADER as COMPRESSED;
pub(crate) use landmarks::LOADER as LANDMARKS;
pub(crate) use linear::LOADER as LINEAR;
pub(crate) use low_precision::LOADER as LOW_PRECISION;
pub(crate) use monomials::LOADER as MONOMIALS;
pub(crate) use nearest::LOADER as NEAREST;
pub use nearest::Order as NearestOrder;
pub(crate) use pca::LOADER as PCA;
pub(crate) use projected::LOADER as PROJECTED;
pub(crate) use projection::Coordinates;
pub(crate) use residual::LOADER as RESIDUAL;
pub(crate) use spectral::LOADER as SPECTRAL;
pub(crate) use student::LOADER as STUDENT;
pub(crate) use table::LOADER as TABLE;
pub(crate) use taylor::LOADER as TAYLOR;
