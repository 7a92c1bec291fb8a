//! The scaling `max_abs`: divides each column by its largest absolute value.

use mercer_spec::{Entry, Spec};

use super::{ColumnStats, Recipe};

/// `x / max |x|` in each column.
pub(super) static ENTRY: Entry<Recipe> = Entry {
    name: "max_abs",
    summary: "largest absolute value 1 in each column; zeros stay, sparse rows stay sparse",
    parameters: &[],
    variadic: false,
    build: |_| {
        Ok(Recipe::new(Spec::new("max_abs"), |examples| {
            let columns = ColumnStats::of(examples)?;
            let largest = columns.min.iter().zip(&columns.max);
            let factors = largest.map(|(low, high)| 1.0 / low.abs().max(high.abs()));
            let factors: Vec<f64> = factors.collect();
            Ok(super::affine(vec![0.0; factors.len()], factors))
        }))
    },
};
