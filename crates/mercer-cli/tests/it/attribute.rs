//! `mercer explain --attribute`: contributions add up, pages and figures are written, bad input gets a sentence.

use std::fs;

use crate::common::{Folder, dataset, done, object, refused};
use crate::guide::table;
use crate::json::check;

fn trained(folder: &Folder, flags: &[&str]) -> (String, String) {
    let (rows, model) = (folder.write("train.csv", &table(120, 0, false)), folder.path("m.mercer"));
    done(&[&["train", &rows, "-o", &model][..], flags].concat());
    (rows, model)
}

#[test]
fn contributions_add_up_and_pages_and_figures_show_them() {
    let folder = Folder::new();
    for kernel in
        ["rbf(gamma=1)", "laplacian(gamma=0.5)", "polynomial(degree=2, coef0=1)", "linear"]
    {
        let (rows, model) = trained(&folder, &["--kernel", kernel, "--scale", "standard"]);
        let (page, figure) = (folder.path("why.html"), folder.path("why.svg"));
        let common = ["explain", &model, &rows, "--row", "7", "--attribute", "--background", &rows];
        let found =
            object(&[&common[..], &["--report", &page, "--svg", &figure, "--json"]].concat());
        check("explain --attribute", &found);
        assert_eq!(found["background_rows"], 120);
        let number = |key: &str| found[key].as_f64().expect("a number");
        let columns = found["contributions"].as_array().expect("a list");
        let sum: f64 = columns.iter().map(|column| column["contribution"].as_f64().unwrap()).sum();
        let difference = number("explained_score") - number("base_score");
        assert!((sum - difference).abs() < 1e-9, "{kernel}: {sum} {difference}");
        // The value is the one of the file, not the scaled one.
        let line = fs::read_to_string(&rows).unwrap().lines().nth(7).unwrap().to_owned();
        let x = columns.iter().find(|column| column["name"] == "x").expect("the column x");
        assert_eq!(line.split(',').next().unwrap().parse::<f64>().unwrap(), x["value"]);
        assert!(fs::read_to_string(&page).unwrap().contains("All columns"));
        assert!(fs::read_to_string(&figure).unwrap().contains("<rect"));
        let text = done(&common);
        assert!(text.contains("contribution") && text.contains("120 background rows"), "{text}");
        let few = object(&[&common[..], &["--background-rows", "9", "--json"]].concat());
        assert_eq!(few["background_rows"], 9);
    }
}

#[test]
fn a_class_can_be_asked_for_and_the_sign_follows_it() {
    let folder = Folder::new();
    let (digits, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let few = folder.path("few.svm");
    let text = fs::read_to_string(&queries).unwrap();
    fs::write(&few, text.lines().take(5).collect::<Vec<_>>().join("\n")).unwrap();
    let ask = |flags: &[&str]| {
        let common = ["explain", &digits, &queries, "--attribute", "--background", &few, "--json"];
        object(&[&common[..], flags].concat())
    };
    let winner = ask(&[]);
    let label = winner["label"].as_str().unwrap();
    assert!(winner["explained"].as_str().unwrap().starts_with(&format!("{label} against ")));
    let (one, other) =
        (ask(&["--class", "3", "--against", "8"]), ask(&["--class", "8", "--against", "3"]));
    assert_eq!(one["explained"], "3 against 8");
    let score = |found: &serde_json::Value| found["explained_score"].as_f64().unwrap();
    assert_eq!(score(&one), -score(&other));
}

#[test]
fn bad_backgrounds_classes_kernels_and_scalings_get_a_sentence() {
    let folder = Folder::new();
    let (rows, model) = trained(&folder, &["--kernel", "rbf(gamma=1)"]);
    let ask = |model: &str, background: &str, flags: &[&str]| {
        let common = ["explain", model, &rows, "--attribute", "--background", background];
        refused(&[&common[..], flags].concat())
    };
    let narrow = folder.write("narrow.csv", "x,label\n1,1\n2,-1\n");
    assert!(ask(&model, &narrow, &[]).contains("narrow.csv"));
    let empty = folder.write("empty.csv", "x,y,label\n");
    assert!(ask(&model, &empty, &[]).contains("rows"), "{}", ask(&model, &empty, &[]));
    let large = ask(&model, &rows, &["--memory", "1KiB"]);
    assert!(large.contains("--memory") && !large.contains("panicked"), "{large}");
    // Two rows that name a far column would be dense.
    let far = folder.write("far.svm", &"1 1:1 900000:1\n".repeat(40));
    let near = folder.write("near.svm", &"1 1:1 2:1\n-1 1:2\n".repeat(9));
    let sparse = folder.path("sparse.mercer");
    done(&["train", &near, "-o", &sparse]);
    let common = ["explain", &sparse, &near, "--attribute", "--background", &far];
    let wide = refused(&[&common[..], &["--memory", "8MiB"]].concat());
    assert!(wide.contains("--memory"), "{wide}");
    assert!(ask(&model, &rows, &["--class", "7"]).contains("no class '7'; it knows"));
    let (_, sigmoid) = trained(&folder, &["--kernel", "sigmoid(gamma=0.1)"]);
    assert!(ask(&sigmoid, &rows, &[]).contains("cannot be attributed to columns"));
    let (_, scaled) = trained(&folder, &["--kernel", "linear", "--scale", "unit_norm"]);
    assert!(ask(&scaled, &rows, &[]).contains("divides each row by its length"));
}
