//! A look at the schema and at the headers of all pages before the library sees them: what they claim is
//! allocated, so it is checked against what is there.

use super::error;
use crate::DataError;

/// Pages up to this size are unpacked whatever they weigh.
const SMALL: u64 = 8 << 20;
/// More than any usual packing gains.
const GAIN: u64 = 1000;
/// What the library keeps for a word of a dictionary, at most.
const ENTRY: u64 = 32;
/// Structures inside structures: page headers have three.
const DEPTH: usize = 8;

/// Checks that no group of columns claims more members than the schema has entries. A file that does not end
/// as a Parquet file does is left to the library, which says so.
pub(super) fn check_schema(file: &[u8]) -> Result<(), DataError> {
    let Some((rest, tail)) = file.split_last_chunk::<8>() else { return Ok(()) };
    let [length @ .., b'P', b'A', b'R', b'1'] = tail else { return Ok(()) };
    let length = u32::from_le_bytes(*length) as usize;
    let Some(start) = rest.len().checked_sub(length) else { return Ok(()) };
    let (entries, members) = Compact { rest: &rest[start..] }
        .schema()
        .ok_or_else(|| error("the description of its columns is damaged"))?;
    if members > entries {
        let reason = format!("a group of columns claims {members} of {entries} columns");
        return Err(error(reason));
    }
    Ok(())
}

/// Checks the pages of one column chunk.
pub(super) fn check(mut chunk: &[u8]) -> Result<(), DataError> {
    while !chunk.is_empty() {
        let mut header = Compact { rest: chunk };
        let Sizes { unpacked, packed, words } =
            header.sizes().ok_or_else(|| error("a page header is damaged"))?;
        let [Ok(unpacked), Ok(packed), Ok(words)] = [unpacked, packed, words].map(u64::try_from)
        else {
            return Err(error("a page of negative length"));
        };
        // A word takes a byte at least, and entries are made for all that are claimed.
        let entries = ENTRY.saturating_mul(words);
        if words > unpacked || (entries > 4 * SMALL && entries > GAIN * packed) {
            let reason = format!("a page of {packed} bytes claims to be a dictionary of {words}");
            return Err(error(reason));
        }
        if unpacked > SMALL && unpacked > GAIN * packed {
            let reason = format!("a page of {packed} bytes claims to unpack to {unpacked}");
            return Err(error(reason));
        }
        let rest = usize::try_from(packed).ok().and_then(|packed| header.rest.get(packed..));
        chunk = rest.ok_or_else(|| error("a page is cut off"))?;
    }
    Ok(())
}

/// Stands where another field would begin.
const END: u8 = 0;

/// What a page header claims.
struct Sizes {
    unpacked: i64,
    packed: i64,
    /// Of a dictionary; none in other pages.
    words: i64,
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

    /// Entries of the schema, and the most members that one of them claims: field 2 of the footer, a list of
    /// structures whose field 5 counts members. A negative count is one too many.
    fn schema(&mut self) -> Option<(u64, u64)> {
        let mut field = 0;
        loop {
            let kind = self.field(&mut field)?;
            if kind == END {
                return Some((0, 0));
            }
            if (field, kind) != (2, 9) {
                self.skip(kind, DEPTH)?;
                continue;
            }
            let (entries, kind) = self.list()?;
            let mut most = 0;
            for _ in 0..entries {
                most = most.max(if kind == 12 { self.members()? } else { return None });
            }
            return Some((entries, most));
        }
    }

    fn members(&mut self) -> Option<u64> {
        let (mut field, mut members) = (0, 0);
        loop {
            match (self.field(&mut field)?, field) {
                (END, _) => return Some(members),
                (5, 5) => members = u64::try_from(self.signed()?).unwrap_or(u64::MAX),
                (kind, _) => self.skip(kind, DEPTH)?,
            }
        }
    }

    /// Elements of a list, and their kind.
    fn list(&mut self) -> Option<(u64, u8)> {
        let start = self.byte()?;
        let short = u64::from(start >> 4);
        Some((if short == 15 { self.number()? } else { short }, start & 15))
    }

    /// Fields 2 and 3 of a page header, and the first one of field 7, the header of a dictionary.
    fn sizes(&mut self) -> Option<Sizes> {
        let (mut field, mut unpacked, mut packed, mut words) = (0, None, None, 0);
        loop {
            match (self.field(&mut field)?, field) {
                (END, _) => return Some(Sizes { unpacked: unpacked?, packed: packed?, words }),
                (5, 2) => unpacked = Some(self.signed()?),
                (5, 3) => packed = Some(self.signed()?),
                (12, 7) => words = self.words()?,
                (kind, _) => self.skip(kind, DEPTH)?,
            }
        }
    }

    fn words(&mut self) -> Option<i64> {
        let (mut field, mut words) = (0, 0);
        loop {
            match (self.field(&mut field)?, field) {
                (END, _) => return Some(words),
                (5, 1) => words = self.signed()?,
                (kind, _) => self.skip(kind, DEPTH)?,
            }
        }
    }

    /// The kind of the next field of a structure, [`END`] after the last; `field` becomes its number.
    fn field(&mut self, field: &mut i64) -> Option<u8> {
        let start = self.byte()?;
        let (step, kind) = (i64::from(start >> 4), start & 15);
        if kind == END {
            return Some(END);
        }
        *field = if step == 0 { self.signed()? } else { field.checked_add(step)? };
        Some(kind)
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
                let (count, kind) = self.list()?;
                // Each element takes a byte at least, those of one bit too.
                let kind = if kind <= 2 { 3 } else { kind };
                (0..count).try_for_each(|_| self.skip(kind, inner))
            }
            12 => loop {
                match self.field(&mut 0)? {
                    END => return Some(()),
                    kind => self.skip(kind, inner)?,
                }
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A positive number as Thrift packs it.
    fn packed(value: u64) -> Vec<u8> {
        let mut left = value << 1;
        let mut out = Vec::new();
        while left > 0x7f {
            out.push(0x80 | (left & 0x7f) as u8);
            left >>= 7;
        }
        out.push(left as u8);
        out
    }

    /// A file of nothing but a footer with one entry that claims so many members.
    fn footer(members: u64) -> Vec<u8> {
        let entry = [&[0x55][..], &packed(members), &[0]].concat();
        let footer = [&[0x29, 0x1c][..], &entry, &[0]].concat();
        let length = (footer.len() as u32).to_le_bytes();
        [&footer[..], &length, b"PAR1"].concat()
    }

    #[test]
    fn a_schema_claims_no_more_members_than_it_has_entries() {
        assert!(check_schema(&footer(1)).is_ok());
        let said = check_schema(&footer(1_500_000_000)).unwrap_err().to_string();
        assert!(said.contains("claims 1500000000 of 1 columns"), "{said}");
        assert!(check_schema(b"PAR1").is_ok(), "left to the library");
    }

    #[test]
    fn a_dictionary_claims_no_more_words_than_it_has_bytes() {
        let page = |words: u64| {
            let sizes = [&[0x25][..], &packed(4), &[0x15], &packed(4)].concat();
            let dictionary = [&[0x4c, 0x15][..], &packed(words), &[0, 0]].concat();
            [&sizes[..], &dictionary, &[1, 2, 3, 4]].concat()
        };
        assert!(check(&page(1)).is_ok());
        let said = check(&page(300_000_000)).unwrap_err().to_string();
        assert!(said.contains("a dictionary of 300000000"), "{said}");
    }
}
