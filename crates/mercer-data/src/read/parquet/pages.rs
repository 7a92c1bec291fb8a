//! A look at the headers of all pages before any is unpacked: what a page claims to unpack to is allocated by
//! the library, so it is checked against the bytes that are there.

use super::error;
use crate::DataError;

/// Pages up to this size are unpacked whatever they weigh.
const SMALL: u64 = 8 << 20;
/// More than any usual packing gains.
const GAIN: u64 = 1000;
/// Structures inside structures: page headers have three.
const DEPTH: usize = 8;

/// Checks the pages of one column chunk.
pub(super) fn check(mut chunk: &[u8]) -> Result<(), DataError> {
    while !chunk.is_empty() {
        let mut header = Compact { rest: chunk };
        let (unpacked, packed) = header.sizes().ok_or_else(|| error("a page header is damaged"))?;
        let (Ok(unpacked), Ok(packed)) = (u64::try_from(unpacked), u64::try_from(packed)) else {
            return Err(error("a page of negative length"));
        };
        if unpacked > SMALL && unpacked > GAIN * packed {
            let reason = format!("a page of {packed} bytes claims to unpack to {unpacked}");
            return Err(error(reason));
        }
        let rest = usize::try_from(packed).ok().and_then(|packed| header.rest.get(packed..));
        chunk = rest.ok_or_else(|| error("a page is cut off"))?;
    }
    Ok(())
}

/// Thrift's compact protocol, as far as finding the end of a structure needs it.
struct Compact<'a> {
    rest: &'a [u8],
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn skip_bytes(&mut self, count: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    /// Unpacked and packed size: fields 2 and 3 of a page header.
    fn sizes(&mut self) -> Option<(i64, i64)> {
        let (mut field, mut unpacked, mut packed) = (0, None, None);
        loop {
            let start = self.byte()?;
            let (step, kind) = (i64::from(start >> 4), start & 15);
            if kind == 0 {
                return Some((unpacked?, packed?));
            }
            field = if step == 0 { self.signed()? } else { field + step };
            match (field, kind) {
                (2, 5) => unpacked = Some(self.signed()?),
                (3, 5) => packed = Some(self.signed()?),
                _ => self.skip(kind, DEPTH)?,
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let inner = depth.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()),
            3 => self.skip_bytes(1),
            4..=6 => self.number().map(|_| ()),
            7 => self.skip_bytes(8),
            8 => {
                let count = self.number()?;
                self.skip_bytes(count)
            }
            9 | 10 => {
                let start = self.byte()?;
                let short = u64::from(start >> 4);
                let count = if short == 15 { self.number()? } else { short };
                // Each element takes a byte at least, those of one bit too.
                let kind = if start & 15 <= 2 { 3 } else { start & 15 };
                (0..count).try_for_each(|_| self.skip(kind, inner))
            }
            12 => loop {
                let start = self.byte()?;
                let (step, kind) = (start >> 4, start & 15);
                if kind == 0 {
                    return Some(());
                }
                if step == 0 {
                    self.number()?;
                }
                self.skip(kind, inner)?;
            },
            _ => None,
        }
    }
}
