//! Stands for Parquet in programs built without it: it is refused by name.

use super::WriteFormat;
use crate::DataError;

pub(super) static FORMAT: WriteFormat = WriteFormat {
    name: "parquet",
    summary: "Parquet table; left out of this program (cargo feature `parquet`)",
    endings: &["parquet", "pq"],
    labels_apart: false,
    write: |_, _, _| Err(DataError::NotBuiltIn { what: "Parquet" }),
};
