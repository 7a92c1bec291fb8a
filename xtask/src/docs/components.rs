//! Reference pages of kernels, formulations, solvers, stages and so on, from `mercer list --json`, which reads the registries.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace;

/// A generated page.
pub struct ReferencePage {
    pub file: &'static str,
    title: &'static str,
    /// How its components are written on the command line.
    usage: &'static str,
    /// Keys of `mercer list --json`.
    keys: &'static [&'static str],
}

pub const PAGES: &[ReferencePage] = &[
    ReferencePage {
        file: "kernels.md",
        title: "Kernels",
        usage: "`mercer train --kernel 'rbf(gamma=0.5)'`",
        keys: &["kernels"],
    },
    ReferencePage {
        file: "formulations.md",
        title: "Formulations",
        usage: "`mercer train --formulation 'c_svc(C=1)'`",
        keys: &["formulations"],
    },
    ReferencePage {
        file: "solvers.md",
        title: "Solvers",
        usage: "`mercer train --solver 'low_rank(trace=1e-3)'`",
        keys: &["solvers"],
    },
    ReferencePage {
        file: "stages.md",
        title: "Stages of plans",
        usage: "`mercer compile --plan 'cascade(low_precision, exact)'`",
        keys: &["stages"],
    },
    ReferencePage {
        file: "compressors.md",
        title: "Compressors",
        usage: "`mercer compress --method 'greedy'`",
        keys: &["compressors"],
    },
    ReferencePage {
        file: "contracts.md",
        title: "Contracts",
        usage: "`mercer tune --contract 'calibrated(eps=1e-3, delta=0.05)'`",
        keys: &["contracts"],
    },
    ReferencePage {
        file: "scalings.md",
        title: "Scalings",
        usage: "`mercer train --scale 'standard'`",
        keys: &["scalings"],
    },
    ReferencePage {
        file: "formats.md",
        title: "Names of file formats",
        usage: "`mercer convert --format csv`, `mercer export --format onnx`",
        keys: &["data_formats", "model_formats"],
    },
];

/// Writes all pages into a folder.
pub fn write(command: &Path, folder: &Path) -> Result<()> {
    let said = workspace::stdout_of(Command::new(command).args(["list", "--json"]))?;
    let lists: Value = serde_json::from_str(&said).context("`mercer list --json` is not JSON")?;
    fs::create_dir_all(folder)?;
    for page in PAGES {
        fs::write(folder.join(page.file), text(page, &lists)?)?;
    }
    Ok(())
}

fn text(page: &ReferencePage, lists: &Value) -> Result<String> {
    let mut text = format!(
        "# {}\n\nWritten as {}. Names of parameters are read in either case; those without a default must be given.\n",
        page.title, page.usage
    );
    for key in page.keys {
        if page.keys.len() > 1 {
            let _ = writeln!(text, "\n## {}", key.replace('_', " "));
        }
        let items = lists[key].as_array().with_context(|| format!("there are no {key}"))?;
        if items.iter().any(|item| item["parameters"].is_array()) {
            items.iter().for_each(|item| text += &component(item));
        } else {
            text += "\n| name | what it is |\n|---|---|\n";
            items.iter().for_each(|item| {
                let _ =
                    writeln!(text, "| `{}` | {} |", word(&item["name"]), cell(&item["summary"]));
            });
        }
    }
    Ok(text)
}

/// A heading, the signature, and a table of the parameters.
fn component(item: &Value) -> String {
    let signature = word(&item["name"]);
    let name = signature.split('(').next().unwrap_or_default();
    let mut text =
        format!("\n## {name}\n\n```text\n{signature}\n```\n\n{}\n", word(&item["summary"]));
    let parameters = item["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if !parameters.is_empty() {
        text += "\n| parameter | default | values | meaning |\n|---|---|---|---|\n";
    }
    for parameter in parameters {
        let default = match parameter["default"].as_str() {
            Some(default) => format!("`{default}`"),
            None => "-".to_owned(),
        };
        let [name, range, help] = ["name", "range", "help"].map(|key| cell(&parameter[key]));
        let _ = writeln!(text, "| `{name}` | {default} | {range} | {help} |");
    }
    text
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Text for a cell of a table.
fn cell(value: &Value) -> String {
    word(value).replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_become_tables() {
        let lists = serde_json::json!({ "kernels": [{
            "name": "rbf(gamma)", "summary": "exp(-gamma |x - z|^2)",
            "parameters": [
                { "name": "gamma", "default": null, "range": "scale | auto", "help": "width" },
                { "name": "degree", "default": "3", "range": "1 to 9", "help": "a < b" },
            ],
        }] });
        let page = text(&PAGES[0], &lists).unwrap();
        assert!(page.contains("## rbf\n\n```text\nrbf(gamma)\n```\n\nexp(-gamma |x - z|^2)\n"));
        assert!(page.contains("| `gamma` | - | scale \\| auto | width |\n"));
        assert!(page.contains("| `degree` | `3` | 1 to 9 | a &lt; b |\n"));
        assert!(text(&PAGES[1], &lists).is_err());
    }
}
