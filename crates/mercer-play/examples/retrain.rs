//! How long a change in `mercer play` takes: training from the machine before and from nothing, the plan, the maps, and a
//! compressed machine; beside it the training of LIBSVM (`libsvm-rs`), which starts from nothing. Prints one table.

use std::time::Instant;

use libsvm_rs::train::svm_train;
use libsvm_rs::{KernelType, SvmNode, SvmParameterBuilder, SvmProblem, SvmType};
use mercer_play::Playground;
use mercer_server::{Call, Extension, Repository};
use serde_json::{Value, json};

/// Changes of each kind; the middle and the longest are printed.
const CHANGES: usize = 20;

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
}

fn main() {
    let page = Page {
        playground: Playground::new(None).expect("an example"),
        models: Repository::without_files(),
    };
    page.playground.start(&page.models).expect("it trains");
    println!(
        "example, points, change, whole ms (middle, longest), training ms, map ms, compress ms, LIBSVM training ms"
    );
    for (example, rows) in [("crescents", 1000), ("ripley", 1000), ("three clouds", 1000)] {
        let (state, _) = page.call("example", &json!({ "name": example, "rows": rows }));
        let mut points = state["points"].as_array().expect("points").clone();
        let libsvm = libsvm(&points);
        let settings = |c: f64, gamma: f64| json!({ "kernel": format!("rbf(gamma={gamma})"), "C": c, "plan": "auto" });
        for kind in ["nothing before", "one point more", "C", "gamma"] {
            let mut times = Vec::new();
            for change in 0..CHANGES {
                let step = 1.12f64.powi(change as i32 % 10 - 5);
                let mut request = match kind {
                    "C" => settings(step, 2.0),
                    "gamma" => settings(1.0, 2.0 * step),
                    _ => settings(1.0, 2.0),
                };
                match kind {
                    "nothing before" => {
                        page.call("example", &json!({ "name": example, "rows": rows }));
                    }
                    "one point more" => {
                        let place = change as f64 / CHANGES as f64;
                        points.push(json!([place, 1.0 - place, change % 2]));
                        request["points"] = points.clone().into();
                    }
                    _ => {}
                }
                let (fitted, whole) = page.call("fit", &request);
                let ranges = &state["ranges"];
                let map = json!({ "x": ranges[0], "y": ranges[1], "size": 72, "of": "machine" });
                let (_, map) = page.call("map", &map);
                let (_, compress) = page.call("compress", &json!({ "size": 10 }));
                times.push((whole, fitted["training_ms"].as_f64().expect("a time"), map, compress));
            }
            let middle = |of: fn(&(f64, f64, f64, f64)) -> f64| {
                let mut all: Vec<f64> = times.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                (all[all.len() / 2], all[all.len() - 1])
            };
            let (whole, longest) = middle(|times| times.0);
            let [training, map, compress] =
                [middle(|t| t.1).0, middle(|t| t.2).0, middle(|t| t.3).0];
            println!(
                "{example}, {rows}, {kind}, {whole:.1}, {longest:.1}, {training:.1}, {map:.1}, {compress:.1}, {libsvm:.1}"
            );
        }
    }
}

/// Milliseconds of LIBSVM's training with gamma 2 and C 1, best of three.
fn libsvm(points: &[Value]) -> f64 {
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
    (0..3).map(run).fold(f64::INFINITY, f64::min)
}
