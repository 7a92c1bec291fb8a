//! Training on kernel values of pairs: question by question, with checkpoints and warm starts.

use mercer_data::Dataset;
use mercer_kernel::KernelRef;
use mercer_machine::Machine;

use super::{Training, digest, prepare};
use crate::assemble;
use crate::checkpoint::Keeper;
use crate::control::Control;
use crate::gram::{Gram, Source, View};
use crate::reduce::{Binary, Reduction};
use crate::report::{Report, SubproblemReport, Trained};
use crate::solvers::{GramProblem, Method, Solution, StartPoint, State, Steering, StoppingTest};
use crate::systems;
use crate::tables;
use crate::warm::Warm;
use crate::{Conclusion, Expansion, FormulationRef, Optimality, Qp, Stop, Subproblem, TrainError};

/// Training by a solver that works on kernel values of pairs.
pub(crate) fn on_gram(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &Training,
    control: &mut Control<'_>,
) -> Result<Trained, TrainError> {
    let inputs = prepare::inputs(data, Some(kernel), formulation, training)?;
    let reduction = inputs.reduction(training.scheme_used());
    let source = Source::new(kernel, &data.examples);
    prepare::check_diagonal(&source)?;
    let programs = QuadraticPrograms { reduction: reduction.as_ref(), formulation };
    let needs_other = tables::needs_tables(formulation) || systems::is_system(formulation);
    if formulation.spec().name().starts_with("nu_") || needs_other {
        (0..reduction.questions()).try_for_each(|number| programs.get(number).map(drop))?;
    }
    if let Some(checkpoint) = &training.checkpoint {
        let asked = format!("{} {}", kernel.spec(), formulation.spec());
        let digest = digest::of(&asked, (&data.examples, &data.targets), training)?;
        control.keeper = Some(Keeper::new(checkpoint, digest));
    }
    let warm = match &training.warm {
        Some(machine) => Some(Warm::new(machine, &data.examples, &inputs.output)?),
        None => None,
    };
    control.parts = reduction.questions();
    let memory = training.memory_beside(&data.examples);
    let gram = Gram::new(source, reduction.blocks(), memory);
    let mut course = Course { training, programs, gram, memory, warm, parts: Vec::new() };
    let learned = course.run(control)?;
    let (blocks, output) = (reduction.blocks(), inputs.output.clone());
    let machine = assemble::machine(kernel, &data.examples, &blocks, &learned, output)?;
    let report = course.report(control, &machine);
    Ok(Trained { machine, report, expansions: learned, duals: None, left_out: None })
}

/// The quadratic program of each question.
struct QuadraticPrograms<'r> {
    reduction: &'r dyn Reduction,
    formulation: &'r FormulationRef,
}

impl QuadraticPrograms<'_> {
    fn get(&self, number: usize) -> Result<(Binary, Qp), TrainError> {
        let binary = self.reduction.question(number);
        let part =
            Subproblem { name: &binary.name, targets: &binary.targets, weights: &binary.weights };
        let qp = self.formulation.quadratic_program(&part)?;
        Ok((binary, qp))
    }
}

/// A training under way.
struct Course<'c, 'a> {
    training: &'c Training,
    programs: QuadraticPrograms<'c>,
    gram: Gram<'a>,
    memory: usize,
    warm: Option<Warm<'c>>,
    parts: Vec<(SubproblemReport, Option<Stop>)>,
}

impl Course<'_, '_> {
    fn run(&mut self, control: &mut Control<'_>) -> Result<Vec<Expansion>, TrainError> {
        let saved = match &mut control.keeper {
            Some(keeper) => keeper.load()?,
            None => None,
        };
        let (mut finished, mut state) = (Vec::new(), None);
        if let Some(saved) = saved {
            control.earlier = saved.elapsed;
            control.iterations = saved.iterations;
            finished = saved.finished;
            state = Some((saved.part, saved.state));
        }
        let mut finished = finished.into_iter();
        let mut learned = Vec::with_capacity(control.parts);
        for number in 0..control.parts {
            let (binary, qp) = self.programs.get(number)?;
            let known = finished.next();
            let steps_before = control.iterations;
            let solution = match known {
                Some(solution) => solution,
                None if number > 0 && control.stop().is_some() => {
                    learned.push(self.skip(&binary, &qp, control.stop()));
                    continue;
                }
                None => {
                    let state = state.take_if(|(part, _)| *part == number).map(|(_, state)| state);
                    self.solve(number, &binary, &qp, state, control)?
                }
            };
            learned.push(self.conclude(&binary, &qp, solution)?);
            if let Some((report, _)) = self.parts.last_mut() {
                report.iterations = control.iterations - steps_before;
            }
        }
        Ok(learned)
    }

    fn solve(
        &mut self,
        number: usize,
        binary: &Binary,
        qp: &Qp,
        state: Option<State>,
        control: &mut Control<'_>,
    ) -> Result<Solution, TrainError> {
        let view = View::new(&binary.blocks);
        let examples = self.gram.examples(&view);
        let from = match (state, &self.warm) {
            (Some(state), _) if state.fits(qp) => StartPoint::State(Box::new(state)),
            (Some(_), _) => return Err(prepare::foreign_checkpoint(self.training)),
            (None, Some(warm)) => {
                StartPoint::Point(qp.repaired(&qp.unfold(&warm.coefficients(number, &examples))))
            }
            (None, None) => match &self.training.starts {
                Some(starts) => StartPoint::Point(qp.repaired(&starts[number])),
                None => StartPoint::Point(qp.start.clone()),
            },
        };
        control.start_part(number);
        let shared = self.programs.reduction.shares_blocks();
        let memory = self.memory;
        let (gram, stopping_test) = (&mut self.gram, StoppingTest::Recomputed);
        let mut problem = GramProblem { gram, view, qp, from, shared, stopping_test, memory };
        let Method::Gram(solver) = self.training.solver.method() else {
            unreachable!("other solvers have a course of their own")
        };
        let solution = solver.solve(&mut problem, &mut Steering(control))?;
        if matches!(solution.stop, None | Some(Stop::Stalled | Stop::GivenUp)) {
            control.keeper.iter_mut().for_each(|keeper| keeper.finish_part(&solution));
        }
        Ok(solution)
    }

    fn conclude(
        &mut self,
        binary: &Binary,
        qp: &Qp,
        solution: Solution,
    ) -> Result<Expansion, TrainError> {
        let conclusion = conclusion(self.programs.formulation, &solution)?;
        let Solution { beta, optimality, stop, .. } = solution;
        let view = View::new(&binary.blocks);
        let all = self.gram.examples(&view);
        let folded = qp.fold(&beta);
        let used: Vec<usize> = (0..folded.len()).filter(|row| folded[*row] != 0.0).collect();
        self.parts.push((
            part_report(
                binary,
                qp,
                &beta,
                &optimality,
                conclusion.scale,
                self.training.tolerance_used(),
            ),
            stop,
        ));
        let offset = if used.is_empty() {
            majority(&binary.targets, conclusion.offset)
        } else {
            conclusion.offset
        };
        Ok(Expansion {
            examples: used.iter().map(|row| all[*row]).collect(),
            coefficients: used.iter().map(|row| conclusion.scale * folded[*row]).collect(),
            offset,
        })
    }

    /// A question that was not begun: the larger class wins.
    fn skip(&mut self, binary: &Binary, qp: &Qp, stop: Option<Stop>) -> Expansion {
        let mut optimality = Optimality::of(qp, &qp.start, &vec![0.0; qp.rows]);
        if qp.start.iter().any(|value| *value != 0.0) {
            (optimality.gap, optimality.violation) = (f64::INFINITY, f64::INFINITY);
        }
        let nothing = vec![0.0; qp.len()];
        let mut report = part_report(binary, qp, &nothing, &optimality, 1.0, 0.0);
        report.objective = 0.0;
        self.parts.push((report, stop));
        let offset = majority(&binary.targets, 0.0);
        Expansion { examples: Vec::new(), coefficients: Vec::new(), offset }
    }

    fn report(&self, control: &Control<'_>, machine: &Machine) -> Report {
        let parts = || self.parts.iter().map(|(part, _)| part);
        Report {
            seconds: control.elapsed().as_secs_f64(),
            iterations: control.iterations,
            converged: parts().all(|part| part.converged),
            stop: self.parts.iter().filter_map(|(_, stop)| *stop).next_back(),
            objective: parts().map(|part| part.objective).sum(),
            gap: parts().map(|part| part.gap).sum(),
            violation: parts().map(|part| part.violation).fold(0.0, f64::max),
            supports: machine.supports().rows(),
            bounded: parts().map(|part| part.bounded).sum(),
            kernel_values: self.gram.computed(),
            peak_memory_bytes: self.gram.peak_bytes(),
            table: None,
            system: None,
            low_rank: None,
            chosen: None,
            parts: parts().cloned().collect(),
        }
    }
}

/// How a solution becomes a score; one that ended early becomes one somehow.
pub(crate) fn conclusion(
    formulation: &FormulationRef,
    solution: &Solution,
) -> Result<Conclusion, TrainError> {
    conclusion_of(formulation, &solution.optimality.multipliers, solution.stop.is_some())
}

/// The same from the multipliers.
pub(crate) fn conclusion_of(
    formulation: &FormulationRef,
    multipliers: &[f64],
    ended_early: bool,
) -> Result<Conclusion, TrainError> {
    match (formulation.conclude(multipliers), ended_early) {
        (Err(_), true) => Ok(Conclusion { scale: 1.0, offset: multipliers[0] }),
        (conclusion, _) => conclusion,
    }
}

/// Without supports the score is a constant: the sign of the larger class.
pub(crate) fn majority(targets: &[f64], otherwise: f64) -> f64 {
    let balance: f64 = targets.iter().filter(|y| y.abs() == 1.0).sum();
    if targets.iter().all(|y| y.abs() == 1.0) {
        if balance >= 0.0 { -1.0 } else { 1.0 }
    } else {
        otherwise
    }
}

fn part_report(
    binary: &Binary,
    qp: &Qp,
    beta: &[f64],
    optimality: &Optimality,
    scale: f64,
    tolerance: f64,
) -> SubproblemReport {
    let at_limit = |v: &usize| {
        let value = beta[*v];
        value != 0.0 && (value <= qp.lower[*v] || value >= qp.upper[*v])
    };
    SubproblemReport {
        name: binary.name.clone(),
        converged: optimality.violation <= tolerance,
        iterations: 0,
        objective: scale * scale * optimality.objective,
        gap: scale * scale * optimality.gap,
        violation: optimality.violation,
        supports: qp.fold(beta).iter().filter(|value| **value != 0.0).count(),
        bounded: (0..beta.len()).filter(at_limit).count(),
    }
}
