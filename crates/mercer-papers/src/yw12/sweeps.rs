//! Table 3 (nodes), Figures 3 and 4 (degrees) and section 5.2 (bins), and the ranks of our factors.

use super::PAPER;
use super::methods::{Learner, TrainingRow, measure};
use super::sets::{Set, SetRows};
use crate::{Comparison, Session};
use mercer_report::svg::{Series, lines};

/// Degrees of Figures 3 and 4.
const DEGREES: [usize; 5] = [1, 2, 3, 4, 5];
/// Bins of section 5.2.
const BINS: [usize; 4] = [10, 100, 1000, 10_000];

/// Accuracies of Table 3 on covtype, the one set of it that is at hand: Chebyshev nodes and ad hoc nodes.
const TABLE_3: [(&str, f64); 2] = [("chebyshev", 72.09), ("ad_hoc", 71.14)];

pub(super) fn run(session: &Session<'_>, set: &Set, rows: &SetRows) -> anyhow::Result<()> {
    let sweep = Sweep { session, set, rows };
    for nodes in ["chebyshev", "chebyshev_in_x", "ad_hoc"] {
        for engine in ["printed", "shared"] {
            let text = format!("pmsvm_lut(nodes={nodes}, as={engine})");
            let table = TABLE_3.iter().find(|(name, _)| *name == nodes);
            let paper = table.filter(|_| set.name == "covtype").map(|(_, accuracy)| *accuracy);
            sweep.add(&text, paper, "Table 3")?;
        }
    }
    let mut points = Vec::new();
    for degree in DEGREES {
        let text = format!("pmsvm_lut(degree={degree}, as=printed)");
        let found = sweep.add(&text, None, "Figures 3 and 4, curves without numbers")?;
        points.push((degree as f64, 100.0 * found.accuracy, found.trained.report.seconds));
    }
    for bins in BINS {
        let note = if bins < 1000 {
            "section 5.2: 0.2 to 0.5 % less than with 1,000"
        } else {
            "section 5.2: 10,000 are no better than 1,000"
        };
        sweep.add(&format!("pmsvm_lut(bins={bins}, as=printed)"), None, note)?;
    }
    for rank in [1, 4, 8, 16] {
        sweep.add(&format!("additive(rank={rank})"), None, "ours")?;
    }
    sweep.figures(&points)
}

/// One set on which solvers are tried, all with chi2 at its C.
struct Sweep<'s> {
    session: &'s Session<'s>,
    set: &'s Set,
    rows: &'s SetRows,
}

impl Sweep<'_> {
    /// Accuracy and time of one solver.
    fn add(&self, text: &str, paper: Option<f64>, note: &str) -> anyhow::Result<TrainingRow> {
        let learner = Learner { kernel: "chi2", solver: text };
        let found = measure(self.session, self.rows, learner, self.set.c)?;
        let name = format!("{}, chi2, C = {}", self.set.name, self.set.c);
        let row = |measure: &str| Comparison::new(&*name, text, measure).note(note);
        let accuracy = row("accuracy").ours(100.0 * found.accuracy).unit("%");
        self.session.compare(accuracy.paper(paper));
        self.session.compare(row("training time").ours(found.trained.report.seconds).unit("s"));
        Ok(found)
    }

    /// Figures 3 and 4: accuracy and training time against the degree.
    fn figures(&self, points: &[(f64, f64, f64)]) -> anyhow::Result<()> {
        let accuracy: Vec<(f64, f64)> = points.iter().map(|(x, y, _)| (*x, *y)).collect();
        let time: Vec<(f64, f64)> = points.iter().map(|(x, _, y)| (*x, *y)).collect();
        let name = &self.set.name;
        let stem = name.replace(' ', "-");
        let title = format!("{name}: accuracy against the degree (Fig. 4; Fig. 3 a)");
        let drawn = [Series::line("accuracy, %", accuracy)];
        let svg = lines(&title, "degree", &drawn);
        self.session.figure(&PAPER, &format!("fig4-{stem}"), &svg)?;
        let title = format!("{name}: training time against the degree (Fig. 3 b)");
        let svg = lines(&title, "degree", &[Series::line("training time, s", time)]);
        self.session.figure(&PAPER, &format!("fig3-{stem}"), &svg)
    }
}
