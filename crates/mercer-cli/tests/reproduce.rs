//! Papers, done again.

mod common;

use serde_json::Value;

use common::{Folder, done, refused_with};

fn rows<'a>(object: &'a Value, machine: &str, method: &str) -> &'a Value {
    let rows = object["tasks"][0]["rows"].as_array().expect("rows");
    let is_wanted = |row: &&Value| row["machine"] == machine && row["method"] == method;
    rows.iter().find(is_wanted).unwrap_or_else(|| panic!("{machine} {method}"))
}

/// \[DeCoste03\], Table 2 on Sonar: the machine to the last digit, and its first row.
#[test]
fn decoste_2003_on_sonar() {
    let folder = Folder::new();
    let svg = folder.path("bounds.svg");
    let text = done(&[
        "reproduce",
        "decoste03",
        "--only",
        "Sonar",
        "--repeats",
        "1",
        "--svg",
        &svg,
        "--json",
    ]);
    let object: Value = serde_json::from_str(&text).expect("one JSON object");
    let machine = &object["tasks"][0]["machine"];
    let counts = ["supports", "bounded", "positive", "negative"].map(|key| machine[key].as_u64());
    assert_eq!(counts, [165, 153, 81, 84].map(Some));
    let mean = |machine: &str, method: &str| {
        rows(&object, machine, method)["steps"]["mean"].as_f64().expect("a number")
    };
    assert!((mean("SVM", "given") - 47.6).abs() <= 0.5, "{}", mean("SVM", "given"));
    let given = &rows(&object, "SVM", "given")["steps"];
    assert_eq!((given["median"].as_f64(), given["max"].as_f64()), (Some(45.0), Some(140.0)));
    for (machine, method, most) in [
        ("SVM", "min_wz", 22.0),
        ("SVM", "hybrid", 20.5),
        ("SVM", "mean_lh", 20.0),
        ("SVM", "moved", 13.0),
        ("SVM", "spectral", 2.5),
        ("KFD", "spectral", 3.0),
    ] {
        assert!(mean(machine, method) <= most, "{machine} {method}: {}", mean(machine, method));
    }
    let all = object["tasks"][0]["rows"].as_array().expect("rows");
    assert!(all.iter().all(|row| row["disagreements"] == 0));
    let picture = std::fs::read_to_string(svg).expect("a picture");
    assert_eq!(picture.matches("class=\"band\"").count(), 4);
}

#[test]
fn papers_that_are_not_known_are_named() {
    let (code, text) = refused_with(&["reproduce", "vapnik95"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("decoste03"), "{text}");
}
