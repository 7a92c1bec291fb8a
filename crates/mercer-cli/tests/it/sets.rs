//! `tune --coverage` and `predict --sets`: calibration, sets and intervals in both formats, and sentences for bad input.

use std::fs;

use crate::common::{Folder, done, object, refused};
use crate::guide::table;
use crate::json::check;

fn tuned(folder: &Folder, is_curve: bool) -> String {
    let (rows, sample) = (table(200, 0, is_curve), table(600, 1000, is_curve));
    let (rows, sample) = (folder.write("train.csv", &rows), folder.write("sample.csv", &sample));
    let (model, sure) = (folder.path("m.mercer"), folder.path("sure.mercer"));
    let formulation = if is_curve { "epsilon_svr(C=1)" } else { "c_svc(C=1)" };
    let page = folder.path("page.html");
    done(&["train", &rows, "-o", &model, "--kernel", "rbf(gamma=1)", "--formulation", formulation]);
    let common = ["tune", &model, "--sample", &sample, "--time-limit", "2s", "-o", &sure];
    let found =
        object(&[&common[..], &["--coverage", "0.9", "--report", &page, "--json"]].concat());
    check("tune", &found);
    assert_eq!(found["conformal"]["rows"], 200);
    assert!(fs::read_to_string(&page).unwrap().contains("Prediction sets"));
    let inspected = object(&["inspect", &sure, "--json"]);
    check("inspect", &inspected);
    assert_eq!(inspected["conformal"]["coverage"], 0.9);
    sure
}

#[test]
fn sets_of_labels_and_intervals_cover_fresh_targets() {
    let folder = Folder::new();
    for is_curve in [false, true] {
        let sure = tuned(&folder, is_curve);
        let queries = folder.write("queries.csv", &table(400, 5000, is_curve));
        let found = object(&["predict", &sure, &queries, "--sets", "--json"]);
        check("predict --sets", &found);
        // 200 rows, 400 targets: five standard deviations of both below 0.9.
        let least = 0.9 - 5.0 * (0.09f64 / 202.0 + 0.09 / 400.0).sqrt();
        assert!(found["covered_share"].as_f64().unwrap() >= least, "{found}");
        assert!(found["certified_share"].as_f64().is_some_and(|share| share <= 1.0), "{found}");
        let smaller = object(&["predict", &sure, &queries, "--sets", "--empty-sets", "--json"]);
        check("predict --sets", &smaller);
        let size = |found: &serde_json::Value| found["mean_size"].as_f64().unwrap();
        assert!(size(&smaller) <= size(&found), "{smaller} {found}");
        let lines = done(&["predict", &sure, &queries, "--sets", "--format", "jsonl"]);
        assert_eq!(lines.lines().count(), 400);
        let piped = done(&["predict", &sure, &queries, "--sets", "--format", "jsonl", "-o", "-"]);
        assert_eq!(piped, lines, "-o - is standard output");
        for line in lines.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            check("prediction set", &line);
            let is_set = line["set"].as_array().is_some_and(|set| !set.is_empty());
            assert!(is_set != is_curve && line["interval"].is_object() == is_curve, "{line}");
        }
        let file = folder.path("sets.csv");
        done(&["predict", &sure, &queries, "--sets", "-o", &file]);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("row,set,certainty,cost\n1,") && text.lines().count() == 401);
    }
}

#[test]
fn bad_coverages_small_samples_and_models_without_sets_get_a_sentence() {
    let folder = Folder::new();
    let rows = folder.write("train.csv", &table(60, 0, false));
    let (model, other) = (folder.path("m.mercer"), folder.path("o.mercer"));
    done(&["train", &rows, "-o", &model]);
    assert!(refused(&["predict", &model, &rows, "--sets"]).contains("has no prediction sets"));
    let ask = |coverage: &str| {
        refused(&["tune", &model, "--sample", &rows, "--coverage", coverage, "-o", &other])
    };
    assert!(ask("1.5").contains("the coverage is 1.5; it must be between 0 and 1"));
    assert!(
        ask("0.99").contains("60 rows are too few to promise a coverage of 0.99: 99 are needed")
    );
    let bare = folder.write("bare.csv", "x,y\n1,2\n3,4\n");
    let said = refused(&["tune", &model, "--sample", &bare, "--coverage", "0.5", "-o", &other]);
    assert!(said.contains("--coverage needs a sample with targets"), "{said}");
    let strange = folder.write("strange.csv", &table(60, 0, false).replace(",-1\n", ",7\n"));
    let said = refused(&["tune", &model, "--sample", &strange, "--coverage", "0.5", "-o", &other]);
    assert!(said.contains("a target that the machine does not know"), "{said}");
}
