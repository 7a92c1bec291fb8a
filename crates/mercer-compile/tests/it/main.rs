//! Integration tests of fitting, calibration, tuning and compression, as one binary.
//! Unit tests are beside the code.

mod anytime;
mod attack;
mod c_files;
mod certify;
mod common;
mod compress;
mod compress_goals;
mod compressed;
mod conformal;
mod damaged;
mod gather;
mod grid;
mod nearest;
mod promise;
mod risk;
mod table;
mod trust;
mod tune;
mod verify;
