//! What the golden files of polars hold, whatever their format.

use crate::read::{Missing, Options};
use crate::{Dataset, Targets};

pub(in crate::read) fn check(name: &str, read: impl Fn(&Options) -> Result<Dataset, String>) {
    let options = Options {
        missing: Missing::Mean,
        one_hot: vec!["colour".into(), "raw".into(), "kind".into()],
        id: Some("name".into()),
        ..Options::default()
    };
    let data = read(&options).unwrap();
    let names = [
        "size",
        "colour=a blue of more than twelve bytes",
        "colour=blue",
        "colour=red",
        "raw=more than twelve bytes here",
        "raw=x",
        "raw=y",
        "kind=down",
        "kind=up",
    ];
    assert_eq!(data.names.unwrap(), names, "{name}");
    let labels = ["yes", "no", "yes", "no", "certainly, or so it seems"].map(String::from);
    assert_eq!(data.targets, Targets::Names(labels.into()), "{name}");
    assert_eq!(
        data.examples.to_dense().as_dense().unwrap(),
        [
            1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, //
            2.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, //
            3.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, //
            4.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, //
            5.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0,
        ],
        "{name}"
    );
}
