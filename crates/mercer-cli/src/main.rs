//! The command `mercer`: arguments become settings, and one command of `commands/` runs.

/// Like the one of the standard library, but a closed pipe is not an error, and control characters are escaped: text
/// from files cannot act on a terminal, nor begin a new line.
macro_rules! println {
    () => { $crate::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

/// The same on standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::console::line(&format!($($text)*)) };
}

mod args;
mod commands;
mod console;
mod failure;
mod files;
mod http_client;
mod labels;
mod libsvm;
mod output;
mod queries;
mod training_input;

use std::process::ExitCode;

use clap::Parser;
use failure::HintContext;

fn main() -> ExitCode {
    if let Some((command, arguments)) = libsvm::LibsvmCommand::from_arguments(std::env::args_os()) {
        let console = console::Console::plain();
        return match mercer::threads::pool(None) {
            Ok(pool) => pool.install(|| command.run(&arguments, &console)),
            Err(error) => failure::report(&error.into(), HintContext::default(), &console),
        };
    }
    let arguments = match args::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { failure::USAGE } else { failure::DONE };
            console::usage(&error);
            if code == failure::USAGE && std::env::args_os().any(|word| word == "--json") {
                failure::print_object(&console::first_line(&error), None, code);
            }
            return ExitCode::from(code);
        }
    };
    let console = console::Console::new(&arguments.common);
    let context = HintContext::of(&arguments.verb);
    match run(arguments, &console) {
        Ok(code) => ExitCode::from(code),
        Err(error) => failure::report(&error, context, &console),
    }
}

fn run(arguments: args::Arguments, console: &console::Console) -> anyhow::Result<u8> {
    mercer::simd::Isa::check_environment().map_err(anyhow::Error::msg)?;
    mercer::threads::of_process(arguments.common.threads)?;
    commands::run(arguments, console)
}
