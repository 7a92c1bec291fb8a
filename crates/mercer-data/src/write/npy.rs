//! Writes NPY arrays.

use std::io::Write;

use super::{WriteFormat, check_dense, inexpressible};
use crate::{DataError, Dataset, Targets};

pub(super) static FORMAT: WriteFormat = WriteFormat {
    name: "npy",
    summary: "NumPy array of 64-bit floats; labels go to a second file",
    endings: &["npy"],
    labels_apart: true,
    write,
};

fn write(data: &Dataset, ids: Option<&[String]>, out: &mut dyn Write) -> Result<(), DataError> {
    check_dense("NPY", data)?;
    if ids.is_some() {
        return Err(inexpressible("NPY", "ids of rows"));
    }
    let (rows, columns) = (data.examples.rows(), data.examples.columns());
    header(&format!("({rows}, {columns})"), out)?;
    let mut values = vec![0.0; columns];
    for row in data.examples.iter() {
        row.write_dense(&mut values);
        for value in &values {
            out.write_all(&value.to_le_bytes())?;
        }
    }
    Ok(())
}

pub(super) fn labels(targets: &Targets, out: &mut dyn Write) -> Result<(), DataError> {
    let numbers = match targets {
        Targets::Numbers(numbers) => numbers,
        Targets::Names(_) => return Err(inexpressible("NPY", "labels that are texts")),
        Targets::Absent => return Err(inexpressible("NPY", "labels that are not there")),
    };
    header(&format!("({},)", numbers.len()), out)?;
    for number in numbers {
        out.write_all(&number.to_le_bytes())?;
    }
    Ok(())
}

/// Version 1.0, padded so that the numbers start at a multiple of 64 bytes.
fn header(shape: &str, out: &mut dyn Write) -> Result<(), DataError> {
    let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    let padded = (10 + text.len() + 1).next_multiple_of(64) - 10;
    out.write_all(crate::read::NPY_MAGIC)?;
    out.write_all(&[1, 0])?;
    let length = u16::try_from(padded).expect("a shape of two sizes fits");
    out.write_all(&length.to_le_bytes())?;
    writeln!(out, "{text:width$}", width = padded - 1)?;
    Ok(())
}
