//! NPY files: magic bytes, a version, a Python dictionary that says type, order and shape, the numbers.

use std::io::Read;

use super::array::{Array, Header, Scalar};
use super::{ReadFormat, Source};
use crate::DataError;

pub(super) static FORMAT: ReadFormat = ReadFormat {
    name: "npy",
    summary: "NumPy array of numbers, one row per example; labels come by --labels",
    endings: &["npy"],
    recognise: |head| head.starts_with(MAGIC),
    open: |source, _| Ok(Box::new(open(source)?)),
};

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// No header of a plain array is longer.
const MAX_HEADER: usize = 1 << 16;

fn error(reason: impl Into<String>) -> DataError {
    DataError::Array { format: "NPY", reason: reason.into() }
}

fn open(mut source: Source) -> Result<Array, DataError> {
    let short = |_| error("the header is cut off");
    let mut start = [0u8; 8];
    source.read_exact(&mut start).map_err(short)?;
    if !start.starts_with(MAGIC) {
        return Err(error("the file does not begin with the magic bytes of NPY files"));
    }
    let length = match start[6] {
        1 => {
            let mut length = [0u8; 2];
            source.read_exact(&mut length).map_err(short)?;
            usize::from(u16::from_le_bytes(length))
        }
        2 | 3 => {
            let mut length = [0u8; 4];
            source.read_exact(&mut length).map_err(short)?;
            u32::from_le_bytes(length) as usize
        }
        other => return Err(error(format!("version {other} is not known"))),
    };
    if length > MAX_HEADER {
        return Err(error(format!("a header of {length} bytes is longer than any array needs")));
    }
    let mut text = vec![0u8; length];
    source.read_exact(&mut text).map_err(short)?;
    let text = String::from_utf8(text).map_err(|_| error("the header is not text"))?;
    Ok(Array::new(header(&text)?, source))
}

/// `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`
fn header(text: &str) -> Result<Header, DataError> {
    let (scalar, big_endian) = descr(value(text, "descr")?)?;
    let by_columns = match value(text, "fortran_order")? {
        order if order.starts_with("True") => true,
        order if order.starts_with("False") => false,
        _ => return Err(error("'fortran_order' is neither True nor False")),
    };
    let shape = value(text, "shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (shape, _) = shape.ok_or_else(|| error("'shape' is not a tuple"))?;
    let sizes = shape
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty())
        .map(|size| size.trim_end_matches('L').parse::<usize>().ok());
    let sizes = sizes.collect::<Option<Vec<_>>>();
    let sizes = sizes.ok_or_else(|| error("'shape' holds something other than integers"))?;
    if by_columns && sizes.len() > 2 {
        return Err(error("column order with more than two sizes is not read"));
    }
    let (rows, columns) = Header::shape("NPY", &sizes)?;
    Ok(Header { format: "NPY", scalar, big_endian, by_columns, rows, columns })
}

/// What follows `'key':`.
fn value<'a>(text: &'a str, key: &str) -> Result<&'a str, DataError> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let found = quoted.iter().find_map(|quoted| text.split_once(quoted.as_str()));
    let rest = found.and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
    rest.map(str::trim_start).ok_or_else(|| error(format!("the header has no '{key}'")))
}

fn descr(text: &str) -> Result<(Scalar, bool), DataError> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
    let inner = quote.and_then(|quote| text[1..].split_once(quote)).map(|(inner, _)| inner);
    let inner = inner.ok_or_else(|| error("only arrays of plain numbers are read"))?;
    let (order, kind) = inner.split_at_checked(1).unwrap_or((inner, ""));
    let big_endian = match order {
        "<" | "|" | "=" => false,
        ">" => true,
        _ => return Err(error(format!("numbers of type '{inner}' are not read"))),
    };
    let scalar = match kind {
        "u1" | "b1" => Scalar::U8,
        "i1" => Scalar::I8,
        "u2" => Scalar::U16,
        "i2" => Scalar::I16,
        "u4" => Scalar::U32,
        "i4" => Scalar::I32,
        "u8" => Scalar::U64,
        "i8" => Scalar::I64,
        "f2" => Scalar::F16,
        "f4" => Scalar::F32,
        "f8" => Scalar::F64,
        _ => return Err(error(format!("numbers of type '{inner}' are not read"))),
    };
    Ok((scalar, big_endian))
}

#[cfg(test)]
mod tests {
    use super::super::{Options, from_reader, read_all};

    fn file(descr: &str, order: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
        let text =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(numbers);
        bytes
    }

    fn read(bytes: Vec<u8>) -> Result<crate::Dataset, String> {
        let source = std::io::Cursor::new(bytes);
        let mut chunks =
            from_reader(source, "x.npy", &Options::default()).map_err(|e| e.to_string())?;
        read_all(&mut *chunks).map_err(|error| error.to_string())
    }

    #[test]
    fn types_orders_and_shapes_are_read() {
        let bytes: Vec<u8> = [1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0].map(f64::to_le_bytes).concat();
        let data = read(file("<f8", "False", "(2, 3)", &bytes)).unwrap();
        assert_eq!(data.examples.as_dense().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let data = read(file("<f8", "True", "(2, 3)", &bytes)).unwrap();
        assert_eq!(data.examples.as_dense().unwrap(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        let shorts: Vec<u8> = [-1i16, 300].map(i16::to_be_bytes).concat();
        let data = read(file(">i2", "False", "(2,)", &shorts)).unwrap();
        assert_eq!(data.examples.as_dense().unwrap(), [-1.0, 300.0]);
        let halves: Vec<u8> = [0x3c00u16, 0xc100, 0x0001, 0x7bff].map(u16::to_le_bytes).concat();
        let data = read(file("<f2", "False", "(4,)", &halves)).unwrap();
        assert_eq!(data.examples.as_dense().unwrap(), [1.0, -2.5, 2f64.powi(-24), 65504.0]);
        let images = read(file("|u1", "False", "(2, 2, 1)", &[1, 2, 3, 4])).unwrap();
        assert_eq!(images.examples.columns(), 2);
    }

    #[test]
    fn damaged_files_are_reported() {
        let huge = "(99999999999, 99999999999)";
        let nan = f64::NAN.to_le_bytes();
        let long = (1i64 << 53) + 1;
        for (bytes, message) in [
            (file("<f8", "False", huge, &[]), "NPY: the sizes are too large"),
            (
                file("<f8", "False", "(999999999, 9)", &[0; 80]),
                "NPY: the file ends before its 999999999 rows do",
            ),
            (
                file("<f8", "False", "(2, 1)", &[[0; 8], nan].concat()),
                "row 2, column 1 is NaN; values must be finite",
            ),
            (file("<c16", "False", "(1,)", &[0; 16]), "NPY: numbers of type '<c16' are not read"),
            (
                file("<i8", "False", "(1,)", &long.to_le_bytes()),
                "NPY: an integer beyond 2^53 is not exact in f64",
            ),
            (file("<f8", "False", "()", &[0; 8]), "NPY: a single number, not rows"),
            (
                file("<f8", "Perhaps", "(1,)", &[0; 8]),
                "NPY: 'fortran_order' is neither True nor False",
            ),
            (file("<f8", "False", "(0, 4)", &[]), "the file holds no rows"),
        ] {
            assert_eq!(read(bytes).unwrap_err(), message);
        }
    }
}
