//! The table as text.

use super::measure::StepsRow;

/// The machine's support vectors, beside the paper's.
pub(super) fn title(name: &str, ours: [usize; 4], paper: Option<[usize; 4]>) -> String {
    let text = |[all, bounded, positive, negative]: [usize; 4]| {
        format!("{all} supports ({bounded} bounded), {positive} / {negative}")
    };
    let paper = paper.map_or(String::new(), |counts| format!("; the paper: {}", text(counts)));
    format!("\n{name}: {}{paper}", text(ours))
}

/// Names of the columns.
pub(super) fn header() -> String {
    format!(
        "{:8} {:13} {:>4}  {:<22} {:<22} {:>4} {:>6} {:>7} {:>6} {:>6} {:>5} {:>5} {:>6}",
        "machine",
        "method",
        "m",
        "k min,mean,median,max",
        "the paper",
        "open",
        "m/k",
        "madds",
        "batch",
        "single",
        "cert",
        "basis",
        "fit s",
    )
}

/// One line.
pub(super) fn row(row: &StepsRow) -> String {
    let four = |steps: Option<[f64; 4]>| {
        let Some([min, mean, median, max]) = steps else { return "-".to_owned() };
        if min.is_nan() {
            return format!("mean {mean:.1}");
        }
        format!("{min:.0}, {mean:.1}, {median:.0}, {max:.0}")
    };
    let per_step = row.steps.map_or(f64::NAN, |steps| row.supports as f64 / steps[1]);
    let number = |x: f64| if x.is_nan() { "-".to_owned() } else { format!("{x:.1}") };
    format!(
        "{:8} {:13} {:>4}  {:<22} {:<22} {:>4} {:>6} {:>7} {:>6.2} {:>6.2} {:>4.0}% {:>5} {:>6.2}{}",
        row.machine,
        row.method,
        row.supports,
        four(row.steps),
        four(row.printed),
        row.uncertified,
        number(per_step),
        number(row.ratio),
        row.batch,
        row.single,
        100.0 * row.certified,
        row.basis_points,
        row.seconds,
        if row.disagreements > 0 {
            format!("  {} DISAGREEMENTS", row.disagreements)
        } else {
            String::new()
        },
    )
}

/// What the columns mean.
pub(super) const FOOTER: &str = "\nk: steps until the sign of a training row is certified, rounding included; rows that no step certifies \
         (open) count as m.\nm/k: the paper's speedup. madds: multiply-adds of an exact answer over those of the \
         steps, k d + k (k + 1) / 2, with exact answers\nfor open rows. batch, single: time of exact answers over \
         that of the plan that stops at the break-even point (basis: its steps; cert: the\nshare it certifies), one \
         thread, the best of the repeats. Orders are tuned on the rows they are measured on, as in the paper.\nThe paper's \
         support counts on MNIST are not reproducible from raw or scaled pixels; Haberman's kernel is almost \
         singular,\nso counts there depend on how the solver stops.";
