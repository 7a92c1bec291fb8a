//! Stands for Parquet in programs built without it: files are still recognised, and refused by name.

use super::Format;
use crate::DataError;

pub(super) static FORMAT: Format = Format {
    name: "parquet",
    summary: "Parquet table; left out of this program (cargo feature `parquet`)",
    endings: &["parquet", "pq"],
    recognise: |head| head.starts_with(b"PAR1"),
    open: |_, _| Err(DataError::NotBuiltIn { what: "Parquet" }),
};
