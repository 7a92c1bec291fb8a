//! The paper's figure of Ripley's rows: hyperplane, margins and support vectors, and the two vectors that are enough.
//! Drawn for machines of two columns whose kernel is linear.

use std::fmt::Write as _;

use mercer::data::{Matrix, Targets};
use mercer::machine::Machine;
use mercer::query::Plan;

use super::{CompressionTask, PAPER, train_task};
use crate::Session;

/// Width and height of the picture.
const SIDE: f64 = 460.0;

/// Draws the machine if it is one of two columns with a linear kernel.
pub(super) fn draw(trained: &CompressionTask, session: &Session<'_>) -> anyhow::Result<()> {
    let is_plane = trained.data.examples.columns() == 2 && trained.task.kernel == "linear";
    if !session.wants_figures() || !is_plane {
        return Ok(());
    }
    let primal = train_task(&trained.task, &trained.data, "primal", session)?;
    let svg = picture(trained, &primal.machine)?;
    session.figure(&PAPER, "ripley", &svg)
}

/// Rows as pairs.
fn pairs(rows: &Matrix) -> Vec<[f64; 2]> {
    let dense = rows.to_dense();
    dense.as_dense().unwrap_or_default().chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()
}

fn picture(trained: &CompressionTask, primal: &Machine) -> anyhow::Result<String> {
    let points = pairs(&trained.data.examples);
    let side = |column: usize| {
        let values = points.iter().map(|point| point[column]);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        (low, values.fold(f64::NEG_INFINITY, f64::max))
    };
    let ((left, right), (bottom, top)) = (side(0), side(1));
    let scale = (SIDE - 40.0) / (right - left).max(top - bottom).max(1e-300);
    let place = |[x, y]: [f64; 2]| (20.0 + (x - left) * scale, SIDE - 20.0 - (y - bottom) * scale);
    let mut marks = String::new();
    let Targets::Numbers(signs) = &trained.data.targets else {
        anyhow::bail!("targets are numbers")
    };
    for (point, sign) in points.iter().zip(signs) {
        let ((x, y), colour) = (place(*point), if *sign > 0.0 { "#1f6fb4" } else { "#c2571a" });
        let _ = write!(marks, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>");
    }
    for (machine, radius, colour) in [(&trained.machine, 5.0, "#888"), (primal, 8.0, "#d00")] {
        for point in pairs(machine.supports()) {
            let (x, y) = place(point);
            let _ = write!(
                marks,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"none\" stroke=\"{colour}\"/>"
            );
        }
    }
    // f is linear: three scores give its slopes.
    let corners = Matrix::dense(2, vec![0.0, 0.0, 1.0, 0.0, 0.0, 1.0])?;
    let f = Plan::exact(&trained.machine).scores(&corners)?;
    let (a, b) = (f[1] - f[0], f[2] - f[0]);
    for (level, dash) in
        [(0.0, ""), (1.0, " stroke-dasharray=\"5 4\""), (-1.0, " stroke-dasharray=\"5 4\"")]
    {
        let y = |x: f64| (level - f[0] - a * x) / b;
        let ((x1, y1), (x2, y2)) = (place([left, y(left)]), place([right, y(right)]));
        let _ = write!(
            marks,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#333\"{dash}/>"
        );
    }
    let (before, after) = (trained.machine.supports().rows(), primal.supports().rows());
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{SIDE}\" height=\"{}\" \
         font-family=\"sans-serif\" font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{marks}\
         <text x=\"20\" y=\"{}\">{}: {before} support vectors (grey), {after} vectors of `primal` (red)</text></svg>",
        SIDE + 24.0,
        SIDE + 14.0,
        mercer_report::svg::escape(&trained.task.name),
    ))
}
