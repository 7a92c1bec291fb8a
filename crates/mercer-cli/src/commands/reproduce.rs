//! `mercer reproduce`: runs a paper of `mercer-papers`, or all of them, and prints what they report.

use std::cell::RefCell;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use mercer_papers::{
    LeftOut, NothingComputed, Observer, Options, PAPERS, Paper, Session, overview,
};
use serde_json::json;

use super::StopSignal;
use crate::args::Reproduce;
use crate::console::{Console, Status};
use crate::failure::{DONE, ERROR, NOTHING};

/// Keys and titles, for `mercer list`.
pub(super) fn papers() -> Vec<(String, &'static str)> {
    PAPERS.iter().map(|paper| (paper.key.to_owned(), paper.title)).collect()
}

pub(super) fn run(arguments: &Reproduce, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let printer = Printer { console, status: RefCell::new(None) };
    let options = options(arguments, console);
    if arguments.paper == "all" {
        let session = Session::new(options, &printer, stop.flag());
        return run_all(arguments, &session, &stop, console);
    }
    let paper = Paper::find(&arguments.paper)?;
    console.info(paper.title);
    let session = Session::new(options.of_paper(paper), &printer, stop.flag());
    paper.run(&session)?;
    Ok(DONE)
}

fn options(arguments: &Reproduce, console: &Console) -> Options {
    Options {
        data: arguments.data.clone(),
        only: arguments.only.clone(),
        method: arguments.method.clone(),
        repeats: arguments.repeats,
        rows: arguments.rows,
        write_rows: arguments.write_rows.clone(),
        figures: arguments.figures.clone(),
        quick: arguments.quick,
        json: console.json,
    }
}

/// Results on standard output, warnings and progress on standard error.
struct Printer<'c> {
    console: &'c Console,
    status: RefCell<Option<Status>>,
}

impl Observer for Printer<'_> {
    fn line(&self, text: &str) {
        text.split('\n').for_each(|line| println!("{line}"));
    }

    fn warn(&self, text: &str) {
        self.console.warn(text);
    }

    fn status(&self, text: Option<&str>) {
        let mut status = self.status.borrow_mut();
        match text {
            Some(text) => {
                status.get_or_insert_with(|| self.console.status()).set_message(text);
            }
            None => {
                if let Some(bar) = status.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }
}

/// Every paper, each in a process of its own, and one page with all of them.
fn run_all(
    arguments: &Reproduce,
    session: &Session<'_>,
    stop: &StopSignal,
    console: &Console,
) -> anyhow::Result<u8> {
    let folder = arguments.report.as_deref().context("give --report DIR, where the page goes")?;
    let mut in_child = |paper: &Paper, options: &Options| run_in_child(paper, options, stop);
    let done = overview(session, folder, &mut in_child)?;
    let index = done.index.display().to_string();
    if console.json {
        let left_out = |left: &LeftOut| json!({ "paper": left.paper, "reason": left.reason });
        let left_out: Vec<_> = done.left_out.iter().map(left_out).collect();
        println!(
            "{}",
            json!({
                "ran": done.ran, "failed": done.failed, "not_computed": left_out, "report": index,
            })
        );
    }
    for LeftOut { paper, reason } in &done.left_out {
        console.warn(&format!("{paper}: nothing was computed: {reason}"));
    }
    console.summary(&format!("{index}: {} of {} papers ran", done.ran.len(), PAPERS.len()));
    Ok(match (done.ran.as_slice(), done.failed.as_slice()) {
        (_, [_, ..]) => ERROR,
        ([], []) => NOTHING,
        _ => DONE,
    })
}

/// How often the stop signal is checked while a child process runs.
const PAUSE: Duration = Duration::from_millis(50);

/// What `mercer reproduce KEY` prints in a child process, which an interrupt ends at once.
fn run_in_child(paper: &Paper, options: &Options, stop: &StopSignal) -> anyhow::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["reproduce", paper.key, "--quiet"]);
    command.arg("--repeats").arg(options.repeats.to_string());
    command.arg("--rows").arg(options.rows.to_string());
    command.arg("--threads").arg(rayon::current_num_threads().to_string());
    if let Some(figures) = &options.figures {
        command.arg("--figures").arg(figures);
    }
    if options.quick {
        command.arg("--quick");
    }
    if let Some(data) = &options.data {
        command.arg("--data").arg(data);
    }
    if !options.only.is_empty() {
        command.arg("--only").arg(options.only.join(","));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = std::thread::scope(|scope| {
        let (out, err) = (scope.spawn(|| text(out)), scope.spawn(|| text(err)));
        while child.try_wait()?.is_none() {
            if stop.check().is_err() {
                child.kill()?;
            }
            std::thread::sleep(PAUSE);
        }
        Ok::<_, anyhow::Error>((out.join().unwrap_or_default(), err.join().unwrap_or_default()))
    })?;
    let status = child.wait()?;
    let message = err.trim().lines().last().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    if status.code() == Some(i32::from(NOTHING)) {
        let why = message.strip_prefix("nothing was computed: ").unwrap_or(message).to_owned();
        return Err(NothingComputed { why }.into());
    }
    anyhow::ensure!(status.success(), "{}", err.trim());
    Ok(out)
}

/// All that comes out of a pipe.
fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What came before an error is still worth showing.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
