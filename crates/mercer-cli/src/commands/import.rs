//! `mercer import`: model files of other programs become mercer files.

use anyhow::Context;
use mercer::machine::file;
use serde_json::json;

use super::{describe, load};
use crate::args::Import;
use crate::console::Console;
use crate::failure::DONE;

pub(super) fn run(import: &Import, console: &Console) -> anyhow::Result<u8> {
    let model = load(&import.source, console)?;
    let own = file::format("mercer").context("the mercer format is always registered")?;
    file::save(&model, own, &import.output).with_context(|| import.output.display().to_string())?;
    let machine = &model.machine;
    let supports = machine.supports().rows();
    if console.json {
        let features = machine.columns();
        println!("{}", json!({ "supports": supports, "features": features }));
    }
    let merged = model.provenance.source_supports.unwrap_or(supports) - supports;
    let merged = if merged > 0 { format!(" ({merged} duplicates merged)") } else { String::new() };
    console.summary(&format!(
        "{}: {}, {}, {supports} distinct supports{merged}",
        import.output.display(),
        machine.kernel().spec(),
        describe(machine),
    ));
    Ok(DONE)
}
