//! The scaling `quantile`: replaces a value by its rank among the quantiles of its column.

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Map, Recipe};
use crate::{DataError, Matrix, Row, limits};

/// Quantiles of all columns at most.
const MAX_KNOTS: usize = 1 << 27;

/// The place of a value among the quantiles of its column.
pub(super) static ENTRY: Entry<Recipe> = Entry {
    name: "quantile",
    summary: "place of a value, 0 to 1, between the quantiles of its column; evens out any distribution",
    parameters: &[Parameter {
        name: "count",
        kind: Kind::Integer { low: 2, high: 10_000 },
        default: Some("100"),
        help: "number of quantiles kept of each column",
    }],
    variadic: false,
    build: |checked| {
        let wanted = checked.integer("count") as usize;
        let spec = Spec::new("quantile").set("count", wanted as f64);
        Ok(Recipe::new(spec, move |examples| fit(examples, wanted)))
    },
};

fn fit(examples: &Matrix, wanted: usize) -> Result<Map, DataError> {
    let count = wanted.min(examples.rows()).max(2);
    let width = examples.columns();
    if count.saturating_mul(width) > MAX_KNOTS {
        let reason = format!("{count} quantiles of {width} columns are too many");
        return Err(DataError::BadScaling { reason });
    }
    limits::check_table("the quantiles of columns", count * width, examples.nonzeros())?;
    let mut columns = vec![Vec::new(); width];
    for (column, value) in examples.iter().flat_map(Row::nonzeros) {
        columns[column as usize].push(value);
    }
    let mut knots = Vec::with_capacity(count * width);
    for mut values in columns {
        values.sort_by(f64::total_cmp);
        let zeros = examples.rows() - values.len();
        let negative = values.partition_point(|value| *value < 0.0);
        let at = |place: usize| match place {
            place if place < negative => values[place],
            place if place < negative + zeros => 0.0,
            place => values[place - zeros],
        };
        let last = examples.rows().saturating_sub(1);
        let start = knots.len();
        for knot in 0..count {
            let place = knot as f64 * last as f64 / (count - 1) as f64;
            let (below, share) = (place.floor() as usize, place.fract());
            let (low, high) = (at(below), at((below + 1).min(last)));
            let value = (1.0 - share) * low + share * high;
            // Roundings must not let quantiles decrease.
            knots.push(if knot == 0 { value } else { value.max(knots[start + knot - 1]) });
        }
    }
    Ok(Map::Quantiles { knots, count })
}

/// The share of a column's distribution below `value`: linear between quantiles, the middle of equal ones, 0
/// up to the first and 1 from the last on.
pub(super) fn place(knots: &[f64], value: f64) -> f64 {
    let last = knots.len() - 1;
    let below = knots.partition_point(|knot| *knot < value);
    let up_to = knots.partition_point(|knot| *knot <= value);
    if below == 0 {
        return 0.0;
    }
    if up_to > last {
        return 1.0;
    }
    let place = if up_to > below {
        0.5 * (below + up_to - 1) as f64
    } else {
        let (low, high) = (knots[below - 1], knots[below]);
        (below - 1) as f64 + (0.5 * value - 0.5 * low) / (0.5 * high - 0.5 * low)
    };
    place / last as f64
}
