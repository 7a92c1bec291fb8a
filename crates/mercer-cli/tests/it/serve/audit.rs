//! The audit in the background: answers stay as they are, bounds are exported, and queries that drift away from the sample of
//! the calibration make the model fall back to its proved plan.

use serde_json::{Value, json};

use super::{Server, output};
use crate::calibrated::{compile, folder};
use crate::common::done;

/// Rows of a file as a request.
fn request(lines: &[&str]) -> Value {
    let tensor =
        json!({ "name": "rows", "shape": [lines.len()], "datatype": "BYTES", "data": lines });
    json!({ "inputs": [tensor] })
}

fn certainties(reply: &Value) -> Vec<&str> {
    output(reply, "certainty").iter().filter_map(Value::as_str).collect()
}

#[test]
fn drifting_queries_raise_the_alarm_and_the_proved_plan_answers_until_a_model_is_loaded() {
    let folder = folder();
    compile(&folder, "cascade(student(2), exact)", &[]);
    let (fast, admin) = (folder.path("fast.mercer"), folder.write("admin", "0123456789abcdef\n"));
    let same = std::fs::read_to_string(folder.path("same.svm")).unwrap();
    let far = std::fs::read_to_string(folder.path("far.svm")).unwrap();
    let [same, far] = [&same, &far].map(|text| text.lines().collect::<Vec<&str>>());
    let answers =
        done(&["predict", &fast, &folder.path("same.svm"), "--format", "jsonl", "--quiet"]);
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut server = Server::start(&[&fast, "--audit", "0.2", "--admin-token-file", &admin]);

    // Queries like the sample: every answer is that of `predict`, which audits nothing.
    for (rows, expected) in same.chunks(50).zip(answers.chunks(50)) {
        let reply = server.infer("fast", &request(rows)).json();
        for (at, expected) in expected.iter().enumerate() {
            assert_eq!(
                output(&reply, "label")[at].to_string(),
                expected["label"].as_str().unwrap()
            );
            for name in ["low", "high", "cost", "certainty"] {
                assert_eq!(output(&reply, name)[at], expected[name], "{name} of {at}");
            }
        }
    }
    let labels = "{model=\"fast\",version=\"1\"}";
    let metric =
        |server: &Server, name: &str| server.metric(&format!("mercer_audit_{name}{labels}"));
    assert!(server.until(20, |server| metric(server, "queries_total") > 100.0));
    assert_eq!(metric(&server, "alarm"), 0.0);
    let [low, high] = ["bound_low", "bound_high"].map(|name| metric(&server, name));
    assert!(low < high && high < 1.0, "{low} {high}");
    assert!(
        server.metric("mercer_settled_total{model=\"fast\",version=\"1\",stage=\"student") > 500.0
    );

    // Queries of another kind.
    let reply = server.infer("fast", &request(&far[..50])).json();
    assert!(certainties(&reply).contains(&"calibrated"), "the test needs wrong estimates");
    for rows in far.chunks(50) {
        assert_eq!(server.infer("fast", &request(rows)).status, 200);
    }
    let alarm = server.event_named("alarm");
    assert!(alarm["low"].as_f64() > alarm["promised"].as_f64(), "{alarm}");
    assert_eq!(alarm["model"], "fast");
    let check_alarmed = |server: &Server| {
        let reply = server.infer("fast", &request(&far[..200])).json();
        let is_proved = |name: &&str| matches!(*name, "certified" | "exact");
        assert!(certainties(&reply).iter().all(is_proved), "{reply}");
        assert!(!reply["parameters"]["contract"].as_str().unwrap().contains("calibrated"));
        assert_eq!(metric(server, "alarm"), 1.0);
        assert_eq!(server.get("/v2/models/fast/card").json()["is_alarmed"], true);
    };
    check_alarmed(&server);
    // What the caller asks for holds for the plan that answers now.
    let limited = |parameters: Value| {
        let mut request = request(&far[..200]);
        request["parameters"] = parameters;
        server.infer("fast", &request).json()
    };
    let poor = limited(json!({ "budget": 40 }));
    let costs: Vec<u64> = output(&poor, "cost").iter().filter_map(Value::as_u64).collect();
    assert!(costs.len() == 200 && costs.iter().all(|cost| *cost <= 40), "{costs:?}");
    assert_eq!((certainties(&poor)[0], &poor["parameters"]["budget"]), ("unsettled", &json!(40)));
    let late = limited(json!({ "timeout": 1 }));
    assert_eq!(late["parameters"]["budget"], 0);
    assert!(certainties(&late).iter().all(|name| *name == "unsettled"), "{late}");
    let firm = limited(json!({ "budget": 40, "require": "certified" }));
    assert!(certainties(&firm).iter().all(|name| matches!(*name, "certified" | "exact")));

    // The same file again is no new model; loading it on request is the operator's word.
    let bytes = std::fs::read(&fast).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(&fast, bytes).unwrap();
    server.signal("-HUP");
    assert_eq!(
        server.event_named("changed")["loaded_models"],
        json!([{ "model": "fast", "version": 1 }])
    );
    check_alarmed_after_reload(&server);
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    let loaded = server.send("POST", "/v2/repository/models/fast/load", token, b"");
    assert_eq!(loaded.status, 200, "{}", loaded.error());
    assert_eq!(server.get("/v2/models/fast/card").json()["is_alarmed"], false);
    assert_eq!(metric(&server, "alarm"), 0.0);
}

fn check_alarmed_after_reload(server: &Server) {
    assert_eq!(server.get("/v2/models/fast/card").json()["is_alarmed"], true);
}

#[test]
fn a_promise_that_no_audit_can_see_is_told_at_the_start() {
    let folder = folder();
    compile(&folder, "cascade(student(2), exact)", &["--risk", "excess-error"]);
    let mut server = Server::start(&[&folder.path("fast.mercer"), "--audit", "0.2"]);
    let told = server.event_named("not_audited");
    assert!(told["reason"].as_str().unwrap().contains("excess errors"), "{told}");
    let card = server.get("/v2/models/fast/card").json();
    assert!(card["audit"]["refused"].as_str().unwrap().contains("excess errors"), "{card}");
}
