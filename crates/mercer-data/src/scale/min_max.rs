//! The scaling `min_max`: maps each column to a given range.

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{ColumnStats, Recipe};

/// The least value of each column becomes `low`, the largest `high`.
pub(super) static ENTRY: Entry<Recipe> = Entry {
    name: "min_max",
    summary: "least value low and largest value high in each column; values of queries may lie beyond",
    parameters: &[
        Parameter { name: "low", kind: Kind::REAL, default: Some("0"), help: "least value" },
        Parameter { name: "high", kind: Kind::REAL, default: Some("1"), help: "largest value" },
    ],
    variadic: false,
    build: |checked| {
        let (low, high) = (checked.number("low"), checked.number("high"));
        if !(low < high && (high - low).is_finite()) {
            return Err(checked.refuse(format!("low={low} must be below high={high}")));
        }
        let spec = Spec::new("min_max").set("low", low).set("high", high);
        Ok(Recipe::new(spec, move |examples| {
            let columns = ColumnStats::of(examples)?;
            // Halves, so that the width of a column cannot overflow.
            let width = |(least, largest): (&f64, &f64)| 0.5 * largest - 0.5 * least;
            let widths = columns.min.iter().zip(&columns.max).map(width);
            let factors: Vec<f64> = widths.map(|width| 0.5 * (high - low) / width).collect();
            let centres =
                columns.min.iter().zip(&factors).map(|(least, factor)| least - low / factor);
            Ok(super::affine(centres.collect(), factors))
        }))
    },
};
