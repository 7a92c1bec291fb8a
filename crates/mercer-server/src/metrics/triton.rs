//! The metrics of a model under the names that Triton gives them, for dashboards and autoscalers that know those.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::served::ServedModel;

/// Ends every text of OpenMetrics.
const END: &str = "# EOF\n";

/// Adds lines before the end of a text. Their type is `unknown`: names of counters end in `_total` in OpenMetrics, and
/// Triton's do not.
pub fn add(text: &mut String, served: &[Arc<ServedModel>]) {
    let rest = text.strip_suffix(END).map_or(text.len(), str::len);
    text.truncate(rest);
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let microseconds = |counter: &AtomicU64| get(counter) / 1000;
    let mut add = |name: &str, more: &str, value: &dyn Fn(&ServedModel) -> u64| {
        // One description for all lines of a name.
        if !text.contains(&format!("# TYPE {name} ")) {
            let _ = writeln!(text, "# TYPE {name} unknown");
        }
        for served in served {
            let (model, version) = (&served.name, served.version);
            let value = value(served);
            let _ =
                writeln!(text, "{name}{{model=\"{model}\",version=\"{version}\"{more}}} {value}");
        }
    };
    add("nv_inference_request_success", "", &|of| get(&of.counters.requests));
    let failed = "nv_inference_request_failure";
    add(failed, ",reason=\"REJECTED\"", &|of| get(&of.counters.rejected));
    add(failed, ",reason=\"CANCELED\"", &|of| get(&of.counters.cancelled));
    add(failed, ",reason=\"OTHER\"", &|of| get(&of.counters.failures));
    add("nv_inference_count", "", &|of| get(&of.counters.rows));
    add("nv_inference_exec_count", "", &|of| of.batches.count());
    add("nv_inference_pending_request_count", "", &|of| get(&of.counters.pending));
    add("nv_inference_request_duration_us", "", &|of| microseconds(&of.counters.total_ns));
    add("nv_inference_queue_duration_us", "", &|of| microseconds(&of.counters.queue_ns));
    add("nv_inference_compute_input_duration_us", "", &|of| microseconds(&of.counters.input_ns));
    add("nv_inference_compute_infer_duration_us", "", &|of| microseconds(&of.counters.compute_ns));
    add("nv_inference_compute_output_duration_us", "", &|of| microseconds(&of.counters.output_ns));
    text.push_str(END);
}
