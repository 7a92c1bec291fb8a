//! One working set, solved in changes: rows, gradient and limits in, changes out.
//! Which rows form a working set is decided in `working_set` and `kmeans`.

use std::time::Duration;

use mercer_data::Matrix;
use mercer_kernel::KernelRef;

use crate::control::Control;
use crate::gram::{Gram, Source, View};
use crate::solvers::{GramProblem, GramSolver, Method, StartPoint, StoppingTest};
use crate::{Cancel, Qp, Stop, TrainError};

/// Limits of [`solve_changes`].
#[derive(Debug, Clone)]
pub struct ChangeOptions {
    /// The violation at which it ends.
    pub tolerance: f64,
    /// Bytes for packed rows and cached kernel values.
    pub memory: usize,
    /// Ends after this time with the best changes so far.
    pub time_limit: Option<Duration>,
    /// Ends after this many pair steps.
    pub max_iterations: Option<u64>,
    /// Ends it from another thread.
    pub cancel: Cancel,
}

impl Default for ChangeOptions {
    /// Tolerance 1e-3, 256 MiB, no limits.
    fn default() -> Self {
        Self {
            tolerance: 1e-3,
            memory: 256 << 20,
            time_limit: None,
            max_iterations: None,
            cancel: Cancel::new(),
        }
    }
}

/// Changes of the variables of a working set.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The change of each variable.
    pub changes: Vec<f64>,
    /// Pair steps.
    pub iterations: u64,
    /// Kernel values computed.
    pub kernel_values: u64,
    /// Largest number of bytes of packed rows and cached kernel values.
    pub peak_memory_bytes: usize,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
}

/// Solves `min ½ D'KD + F'D` with `lower <= D <= upper` and constant sums over some rows, by `smo` from `D = start`.
///
/// `program` holds the gradient F as its linear term and the limits of the changes, such as [`super::change_program`]
/// makes.
///
/// # Errors
/// If the rows do not fit the program, or a kernel value of a row with itself is not finite.
///
/// ```
/// use mercer_data::Matrix;
/// use mercer_train::Qp;
/// use mercer_train::decomposition::{ChangeOptions, solve_changes};
/// let kernel = mercer_kernel::parse("linear").unwrap();
/// let rows = Matrix::dense(1, vec![1.0, -1.0]).unwrap();
/// let program = Qp {
///     rows: 2,
///     lower: vec![0.0, -10.0],
///     upper: vec![10.0, 0.0],
///     linear: vec![-1.0, 1.0],
///     start: vec![0.0; 2],
///     groups: vec![0; 2],
/// };
/// let found = solve_changes(&kernel, &rows, &program, &ChangeOptions::default()).unwrap();
/// assert!((found.changes[0] - 0.5).abs() < 1e-3);
/// assert_eq!(found.changes[0], -found.changes[1]);
/// ```
pub fn solve_changes(
    kernel: &KernelRef,
    rows: &Matrix,
    program: &Qp,
    options: &ChangeOptions,
) -> Result<Changes, TrainError> {
    let smo = crate::solver("smo").expect("smo is registered");
    let Method::Gram(solver) = smo.method() else {
        unreachable!("smo works on kernel values of pairs")
    };
    solve_changes_by(solver, kernel, rows, program, options)
}

/// The same by a given solver.
pub(super) fn solve_changes_by(
    solver: &dyn GramSolver,
    kernel: &KernelRef,
    rows: &Matrix,
    program: &Qp,
    options: &ChangeOptions,
) -> Result<Changes, TrainError> {
    check_program(rows, program)?;
    let source = Source::new(kernel, rows);
    source.check_diagonal()?;
    let mut gram = Gram::new(source, vec![(0..program.rows as u32).collect()], options.memory);
    let mut observer = |_: &crate::Progress| {};
    let mut control = Control::new(&mut observer, options.cancel.clone());
    control.tolerance = options.tolerance;
    control.time_limit = options.time_limit;
    control.max_iterations = options.max_iterations;
    let mut problem = GramProblem {
        gram: &mut gram,
        view: View::new(&[0]),
        qp: program,
        from: StartPoint::Point(program.start.clone()),
        shared: false,
        stopping_test: StoppingTest::Sampled,
        memory: options.memory,
        file: None,
    };
    let solution = solver.solve(&mut problem, &mut control)?;
    Ok(Changes {
        changes: solution.beta,
        iterations: control.iterations,
        kernel_values: gram.computed(),
        peak_memory_bytes: gram.peak_bytes(),
        stop: solution.stop,
    })
}

/// Refuses a program that does not fit the rows.
pub(super) fn check_program(rows: &Matrix, program: &Qp) -> Result<(), TrainError> {
    let lengths = [&program.lower, &program.upper, &program.linear].map(Vec::len);
    let fits = rows.rows() == program.rows
        && program.rows > 0
        && program.len().is_multiple_of(program.rows)
        && lengths == [program.len(); 3]
        && program.groups.len() == program.len();
    if fits {
        return Ok(());
    }
    let found = program.rows;
    let formulation = "the program of the changes".to_owned();
    Err(TrainError::TargetCount { formulation, rows: rows.rows(), found })
}
