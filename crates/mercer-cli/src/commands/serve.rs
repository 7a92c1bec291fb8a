//! `mercer serve`: a server for models. The server itself is `mercer-server`; here are its options and its signals. What it
//! says on standard error is in `serve/log.rs`.

mod log;

use std::sync::Arc;

use anyhow::Context;
use mercer_server::{Event, Extension, LogFormat, ServeOptions, Signal, check, serve};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::sync::mpsc;

use crate::args::{Common, Serve};
use crate::console::Console;
use crate::failure::DONE;

pub(super) fn run(arguments: &Serve, common: &Common, console: &Console) -> anyhow::Result<u8> {
    let options = arguments.options(common)?;
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
    host(&options, None, |_| {}, console)
}

/// Runs a server until a signal ends it. `extension` is added to it; `told` sees what happens before the log does.
pub(super) fn host(
    options: &ServeOptions,
    extension: Option<Arc<dyn Extension>>,
    told: impl Fn(&Event) + Send + Sync + 'static,
    console: &Console,
) -> anyhow::Result<u8> {
    let (sender, signals) = mpsc::unbounded_channel();
    listen(sender)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads.unwrap_or_else(rayon::current_num_threads).clamp(1, 4))
        .enable_all()
        .build()
        .context("the server cannot be started")?;
    let format = match options.log {
        LogFormat::Off if console.is_quiet() => None,
        LogFormat::Json => Some(LogFormat::Json),
        _ if console.json => Some(LogFormat::Json),
        other => Some(other),
    };
    let log = log::Log::start(format)?;
    let write = log.teller();
    let tell = move |event: Event| {
        told(&event);
        write(event);
    };
    let outcome = runtime.block_on(serve(options, extension, signals, tell));
    // Requests that did not end in time are cut.
    runtime.shutdown_background();
    log.finish();
    outcome?;
    Ok(DONE)
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
