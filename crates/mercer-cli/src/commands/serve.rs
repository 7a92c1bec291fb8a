//! `mercer serve`: a server for models. The server itself is `mercer-server`; here are its options, its signals and what it
//! says on standard error.

use anyhow::Context;
use mercer_server::{Changes, Event, ServeOptions, Signal, check, serve};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::sync::mpsc;

use crate::args::Serve;
use crate::console::Console;
use crate::failure::DONE;

pub(super) fn run(arguments: &Serve, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let options = arguments.options(rayon::current_num_threads(), seed)?;
    if arguments.check {
        let models = check(&options)?;
        if console.json {
            println!("{}", json!({ "models": models }));
        } else {
            models.iter().for_each(|model| println!("{model}"));
        }
        return Ok(DONE);
    }
    if options.trust_plan {
        console.warn("plans are believed without verification (--trust-plan)");
    }
    let is_open = options.token_file.is_none() && options.tls_client_ca.is_none();
    for address in [Some(options.listen), options.grpc].into_iter().flatten() {
        if is_open && !address.ip().is_loopback() {
            console
                .warn(&format!("anyone who reaches {address} can ask: no --token-file is given"));
        }
    }
    let (sender, signals) = mpsc::unbounded_channel();
    listen(sender)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads.unwrap_or(1).clamp(1, 4))
        .enable_all()
        .build()
        .context("the server cannot be started")?;
    runtime.block_on(serving(&options, signals, console))?;
    // Requests that did not end in time are cut.
    runtime.shutdown_background();
    Ok(DONE)
}

async fn serving(
    options: &ServeOptions,
    signals: mpsc::UnboundedReceiver<Signal>,
    console: &Console,
) -> anyhow::Result<()> {
    let (json, quiet) = (console.json, console.is_quiet());
    let show = move |event: Event| {
        if !quiet {
            eprintln!("{}", if json { object(&event) } else { sentence(&event) });
        }
    };
    Ok(serve(options, signals, show).await?)
}

/// Signals of the operating system as they come: SIGHUP loads models again, SIGTERM and SIGINT stop.
fn listen(sender: mpsc::UnboundedSender<Signal>) -> anyhow::Result<()> {
    #[cfg(unix)]
    let wanted = [SIGINT, SIGTERM, signal_hook::consts::SIGHUP];
    #[cfg(not(unix))]
    let wanted = [SIGINT, SIGTERM];
    let mut signals =
        signal_hook::iterator::Signals::new(wanted).context("cannot listen to signals")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGTERM => Signal::Stop,
                SIGINT => Signal::StopNow,
                _ => Signal::Reload,
            };
            if sender.send(signal).is_err() {
                // The server has ended, and the program has not: the second signal ends it.
                std::process::exit(130);
            }
        }
    });
    Ok(())
}

fn sentence(event: &Event) -> String {
    match event {
        Event::Listening { address, grpc, models } => {
            let grpc = grpc.map(|address| format!(" and for gRPC at {address}"));
            let grpc = grpc.unwrap_or_default();
            format!("{models} models are served at http://{address}{grpc} (Ctrl-C stops)")
        }
        Event::Changed(Changes { loaded, failed, removed }) => {
            let name = |(name, version): &(String, u64)| format!("{name} version {version}");
            let mut parts: Vec<String> = Vec::new();
            parts.extend(loaded.iter().map(|model| format!("loaded {}", name(model))));
            parts.extend(removed.iter().map(|model| format!("removed {}", name(model))));
            parts.extend(failed.iter().map(|(name, version, reason)| {
                format!("not loaded: {name} version {version}, {reason}; the old one stays")
            }));
            parts.join("; ")
        }
        Event::Stopping => "stopping: requests that have begun are answered".to_owned(),
        Event::Stopped { all_answered: true } => "stopped".to_owned(),
        Event::Stopped { all_answered: false } => {
            "stopped before all requests were answered: the time for that was over".to_owned()
        }
    }
}

fn object(event: &Event) -> String {
    let value = match event {
        Event::Listening { address, grpc, models } => {
            let (address, grpc) = (address.to_string(), grpc.map(|address| address.to_string()));
            json!({ "event": "listening", "address": address, "grpc": grpc, "models": models })
        }
        Event::Changed(Changes { loaded, failed, removed }) => {
            json!({ "event": "changed", "loaded": loaded, "failed": failed, "removed": removed })
        }
        Event::Stopping => json!({ "event": "stopping" }),
        Event::Stopped { all_answered } => {
            json!({ "event": "stopped", "all_answered": all_answered })
        }
    };
    value.to_string()
}
