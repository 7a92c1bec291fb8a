//! \[OG98\]: fewer vectors. The paper's table of results (machines, regression for several eps, primal reformulation),
//! every method on every goal, every method at equal size, and the certified cascade of each compressed machine.
//! The paper's Skin and Electrons data are not public, and the numbers of its tables are lost in the text we have.

mod figure;
mod goals;
mod results;
mod sizes;

use mercer::compile::{CompileError, Compressed, Compression, FittingData, Goal, Progress, Watch};
use mercer::data::{Dataset, Matrix};
use mercer::kernel::parse;
use mercer::machine::Machine;
use mercer::train::{Report, Trained, Training, formulation, solver, train};

use crate::tasks::{self, Task};
use crate::{Comparison, Interrupted, Paper, Session};

pub(crate) static PAPER: Paper = Paper {
    key: "og98",
    title: "E. Osuna and F. Girosi, Reducing the Run-time Complexity of Support Vector Machines, 1998",
    quick: &["Ripley linear", "Ripley RBF", "results", "goals", "sizes"],
    run,
};

/// Parts of the reproduction, by the names that `--only` takes beside those of machines.
const PARTS: [&str; 4] = ["results", "goals", "sizes", "cascades"];

/// The paper's numbers: the text we have has lost them.
const LOST: Option<f64> = None;

/// Rows of the paper whose data are not public.
const NOT_PUBLIC: [&str; 2] = ["Skin", "Electrons"];

/// A machine of the table, as trained here.
struct CompressionTask {
    task: Task,
    machine: Machine,
    data: Dataset,
    queries: Matrix,
    report: Report,
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    let tasks = tasks::of(PAPER.key)?;
    let names = tasks.iter().map(|task| task.name.as_str()).chain(NOT_PUBLIC);
    let selection = Selection::new(session, names.collect());
    let data = session.data();
    for task in tasks.iter().filter(|task| selection.wants_machine(&task.name)) {
        let (data, queries) = match task.parts(data.as_deref())? {
            Ok(parts) => parts,
            Err(missing) => {
                session.leave_out(&task.name, &missing);
                let row = Comparison::new(&task.name, "", "supports");
                session.compare(row.note(format!("not computed: {missing}")));
                continue;
            }
        };
        let Trained { machine, report, .. } = train_task(task, &data, "smo", session)?;
        let mut trained = CompressionTask { task: task.clone(), machine, data, queries, report };
        if selection.wants_part("results") {
            results::run(&trained, session)?;
        }
        if selection.wants_part("goals") && task.goals {
            goals::run(&trained, session)?;
        }
        if selection.wants_part("sizes") {
            sizes::run(&mut trained, session)?;
        }
        if selection.wants_part("cascades") {
            sizes::cascades(&trained, session)?;
        }
        figure::draw(&trained, session)?;
    }
    for name in NOT_PUBLIC.iter().filter(|name| selection.wants_machine(name)) {
        let note = "the data are not public, and the paper's number is lost in the text we have";
        session.compare(Comparison::new(*name, "smo", "supports").note(note));
    }
    Ok(())
}

/// What `--only` selects: machines, parts, or both.
struct Selection<'s> {
    only: &'s [String],
    names_machine: bool,
    names_part: bool,
}

impl<'s> Selection<'s> {
    fn new(session: &'s Session<'_>, machines: Vec<&str>) -> Self {
        let only = &session.options.only;
        let names = |group: &[&str]| only.iter().any(|name| group.contains(&name.as_str()));
        Self { only, names_machine: names(&machines), names_part: names(&PARTS) }
    }

    fn wants(&self, name: &str, names_group: bool, names_other: bool) -> bool {
        let is_named = self.only.iter().any(|wanted| wanted == name);
        is_named || self.only.is_empty() || (!names_group && names_other)
    }

    fn wants_machine(&self, name: &str) -> bool {
        self.wants(name, self.names_machine, self.names_part)
    }

    fn wants_part(&self, name: &str) -> bool {
        self.wants(name, self.names_part, self.names_machine)
    }
}

/// Trains the machine of a task with a solver.
fn train_task(
    task: &Task,
    data: &Dataset,
    solver_text: &str,
    session: &Session<'_>,
) -> anyhow::Result<Trained> {
    let (kernel, c_svc) = (parse(&task.kernel)?, formulation(&format!("c_svc(C={})", task.c))?);
    let training = Training::default()
        .solver(solver(solver_text)?)
        .tolerance(task.tolerance)
        .cancel(session.cancel());
    let status = session.status();
    status.show(&format!("{}: {solver_text}", task.name));
    let trained = train(data, &kernel, &c_svc, &training, &mut |_| {})?;
    session.check()?;
    Ok(trained)
}

impl CompressionTask {
    /// A row of the table of this machine.
    fn row(&self, method: &str, measure: impl Into<String>) -> Comparison {
        Comparison::new(&self.task.name, method, measure).paper(LOST)
    }

    /// Compresses the machine by one method, or tells why the method refuses.
    fn compress(
        &self,
        method: &str,
        goal: Goal,
        sample: Option<&Matrix>,
        session: &Session<'_>,
    ) -> anyhow::Result<Result<Compressed, String>> {
        let status = session.status();
        let watch = |progress: Progress| {
            let Progress { what, done, most } = progress;
            status.show(&format!("{}: {method}, {what}, {done} of at most {most}", self.task.name));
            !session.is_stopped()
        };
        let made = Compression::new(&self.machine, mercer::compile::compressor(method)?)
            .goal(goal)
            .fitting_data(FittingData { sample, ..FittingData::default() })
            .keep_vectors(true)
            .watch(Watch::new(&watch))
            .run();
        refused(made)
    }
}

/// The sentence of a method that refuses; other errors stay errors.
fn refused<T>(made: Result<T, CompileError>) -> anyhow::Result<Result<T, String>> {
    match made {
        Err(CompileError::Interrupted) => Err(Interrupted::default().into()),
        other => Ok(other.map_err(|error| error.to_string())),
    }
}
