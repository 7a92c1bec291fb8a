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

/// \[OG98\] on crescents, which need no files: every method at equal size, and the certified cascade.
#[test]
fn osuna_1998_on_crescents() {
    let text =
        done(&["reproduce", "og98", "--only", "banana,Skin,Electrons", "--repeats", "1", "--json"]);
    let object: Value = serde_json::from_str(&text).expect("one JSON object");
    let task = &object["tasks"][0];
    let rows = task["rows"].as_array().expect("rows");
    let error = |method: &str| {
        let is_wanted = |row: &&Value| {
            row["method"].as_str().is_some_and(|name| name.starts_with(method))
                && row["asked"] == 40
        };
        rows.iter().find(is_wanted).and_then(|row| row["error"]["relative"].as_f64()).expect(method)
    };
    assert!(error("moved") <= 0.005, "{}", error("moved"));
    assert!(error("moved") < error("greedy") && error("greedy") < error("regression"));
    let cascades = task["cascades"].as_array().expect("cascades");
    assert!(cascades.iter().all(|row| row["disagreements"] == 0));
    assert!(object["tasks"][1]["rows"].is_null() && object["tasks"][2]["rows"].is_null());
}

#[test]
fn papers_that_are_not_known_are_named() {
    let (code, text) = refused_with(&["reproduce", "vapnik95"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("decoste03"), "{text}");
}

#[test]
fn all_papers_stand_on_one_page() {
    let folder = Folder::new();
    let report = folder.path("papers");
    let text = done(&[
        "reproduce",
        "all",
        "--only",
        "Haberman",
        "--repeats",
        "1",
        "--report",
        &report,
        "--json",
    ]);
    let object: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(object["papers"][0], "decoste03");
    let page = std::fs::read_to_string(format!("{report}/index.html")).unwrap();
    assert!(page.contains("Haberman: ") && page.contains("the paper: 180 supports"), "{page}");
    let table = std::fs::read_to_string(format!("{report}/decoste03.txt")).unwrap();
    assert!(table.contains("min_wz"), "{table}");
    let (code, text) = refused_with(&["reproduce", "all"]);
    assert!(code == Some(1) && text.contains("--report DIR"), "{text}");
}
