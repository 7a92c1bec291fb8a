//! The non-zero entries of a dense row, as weights, without a branch per entry.

#![expect(unsafe_code, reason = "stores of whole registers into memory that was reserved for them")]

use crate::isa::Isa;
use crate::projection::Weight;
use crate::vector::{Compactor, SimdBackend, Task};

/// The row of a column to skip.
pub const NO_ROW: u32 = u32::MAX;

/// Values taken at a time.
const STEP: usize = 8;

struct Compact<'a> {
    values: &'a [f64],
    rows: &'a [u32],
    out: &'a mut Vec<Weight>,
}

impl Task for Compact<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Self { values, rows, out } = self;
        let count = values.len().min(rows.len());
        let (values, rows) = (&values[..count], &rows[..count]);
        let start = out.len();
        out.reserve(count + STEP);
        let whole = count - count % STEP;
        // SAFETY: places for `count + STEP` weights were reserved; eight values add at most eight of them, and
        // what is stored beyond the last one counted still lies within. Counted ones were all written.
        unsafe {
            let mut end = out.as_mut_ptr().add(start);
            for at in (0..whole).step_by(STEP) {
                let found =
                    B::Compactor::compact(values.as_ptr().add(at), rows.as_ptr().add(at), end);
                end = end.add(found);
            }
            let found = end.offset_from(out.as_ptr());
            out.set_len(found.unsigned_abs());
        }
        let rest = rows[whole..].iter().zip(&values[whole..]);
        let rest = rest.filter(|(row, value)| **value != 0.0 && **row != NO_ROW);
        out.extend(rest.map(|(row, value)| Weight { row: *row, value: *value as f32 }));
    }
}

/// Appends a weight for each value that is not zero, rounded to f32, in order; those whose row is
/// [`NO_ROW`] are left out. Values beyond the last row are ignored.
pub fn compact(isa: Isa, values: &[f64], rows: &[u32], out: &mut Vec<Weight>) {
    isa.run(Compact { values, rows, out });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_keeps_the_same_entries() {
        for count in [0, 1, 7, 8, 9, 16, 31, 64, 200] {
            for pattern in 0..50usize {
                let is_zero = |n: usize| (n * n + 3 * pattern + n * pattern).is_multiple_of(5);
                let value = |n: usize| match n % 11 {
                    _ if is_zero(n) => [0.0, -0.0][n % 2],
                    3 => 1e-300,
                    number => number as f64 - 5.5,
                };
                let values: Vec<f64> = (0..count).map(value).collect();
                let row = |n: usize| if (n + pattern) % 7 == 2 { NO_ROW } else { n as u32 };
                let rows: Vec<u32> = (0..count).map(row).collect();
                let mut expected = vec![Weight { row: 9, value: 2.0 }];
                for (row, value) in rows.iter().zip(&values) {
                    if *value != 0.0 && *row != NO_ROW {
                        expected.push(Weight { row: *row, value: *value as f32 });
                    }
                }
                for isa in Isa::available() {
                    let mut found = vec![Weight { row: 9, value: 2.0 }];
                    compact(*isa, &values, &rows, &mut found);
                    assert_eq!(found, expected, "{} {count} {pattern}", isa.name());
                }
            }
        }
    }
}
