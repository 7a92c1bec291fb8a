//! The scaling `standard`: zero mean and unit variance in each column.

use mercer_spec::{Entry, Kind, Parameter, Spec};

use super::{ColumnStats, Recipe};

/// `(x - mean) / standard deviation` in each column.
pub(super) static ENTRY: Entry<Recipe> = Entry {
    name: "standard",
    summary: "mean 0 and standard deviation 1 in each column",
    parameters: &[Parameter {
        name: "centre",
        kind: Kind::Word(&["yes", "no"]),
        default: Some("yes"),
        help: "whether the mean is subtracted; `no` keeps sparse rows sparse",
    }],
    variadic: false,
    build: |checked| {
        let centred = checked.spec("centre").is_some_and(|word| word.name() == "yes");
        let spec = Spec::new("standard");
        let spec = if centred { spec } else { spec.set("centre", "no") };
        Ok(Recipe::new(spec, move |examples| {
            let columns = ColumnStats::of(examples)?;
            let centres = if centred { columns.mean } else { vec![0.0; columns.mean.len()] };
            Ok(super::affine(
                centres,
                columns.std_dev.iter().map(|std_dev| 1.0 / std_dev).collect(),
            ))
        }))
    },
};
