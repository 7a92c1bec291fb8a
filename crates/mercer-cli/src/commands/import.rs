//! `mercer import`: model files of other programs become mercer files.

use serde_json::json;

use super::{describe, load, save};
use crate::args::Import;
use crate::console::Console;
use crate::failure::DONE;

pub(super) fn run(import: &Import, console: &Console) -> anyhow::Result<u8> {
    let model = load(&import.source, console)?;
    save(&model, &import.output)?;
    let machine = &model.machine;
    let supports = machine.supports().rows();
    if console.json {
        let features = super::features(&model);
        println!("{}", json!({ "supports": supports, "features": features }));
    }
    let merged = model.provenance.source_supports.unwrap_or(supports).saturating_sub(supports);
    let merged = if merged > 0 { format!(" ({merged} duplicates merged)") } else { String::new() };
    console.summary(&format!(
        "{}: {}, {}, {supports} distinct supports{merged}",
        import.output.display(),
        machine.kernel().spec(),
        describe(machine),
    ));
    Ok(DONE)
}
