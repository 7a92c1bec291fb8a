//! Tensors of the Open Inference Protocol: names, datatypes, shapes and elements, from bytes and to bytes. What they mean to
//! a model is in `rows.rs` and `answers.rs`.

use mercer_data::not_finite;
use mercer_data::read::half;

use crate::failure::Failure;
use crate::json_array::Elements;

/// Types of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datatype {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned integers of so many bytes.
    Unsigned(u8),
    /// Signed integers of so many bytes.
    Signed(u8),
    /// IEEE half precision.
    Half,
    /// The upper half of a single.
    Brain,
    /// IEEE single precision.
    Single,
    /// IEEE double precision.
    Double,
    /// Texts of any length.
    Bytes,
}

const DATATYPES: [(&str, Datatype); 14] = [
    ("BOOL", Datatype::Bool),
    ("UINT8", Datatype::Unsigned(1)),
    ("UINT16", Datatype::Unsigned(2)),
    ("UINT32", Datatype::Unsigned(4)),
    ("UINT64", Datatype::Unsigned(8)),
    ("INT8", Datatype::Signed(1)),
    ("INT16", Datatype::Signed(2)),
    ("INT32", Datatype::Signed(4)),
    ("INT64", Datatype::Signed(8)),
    ("FP16", Datatype::Half),
    ("BF16", Datatype::Brain),
    ("FP32", Datatype::Single),
    ("FP64", Datatype::Double),
    ("BYTES", Datatype::Bytes),
];

impl Datatype {
    /// The datatype of that name.
    pub fn named(name: &str) -> Option<Self> {
        DATATYPES.iter().find(|(known, _)| *known == name).map(|(_, datatype)| *datatype)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        DATATYPES.iter().find(|(_, datatype)| *datatype == self).map_or("", |(name, _)| name)
    }

    /// Bytes of an element; none of texts.
    pub fn size(self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::Unsigned(size) | Self::Signed(size) => Some(usize::from(size)),
            Self::Half | Self::Brain => Some(2),
            Self::Single => Some(4),
            Self::Double => Some(8),
            Self::Bytes => None,
        }
    }

    /// An element of that size as a number.
    fn number(self, bytes: &[u8]) -> f64 {
        let mut eight = [0u8; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        let unsigned = u64::from_le_bytes(eight);
        match self {
            Self::Bool => f64::from(u8::from(unsigned != 0)),
            Self::Unsigned(_) | Self::Bytes => unsigned as f64,
            Self::Signed(size) => {
                let unused = 64 - 8 * u32::from(size);
                ((unsigned << unused) as i64 >> unused) as f64
            }
            Self::Half => half(unsigned as u16),
            Self::Brain => f64::from(f32::from_bits((unsigned as u32) << 16)),
            Self::Single => f64::from(f32::from_bits(unsigned as u32)),
            Self::Double => f64::from_bits(unsigned),
        }
    }
}

/// An input tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its elements, the last dimension first.
    pub elements: Elements,
}

impl Tensor {
    /// Checks that name, shape and elements agree.
    ///
    /// # Errors
    /// If they do not, or a number is not finite.
    pub fn new(
        name: String,
        datatype: Datatype,
        shape: Vec<usize>,
        elements: Elements,
    ) -> Result<Self, Failure> {
        let wrong = |what: String| Err(Failure::invalid(format!("input '{name}': {what}")));
        let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
        if count != Some(elements.len()) {
            let found = elements.len();
            return wrong(format!("its shape {shape:?} does not fit its {found} elements"));
        }
        let is_text = matches!(elements, Elements::Texts(_));
        if elements.len() > 0 && is_text != (datatype == Datatype::Bytes) {
            let kind = if is_text { "texts" } else { "numbers" };
            return wrong(format!("its datatype is {}, its data are {kind}", datatype.name()));
        }
        if let Elements::Numbers(numbers) = &elements
            && let Some(at) = not_finite(numbers)
        {
            let columns = shape.last().copied().unwrap_or(1).max(1);
            let (row, column) = (at / columns + 1, at % columns + 1);
            return wrong(format!(
                "row {row}, column {column} is {}, not a finite number",
                numbers[at]
            ));
        }
        Ok(Self { name, datatype, shape, elements })
    }

    /// Bytes of its elements in memory.
    pub fn bytes(&self) -> usize {
        match &self.elements {
            Elements::Numbers(numbers) => 8 * numbers.len(),
            Elements::Texts(texts) => texts.iter().map(Vec::len).sum(),
        }
    }

    /// The elements of a datatype from little-endian bytes.
    ///
    /// # Errors
    /// If the bytes are not a whole number of elements.
    pub fn elements_from_bytes(
        name: &str,
        datatype: Datatype,
        bytes: &[u8],
    ) -> Result<Elements, Failure> {
        let wrong = |what: String| Err(Failure::invalid(format!("input '{name}': {what}")));
        let Some(size) = datatype.size() else { return texts_from_bytes(name, bytes) };
        if !bytes.len().is_multiple_of(size) {
            let (length, datatype) = (bytes.len(), datatype.name());
            return wrong(format!("{length} bytes are not a whole number of {datatype} elements"));
        }
        let numbers = if datatype == Datatype::Double {
            let (eights, _) = bytes.as_chunks::<8>();
            eights.iter().map(|eight| f64::from_le_bytes(*eight)).collect()
        } else {
            bytes.chunks_exact(size).map(|bytes| datatype.number(bytes)).collect()
        };
        Ok(Elements::Numbers(numbers))
    }
}

/// Texts, each after its length in four bytes.
fn texts_from_bytes(name: &str, mut bytes: &[u8]) -> Result<Elements, Failure> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        let text = bytes.split_first_chunk::<4>().and_then(|(length, rest)| {
            let length = u32::from_le_bytes(*length) as usize;
            rest.split_at_checked(length)
        });
        let Some((text, rest)) = text else {
            let number = texts.len() + 1;
            let what = format!("input '{name}': element {number} is longer than what follows");
            return Err(Failure::invalid(what));
        };
        texts.push(text.to_vec());
        bytes = rest;
    }
    Ok(Elements::Texts(texts))
}

/// The elements of an output tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// FP64.
    F64s(Vec<f64>),
    /// INT64.
    Integers(Vec<i64>),
    /// BYTES.
    Texts(Vec<String>),
}

/// An output tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputTensor {
    /// Its name.
    pub name: &'static str,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its elements.
    pub values: Values,
}

impl Values {
    /// The datatype.
    pub fn datatype(&self) -> Datatype {
        match self {
            Self::F64s(_) => Datatype::Double,
            Self::Integers(_) => Datatype::Signed(8),
            Self::Texts(_) => Datatype::Bytes,
        }
    }

    /// Little-endian bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::F64s(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::Integers(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::Texts(texts) => {
                let mut bytes = Vec::new();
                for text in texts {
                    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(text.as_bytes());
                }
                bytes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_every_datatype_are_read() {
        let read = |name: &str, bytes: &[u8]| {
            let datatype = Datatype::named(name).unwrap();
            assert_eq!(datatype.name(), name);
            match Tensor::elements_from_bytes("x", datatype, bytes).unwrap() {
                Elements::Numbers(numbers) => numbers,
                Elements::Texts(texts) => panic!("{texts:?}"),
            }
        };
        assert_eq!(read("BOOL", &[0, 1, 7]), [0.0, 1.0, 1.0]);
        assert_eq!(read("UINT8", &[255]), [255.0]);
        assert_eq!(read("INT8", &[255, 127]), [-1.0, 127.0]);
        assert_eq!(read("INT16", &(-300i16).to_le_bytes()), [-300.0]);
        assert_eq!(read("UINT32", &u32::MAX.to_le_bytes()), [f64::from(u32::MAX)]);
        assert_eq!(read("INT64", &(-5i64).to_le_bytes()), [-5.0]);
        assert_eq!(read("FP32", &0.1f32.to_le_bytes()), [f64::from(0.1f32)]);
        assert_eq!(read("FP64", &0.1f64.to_le_bytes()), [0.1]);
        // 1, -2, 65504, the smallest subnormal.
        let halves = [0x3c00u16, 0xc000, 0x7bff, 1].map(u16::to_le_bytes).concat();
        assert_eq!(read("FP16", &halves), [1.0, -2.0, 65504.0, 2f64.powi(-24)]);
        assert_eq!(read("BF16", &0x3f80u16.to_le_bytes()), [1.0]);
    }

    #[test]
    fn texts_are_read_and_written() {
        let bytes = Values::Texts(vec!["a".into(), String::new(), "bc".into()]).to_bytes();
        let found = Tensor::elements_from_bytes("x", Datatype::Bytes, &bytes).unwrap();
        assert_eq!(found, Elements::Texts(vec!["a".into(), Vec::new(), "bc".into()]));
        let cut = Tensor::elements_from_bytes("x", Datatype::Bytes, &bytes[..bytes.len() - 1]);
        assert!(cut.unwrap_err().message.contains("element 3 is longer"));
    }

    #[test]
    fn shapes_datatypes_and_numbers_are_checked() {
        let make = |datatype, shape: &[usize], numbers: &[f64]| {
            let elements = Elements::Numbers(numbers.to_vec());
            Tensor::new("x".into(), datatype, shape.to_vec(), elements)
                .map_err(|error| error.message)
        };
        assert!(make(Datatype::Double, &[1, 2], &[1.0, 2.0]).is_ok());
        assert!(make(Datatype::Double, &[2, 2], &[1.0]).unwrap_err().contains("does not fit"));
        assert!(make(Datatype::Bytes, &[1], &[1.0]).unwrap_err().contains("its data are numbers"));
        let huge = [usize::MAX, 2];
        assert!(make(Datatype::Double, &huge, &[1.0]).unwrap_err().contains("does not fit"));
        let mut many = vec![0.5; 200];
        many[150] = f64::INFINITY;
        let wrong = make(Datatype::Double, &[20, 10], &many).unwrap_err();
        assert_eq!(wrong, "input 'x': row 16, column 1 is inf, not a finite number");
        let wrong = make(Datatype::Double, &[2, 2], &[1.0, 2.0, 3.0, f64::NAN]).unwrap_err();
        assert_eq!(wrong, "input 'x': row 2, column 2 is NaN, not a finite number");
        let odd = Tensor::elements_from_bytes("x", Datatype::Single, &[0; 6]).unwrap_err();
        assert!(odd.message.contains("6 bytes are not a whole number of FP32"));
    }
}
