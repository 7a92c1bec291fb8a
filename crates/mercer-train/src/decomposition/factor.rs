//! A working set solved over a low-rank factor of its kernel matrix, by the interior point method: the chunking of \[FS01\].
//! What the factor leaves out is corrected by the length of the step, which `sums` takes from exact kernel values.

use mercer_data::Matrix;
use mercer_kernel::KernelRef;
use mercer_kernel::factor::{Blocked, Draw, GrowthLimit};

use super::changes::{ChangeOptions, Changes, check_program};
use crate::gram::Source;
use crate::low_rank::{FactorRows, Systems, interior};
use crate::{Qp, Stop, TrainError};

/// Rank of the factor, at most.
const RANK: usize = 1000;
/// The factor stops growing where this share of the trace is left.
const TRACE_SHARE: f64 = 1e-6;
/// Pivots below this share of the mean of the diagonal are rounding errors.
const PIVOT_FLOOR: f64 = 1e-13;
/// Relative gap at which the interior point method ends.
const GAP: f64 = 1e-3;

/// Changes of the variables of a working set, near those that minimise its program.
///
/// # Errors
/// As [`super::solve_changes`].
pub(super) fn changes_by_factor(
    kernel: &KernelRef,
    rows: &Matrix,
    program: &Qp,
    options: &ChangeOptions,
    seed: u64,
) -> Result<Changes, TrainError> {
    check_program(rows, program)?;
    let source = Source::new(kernel, rows);
    source.check_diagonal()?;
    let all: Vec<u32> = (0..program.rows as u32).collect();
    let measured = FactorRows::new(&source, &all, true);
    let limit = GrowthLimit { rank: RANK.min(all.len()), trace_share: TRACE_SHARE };
    let mut factor = Blocked::<f64>::new(&source.diagonal, limit.rank, PIVOT_FLOOR, seed, None);
    let began = std::time::Instant::now();
    let stop = || match options.time_limit {
        _ if options.cancel.is_cancelled() => Some(Stop::Cancelled),
        Some(limit) if began.elapsed() >= limit => Some(Stop::TimeLimit),
        _ => None,
    };
    factor.grow(&measured, Draw::Random, limit, &mut |_| stop().is_none());
    let mut iterations = 0;
    let solution = interior::solve(
        program,
        factor.store(),
        &mut interior::InteriorOptions {
            systems: Systems::Split,
            variant: interior::Variant::Improved,
            tolerance: GAP,
            monitor: &mut |made, _| {
                iterations = made as u64;
                stop()
            },
        },
    );
    Ok(Changes {
        changes: program.repaired(&solution.identified),
        iterations,
        kernel_values: (factor.rank() * program.rows) as u64,
        peak_memory_bytes: 2 * size_of::<f64>() * factor.rank() * program.rows,
        stop: stop(),
    })
}
