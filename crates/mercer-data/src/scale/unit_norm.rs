//! The scaling `unit_norm`: divides each row by its norm.

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{Map, Norm, Recipe};

/// `x / |x|` in each row.
pub(super) static ENTRY: Entry<Recipe> = Entry {
    name: "unit_norm",
    summary: "each row divided by its norm; nothing is fitted, sparse rows stay sparse",
    parameters: &[Parameter {
        name: "norm",
        kind: Kind::Word(&["l2", "l1", "max"]),
        default: Some("l2"),
        help: "Euclidean length, sum of absolute values, or largest absolute value",
    }],
    variadic: false,
    build: |checked| {
        let word = checked.spec("norm").map_or("l2", |word| word.name());
        let norm = Norm::WORDS.iter().find(|(known, _)| *known == word);
        let norm = norm.map_or(Norm::L2, |(_, norm)| *norm);
        let spec = Spec::new("unit_norm").set("norm", norm.name());
        Ok(Recipe::new(spec, move |_| Ok(Map::UnitNorm(norm))))
    },
};
