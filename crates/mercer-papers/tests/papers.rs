//! Each paper on small data: an identity or a row of its tables, and the shape of the JSON object.
//!
//! The verb `mercer reproduce` is tested in `mercer-cli`.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use mercer_papers::{Observer, Options, Paper, Session};
use serde_json::Value;
use tempfile::TempDir;

/// Keeps lines and warnings.
#[derive(Default)]
struct Recorder {
    lines: RefCell<Vec<String>>,
    warnings: RefCell<Vec<String>>,
}

impl Observer for Recorder {
    fn line(&self, text: &str) {
        self.lines.borrow_mut().push(text.to_owned());
    }

    fn warn(&self, text: &str) {
        self.warnings.borrow_mut().push(text.to_owned());
    }

    fn status(&self, _text: Option<&str>) {}
}

/// Options for JSON, with one timing of each measurement.
fn options(only: &str) -> Options {
    let only = only.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Options { only, repeats: 1, json: true, ..Options::default() }
}

/// The JSON object of a paper.
fn object(paper: &str, options: Options) -> Value {
    let recorder = Recorder::default();
    let session = Session::new(options, &recorder, Arc::default());
    Paper::find(paper).unwrap().run(&session).unwrap();
    let lines = recorder.lines.take();
    assert_eq!(lines.len(), 1, "one JSON object");
    let object: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!(object["paper"], paper);
    for row in object["comparisons"].as_array().expect("rows") {
        let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["dataset", "measure", "method", "note", "ours", "published", "unit"]);
        assert!(row["ours"].is_number() || row["note"] != "", "{row}");
    }
    object
}

/// Our number in the row of a data set, a method and a measure.
fn ours(object: &Value, dataset: &str, method: &str, measure: &str) -> f64 {
    let rows = object["comparisons"].as_array().expect("rows");
    let is_wanted = |row: &&Value| {
        row["dataset"] == dataset && row["method"] == method && row["measure"] == measure
    };
    let row = rows.iter().find(is_wanted);
    let row = row.unwrap_or_else(|| panic!("{dataset}, {method}, {measure}"));
    row["ours"].as_f64().expect("a number")
}

/// \[DeCoste03\], Table 2 on Sonar: the machine to the last digit, its first row, and query space in parts.
#[test]
fn decoste_2003_on_sonar() {
    let folder = TempDir::new().unwrap();
    let figures = Some(folder.path().to_owned());
    let object = object("decoste03", Options { figures, ..options("Sonar") });
    let sonar = |method: &str, measure: &str| ours(&object, "Sonar", method, measure);
    for (measure, count) in
        [("supports m", 165.0), ("bounded", 153.0), ("positive", 81.0), ("negative", 84.0)]
    {
        assert_eq!(sonar("machine", measure), count);
    }
    assert!((sonar("given", "k mean") - 47.6).abs() <= 0.5, "{}", sonar("given", "k mean"));
    assert_eq!((sonar("given", "k median"), sonar("given", "k max")), (45.0, 140.0));
    for (method, most) in [
        ("min_wz", 22.0),
        ("min_wz_n", 22.5),
        ("hybrid", 20.5),
        ("mean_lh", 20.0),
        ("moved", 13.0),
        ("moved_mean_lh", 16.0),
        ("spectral", 2.5),
        ("KFD, spectral", 3.0),
    ] {
        assert!(sonar(method, "k mean") <= most, "{method}: {}", sonar(method, "k mean"));
    }
    let rows = object["comparisons"].as_array().expect("rows");
    let printed = rows.iter().filter(|row| row["published"].is_number()).count();
    assert_eq!(printed, 4 + 4 * 5 + 1, "supports, four orders, and the mean of SGMA");
    let wrong = rows.iter().filter(|row| row["measure"] == "disagreements" && row["ours"] != 0.0);
    assert_eq!(wrong.count(), 0);
    for method in ["one order", "8 clusters", "tree of depth 3", "moved, eq. 26"] {
        let mean = ours(&object, "Sonar, held-out half", method, "k mean");
        assert!((1.0..165.0).contains(&mean), "{method}: {mean}");
    }
    let svg = folder.path().join("decoste03-bounds.svg");
    let picture = std::fs::read_to_string(svg).expect("a picture");
    assert_eq!(picture.matches("class=\"band\"").count(), 4);
}

/// Our number in the first row of a method and a measure that start so; none where the row has only the paper's.
fn first_ours(object: &Value, dataset: &str, method: &str, measure: &str) -> Option<f64> {
    let starts =
        |value: &Value, start: &str| value.as_str().is_some_and(|text| text.starts_with(start));
    let is_wanted = |row: &&Value| {
        row["dataset"] == dataset
            && starts(&row["method"], method)
            && starts(&row["measure"], measure)
    };
    let row = object["comparisons"].as_array().expect("rows").iter().find(is_wanted);
    row.unwrap_or_else(|| panic!("{dataset}, {method}, {measure}: {object}"))["ours"].as_f64()
}

/// \[OG98\] on crescents, which need no files: every method at equal size, and the certified cascade.
#[test]
fn osuna_1998_on_crescents() {
    let object = object("og98", options("banana,Skin,Electrons,sizes,cascades"));
    let error = |method: &str| first_ours(&object, "banana", method, "error, 40").expect(method);
    assert!(error("moved") <= 0.005, "{}", error("moved"));
    assert!(error("moved") < error("greedy") && error("greedy") < error("regression"));
    assert_eq!(first_ours(&object, "banana", "cascade(compressed(40)", "disagreements"), Some(0.0));
    assert_eq!(first_ours(&object, "Skin", "smo", "supports"), None);
    assert!(
        object["comparisons"]
            .as_array()
            .expect("rows")
            .iter()
            .all(|row| row["published"].is_null())
    );
}

/// \[OG98\] on Sonar: the table of results, and the error at the supports within eps.
#[test]
fn osuna_1998_on_sonar() {
    let object = object("og98", options("Sonar,results"));
    for (eps, limit) in [("0.1", 0.1), ("0.01", 0.01), ("0.001", 0.001)] {
        let method = format!("regression, eps {eps}");
        let achieved = first_ours(&object, "Sonar", &method, "largest |f - f~|").expect("an error");
        assert!(achieved <= limit, "{method}: {achieved}");
        assert!(
            first_ours(&object, "Sonar", &method, "vectors")
                <= first_ours(&object, "Sonar", "smo", "supports")
        );
    }
    for penalty in ["l1", "margin", "errors"] {
        let method = format!("primal(penalty={penalty})");
        let change = first_ours(&object, "Sonar", &method, "largest |f - f~|").expect("a change");
        assert!(change <= 1e-6, "{method}: {change}");
    }
}

/// Our numbers in all rows of a data set and a method that start so, for a measure.
fn all_ours(object: &Value, dataset: &str, method: &str, measure: &str) -> Vec<f64> {
    let rows = object["comparisons"].as_array().expect("rows").iter();
    let starts = |row: &Value, key: &str, with: &str| {
        row[key].as_str().is_some_and(|text| text.starts_with(with))
    };
    let found: Vec<f64> = rows
        .filter(|row| starts(row, "dataset", dataset) && starts(row, "method", method))
        .filter(|row| row["measure"] == measure)
        .filter_map(|row| row["ours"].as_f64())
        .collect();
    assert!(!found.is_empty(), "{dataset}, {method}, {measure}: {object}");
    found
}

/// \[FS01\] with few rows: every part, and the three figures.
#[test]
fn fine_and_scheinberg_2001_with_few_rows() {
    let folder = TempDir::new().unwrap();
    let figures = Some(folder.path().to_owned());
    let all = "example 1,section 5.3,theorem 1,active set,Abalone,problems,rank";
    let object = object("fs01", Options { rows: 250, quick: true, figures, ..options(all) });
    let error = |systems: &str| all_ours(&object, "Example 1", systems, "relative error of u");
    for systems in ["split", "product_form", "qr"] {
        assert!(error(systems).iter().all(|error| *error < 1e-14), "{systems}");
    }
    // As the paper computes it: (0, w_1 + w_2).
    assert!((error("smw")[3] - 0.8462).abs() < 1e-3, "{:?}", error("smw"));
    // Section 5.3: two digits by SMW and eight by the product form are the paper's; ours are no fewer.
    let failed = |scale: &str, method: &str| {
        let name = format!("redundant supports x {scale}");
        all_ours(&object, &name, method, "trainings below 8 digits")[0]
    };
    for scale in ["1e0", "1e2", "1e3", "1e4", "1e5", "1e6", "1e8"] {
        assert!(failed(scale, "printed, product_form") <= failed(scale, "printed, smw"), "{scale}");
        assert_eq!(failed(scale, "interior, split"), 0.0, "{scale}");
    }
    assert!(failed("1e4", "printed, smw") > 0.0);
    // Theorem 1: bounds in their order, and the difference of the objectives below them.
    let lost = |measure: &str| all_ours(&object, "Abalone", "low_rank, greedy", measure);
    let bounds = [lost("f* - f~"), lost("x' dQ x / 2"), lost("c^2 l eps / 2")];
    for (difference, (quadratic, bound)) in bounds[0].iter().zip(bounds[1].iter().zip(&bounds[2])) {
        // At full rank both are zero but for rounding.
        assert!(*difference <= quadratic + 1e-3 && *quadratic <= bound + 1e-9, "{bounds:?}");
    }
    let active = |method: &str| all_ours(&object, "Abalone, linear", method, "support vectors")[0];
    assert!((active("interior, gap 1e-8") - active("smo")).abs() <= 3.0);
    assert_eq!(all_ours(&object, "2 problems", "printed, product_form", "time").len(), 1);
    // A higher rank leaves less of the matrix; the negative objective falls to the exact one.
    let column =
        |measure: &str| all_ours(&object, "Abalone, degree 5, C = 1, rank", "greedy", measure);
    assert!(column("Frobenius error / |K|").windows(2).all(|pair| pair[1] <= pair[0] + 1e-12));
    assert!(column("objective, negative").windows(2).all(|pair| pair[1] <= pair[0] + 1e-6));
    for (file, name) in [("fig3", "Fig. 3"), ("fig6", "Fig. 6"), ("fig7", "test error")] {
        let picture = std::fs::read_to_string(folder.path().join(format!("fs01-{file}.svg")));
        assert!(picture.expect("a picture").contains(name), "{name}");
    }
}

/// Images of four pixels in the format of MNIST: threes are bright on the left, eights on the right.
fn images(folder: &Path, kind: &str, count: u32, seed: u64) {
    let mut state = seed;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let (mut pixels, mut labels) = (vec![0, 0, 8, 3], vec![0, 0, 8, 1]);
    for number in [count, 2, 2] {
        pixels.extend(number.to_be_bytes());
    }
    labels.extend(count.to_be_bytes());
    for _ in 0..count {
        let label = random() % 2;
        labels.push([3, 8][label as usize]);
        for place in 0..4u32 {
            let base = if place % 2 == label { 130 } else { 60 };
            pixels.push((base + random() % 100) as u8);
        }
    }
    std::fs::create_dir_all(folder.join("mnist")).expect("a folder");
    std::fs::write(folder.join(format!("mnist/{kind}-images-idx3-ubyte")), pixels).expect("a file");
    std::fs::write(folder.join(format!("mnist/{kind}-labels-idx1-ubyte")), labels).expect("a file");
}

/// \[DM03\] on one pair of generated digits, which are called 3 and 8: every method is there, ours satisfies its
/// contract, and both figures are drawn.
#[test]
fn dm_2003_on_small_images() {
    let folder = TempDir::new().unwrap();
    images(folder.path(), "train", 10_000, 1);
    images(folder.path(), "t10k", 600, 2);
    let figures = Some(folder.path().join("figures"));
    let data = Some(folder.path().to_owned());
    let object = object("dm03", Options { data, figures, ..options("3v8") });
    let own = |method: &str, measure: &str| ours(&object, "3v8", method, measure);
    let m = own("machine", "supports m");
    for method in [
        "as printed",
        "held-out rows",
        "both",
        "as printed, no filter",
        "cross-validated",
        "Simple, no filter",
        "no tug of war, no filter",
        "kernel PCA, no filter",
        "FastMAP, no filter",
        "4,000 generated rows",
    ] {
        let k = own(method, "mean k");
        assert!(k >= 1.0 && k <= m + 1.0, "{method}: {k} of {m}");
        assert!((own(method, "m/k") - m / k).abs() < 1e-9);
        assert!(own(method, "disagreements") <= 60.0, "{method}");
    }
    // More rows never stop earlier.
    assert!(own("both", "disagreements") <= own("held-out rows", "disagreements"));
    assert!(own("as printed", "answered by the filter") > 20.0);
    // eps 1e-3 of 600 queries, and luck.
    assert!(own("default", "disagreements") <= 5.0);
    assert!(ours(&object, "3v8, all digits", "as printed", "mean k") >= 1.0);
    let picture = |name: &str| {
        std::fs::read_to_string(folder.path().join("figures").join(name)).expect("a picture")
    };
    let scores = picture("dm03-fig3.svg");
    assert!(scores.matches("<circle").count() >= 600, "one for each query");
    assert!(scores.contains("L_k") && scores.contains("H_k"));
    let nearest = picture("dm03-fig1.svg");
    assert!(nearest.matches("class=\"picture\"").count() > 1 && nearest.contains("g1 = "));
}

/// Square images of eight pixels a side in the format of MNIST: the kind is which half is brighter.
fn halves(folder: &Path, kind: &str, count: u32) {
    let (mut pixels, mut labels) = (vec![0, 0, 8, 3], vec![0, 0, 8, 1]);
    for number in [count, 8, 8] {
        pixels.extend(number.to_be_bytes());
    }
    labels.extend(count.to_be_bytes());
    let mut state = u64::from(count);
    for row in 0..count {
        let label = row % 3;
        labels.push(label as u8);
        for place in 0..64u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bright = [place % 8 < 4, place < 32, place % 8 >= 4][label as usize];
            let base = if bright { 120 } else { 20 };
            pixels.push((base + (state >> 33) % 130) as u8);
        }
    }
    let name = |what: &str| folder.join(format!("mnist/{kind}-{what}"));
    std::fs::create_dir_all(folder.join("mnist")).unwrap();
    std::fs::write(name("images-idx3-ubyte"), pixels).unwrap();
    std::fs::write(name("labels-idx1-ubyte"), labels).unwrap();
}

/// \[YW12\] on generated files: all methods, both values of C, sweeps, growth; the paper's numbers alone for sets that are
/// missing, with the names of their files.
#[test]
fn yang_2012_on_a_small_folder() {
    let folder = TempDir::new().unwrap();
    halves(folder.path(), "train", 300);
    halves(folder.path(), "t10k", 60);
    let only = "gradients,sector,interpolation,sweeps,growth,KDDA,Indoor 67";
    let (data, figures) = (Some(folder.path().to_owned()), Some(folder.path().join("figures")));
    let object = object("yw12", Options { data, figures, rows: 1000, ..options(only) });
    let of = |method: &str, measure: &str| all_ours(&object, "gradients", method, measure);
    for method in ["ours, chi2", "PmSVM-LUT as printed, chi2", "PmSVM as printed, HI", "linear"] {
        assert!(of(method, "accuracy")[0] > 90.0 && of(method, "accuracy at its best C")[0] > 90.0);
        for measure in ["training time", "memory", "test time"] {
            assert!(of(method, measure)[0] > 0.0, "{method} {measure}");
        }
    }
    // The thesis of the paper: less memory by tables; on our engine both have the same rows.
    let memory = |method: &str| of(method, "memory")[0];
    assert!(memory("PmSVM-LUT as printed, chi2") < 0.7 * memory("PmSVM as printed, chi2"));
    for (solver, count) in [("pmsvm_lut(nodes", 6), ("pmsvm_lut(degree", 5), ("additive(rank", 4)] {
        assert_eq!(of(solver, "accuracy").len(), count, "{solver}");
    }
    // Columns 30 and 50 of 64 have curves; Chebyshev's nodes get better with the degree.
    let worst = |method: &str| all_ours(&object, "MNIST, column", method, "largest error");
    assert!(worst("Chebyshev in ln, degree 5")[0] < worst("Chebyshev in ln, degree 2")[0]);
    assert_eq!(all_ours(&object, "histograms", "additive,", "training time").len(), 5);
    let rows = object["comparisons"].as_array().expect("rows");
    let missing = |set: &str| {
        let of_set = rows.iter().filter(|row| row["dataset"] == set && row["ours"].is_null());
        of_set.cloned().collect::<Vec<Value>>()
    };
    let kdda = missing("KDDA");
    assert_eq!((kdda.len(), missing("Indoor 67").len()), (25, 25));
    assert!(kdda.iter().all(|row| row["note"].as_str().is_some_and(|n| n.contains("kdda.t"))));
    assert!(kdda.iter().any(|row| row["published"] == 1481.5 && row["method"] == "LIBLINEAR"));
    assert!(!object.to_string().contains("not public"));
    for name in ["fig1", "fig2", "fig3-gradients", "fig4-gradients"] {
        assert!(folder.path().join(format!("figures/yw12-{name}.svg")).exists(), "{name}");
    }
}

/// Sparse rows of two classes in the format of LIBSVM: some columns belong to one class, most to both.
fn sparse_file(path: &Path, rows: u64, columns: u64, seed: u64) {
    let mut state = seed;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::new();
    for row in 0..rows {
        let class = row % 2;
        text.push_str(if class == 1 { "+1" } else { "-1" });
        let mut cells: Vec<u64> = (0..12).map(|_| 100 + random(columns - 100)).collect();
        cells.extend((0..4).map(|_| 1 + 50 * class + random(50)));
        cells.sort_unstable();
        cells.dedup();
        for column in cells {
            write!(text, " {column}:0.{}", 1 + random(8)).expect("text grows");
        }
        text.push('\n');
    }
    std::fs::write(path, text).expect("a file");
}

/// The paper's own sets are measured where their files lie: under the names of the LIBSVM data page, in the folder or in
/// `libsvm` in it.
#[test]
fn yang_2012_takes_the_sets_of_the_paper_from_the_folder() {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("libsvm")).unwrap();
    for (number, (name, rows)) in [
        ("kdda", 200),
        ("kdda.t", 50),
        ("libsvm/kddb", 200),
        ("libsvm/kddb.t", 50),
        ("url_combined", 250),
        ("rcv1_train.binary", 60),
        ("rcv1_test.binary", 300),
        ("webspam_wc_normalized_trigram.svm", 250),
    ]
    .into_iter()
    .enumerate()
    {
        sparse_file(&folder.path().join(name), rows, 40_000, number as u64 + 1);
    }
    let data = Some(folder.path().to_owned());
    let sets = ["KDDA", "KDDB", "URL", "RCV1", "WEBSPAM"];
    let object = object("yw12", Options { data, ..options(&sets.join(",")) });
    for set in sets {
        let rows = object["comparisons"].as_array().expect("rows").iter();
        let of_set: Vec<&Value> = rows.filter(|row| row["dataset"] == set).collect();
        // Thirteen methods with four measures each, all measured; seven methods of the paper beside them.
        assert_eq!(of_set.len(), 52, "{set}");
        assert!(of_set.iter().all(|row| row["ours"].is_number()), "{set}");
        let of_paper = of_set.iter().filter(|row| row["published"].is_number()).count();
        assert_eq!(of_paper, if set == "WEBSPAM" { 21 } else { 25 }, "{set}");
        assert!(all_ours(&object, set, "linear", "accuracy")[0] > 80.0, "{set}");
        assert!(
            all_ours(&object, set, "PmSVM-LUT as printed, chi2", "accuracy")[0] > 80.0,
            "{set}"
        );
    }
    let rows = object["comparisons"].as_array().expect("rows");
    let printed = rows.iter().find(|row| {
        row["dataset"] == "URL"
            && row["method"] == "PmSVM as printed, HI"
            && row["measure"] == "memory"
    });
    assert_eq!(printed.expect("a row")["published"], 2812.0);
}

#[test]
fn rows_of_a_set_are_written_for_others() {
    let folder = TempDir::new().unwrap();
    halves(folder.path(), "train", 30);
    halves(folder.path(), "t10k", 6);
    let out = folder.path().join("rows");
    let data = Some(folder.path().to_owned());
    let object =
        object("yw12", Options { data, write_rows: Some(out.clone()), ..options("MNIST") });
    assert_eq!(object["written"].as_array().map(Vec::len), Some(2));
    let rows = std::fs::read_to_string(out.join("MNIST.train.svm")).unwrap();
    assert_eq!(rows.lines().count(), 30);
}

#[test]
fn missing_data_are_an_error_that_says_where_they_belong() {
    let recorder = Recorder::default();
    let data = Some("/nonexistent".into());
    let session = Session::new(Options { data, ..options("0v1") }, &recorder, Arc::default());
    let error = Paper::find("dm03").unwrap().run(&session).unwrap_err();
    assert!(error.is::<mercer_papers::NothingComputed>(), "{error}");
    let said = error.to_string();
    assert!(said.contains("train-images-idx3-ubyte"), "{said}");
    assert!(said.contains("put the files into /nonexistent"), "{said}");
    assert!(recorder.lines.take().is_empty());
    assert!(recorder.warnings.take()[0].contains("train-images-idx3-ubyte"));
}
