//! Products of a few columns with each other: a model of few weights is solved on them alone.
//! Larger models are solved over the columns themselves, in `quadratic_model`.

use super::transposed::Transposed;

/// `Σ d x_i x_j` over the rows, for some columns i and j.
#[derive(Debug)]
pub(super) struct Products {
    size: usize,
    values: Vec<f64>,
}

/// Columns of which products are made, at most.
const MOST_COLUMNS: usize = 512;
/// Products made for each entry, at most: about what so many passes over the columns cost.
const MOST_PRODUCTS: usize = 12;

/// Entries row by row: places of their columns, and their values.
struct ByRow {
    starts: Vec<usize>,
    places: Vec<u16>,
    values: Vec<f64>,
}

impl ByRow {
    /// Of these columns; nothing where that makes too many products.
    fn new(columns: &Transposed, chosen: &[u32], rows: usize) -> Option<Self> {
        let mut starts = vec![0usize; rows + 1];
        for column in chosen {
            columns.each(*column as usize, |row, _| starts[row] += 1);
        }
        let products: usize = starts.iter().map(|length| length * (length + 1) / 2).sum();
        let mut entries = 0;
        for start in &mut starts {
            entries += std::mem::replace(start, entries);
        }
        if products > MOST_PRODUCTS * entries {
            return None;
        }
        let (mut places, mut values) = (vec![0; entries], vec![0.0; entries]);
        for (place, column) in (0u16..).zip(chosen) {
            columns.each(*column as usize, |row, x| {
                let at = starts[row];
                (places[at], values[at]) = (place, x);
                starts[row] += 1;
            });
        }
        // Every start is the next one's now.
        starts.rotate_right(1);
        starts[0] = 0;
        Some(Self { starts, places, values })
    }
}

impl Products {
    /// Of these columns, with the weight of every row; nothing where that would take too long.
    pub(super) fn new(
        columns: &Transposed,
        chosen: &[u32],
        rows: usize,
        weight: impl Fn(usize) -> f64,
    ) -> Option<Self> {
        let size = chosen.len();
        if size > MOST_COLUMNS {
            return None;
        }
        let by_row = ByRow::new(columns, chosen, rows)?;
        let mut values = vec![0.0; size * size];
        for (row, range) in by_row.starts.windows(2).enumerate() {
            let weight = weight(row);
            if weight == 0.0 {
                continue;
            }
            let (places, row_values) =
                (&by_row.places[range[0]..range[1]], &by_row.values[range[0]..range[1]]);
            for (at, (place, x)) in places.iter().zip(row_values).enumerate() {
                let (line, by) = (&mut values[usize::from(*place) * size..][..size], weight * x);
                for (other, z) in places[..=at].iter().zip(row_values) {
                    line[usize::from(*other)] += by * z;
                }
            }
        }
        for i in 0..size {
            for j in 0..i {
                values[j * size + i] = values[i * size + j];
            }
        }
        Some(Self { size, values })
    }

    /// Those of one column.
    pub(super) fn of(&self, place: usize) -> &[f64] {
        &self.values[place * self.size..(place + 1) * self.size]
    }
}
