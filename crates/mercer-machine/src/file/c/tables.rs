//! Scores of machines of tables in C: the bin of each value, its entry, and four sums. The arithmetic is the specified
//! one of `mercer-query`'s `tables.rs`, so that scores have the same bits; only `double` is written.

use std::io::Write;

use super::{Real, inexpressible, write_list};
use crate::bins::{Bins, Spacing};
use crate::{Machine, MachineError, Score};

/// The functions `bin`, `entry` and `table_scores`, and their constants.
pub(super) fn write(
    machine: &Machine,
    grid: &Bins,
    real: Real,
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    if real == Real::Float {
        return Err(inexpressible("scores that are tables in float; the format c has them"));
    }
    writeln!(out, "#define TABLE_RANK {}", grid.rank())?;
    writeln!(out, "#define TABLE_LAST {}\n", grid.count() - 1)?;
    let single = |value: &f32| Real::Float.literal(f64::from(*value));
    let mut weights: Vec<f32> = Vec::new();
    for score in machine.scores() {
        if let Score::Additive { weights: own, .. } = score {
            weights.extend_from_slice(own);
        }
    }
    write_list(out, "float table_weights[]", &weights, single)?;
    write_spacing(grid.spacing(), out)?;
    if grid.is_one_hot() {
        writeln!(out, "{ONE_HOT}")?;
    } else {
        write_list(out, "float table_encoding[]", grid.encoding(), single)?;
        writeln!(out, "{ENCODED}")?;
    }
    writeln!(out, "{SCORES}")?;
    Ok(())
}

fn write_spacing(spacing: &Spacing, out: &mut dyn Write) -> Result<(), MachineError> {
    match spacing {
        Spacing::Power { top, exponent } => {
            let share = if *exponent == 2 { "sqrt(share > 0 ? share : 0)" } else { "share" };
            writeln!(out, "static unsigned bin(unsigned column, double value) {{")?;
            writeln!(out, "    const double share = value / {top:?};")?;
            writeln!(out, "    volatile double scaled = {share} * TABLE_LAST;")?;
            writeln!(out, "    const double at = scaled + 0.5;\n    (void)column;")?;
            writeln!(out, "    if (!(at >= 1)) return 1;")?;
            writeln!(out, "    if (at >= TABLE_LAST) return TABLE_LAST;")?;
            writeln!(out, "    return (unsigned)at;\n}}\n")?;
        }
        Spacing::Quantile { starts, cuts } => {
            if u32::try_from(cuts.len()).is_err() {
                return Err(inexpressible("more than 2^32 cuts"));
            }
            write_list(out, "unsigned cut_starts[]", starts, |start| Ok(start.to_string()))?;
            write_list(out, "double cuts[]", cuts, |cut| Real::Double.literal(*cut))?;
            writeln!(out, "{QUANTILE}")?;
        }
    }
    Ok(())
}

/// The first and the last number of a column are its smallest and largest value, not cuts.
const QUANTILE: &str = "\
static unsigned bin(unsigned column, double value) {
    const unsigned start = cut_starts[column], end = cut_starts[column + 1];
    unsigned long low = start + 1ul, high = end - 1ul, inner, ranks;
    if (start == end) return TABLE_LAST;
    inner = high - low;
    while (low < high) {
        const unsigned long middle = low + (high - low) / 2;
        if (cuts[middle] < value) low = middle + 1;
        else high = middle;
    }
    ranks = low - start;
    return (unsigned)((TABLE_LAST * ranks + inner) / (inner + 1));
}
";

const ONE_HOT: &str = "\
static double entry(const float *weights, unsigned level) {
    return 0.0 + (double)weights[level - 1];
}
";

const ENCODED: &str = "\
static double entry(const float *weights, unsigned level) {
    const float *encoding = table_encoding + (unsigned long)level * TABLE_RANK;
    double sum = 0;
    unsigned r;
    for (r = 0; r < TABLE_RANK; r++) sum += (double)weights[r] * (double)encoding[r];
    return sum;
}
";

/// Entry i of the values that are not zero goes to sum i mod 4.
const SCORES: &str = "\
static void table_scores(const mercer_real *row, mercer_real *scores) {
    double sums[MERCER_SCORES][4] = {{0}};
    unsigned column, score, count = 0;
    for (column = 0; column < MERCER_COLUMNS; column++) {
        unsigned level;
        if (row[column] == 0) continue;
        level = bin(column, row[column]);
        for (score = 0; score < MERCER_SCORES; score++) {
            const unsigned long at = (unsigned long)score * MERCER_COLUMNS + column;
            sums[score][count % 4] += entry(table_weights + at * TABLE_RANK, level);
        }
        count++;
    }
    for (score = 0; score < MERCER_SCORES; score++)
        scores[score] = (sums[score][0] + sums[score][1]) + (sums[score][2] + sums[score][3]);
}
";
