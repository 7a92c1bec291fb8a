//! `mercer explain --attribute`: how much each column moved the score of one row. The contributions come from
//! `mercer_query::Attributor`.

use std::num::NonZero;

use anyhow::Context;
use mercer::data::read::{Options, read_first_within};
use mercer::data::{DataError, Matrix};
use mercer::machine::{ClassName, Model};
use mercer::query::{Attribution, Attributor, ExplainedScore, Plan, ScoreChoice};
use mercer_report::svg::{SignedBar, signed_bars};
use mercer_report::{Drawing, Page};
use serde_json::{Value, json};

use super::chunk_of;
use crate::args::{AttributionFlags, Explain};
use crate::commands::input_options;
use crate::console::Console;
use crate::failure::DONE;
use crate::labels;
use crate::output::{line, save_text};
use crate::queries::Queries;

/// Columns that are printed or drawn; `--json` has all of them.
const MOST_COLUMNS: usize = 20;

/// What is known of one column.
struct Column {
    name: String,
    value: f64,
    contribution: f64,
    low: f64,
    high: f64,
}

/// A row with its contributions.
struct Explained<'a> {
    row: usize,
    label: String,
    text: String,
    attribution: &'a Attribution,
    background_rows: usize,
    /// Largest contribution first.
    columns: Vec<Column>,
}

pub(super) fn run(arguments: &Explain, model: &Model, console: &Console) -> anyhow::Result<u8> {
    let source = || arguments.input.data.display().to_string();
    let flags = &arguments.attribution;
    let choice = choice(flags, model.machine.classes())?;
    let options = input_options(&arguments.input);
    let queries = Queries::open(&arguments.input.data, options.clone(), model, console)?;
    let row = arguments.row.get();
    let (chunk, position) = chunk_of(queries.unscaled(), row, &source)?;
    let raw = chunk.select([position]);
    let background = background(flags, options, model, console)?;
    let place =
        || flags.background.as_ref().map_or(String::new(), |path| path.display().to_string());
    let attributor = Attributor::of(model, &background).with_context(place)?;
    let scaled = model.input.prepare(&raw).with_context(source)?;
    let found = attributor.attribute(&scaled, choice).with_context(source)?;
    let scores = Plan::exact(&model.machine).scores(&scaled).with_context(source)?;
    let label = labels::text(model.machine.classes(), model.machine.verdict(&scores).answer);
    let explained = Explained {
        row,
        label,
        text: in_words(found[0].explained, model.machine.classes()),
        attribution: &found[0],
        background_rows: background.rows(),
        columns: columns(&found[0], &raw, model),
    };
    if let Some(file) = &arguments.svg {
        save_text(file, &explained.figure())?;
    }
    if let Some(file) = &arguments.report {
        save_text(file, &explained.page(&arguments.model.display().to_string()))?;
    }
    if console.json {
        println!("{}", explained.object());
    } else {
        explained.print();
    }
    Ok(DONE)
}

fn choice(flags: &AttributionFlags, classes: &[ClassName]) -> anyhow::Result<ScoreChoice> {
    let position = |name: &String| {
        let found = classes.iter().position(|class| class.to_string() == *name);
        found.with_context(|| {
            let known: Vec<String> = classes.iter().map(ToString::to_string).collect();
            match known.as_slice() {
                [] => format!("the model has no class '{name}': it has no classes"),
                _ => format!("the model has no class '{name}'; it knows {}", known.join(", ")),
            }
        })
    };
    let Some(class) = &flags.class else { return Ok(ScoreChoice::Deciding) };
    let against = flags.against.as_ref().map(position).transpose()?;
    Ok(ScoreChoice::Class { class: position(class)?, against })
}

/// The background rows, scaled.
fn background(
    flags: &AttributionFlags,
    options: Options,
    model: &Model,
    console: &Console,
) -> anyhow::Result<Matrix> {
    let path = flags.background.as_ref().context("--attribute needs --background FILE")?;
    // Targets are of no use here, whatever the file of the rows has.
    let options = Options { labels: None, ..options };
    let place = || path.display().to_string();
    let (memory, most) =
        (flags.memory.rows, flags.background_rows.map_or(usize::MAX, NonZero::get));
    let mut queries = Queries::open(path, options, model, console)?;
    let rows = read_first_within(&mut queries, most, memory).with_context(place)?.0.examples;
    // The rows are made dense.
    let columns = rows.columns().max(model.machine.columns());
    let dense = rows.rows().saturating_mul(columns).saturating_mul(size_of::<f64>());
    if dense > memory {
        return Err(DataError::RowsTooLarge { limit: memory }).with_context(place);
    }
    Ok(rows)
}

/// All columns that contribute or hold a value, largest contribution first.
fn columns(attribution: &Attribution, raw: &Matrix, model: &Model) -> Vec<Column> {
    let names = model.input.names.as_deref().unwrap_or(&[]);
    let name =
        |column: usize| names.get(column).cloned().unwrap_or_else(|| (column + 1).to_string());
    let all = attribution.values.iter().zip(&attribution.ranges).enumerate();
    let mut columns: Vec<Column> = all
        .map(|(column, (contribution, range))| Column {
            name: name(column),
            value: raw.row(0).get(column),
            contribution: *contribution,
            low: range.low,
            high: range.high,
        })
        .filter(|column| column.contribution != 0.0 || column.value != 0.0 || column.high > 1e-290)
        .collect();
    columns.sort_by(|a, b| b.contribution.abs().total_cmp(&a.contribution.abs()));
    columns
}

fn in_words(explained: ExplainedScore, classes: &[ClassName]) -> String {
    let name = |class: usize| classes[class].to_string();
    match (explained.class, explained.against) {
        (Some(class), Some(against)) => format!("{} against {}", name(class), name(against)),
        (Some(class), None) => format!("{} against all others", name(class)),
        (None, _) => "the score".to_owned(),
    }
}

impl Explained<'_> {
    fn object(&self) -> Value {
        let columns: Vec<Value> = self
            .columns
            .iter()
            .map(|column| {
                json!({
                    "name": column.name, "value": column.value, "contribution": column.contribution,
                    "low": column.low, "high": column.high,
                })
            })
            .collect();
        json!({
            "row": self.row, "label": self.label, "explained": self.text,
            "explained_score": self.attribution.score, "base_score": self.attribution.base,
            "background_rows": self.background_rows, "contributions": columns,
        })
    }

    fn sentence(&self) -> String {
        format!(
            "the score of {} is {:.6}; its mean over {} background rows is {:.6}",
            self.text, self.attribution.score, self.background_rows, self.attribution.base,
        )
    }

    /// The columns that are shown, and what the others add up to.
    fn shown(&self) -> (&[Column], Option<(usize, f64)>) {
        let most = self.columns.len().min(MOST_COLUMNS);
        let (shown, others) = self.columns.split_at(most);
        let rest: f64 = others.iter().map(|column| column.contribution).sum();
        (shown, (!others.is_empty()).then_some((others.len(), rest)))
    }

    fn print(&self) {
        line(format_args!("row {}: label {}", self.row, self.label));
        line(format_args!("{}", self.sentence()));
        line(format_args!(
            "{:>20} {:>14} {:>14} {:>10}",
            "column", "value", "contribution", "within"
        ));
        let (shown, others) = self.shown();
        for column in shown {
            let half = (column.high - column.low) / 2.0;
            line(format_args!(
                "{:>20} {:>14} {:>14.6} {half:>10.1e}",
                column.name, column.value, column.contribution
            ));
        }
        if let Some((count, rest)) = others {
            line(format_args!(
                "... {count} more columns add up to {rest:.6}; --json prints them all"
            ));
        }
    }

    /// The bars of a drawing, its title and the sentence at its axis.
    fn bars(&self) -> (Vec<SignedBar>, String, String) {
        let (shown, others) = self.shown();
        let mut bars: Vec<SignedBar> = shown
            .iter()
            .map(|column| SignedBar {
                name: format!("{} = {}", column.name, column.value),
                value: column.contribution,
                text: format!("{:+.4}", column.contribution),
            })
            .collect();
        bars.extend(others.map(|(count, rest)| SignedBar {
            name: format!("{count} more columns"),
            value: rest,
            text: format!("{rest:+.4}"),
        }));
        let axis = format!(
            "from {:.4} (mean of the background) to {:.4}",
            self.attribution.base, self.attribution.score
        );
        (bars, format!("row {}, {}", self.row, self.text), axis)
    }

    fn figure(&self) -> String {
        let (bars, title, axis) = self.bars();
        signed_bars(&title, &axis, &bars)
    }

    fn page(&self, model: &str) -> String {
        let mut page = Page::new(&format!("Row {} of {model}", self.row));
        page.text(&format!("Label {}; {}.", self.label, self.sentence()));
        page.text("A bar to the right moved the score towards the first class named, or up; the numbers add up to the difference.");
        let (bars, title, axis) = self.bars();
        page.drawings(&[Drawing::signed_bars(&title, &axis, &bars)]);
        page.heading("All columns");
        let row = |column: &Column| {
            vec![
                column.name.clone(),
                column.value.to_string(),
                format!("{:.9}", column.contribution),
                format!("{:.1e}", (column.high - column.low) / 2.0),
            ]
        };
        let rows: Vec<Vec<String>> = self.columns.iter().map(row).collect();
        page.table(&["column", "value#", "contribution#", "proved to within#"], &rows);
        page.finish()
    }
}
