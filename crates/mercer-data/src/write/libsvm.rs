//! Writes LIBSVM text.

use std::io::Write;

use super::{WriteFormat, digits, inexpressible};
use crate::{DataError, Dataset, Targets};

pub(super) static FORMAT: WriteFormat = WriteFormat {
    name: "libsvm",
    summary: "LIBSVM text; indices from 1, label 0 where there is none",
    endings: &["svm", "libsvm", "svmlight", "dat", "txt"],
    labels_apart: false,
    write,
};

fn write(data: &Dataset, ids: Option<&[String]>, out: &mut dyn Write) -> Result<(), DataError> {
    if ids.is_some() {
        return Err(inexpressible("LIBSVM text", "ids of rows"));
    }
    for (at, row) in data.examples.iter().enumerate() {
        match &data.targets {
            Targets::Absent => out.write_all(b"0")?,
            Targets::Numbers(numbers) => out.write_all(digits(numbers[at]).as_bytes())?,
            Targets::Names(names) => {
                let what = format!("the label '{}' (only numbers)", names[at]);
                return Err(inexpressible("LIBSVM text", what));
            }
        }
        for (column, value) in row.nonzeros() {
            write!(out, " {}:{}", u64::from(column) + 1, digits(value))?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}
