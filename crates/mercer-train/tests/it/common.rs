//! Data and slow references for the tests.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT, ZeroConeT,
};
use mercer_data::{Dataset, Matrix, Row, Targets, read};
use mercer_kernel::KernelRef;
use mercer_machine::{Answer, Machine, Score};
use mercer_train::{FormulationRef, Qp, Subproblem};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the data directory, or a note that the test is skipped.
pub fn shared(name: &str) -> Option<Dataset> {
    let folder =
        std::env::var_os("MERCER_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let path = root().join(folder).join(name);
    if !path.is_file() {
        println!("SKIPPED: {name} is not in the data directory (MERCER_DATA)");
        return None;
    }
    Some(read::dataset(&path, &read::Options::default()).unwrap())
}

pub fn repository(name: &str) -> Dataset {
    read::dataset(&root().join("datasets").join(name), &read::Options::default()).unwrap()
}

/// Abalone with one column for each sex, and rings as the target.
pub fn abalone() -> Dataset {
    let text = std::fs::read_to_string(root().join("datasets/abalone/abalone.csv")).unwrap();
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        values.extend(["F", "I", "M"].map(|sex| f64::from(u8::from(fields[0] == sex))));
        let numbers: Vec<f64> = fields[1..].iter().map(|field| field.parse().unwrap()).collect();
        values.extend(&numbers[..7]);
        targets.push(numbers[7]);
    }
    let examples = Matrix::dense(10, values).unwrap();
    minmax(&Dataset { examples, targets: Targets::Numbers(targets), names: None })
}

/// Columns between 0 and 1.
pub fn minmax(data: &Dataset) -> Dataset {
    let columns = data.examples.columns();
    let at = |row: usize, column: usize| data.examples.row(row).get(column);
    let mut values = vec![0.0; data.examples.rows() * columns];
    for column in 0..columns {
        let all = (0..data.examples.rows()).map(|row| at(row, column));
        let low = all.clone().fold(f64::INFINITY, f64::min);
        let high = all.fold(f64::NEG_INFINITY, f64::max);
        for row in 0..data.examples.rows() {
            let scale = if high > low { high - low } else { 1.0 };
            values[row * columns + column] = (at(row, column) - low) / scale;
        }
    }
    let examples = Matrix::dense(columns, values).unwrap();
    Dataset { examples, targets: data.targets.clone(), names: None }
}

/// Rows of a dataset.
pub fn select(data: &Dataset, rows: &[usize]) -> Dataset {
    let targets = match &data.targets {
        Targets::Absent => Targets::Absent,
        Targets::Numbers(all) => Targets::Numbers(rows.iter().map(|row| all[*row]).collect()),
        Targets::Names(all) => Targets::Names(rows.iter().map(|row| all[*row].clone()).collect()),
    };
    Dataset { examples: data.examples.select(rows.iter().copied()), targets, names: None }
}

/// All rows but every fourth, and every fourth.
pub fn split(data: &Dataset) -> (Dataset, Dataset) {
    let (asked, kept): (Vec<usize>, Vec<usize>) =
        (0..data.examples.rows()).partition(|row| row % 4 == 3);
    (select(data, &kept), select(data, &asked))
}

pub fn numbers(data: &Dataset) -> &[f64] {
    match &data.targets {
        Targets::Numbers(numbers) => numbers,
        _ => panic!("the targets are numbers"),
    }
}

/// Classes by number, where they are words.
pub fn numbered(data: &Dataset, plus: &str) -> Dataset {
    let Targets::Names(names) = &data.targets else { return data.clone() };
    let targets = names.iter().map(|name| if name == plus { 1.0 } else { -1.0 }).collect();
    Dataset { examples: data.examples.clone(), targets: Targets::Numbers(targets), names: None }
}

/// Scores straight from the definition.
pub fn scores(machine: &Machine, row: Row<'_>) -> Vec<f64> {
    let supports = machine.supports();
    let kernel: Vec<f64> =
        supports.iter().map(|support| machine.kernel().value(support, row)).collect();
    let score = |score: &Score| match score {
        Score::Expansion { supports, coefficients, offset } => {
            let terms = supports.iter().zip(coefficients);
            terms.map(|(at, beta)| beta * kernel[*at as usize]).sum::<f64>() - offset
        }
        _ => panic!("smo makes expansions"),
    };
    machine.scores().iter().map(score).collect()
}

/// The answer as a number: class name, value, or +1 and -1.
pub fn answer(machine: &Machine, row: Row<'_>) -> f64 {
    match machine.verdict(&scores(machine, row)).answer {
        Answer::Class(class) => machine.classes()[class].to_string().parse().unwrap(),
        Answer::Value(value) => value,
        Answer::Inlier(inside) => {
            if inside {
                1.0
            } else {
                -1.0
            }
        }
    }
}

/// `β'Kβ` of one score, from the definition.
pub fn quadratic(machine: &Machine, number: usize) -> f64 {
    let Score::Expansion { supports, coefficients, .. } = &machine.scores()[number] else {
        panic!("solvers make expansions")
    };
    let mut sum = 0.0;
    for (i, a) in supports.iter().zip(coefficients) {
        for (j, b) in supports.iter().zip(coefficients) {
            let row = |at: u32| machine.supports().row(at as usize);
            sum += a * b * machine.kernel().value(row(*i), row(*j));
        }
    }
    sum
}

/// The quadratic program of all rows, and its best objective. Weights are 1 unless given.
pub fn best(
    formulation: &FormulationRef,
    kernel: &KernelRef,
    data: &Dataset,
    weights: Option<Vec<f64>>,
) -> (Qp, f64) {
    // Classes come in blocks, +1 first; other tasks in order.
    let targets = numbers(data);
    let mut order: Vec<usize> = (0..targets.len()).collect();
    if formulation.spec().name().contains("svc") {
        order.sort_by_key(|row| targets[*row] < 0.0);
    }
    let weights = weights.unwrap_or_else(|| vec![1.0; targets.len()]);
    let pick = |values: &[f64]| -> Vec<f64> { order.iter().map(|row| values[*row]).collect() };
    let (targets, weights) = (pick(targets), pick(&weights));
    let qp = formulation
        .quadratic_program(&Subproblem { name: "all", targets: &targets, weights: &weights })
        .unwrap();
    let row = |at: usize| data.examples.row(order[at]);
    let best = reference(&qp, |i, j| kernel.value(row(i), row(j)));
    (qp, best)
}

/// The best objective of a quadratic program.
#[allow(non_snake_case, reason = "matrices of the solver")]
pub fn reference(qp: &Qp, K: impl Fn(usize, usize) -> f64) -> f64 {
    let n = qp.len();
    let P: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| if i <= j { K(i % qp.rows, j % qp.rows) } else { 0.0 }).collect())
        .collect();
    let groups = qp.group_count();
    let mut A = vec![vec![0.0; n]; groups + 2 * n];
    let mut b = vec![0.0; groups + 2 * n];
    for v in 0..n {
        let group = usize::from(qp.groups[v]);
        A[group][v] = 1.0;
        b[group] += qp.start[v];
        A[groups + v][v] = 1.0;
        b[groups + v] = qp.upper[v];
        A[groups + n + v][v] = -1.0;
        b[groups + n + v] = -qp.lower[v];
    }
    let (P, A) = (CscMatrix::from(&P), CscMatrix::from(&A));
    let cones = [ZeroConeT(groups), NonnegativeConeT(2 * n)];
    let settings = DefaultSettingsBuilder::default().verbose(false).build().unwrap();
    let mut solver = DefaultSolver::new(&P, &qp.linear, &A, &b, &cones, settings).unwrap();
    solver.solve();
    solver.solution.obj_val
}
