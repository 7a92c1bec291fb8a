//! Fig. 1 (a query and its nearest supports, with partial sums) and Fig. 3 (score against steps, with the thresholds).

use std::fmt::Write as _;

use anyhow::Context as _;
use mercer::data::{Matrix, Row};
use mercer::machine::{Array, Machine, PlanSections, Score, Section};
use mercer::query::Plan;
use mercer_report::svg::{Series, escape, plot};

/// Supports shown beside the query.
const SHOWN: usize = 8;
/// Side of a picture, and of its frame, in units of the drawing.
const SIDE: f64 = 84.0;
const FRAME: f64 = 100.0;

/// Fig. 3: the exact score of each query against the steps after which it stopped, and the thresholds.
pub(super) fn score_against_steps(
    plan: &Plan,
    sections: &PlanSections,
    queries: &Matrix,
) -> anyhow::Result<String> {
    let scores = plan.scores(queries)?;
    let records = plan.records(queries)?;
    let steps = records.iter().map(|one| one.last().map_or(0, |record| record.progress) as f64);
    let dots = steps.zip(scores).collect();
    let section = sections.sections.first().context("a plan has a stage")?;
    let line = |name: &str, label: &str| {
        let ends = section.f64s(name).unwrap_or_default();
        Series::line(label, (1..).zip(ends).map(|(k, end)| (f64::from(k), *end)).collect())
    };
    let series = [Series::dots("queries", dots), line("low", "L_k"), line("high", "H_k")];
    let title = "Score f(x) against the steps k after which the query stops";
    Ok(plot(title, "supports visited k", "exact score f(x)", &series))
}

/// A support beside the query.
struct Neighbour {
    support: usize,
    beta: f64,
    approximate: f64,
    exact: f64,
    /// The sum after it.
    sum: f64,
}

/// Fig. 1: one query, its nearest supports by approximate kernel values, and the partial sums.
pub(super) fn nearest_supports(
    machine: &Machine,
    sections: &PlanSections,
    plan: &Plan,
    query: Row<'_>,
) -> anyhow::Result<String> {
    let section = sections.sections.first().context("a plan has a stage")?;
    let approximate = approximate_kernels(machine, section, plan, query)?;
    let Score::Expansion { supports, coefficients, offset } = &machine.scores()[0] else {
        anyhow::bail!("a score that is an expansion")
    };
    let mut order: Vec<usize> = (0..supports.len()).collect();
    let near = |member: usize| approximate[supports[member] as usize];
    order.sort_by(|a, b| near(*b).total_cmp(&near(*a)).then(a.cmp(b)));
    let mut sum = -offset;
    let mut shown = Vec::new();
    for member in order.into_iter().take(SHOWN) {
        let support = supports[member] as usize;
        let exact = machine.kernel().value(machine.supports().row(support), query);
        sum += coefficients[member] * exact;
        let (beta, approximate) = (coefficients[member], approximate[support]);
        shown.push(Neighbour { support, beta, approximate, exact, sum });
    }
    Ok(draw(machine, query, *offset, &shown))
}

/// Kernel values from products in the directions of the section's basis.
fn approximate_kernels(
    machine: &Machine,
    section: &Section,
    plan: &Plan,
    query: Row<'_>,
) -> anyhow::Result<Vec<f64>> {
    let Some(Array::F32(basis)) = section.array("basis") else {
        anyhow::bail!("the figure needs principal directions")
    };
    let packed = plan.exact_stage().packed();
    let live = packed.live();
    let coordinates = |row: Row<'_>| -> Vec<f64> {
        let mut dense = vec![0.0; machine.columns().max(row.width())];
        row.write_dense(&mut dense);
        let of = |direction: &[f32]| {
            let pairs = direction.iter().zip(live);
            pairs.map(|(v, column)| f64::from(*v) * dense[*column as usize]).sum()
        };
        basis.chunks_exact(live.len()).map(of).collect()
    };
    let own = coordinates(query);
    let product =
        |row: Row<'_>| -> f64 { coordinates(row).iter().zip(&own).map(|(a, b)| a * b).sum() };
    let mut values: Vec<f64> = machine.supports().iter().map(product).collect();
    let form = machine.kernel().form();
    let finish = form.finish().context("a kernel of products")?;
    let square: f64 = query.nonzeros().map(|(_, x)| x * x).sum();
    finish.finish(plan.exact_stage().isa(), &mut values, square, packed.squared_norms());
    Ok(values)
}

fn draw(machine: &Machine, query: Row<'_>, offset: f64, shown: &[Neighbour]) -> String {
    let width = FRAME * (shown.len() + 1) as f64 + 20.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} 190\" width=\"{width}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<title>A query and its nearest supports</title>\n"
    );
    picture(&mut out, query, machine.columns(), 10.0);
    text(&mut out, 10.0, 18.0, "query");
    text(&mut out, 10.0, 138.0, &format!("-b = {:.4}", -offset));
    for (place, one) in (1..).zip(shown) {
        let left = 10.0 + FRAME * f64::from(place);
        picture(&mut out, machine.supports().row(one.support), machine.columns(), left);
        text(&mut out, left, 18.0, &format!("g{place} = {:.3}", one.sum));
        text(&mut out, left, 138.0, &format!("β = {:.3}", one.beta));
        text(&mut out, left, 154.0, &format!("K~ = {:.4}", one.approximate));
        text(&mut out, left, 170.0, &format!("K = {:.4}", one.exact));
    }
    out.push_str("</svg>\n");
    out
}

fn text(out: &mut String, x: f64, y: f64, text: &str) {
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">{}</text>", escape(text));
}

/// A square picture of the values of a row, the largest black.
fn picture(out: &mut String, row: Row<'_>, columns: usize, left: f64) {
    let count = (columns as f64).sqrt().ceil().max(1.0);
    let size = SIDE / count;
    let largest = row.nonzeros().map(|(_, x)| x).fold(f64::MIN_POSITIVE, f64::max);
    let _ = writeln!(
        out,
        "<g class=\"picture\"><rect x=\"{left}\" y=\"30\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" \
         stroke=\"#999\"/>"
    );
    for (column, x) in row.nonzeros().filter(|(_, x)| *x > 0.0) {
        let (across, down) = (f64::from(column) % count, (f64::from(column) / count).floor());
        let (x0, y0) = (left + across * size, 30.0 + down * size);
        let shade = (255.0 * (1.0 - x / largest)) as u8;
        let _ = writeln!(
            out,
            "<rect x=\"{x0:.1}\" y=\"{y0:.1}\" width=\"{size:.2}\" height=\"{size:.2}\" \
             fill=\"rgb({shade},{shade},{shade})\"/>"
        );
    }
    out.push_str("</g>\n");
}
