//! Just enough of flatbuffers to write: a table, then what it points to.

/// A value, or something a table points to.
pub(super) enum Flat {
    Byte(u8),
    Short(i16),
    Long(i64),
    Text(String),
    /// Fields by number.
    Table(Vec<(usize, Flat)>),
    /// A list of tables.
    Tables(Vec<Flat>),
    /// A list of things of 64-bit numbers.
    Structs {
        count: usize,
        bytes: Vec<u8>,
    },
}

impl Flat {
    /// The whole buffer, padded to eight bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut out = vec![0; 4];
        let at = self.append(&mut out);
        patch(&mut out, 0, at);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    /// Writes what a table points to at the end; returns where it begins.
    fn append(self, out: &mut Vec<u8>) -> usize {
        match self {
            Self::Table(fields) => table(fields, out),
            Self::Text(text) => {
                align(out, 4, 0);
                let at = out.len();
                out.extend((text.len() as u32).to_le_bytes());
                out.extend(text.bytes());
                out.push(0);
                at
            }
            Self::Tables(tables) => {
                align(out, 4, 0);
                let at = out.len();
                out.extend((tables.len() as u32).to_le_bytes());
                out.resize(out.len() + 4 * tables.len(), 0);
                for (number, table) in tables.into_iter().enumerate() {
                    let to = table.append(out);
                    patch(out, at + 4 + 4 * number, to);
                }
                at
            }
            Self::Structs { count, bytes } => {
                // The numbers, not their count, lie at a multiple of eight.
                align(out, 8, 4);
                let at = out.len();
                out.extend((count as u32).to_le_bytes());
                out.extend(bytes);
                at
            }
            Self::Byte(_) | Self::Short(_) | Self::Long(_) => {
                unreachable!("numbers are fields of tables")
            }
        }
    }
}

/// Fills up until what comes after `skip` further bytes lies at a multiple of `size`.
fn align(out: &mut Vec<u8>, size: usize, skip: usize) {
    while !(out.len() + skip).is_multiple_of(size) {
        out.push(0);
    }
}

/// Points from `from` to `to`.
fn patch(out: &mut [u8], from: usize, to: usize) {
    out[from..from + 4].copy_from_slice(&((to - from) as u32).to_le_bytes());
}

/// The list of fields, then the table: 8 bytes for each field, so that everything is aligned.
fn table(fields: Vec<(usize, Flat)>, out: &mut Vec<u8>) -> usize {
    let slots = fields.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
    align(out, 8, 0);
    let list = out.len();
    let size = 8 + 8 * fields.len();
    out.extend((4 + 2 * slots as u16).to_le_bytes());
    out.extend((size as u16).to_le_bytes());
    let mut places = vec![0u16; slots];
    for (at, (slot, _)) in fields.iter().enumerate() {
        places[*slot] = 8 + 8 * at as u16;
    }
    out.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    align(out, 8, 0);
    let at = out.len();
    out.extend(((at - list) as i32).to_le_bytes());
    out.resize(at + size, 0);
    for (number, (_, value)) in fields.into_iter().enumerate() {
        let place = at + 8 + 8 * number;
        match value {
            Flat::Byte(byte) => out[place] = byte,
            Flat::Short(short) => out[place..place + 2].copy_from_slice(&short.to_le_bytes()),
            Flat::Long(long) => out[place..place + 8].copy_from_slice(&long.to_le_bytes()),
            other => {
                let to = other.append(out);
                patch(out, place, to);
            }
        }
    }
    at
}
