//! IDX files, as MNIST uses them: two zero bytes, a type, the number of sizes, the sizes, the numbers.

use std::io::Read;

use super::array::{Array, Header, Scalar};
use super::{ReadFormat, Source};
use crate::DataError;

pub(super) static FORMAT: ReadFormat = ReadFormat {
    name: "idx",
    summary: "IDX array (MNIST); sizes after the first become columns, labels come by --labels",
    endings: &["idx", "idx1-ubyte", "idx3-ubyte"],
    recognise: |head| matches!(head, [0, 0, 8..=14, 1..=8, ..]),
    open: |source, _| Ok(Box::new(open(source)?)),
};

fn open(mut source: Source) -> Result<Array, DataError> {
    let short = |_| DataError::Array { format: "IDX", reason: "the header is cut off".to_owned() };
    let error = |reason: String| DataError::Array { format: "IDX", reason };
    let mut start = [0u8; 4];
    source.read_exact(&mut start).map_err(short)?;
    let scalar = match start {
        [0, 0, 0x08, _] => Scalar::U8,
        [0, 0, 0x09, _] => Scalar::I8,
        [0, 0, 0x0b, _] => Scalar::I16,
        [0, 0, 0x0c, _] => Scalar::I32,
        [0, 0, 0x0d, _] => Scalar::F32,
        [0, 0, 0x0e, _] => Scalar::F64,
        [0, 0, other, _] => return Err(error(format!("unknown type of number {other:#04x}"))),
        _ => return Err(error("the file does not begin with two zero bytes".to_owned())),
    };
    let mut sizes = Vec::new();
    for _ in 0..start[3] {
        let mut size = [0u8; 4];
        source.read_exact(&mut size).map_err(short)?;
        sizes.push(u32::from_be_bytes(size) as usize);
    }
    let (rows, columns) = Header::shape("IDX", &sizes)?;
    let header =
        Header { format: "IDX", scalar, big_endian: true, by_columns: false, rows, columns };
    Ok(Array::new(header, source))
}

#[cfg(test)]
mod tests {
    use super::super::{Options, from_reader, read_all};

    fn read(bytes: Vec<u8>) -> Result<crate::Dataset, String> {
        let source = std::io::Cursor::new(bytes);
        let mut chunks =
            from_reader(source, "digits", &Options::default()).map_err(|e| e.to_string())?;
        read_all(&mut *chunks).map_err(|error| error.to_string())
    }

    #[test]
    fn images_become_rows_and_damage_is_told() {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        bytes.extend([1, 2, 3, 255]);
        let data = read(bytes.clone()).unwrap();
        assert_eq!(data.examples.as_dense().unwrap(), [1.0, 2.0, 3.0, 255.0]);
        assert_eq!(data.examples.columns(), 2);
        assert_eq!(
            read(bytes[..19].to_vec()).unwrap_err(),
            "IDX: the file ends before its 2 rows do"
        );
        assert_eq!(read(bytes[..10].to_vec()).unwrap_err(), "IDX: the header is cut off");
        bytes.push(0);
        assert_eq!(read(bytes).unwrap_err(), "IDX: more bytes follow after the last row");
        let negative = vec![0, 0, 0x0b, 1, 0, 0, 0, 1, 0xff, 0xfe];
        assert_eq!(read(negative).unwrap().examples.as_dense().unwrap(), [-2.0]);
    }
}
