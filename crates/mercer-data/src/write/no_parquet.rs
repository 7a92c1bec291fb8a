//! Stands for Parquet in programs built without it: it is refused by name.

use super::Format;
use crate::DataError;

pub(super) static FORMAT: Format = Format {
    name: "parquet",
    summary: "Parquet table; left out of this program (cargo feature `parquet`)",
    endings: &["parquet", "pq"],
    labels_apart: false,
    write: |_, _, _| Err(DataError::NotBuiltIn { what: "Parquet" }),
};
