//! Memory, processor time and open files of this process under the names that Prometheus' own clients use. Read from
//! `/proc`; elsewhere nothing is shown.

use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Ticks of a second in `/proc/self/stat`: fixed by the interface of Linux, whatever the kernel counts in.
const TICKS: f64 = 100.0;

/// Metrics of the process.
pub struct ProcessMetrics {
    cpu_seconds: Counter<f64, AtomicU64>,
    resident: Gauge,
    open_files: Gauge,
    start: Gauge<f64, AtomicU64>,
}

impl Default for ProcessMetrics {
    fn default() -> Self {
        let start = Gauge::<f64, AtomicU64>::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        start.set(now.as_secs_f64());
        Self {
            cpu_seconds: Counter::default(),
            resident: Gauge::default(),
            open_files: Gauge::default(),
            start,
        }
    }
}

/// Processor seconds, bytes in memory and open files of this process.
fn now() -> Option<(f64, i64, i64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = resident.split_whitespace().next()?.parse().ok()?;
    let files = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some((ticks / TICKS, kilobytes * 1024, files as i64))
}

impl ProcessMetrics {
    /// Adds them to those that are shown.
    pub fn register(&self, registry: &mut Registry) {
        if now().is_none() {
            return;
        }
        let cpu_seconds = self.cpu_seconds.clone();
        registry.register("process_cpu_seconds", "Processor time", cpu_seconds);
        let resident = self.resident.clone();
        registry.register("process_resident_memory_bytes", "Bytes in memory", resident);
        registry.register("process_open_fds", "Open files", self.open_files.clone());
        let start = self.start.clone();
        registry.register("process_start_time_seconds", "Start, in seconds since 1970", start);
    }

    /// Reads what they are now.
    pub fn read(&self) {
        let Some((cpu_seconds, resident, files)) = now() else { return };
        let before = self.cpu_seconds.get();
        self.cpu_seconds.inc_by((cpu_seconds - before).max(0.0));
        self.resident.set(resident);
        self.open_files.set(files);
    }
}
