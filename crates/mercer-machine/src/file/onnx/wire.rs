//! Just enough of the protocol buffer wire format: fields one after the other, nothing copied before it is
//! wanted, so that memory never exceeds what the bytes hold.

use crate::MachineError;

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64,
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

pub(super) fn damaged(reason: impl Into<String>) -> MachineError {
    MachineError::Damaged { reason: format!("ONNX: {}", reason.into()) }
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn step(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Fixed64
            }
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(self.take(4)?.try_into().ok()?),
            _ => return None,
        };
        Some((number, value))
    }

    /// The next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, MachineError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.step().map(Some).ok_or_else(|| damaged("a field is cut off or of unknown kind"))
    }
}

/// Whether these bytes are a message with a graph.
pub(super) fn has_graph(bytes: &[u8]) -> bool {
    let mut fields = Fields::of(bytes);
    let mut found = false;
    while let Ok(Some((number, value))) = fields.next() {
        found |= number == super::field::model::GRAPH && matches!(value, Value::Bytes(_));
    }
    found
}

/// A text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, MachineError> {
    std::str::from_utf8(bytes).map_err(|_| damaged("a name is not text"))
}

/// Writes a message.
#[derive(Debug, Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(super) fn integer(mut self, number: u32, value: i64) -> Self {
        self.varint(u64::from(number) << 3);
        self.varint(value.cast_unsigned());
        self
    }

    pub(super) fn bytes(mut self, number: u32, bytes: impl AsRef<[u8]>) -> Self {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(bytes.as_ref().len() as u64);
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    pub(super) fn message(self, number: u32, inner: Self) -> Self {
        self.bytes(number, inner.0)
    }

    /// Unpacked, as onnx.proto declares them.
    pub(super) fn floats(mut self, number: u32, values: &[f32]) -> Self {
        for value in values {
            self.varint(u64::from(number) << 3 | 5);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
        self
    }
}
