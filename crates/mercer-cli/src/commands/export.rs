use anyhow::Context;
use mercer::machine::file;
use serde_json::json;

use super::load;
use crate::args::Export;
use crate::console::Console;
use crate::failure::DONE;

pub(super) fn run(export: &Export, console: &Console) -> anyhow::Result<u8> {
    let format = file::format(&export.format).with_context(|| {
        let known: Vec<_> = file::FORMATS.iter().map(|format| format.name).collect();
        format!("unknown model format '{}'; known are {}", export.format, known.join(", "))
    })?;
    let model = load(&export.model, console)?;
    file::save(&model, format, &export.output)
        .with_context(|| export.output.display().to_string())?;
    if console.json {
        println!("{}", json!({ "format": format.name }));
    }
    console.summary(&format!("{}: {}", export.output.display(), format.summary));
    Ok(DONE)
}
