//! Calls as the page makes them, and what follows for the server's model.

use std::fmt::Write as _;

use super::*;
use mercer::data::Matrix;
use mercer::query::{Certainty, Plan};
use mercer_testkit::names::ADVERSARIAL;

/// A playground with its models, after its start.
struct Fixture {
    playground: Playground,
    models: Repository,
}

impl Fixture {
    fn new(table: Option<Table>) -> Self {
        let playground = Playground::new(table).unwrap();
        let models = Repository::without_files();
        playground.start(&models).unwrap();
        Self { playground, models }
    }

    fn bytes(
        &self,
        name: &str,
        body: &[u8],
        parameters: &[(&str, &str)],
    ) -> Result<Vec<u8>, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let parameters: Vec<_> = parameters.iter().map(owned).collect();
        let call = Call { name, parameters: &parameters, body };
        self.playground.answer(&call, &self.models).map(|reply| reply.body)
    }

    fn call(&self, name: &str, body: &Value) -> Value {
        let bytes = self.bytes(name, body.to_string().as_bytes(), &[]).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// A training to its end, however slow the machine.
    fn fitted(&self, settings: &Value) -> Value {
        let mut found = self.call("fit", settings);
        while found["is_open"] == true {
            found = self.call("continue", &json!({}));
        }
        found
    }

    fn refusal(&self, name: &str, body: &Value) -> String {
        self.bytes(name, body.to_string().as_bytes(), &[]).unwrap_err()
    }
}

fn rbf(c: f64) -> Value {
    json!({ "kernel": "rbf(gamma=2)", "C": c, "plan": "auto" })
}

fn map(of: &str) -> Value {
    json!({ "x": [-2.0, 3.0], "y": [-2.0, 2.0], "size": 30, "of": of })
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn a_change_trains_again_from_the_machine_before() {
    let fixture = Fixture::new(None);
    let first = fixture.fitted(&rbf(1.0));
    let mut points = fixture.call("state", &json!({}))["points"].as_array().unwrap().clone();
    points.push(json!([0.5, 0.2, 0]));
    let mut settings = rbf(1.0);
    settings["points"] = points.into();
    let second = fixture.fitted(&settings);
    assert_eq!(second["warm"], true);
    assert_eq!(second["points"], 401);
    let (cold, warm) =
        (first["iterations"].as_u64().unwrap(), second["iterations"].as_u64().unwrap());
    // The first training of this fixture started from the machine of its start as well: compare with nothing.
    fixture.call("example", &json!({ "name": "crescents", "rows": 400 }));
    let from_nothing = fixture.fitted(&rbf(1.0));
    assert_eq!(from_nothing["warm"], false);
    let all = from_nothing["iterations"].as_u64().unwrap();
    assert!(cold <= all && warm < all, "{cold}, {warm}, {all}");
    // Every bounded support vector is one of the support vectors, and has C as its coefficient.
    let (supports, bounded) = (numbers(&second["supports"]), numbers(&second["bounded"]));
    assert!(!bounded.is_empty() && bounded.iter().all(|one| supports.contains(one)));
    assert!(supports.len() < 401);
}

/// Settings whose training of 1,000 points with wrong labels takes many seconds on any machine, and the points.
fn endless(fixture: &Fixture) -> Value {
    let state = fixture.call("example", &json!({ "name": "crescents", "rows": 1000 }));
    let mut points = state["points"].as_array().unwrap().clone();
    for point in points.iter_mut().step_by(5) {
        point[2] = json!(1 - point[2].as_u64().unwrap());
    }
    json!({ "kernel": "rbf(gamma=1)", "C": 1e7, "plan": "exact", "points": points })
}

#[test]
fn a_training_that_takes_long_is_answered_early_and_goes_on() {
    let fixture = Fixture::new(None);
    let first = fixture.call("fit", &endless(&fixture));
    assert_eq!((&first["is_open"], &first["converged"]), (&json!(true), &json!(false)));
    let second = fixture.call("continue", &json!({}));
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap();
    for name in ["iterations", "training_ms"] {
        assert!(number(&second, name) > number(&first, name), "{name}");
    }
    // Each part goes on where the one before ended: the objective falls, and the model of the server is the new machine.
    assert!(number(&second, "objective") < number(&first, "objective"));
    assert_eq!(second["warm"], first["warm"]);
    let served = fixture.models.get("play", None).unwrap();
    assert_eq!(json!(served.model.machine.supports().rows()), second["machine_supports"]);
    // What is done does not go on.
    let done = fixture.fitted(&rbf(0.01));
    assert_eq!((&done["is_open"], &done["converged"]), (&json!(false), &json!(true)));
    assert_eq!(fixture.call("continue", &json!({})), done);
}

#[test]
fn a_change_ends_a_training_that_goes_on() {
    let fixture = Fixture::new(None);
    fixture.call("fit", &endless(&fixture));
    // Each part takes as long as all before it: the third and last one here would take more than a second.
    let before = (0..2).map(|_| fixture.call("continue", &json!({}))).last().unwrap();
    let (last, changed) = std::thread::scope(|scope| {
        let last = scope.spawn(|| fixture.call("continue", &json!({})));
        while fixture.playground.state.try_lock().is_ok() {
            std::thread::yield_now();
        }
        let mut easy = rbf(0.01);
        easy["points"] = json!([[0.0, 0.0, 0], [1.0, 1.0, 1]]);
        let changed = fixture.call("fit", &easy);
        (last.join().unwrap(), changed)
    });
    let spent = |of: &Value| of["training_ms"].as_f64().unwrap();
    assert!(spent(&last) < 2.0 * spent(&before), "{} after {}", spent(&last), spent(&before));
    assert_eq!(changed["points"], 2);
}

#[test]
fn points_that_are_no_support_vectors_can_be_left_out() {
    let fixture = Fixture::new(None);
    let trained = fixture.fitted(&rbf(10.0));
    let before = numbers(&fixture.call("map", &map("machine"))["field"]);
    let points = fixture.call("state", &json!({}))["points"].as_array().unwrap().clone();
    let kept: Vec<Value> =
        numbers(&trained["supports"]).iter().map(|at| points[*at as usize].clone()).collect();
    let mut settings = rbf(10.0);
    settings["points"] = kept.into();
    fixture.fitted(&settings);
    let after = numbers(&fixture.call("map", &map("machine"))["field"]);
    let largest = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    // Both trainings end within the tolerance 1e-3 of the optimality conditions; C = 10 multiplies it.
    assert!(largest < 0.05, "{largest}");
}

#[test]
fn the_distance_bounds_every_change_of_a_score() {
    let fixture = Fixture::new(None);
    let trained = fixture.fitted(&rbf(1.0));
    let before = numbers(&fixture.call("map", &map("machine"))["field"]);
    let mut last = f64::INFINITY;
    for size in [2, 6, 16] {
        let small = fixture.call("compress", &json!({ "size": size }));
        assert_eq!(small["before"], trained["machine_supports"]);
        assert!(small["after"].as_u64().unwrap() <= size);
        let distance = small["distance"].as_f64().unwrap();
        assert!(distance < last, "{distance} after {last}");
        last = distance;
        let after = numbers(&fixture.call("map", &map("compressed"))["field"]);
        let largest = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // The field is rounded to five digits.
        assert!(largest <= distance + 1e-3, "{size} vectors: {largest} beyond {distance}");
    }
}

#[test]
fn a_saved_machine_gives_the_labels_of_the_map() {
    let fixture = Fixture::new(None);
    for (kernel, plan) in
        [("rbf(gamma=0.5)", "anytime"), ("polynomial(degree=3, gamma=1, coef0=1)", "monomials")]
    {
        let trained = fixture.fitted(&json!({ "kernel": kernel, "C": 1, "plan": "auto" }));
        assert!(trained["plan"].as_str().unwrap().contains(plan), "{}", trained["plan"]);
        let map = fixture.call("map", &map("machine"));
        let model =
            file::from_bytes(&fixture.bytes("save", br#"{"what":"machine"}"#, &[]).unwrap())
                .unwrap();
        let cells = (0..900).flat_map(|cell| {
            [
                -2.0 + 5.0 * (f64::from(cell % 30) + 0.5) / 30.0,
                -2.0 + 4.0 * (f64::from(cell / 30) + 0.5) / 30.0,
            ]
        });
        let rows = Matrix::dense(2, cells.collect()).unwrap();
        let decisions = Plan::of(&model).unwrap().decide(&rows).unwrap();
        let labels = numbers(&map["labels"]);
        for (decision, label) in decisions.iter().zip(labels) {
            assert_eq!(decision.answer, mercer::machine::Answer::Class(label as usize));
            assert!(decision.certainty >= Certainty::Certified);
        }
        // Some of the plane is settled before the exact stage.
        assert!(numbers(&map["settled"])[0] > 0.0, "{}", map["settled"]);
    }
    fixture.call("compress", &json!({ "size": 5 }));
    let small = fixture.bytes("save", br#"{"what":"compressed"}"#, &[]).unwrap();
    let small = file::from_bytes(&small).unwrap();
    assert!(small.machine.supports().rows() <= 5 && small.provenance.parent.is_some());
}

#[test]
fn several_classes_have_margins() {
    let fixture = Fixture::new(None);
    fixture.call("example", &json!({ "name": "three clouds", "rows": 90 }));
    let trained = fixture.fitted(&rbf(1.0));
    assert_eq!(trained["classes"].as_array().unwrap().len(), 3);
    let map = fixture.call("map", &map("machine"));
    let labels = numbers(&map["labels"]);
    assert!((0..3).all(|class| labels.contains(&f64::from(class))));
    for name in points::EXAMPLES {
        let example = fixture.call("example", &json!({ "name": name, "rows": 60 }));
        assert_eq!(example["points"].as_array().unwrap().len(), 60, "{name}");
        assert!(fixture.fitted(&rbf(1.0))["message"].is_null(), "{name}");
    }
}

#[test]
fn what_is_missing_is_a_message_and_what_is_wrong_a_refusal() {
    let fixture = Fixture::new(None);
    let mut settings = rbf(1.0);
    settings["points"] = json!([[0.0, 0.0, 0], [1.0, 0.0, 0]]);
    let message = fixture.fitted(&settings)["message"].clone();
    assert!(message.as_str().unwrap().contains("one class"), "{message}");
    settings["points"] = json!([[0.0, 0.0, 7]]);
    assert!(fixture.refusal("fit", &settings).contains("a class that is not there"));
    fixture.call("example", &json!({ "name": "rings", "rows": 60 }));
    fixture.fitted(&rbf(1.0));
    assert!(
        fixture
            .refusal("fit", &json!({ "kernel": "rbf(gamma=-1)", "C": 1, "plan": "auto" }))
            .contains("gamma")
    );
    assert!(fixture.refusal("fit", &json!({ "kernel": "linear" })).contains("missing field"));
    assert!(
        fixture
            .refusal("map", &json!({ "x": [0, 0], "y": [0, 1], "size": 10, "of": "machine" }))
            .contains("empty")
    );
    assert!(fixture.refusal("axes", &json!({ "x": "a", "y": "b" })).contains("no table"));
    assert!(fixture.refusal("save", &json!({ "what": "all" })).contains("'all'"));
    assert!(
        fixture
            .refusal("example", &json!({ "name": "moons", "rows": 60 }))
            .contains("there are crescents")
    );
    assert!(
        fixture
            .refusal("example", &json!({ "name": "rings", "rows": 1_000_000 }))
            .contains("20000")
    );
}

#[test]
fn a_table_gives_columns_and_components() {
    let mut text = "height,weight,age,kind\n".to_owned();
    for row in 0..40 {
        let shift = f64::from(row % 2) * 40.0;
        let wave = f64::from(row % 7);
        let (kind, row) = (["cat", "dog"][row as usize % 2], f64::from(row));
        writeln!(text, "{},{},{},{kind}", 20.0 + shift + wave, 0.1 * shift + wave, 0.5 * row)
            .unwrap();
    }
    let table = Table::read(text.clone().into_bytes(), "Animals.csv", "kind").unwrap();
    let fixture = Fixture::new(Some(table));
    let state = fixture.call("state", &json!({}));
    assert_eq!(state["names"], json!(["height", "weight"]));
    assert_eq!(state["classes"], json!(["cat", "dog"]));
    let axes = json!(["height", "weight", "age", "component 1", "component 2", "component 3"]);
    assert_eq!(state["table"]["axes"], axes);
    let points = fixture.call("axes", &json!({ "x": "component 1", "y": "age" }));
    let of = |column: usize| -> Vec<f64> {
        points["points"].as_array().unwrap().iter().map(|p| p[column].as_f64().unwrap()).collect()
    };
    // Components are centred, columns are as in the file.
    assert!(of(0).iter().sum::<f64>().abs() < 1e-9 && of(1)[3] == 1.5);
    let trained = fixture.fitted(&rbf(1.0));
    assert_eq!(trained["points"], 40);
    let saved = fixture.bytes("save", br#"{"what":"machine"}"#, &[]).unwrap();
    let model = file::from_bytes(&saved).unwrap();
    assert_eq!(model.input.names, Some(vec!["component 1".to_owned(), "age".to_owned()]));
    assert!(model.input.scaling.is_some());
    assert!(fixture.refusal("axes", &json!({ "x": "age", "y": "age" })).contains("different"));
    assert!(fixture.refusal("axes", &json!({ "x": "age", "y": "tail" })).contains("'tail'"));
    // The same table from the page; and one that is too long.
    let name = [("name", "animals.csv"), ("label", "kind")];
    assert!(fixture.bytes("table", text.as_bytes(), &name).is_ok());
    let long = "a,b,y\n".to_owned() + &"1,2,x\n".repeat(20_001);
    let refusal = fixture.bytes("table", long.as_bytes(), &[("name", "long.csv")]).unwrap_err();
    assert!(refusal.contains("more than 20000 rows"), "{refusal}");
    // Two rows that claim four thousand million columns.
    let wide = b"1 1:1 4000000000:1\n0 2:1 3:1\n";
    let refusal = fixture.bytes("table", wide, &[("name", "wide.svm")]).unwrap_err();
    assert!(refusal.contains("number the columns consecutively"), "{refusal}");
}

/// Names of classes, columns, tables and calls from the page.
#[test]
fn adversarial_names_come_back_as_they_are_or_are_refused() {
    let fixture = Fixture::new(None);
    let points: Vec<Value> =
        (0..20).map(|at| json!([f64::from(at), f64::from(at % 7), at % 5])).collect();
    for names in ADVERSARIAL.chunks_exact(5) {
        let mut settings = rbf(1.0);
        (settings["points"], settings["classes"]) = (json!(points), json!(names));
        let trained = fixture.fitted(&settings);
        assert!(trained["message"].is_null(), "{trained}");
        assert_eq!(fixture.call("state", &json!({}))["classes"], json!(names));
        let saved = fixture.bytes("save", br#"{"what":"machine"}"#, &[]).unwrap();
        let model = file::from_bytes(&saved).unwrap();
        let classes: Vec<String> =
            model.machine.classes().iter().map(ToString::to_string).collect();
        assert!(classes.iter().all(|class| names.contains(&class.as_str())), "{classes:?}");
        assert!(fixture.call("map", &map("machine")).is_object());
    }
    let mut tables = 0;
    let field = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    for pair in ADVERSARIAL.windows(2).filter(|pair| pair.iter().all(|name| name.trim() == *name)) {
        let mut text = format!("{},{},kind\n", field(pair[0]), field(pair[1]));
        for row in 0..12 {
            writeln!(text, "{row},{},{}", row % 5, field(pair[row % 2])).unwrap();
        }
        let name = format!("{}.csv", pair[0]);
        // Names that are numbers are a row of values.
        match fixture.bytes("table", text.as_bytes(), &[("name", &name), ("label", "kind")]) {
            Ok(_) => {
                let state = fixture.call("state", &json!({}));
                assert_eq!(state["classes"], json!(pair));
                assert_eq!(state["table"]["name"], json!(name));
                tables += 1;
            }
            Err(refusal) => assert!(!refusal.is_empty()),
        }
        for call in ["example", "axes", "save", pair[0]] {
            let body =
                json!({ "name": pair[0], "rows": 10, "x": pair[0], "y": "x", "what": pair[1] });
            assert!(!fixture.refusal(call, &body).is_empty());
        }
    }
    assert!(tables > 20, "{tables} tables were read");
}
