//! Each paper on small data: an identity or a row of its tables, and the shape of the JSON object.
//!
//! The verb `mercer reproduce` is tested in `mercer-cli`.

use std::cell::RefCell;
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
    for row in object["rows"].as_array().expect("rows") {
        let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["dataset", "measure", "method", "note", "ours", "paper", "unit"]);
        assert!(row["ours"].is_number() || row["note"] != "", "{row}");
    }
    object
}

/// Our number in the row of a data set, a method and a measure.
fn ours(object: &Value, dataset: &str, method: &str, measure: &str) -> f64 {
    let rows = object["rows"].as_array().expect("rows");
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
    let rows = object["rows"].as_array().expect("rows");
    let printed = rows.iter().filter(|row| row["paper"].is_number()).count();
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

/// Our number in the row of a method and a measure that start so.
fn ours(object: &Value, dataset: &str, method: &str, measure: &str) -> Option<f64> {
    let starts =
        |value: &Value, start: &str| value.as_str().is_some_and(|text| text.starts_with(start));
    let is_wanted = |row: &&Value| {
        row["dataset"] == dataset
            && starts(&row["method"], method)
            && starts(&row["measure"], measure)
    };
    let row = object["rows"].as_array().expect("rows").iter().find(is_wanted);
    row.unwrap_or_else(|| panic!("{dataset}, {method}, {measure}: {object}"))["ours"].as_f64()
}

/// \[OG98\] on crescents, which need no files: every method at equal size, and the certified cascade.
#[test]
fn osuna_1998_on_crescents() {
    let object = object("og98", options("banana,Skin,Electrons,sizes,cascades"));
    let error = |method: &str| ours(&object, "banana", method, "error, 40").expect(method);
    assert!(error("moved") <= 0.005, "{}", error("moved"));
    assert!(error("moved") < error("greedy") && error("greedy") < error("regression"));
    assert_eq!(ours(&object, "banana", "cascade(compressed(40)", "disagreements"), Some(0.0));
    assert_eq!(ours(&object, "Skin", "smo", "supports"), None);
    assert!(object["rows"].as_array().expect("rows").iter().all(|row| row["paper"].is_null()));
}

/// \[OG98\] on Sonar: the table of results, and the error at the supports within eps.
#[test]
fn osuna_1998_on_sonar() {
    let object = object("og98", options("Sonar,results"));
    for (eps, limit) in [("0.1", 0.1), ("0.01", 0.01), ("0.001", 0.001)] {
        let method = format!("regression, eps {eps}");
        let achieved = ours(&object, "Sonar", &method, "largest |f - f~|").expect("an error");
        assert!(achieved <= limit, "{method}: {achieved}");
        assert!(
            ours(&object, "Sonar", &method, "vectors") <= ours(&object, "Sonar", "smo", "supports")
        );
    }
    for penalty in ["l1", "margin", "errors"] {
        let method = format!("primal(penalty={penalty})");
        let change = ours(&object, "Sonar", &method, "largest |f - f~|").expect("a change");
        assert!(change <= 1e-6, "{method}: {change}");
    }
}

/// \[FS01\] with few rows: every part, and the three figures.
#[test]
fn fine_and_scheinberg_2001_with_few_rows() {
    let folder = TempDir::new().unwrap();
    let figures = Some(folder.path().to_owned());
    let object = object("fs01", Options { rows: 250, figures, ..options("") });
    let parts = &object["parts"];
    for row in parts["example 1"].as_array().expect("rows") {
        for systems in ["split", "product_form", "qr"] {
            assert!(row["errors"][systems].as_f64().expect("a number") < 1e-14, "{row}");
        }
    }
    assert!(parts["example 1"][3]["errors"]["woodbury"].as_f64() > Some(0.1));
    for row in parts["toy"].as_array().expect("rows") {
        let gap = row["relative_gap"].as_f64().expect("a number");
        assert!(gap <= 1e-11 || row["systems"] == "woodbury", "{row}");
    }
    assert_eq!(parts["Abalone"].as_array().map(Vec::len), Some(18));
    let many = &parts["problems"];
    assert_eq!((many["problems"].as_u64(), many["timed"].as_u64()), (Some(150), Some(15)));
    assert!(
        many["most"].as_u64() <= Some(25) && many["worst_gap"].as_f64() <= Some(1e-6),
        "{many}"
    );
    let ranks = parts["rank"].as_array().expect("rows");
    let column =
        |key: &str| ranks.iter().map(|row| row[key].as_f64().expect(key)).collect::<Vec<f64>>();
    // A higher rank leaves less of the matrix; the objective, minimised, rises to the exact one.
    assert!(column("frobenius").windows(2).all(|pair| pair[1] <= pair[0] + 1e-12), "{ranks:?}");
    assert!(column("objective").windows(2).all(|pair| pair[1] >= pair[0] - 1e-6), "{ranks:?}");
    let svg = folder.path().join("fs01-figures.svg");
    let picture = std::fs::read_to_string(svg).expect("a picture");
    for name in ["Fig. 3", "Fig. 6", "Fig. 7", "Frobenius error", "test error"] {
        assert!(picture.contains(name), "{name}");
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

/// \[YW12\] on generated files: all methods, both values of C, sweeps, growth; what is missing is null.
#[test]
fn yang_2012_on_a_small_folder() {
    let folder = TempDir::new().unwrap();
    halves(folder.path(), "train", 300);
    halves(folder.path(), "t10k", 60);
    let only = "gradients,sector,interpolation,sweeps,growth,KDDA";
    let data = Some(folder.path().to_owned());
    let object = object("yw12", Options { data, rows: 1000, ..options(only) });
    let methods = object["sets"]["gradients"]["methods"].as_array().expect("methods");
    assert_eq!(methods.len(), 9);
    for method in methods {
        for at in ["at_equal_C", "at_best_C"] {
            let found = &method[at];
            assert!(found["accuracy"].as_f64().expect("a number") > 0.9, "{method}");
            assert!(found["training_seconds"].as_f64().is_some_and(|s| s > 0.0), "{method}");
            assert!(found["memory_bytes"].as_u64().is_some_and(|b| b > 0), "{method}");
        }
    }
    assert!(object["sets"]["sector"].is_null() && object["sets"].get("sector").is_some());
    assert!(object["sweeps"]["covtype"].is_null());
    for (name, count) in [("nodes", 2), ("degree", 5), ("bins", 4), ("rank", 4)] {
        let lines = object["sweeps"]["gradients"][name].as_array().expect(name);
        assert_eq!(lines.len(), count);
    }
    let bins = &object["sweeps"]["gradients"]["degree"];
    let error = |at: usize| bins[at]["relative_error_of_factors"].as_f64().expect("a number");
    assert!(error(4) < error(1) && error(1) < error(0), "{bins}");
    // Columns 30 and 50 of 64 have curves; Chebyshev's nodes get better with the degree.
    let errors = object["interpolation"]["rows"].as_array().expect("rows");
    let worst = |nodes: &str, degree: u64| {
        let wanted = |row: &&Value| row["nodes"] == nodes && row["degree"] == degree;
        errors.iter().find(wanted).and_then(|row| row["largest_error"].as_f64()).expect(nodes)
    };
    assert!(worst("Chebyshev in ln", 5) < worst("Chebyshev in ln", 2));
    let growth = object["growth"]["rows"].as_array().expect("rows");
    assert_eq!(growth.last().expect("five")["rows"], 1000);
    let per = growth[4]["bytes_per_nonzero_beside_24_per_row_and_model"].as_f64().expect("bytes");
    assert!(per <= 5.0, "{per}");
    assert!(object["not_public"][0]["ours"].is_null());
    assert_eq!(object["not_public"][0]["paper"]["LIBLINEAR"]["seconds"], 1481.5);
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
fn missing_data_are_a_warning() {
    let recorder = Recorder::default();
    let data = Some("/nonexistent".into());
    let session = Session::new(Options { data, ..options("0v1") }, &recorder, Arc::default());
    Paper::find("dm03").unwrap().run(&session).unwrap();
    let lines = recorder.lines.take();
    let object: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!(object["rows"].as_array().map(Vec::len), Some(0));
    assert!(recorder.warnings.take()[0].contains("train-images-idx3-ubyte"));
}
