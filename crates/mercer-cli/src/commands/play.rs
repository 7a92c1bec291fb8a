//! `mercer play`: the page of `mercer serve` on this computer, with training in the loop. The server is `mercer-server`,
//! training is `mercer-play`; here are the options and the browser.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use mercer_play::{Playground, Table};
use mercer_server::{Event, ServeOptions};

use super::serve::host;
use crate::args::{Common, Play};
use crate::console::Console;

/// Milliseconds of work that may wait: one user asks, and a map is many rows.
const QUEUE_MS: f64 = 10_000.0;

pub(super) fn run(arguments: &Play, common: &Common, console: &Console) -> anyhow::Result<u8> {
    let Play { data, label, listen, no_browser } = arguments;
    anyhow::ensure!(
        listen.ip().is_loopback(),
        "--listen {listen}: whoever reaches the page can train; only addresses of this computer are taken"
    );
    let table = match data {
        Some(path) => Some(Table::open(path, label).with_context(|| path.display().to_string())?),
        None => None,
    };
    let options = ServeOptions {
        listen: *listen,
        threads: common.threads.map(usize::from),
        seed: common.seed.unwrap_or(1),
        show_supports: true,
        queue_ms: QUEUE_MS,
        drain_seconds: 0.0,
        stop_seconds: 1.0,
        ..ServeOptions::default()
    };
    let opens_browser = !no_browser;
    let listening = move |event: &Event| {
        if let Event::Listening { address, .. } = event
            && opens_browser
        {
            open_browser(*address);
        }
    };
    host(&options, Some(Arc::new(Playground::new(table)?)), listening, console)
}

/// Opens the page in the user's browser, if the system has a program for that.
fn open_browser(address: SocketAddr) {
    let (program, before): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("cmd", &["/C", "start", ""])
    } else {
        ("xdg-open", &[])
    };
    let page = format!("http://{address}/");
    let mut command = Command::new(program);
    command.args(before).arg(page);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The address is on standard error: without such a program the user opens it.
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
}
