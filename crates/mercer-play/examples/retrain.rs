//! How long a change in `mercer play` takes with 1,000 points, in two tables: the settings that one begins with, in parts and beside
//! the training of the crate `libsvm-rs`; and the ends of all sliders, until the first machine is there and until its training
//! is done. Without the way to the browser and the drawing.

use std::time::Instant;

use libsvm_rs::train::svm_train;
use libsvm_rs::{KernelType, SvmNode, SvmParameterBuilder, SvmProblem, SvmType};
use mercer_play::Playground;
use mercer_server::{Call, Extension, Repository};
use serde_json::{Value, json};

const POINTS: usize = 1000;
/// Changes of each kind; the middle and the longest are printed.
const CHANGES: usize = 20;
/// The same at the ends of sliders.
const ENDS: usize = 3;
/// Milliseconds after which a training that goes on is left alone.
const LIMIT: f64 = 3000.0;
/// One label of so many is another one in `noise`.
const FLIPPED: usize = 5;

struct Page {
    playground: Playground,
    models: Repository,
}

impl Page {
    /// A call with its milliseconds, as the server would run it.
    fn call(&self, name: &str, body: &Value) -> (Value, f64) {
        let body = body.to_string();
        let start = Instant::now();
        let call = Call { name, parameters: &[], body: body.as_bytes() };
        let reply = self.playground.answer(&call, &self.models).expect("the call is right");
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        (serde_json::from_slice(&reply.body).expect("JSON"), milliseconds)
    }

    /// Points of an example, which no machine knows; `noise` is `crescents` with wrong labels for some.
    fn example(&self, name: &str) -> Value {
        let known = if name == "noise" { "crescents" } else { name };
        let (mut state, _) = self.call("example", &json!({ "name": known, "rows": POINTS }));
        if name == "noise" {
            let points = state["points"].as_array_mut().expect("points");
            for point in points.iter_mut().step_by(FLIPPED) {
                point[2] = json!(1 - point[2].as_u64().expect("a class"));
            }
        }
        state
    }
}

fn settings(kernel: &str, c: f64) -> Value {
    json!({ "kernel": kernel, "C": c, "plan": "auto" })
}

/// The middle and the largest of some numbers.
fn middle(mut all: Vec<f64>) -> (f64, f64) {
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[all.len() - 1])
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().expect("a number")
}

fn main() {
    let page = Page {
        playground: Playground::new(None).expect("an example"),
        models: Repository::without_files(),
    };
    page.playground.start(&page.models).expect("it trains");
    usual_changes(&page);
    println!();
    ends_of_sliders(&page);
}

/// Changes around the settings that one begins with.
fn usual_changes(page: &Page) {
    println!(
        "| example | change | until the machine is there, ms | longest | training | longest | plan | map | compress to 10 | libsvm-rs, training from nothing | longest |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for example in ["crescents", "ripley", "three clouds"] {
        let state = page.example(example);
        let mut points = state["points"].as_array().expect("points").clone();
        let (libsvm, libsvm_longest) = middle(libsvm(&points));
        for kind in ["nothing before", "one point more", "C", "gamma"] {
            let mut times: [Vec<f64>; 5] = Default::default();
            for change in 0..CHANGES {
                let step = 1.12f64.powi(change as i32 % 10 - 5);
                let mut request = match kind {
                    "C" => settings("rbf(gamma=2)", step),
                    "gamma" => settings(&format!("rbf(gamma={})", 2.0 * step), 1.0),
                    _ => settings("rbf(gamma=2)", 1.0),
                };
                match kind {
                    "nothing before" => drop(page.example(example)),
                    "one point more" => {
                        let place = change as f64 / CHANGES as f64;
                        points.push(json!([place, 1.0 - place, change % 2]));
                        request["points"] = points.clone().into();
                    }
                    _ => {}
                }
                let (fitted, whole) = page.call("fit", &request);
                assert_eq!(fitted["is_open"], false, "these trainings end in time");
                let ranges = &state["ranges"];
                let map = json!({ "x": ranges[0], "y": ranges[1], "size": 72, "of": "machine" });
                let (_, map) = page.call("map", &map);
                let (_, compress) = page.call("compress", &json!({ "size": 10 }));
                let [training, plan] = ["training_ms", "plan_ms"].map(|name| number(&fitted, name));
                for (all, one) in times.iter_mut().zip([whole, training, plan, map, compress]) {
                    all.push(one);
                }
            }
            let [whole, training, plan, map, compress] = times.map(middle);
            println!(
                "| {example} | {kind} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {libsvm:.1} | {libsvm_longest:.1} |",
                whole.0, whole.1, training.0, training.1, plan.0, map.0, compress.0
            );
        }
    }
}

/// Every end of every slider: from nothing, and by one move from the settings that one begins with.
fn ends_of_sliders(page: &Page) {
    println!(
        "| example | kernel | C | first machine, ms, longest of {ENDS} from nothing | after a move | done, ms | pair steps |"
    );
    println!("|---|---|---|---|---|---|---|");
    let gammas = ["0.01", "1", "316"];
    let with = |text: &str| gammas.map(|gamma| text.replace('G', gamma));
    let mut kernels: Vec<String> =
        ["rbf(gamma=G)", "laplacian(gamma=G)"].iter().flat_map(|text| with(text)).collect();
    for degree in [2, 8] {
        kernels.extend(with(&format!("polynomial(degree={degree}, gamma=G, coef0=1)")));
    }
    kernels.push("linear".to_owned());
    for example in ["crescents", "noise"] {
        let points = page.example(example)["points"].clone();
        for kernel in &kernels {
            for c in [0.01, 1.0, 1e4] {
                let mut request = settings(kernel, c);
                let mut moved = Vec::new();
                for _ in 0..ENDS {
                    let mut begin = settings("rbf(gamma=1)", 1.0);
                    begin["points"] = points.clone();
                    page.call("fit", &begin);
                    moved.push(page.call("fit", &request).1);
                }
                request["points"] = points.clone();
                let mut first = Vec::new();
                let mut fitted = Value::Null;
                for _ in 0..ENDS {
                    page.example("crescents");
                    let (found, time) = page.call("fit", &request);
                    first.push(time);
                    fitted = found;
                }
                while fitted["is_open"] == true && number(&fitted, "training_ms") < LIMIT {
                    fitted = page.call("continue", &json!({})).0;
                }
                let time = number(&fitted, "training_ms");
                let done = if fitted["is_open"] == true {
                    format!("over {time:.0}")
                } else if fitted["converged"] == true {
                    format!("{time:.1}")
                } else {
                    format!("{time:.1}, given up")
                };
                println!(
                    "| {example} | `{kernel}` | {c} | {:.1} | {:.1} | {done} | {} |",
                    middle(first).1,
                    middle(moved).1,
                    fitted["iterations"]
                );
            }
        }
    }
}

/// Milliseconds of the training of libsvm-rs with gamma 2 and C 1, as often as ours.
fn libsvm(points: &[Value]) -> Vec<f64> {
    let node =
        |index: i32, value: &Value| SvmNode { index, value: value.as_f64().expect("a number") };
    let instances =
        points.iter().map(|point| vec![node(1, &point[0]), node(2, &point[1])]).collect();
    let labels = points.iter().map(|point| point[2].as_f64().expect("a class")).collect();
    let problem = SvmProblem { labels, instances };
    let parameter = SvmParameterBuilder::new()
        .svm_type(SvmType::CSvc)
        .kernel_type(KernelType::Rbf)
        .gamma(2.0)
        .c(1.0)
        .build()
        .expect("parameters");
    let run = |_| {
        let start = Instant::now();
        std::hint::black_box(svm_train(&problem, &parameter));
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..CHANGES).map(run).collect()
}
