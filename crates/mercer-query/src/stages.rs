//! The stages before the exact one: how each answers queries. How each is fitted to a machine is in the module of the
//! same name of `mercer_compile`.

pub(crate) mod anytime;
pub(crate) mod compressed;
mod coordinates;
pub(crate) mod landmarks;
pub(crate) mod linear;
pub(crate) mod low_precision;
pub(crate) mod monomials;
pub(crate) mod nearest;
pub(crate) mod pca;
pub(crate) mod projected;
pub(crate) mod spectral;
pub(crate) mod student;
pub(crate) mod table;
pub(crate) mod taylor;

pub(crate) use coordinates::{CHUNK, Coordinates};
pub use nearest::NearestOrder;
