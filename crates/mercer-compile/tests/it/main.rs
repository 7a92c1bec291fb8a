//! Integration tests of fitting, calibration, tuning and compression, as one binary.
//! Unit tests are beside the code.

mod anytime;
mod certify;
mod common;
mod compress;
mod compressed;
mod damaged;
mod gather;
mod grid;
mod nearest;
mod risk;
mod soak;
mod table;
mod tune;
mod verify;
