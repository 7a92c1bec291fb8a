//! Writes IDX arrays.

use std::io::Write;

use super::{WriteFormat, check_dense, inexpressible};
use crate::{DataError, Dataset, Row};

pub(super) static FORMAT: WriteFormat = WriteFormat {
    name: "idx",
    summary: "IDX array of bytes, or of 64-bit floats if a value is not a byte; labels go to a second file",
    endings: &["idx"],
    labels_apart: true,
    write,
};

fn write(data: &Dataset, ids: Option<&[String]>, out: &mut dyn Write) -> Result<(), DataError> {
    check_dense("IDX", data)?;
    if ids.is_some() {
        return Err(inexpressible("IDX", "ids of rows"));
    }
    let examples = &data.examples;
    // Minus zero is no byte.
    let is_byte = |value: f64| value.to_bits() == f64::from(value as u8).to_bits();
    let is_bytes = examples.iter().flat_map(Row::nonzeros).all(|(_, value)| is_byte(value))
        && examples.as_dense().is_none_or(|values| values.iter().all(|value| is_byte(*value)));
    out.write_all(&[0, 0, if is_bytes { 0x08 } else { 0x0e }, 2])?;
    for size in [examples.rows(), examples.columns()] {
        let narrow = u32::try_from(size);
        let narrow = narrow.map_err(|_| inexpressible("IDX", format!("{size} rows or columns")))?;
        out.write_all(&narrow.to_be_bytes())?;
    }
    let mut values = vec![0.0; examples.columns()];
    for row in examples.iter() {
        row.write_dense(&mut values);
        for value in &values {
            if is_bytes {
                out.write_all(&[*value as u8])?;
            } else {
                out.write_all(&value.to_be_bytes())?;
            }
        }
    }
    Ok(())
}
