//! `svm-train` with LIBSVM's flags, output and messages.

mod check;
mod given_values;
mod probability;
mod weights;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use mercer::data::read::{self, Options};
use mercer::data::{Dataset, Targets};
use mercer::kernel::KernelRef;
use mercer::machine::{ClassName, Input, Model, Probabilities, Provenance, file};
use mercer::query::Plan;
use mercer::svm_train::{self, TrainingLines};
use mercer::train::{
    Calibrator, Cancel, Folds, FormulationRef, Measure, Stop, TrainError, Trained, Training,
    Validation, calibrate_probabilities, cross_validate, formulation, train,
};

use super::CommandLine;
use crate::commands::StopSignal;
use crate::console::Console;
use crate::files::Files;
use crate::training_input::in_either_base;
use given_values::GivenValues;
use mercer::printf::g;
use probability::{laplace, marks};
use weights::{ClassWeights, PartialTraining, Solution};

const USAGE: &str = "Usage: svm-train [options] training_set_file [model_file]
options:
-s svm_type : set type of SVM (default 0)
\t0 -- C-SVC\t\t(multi-class classification)
\t1 -- nu-SVC\t\t(multi-class classification)
\t2 -- one-class SVM
\t3 -- epsilon-SVR\t(regression)
\t4 -- nu-SVR\t\t(regression)
-t kernel_type : set type of kernel function (default 2)
\t0 -- linear: u'*v
\t1 -- polynomial: (gamma*u'*v + coef0)^degree
\t2 -- radial basis function: exp(-gamma*|u-v|^2)
\t3 -- sigmoid: tanh(gamma*u'*v + coef0)
\t4 -- precomputed kernel (kernel values in training_set_file)
-d degree : set degree in kernel function (default 3)
-g gamma : set gamma in kernel function (default 1/num_features)
-r coef0 : set coef0 in kernel function (default 0)
-c cost : set the parameter C of C-SVC, epsilon-SVR, and nu-SVR (default 1)
-n nu : set the parameter nu of nu-SVC, one-class SVM, and nu-SVR (default 0.5)
-p epsilon : set the epsilon in loss function of epsilon-SVR (default 0.1)
-m cachesize : set cache memory size in MB (default 100)
-e epsilon : set tolerance of termination criterion (default 0.001)
-h shrinking : whether to use the shrinking heuristics, 0 or 1 (default 1)
-b probability_estimates : whether to train a model for probability estimates, 0 or 1 (default 0)
-wi weight : set the parameter C of class i to weight*C, for C-SVC (default 1)
-v n: n-fold cross validation mode
-q : quiet mode (no outputs)
";

/// Least memory for training; LIBSVM's cache size is only a part of its memory.
const LEAST_MEMORY: usize = 64 << 20;
/// Folds for probabilities.
const FOLDS: usize = 5;
/// Seed of the folds.
const SEED: u64 = 1;

/// The command line.
#[derive(Debug)]
struct SvmTrainOptions {
    kind: i64,
    kernel: i64,
    degree: i64,
    gamma: Option<f64>,
    coef0: f64,
    cost: f64,
    nu: f64,
    tube: f64,
    megabytes: f64,
    tolerance: f64,
    shrinking: i64,
    probability: i64,
    weights: Vec<(f64, f64)>,
    folds: Option<usize>,
    is_quiet: bool,
    data: PathBuf,
    model: PathBuf,
}

impl SvmTrainOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut line = CommandLine::new(arguments, USAGE);
        let mut options = Self {
            kind: 0,
            kernel: 2,
            degree: 3,
            gamma: None,
            coef0: 0.0,
            cost: 1.0,
            nu: 0.5,
            tube: 0.1,
            megabytes: 100.0,
            tolerance: 1e-3,
            shrinking: 1,
            probability: 0,
            weights: Vec::new(),
            folds: None,
            is_quiet: false,
            data: PathBuf::new(),
            model: PathBuf::new(),
        };
        while let Some(flag) = line.flag() {
            options.set(flag, &mut line)?;
        }
        let (data, model) = match line.left {
            [data] => {
                let name = Path::new(data).file_name().unwrap_or_default().to_string_lossy();
                (data, format!("{name}.model"))
            }
            [data, model] => (data, model.clone()),
            _ => return Err(line.refuse(None)),
        };
        (options.data, options.model) = (data.into(), model.into());
        Ok(options)
    }

    fn set(&mut self, flag: &str, line: &mut CommandLine<'_>) -> anyhow::Result<()> {
        match flag {
            "s" => self.kind = line.number(flag)?,
            "t" => self.kernel = line.number(flag)?,
            "d" => self.degree = line.number(flag)?,
            "g" => self.gamma = Some(line.number(flag)?),
            "r" => self.coef0 = line.number(flag)?,
            "n" => self.nu = line.number(flag)?,
            "m" => self.megabytes = line.number(flag)?,
            "c" => self.cost = line.number(flag)?,
            "e" => self.tolerance = line.number(flag)?,
            "p" => self.tube = line.number(flag)?,
            // The solver always shrinks; the flag changes no result.
            "h" => self.shrinking = line.number(flag)?,
            "b" => self.probability = line.number(flag)?,
            "q" => self.is_quiet = true,
            "v" => {
                let folds: usize = line.number(flag)?;
                if folds < 2 {
                    let problem = "n-fold cross validation: n must >= 2".to_owned();
                    return Err(line.refuse(Some(problem)));
                }
                self.folds = Some(folds);
            }
            _ => match flag.strip_prefix('w').map(str::parse) {
                Some(Ok(label)) => self.weights.push((label, line.number(flag)?)),
                _ => return Err(line.unknown(flag)),
            },
        }
        Ok(())
    }

    /// Cross-validation writes no model.
    fn files(&self) -> Files {
        let files = Files::default().read(&self.data);
        if self.folds.is_some() { files } else { files.write("model_file", &self.model) }
    }

    fn formulation(&self) -> anyhow::Result<FormulationRef> {
        let Self { cost, nu, tube, .. } = self;
        let text = match self.kind {
            0 => format!("c_svc(C={cost})"),
            1 => format!("nu_svc(nu={nu})"),
            2 => format!("one_class(nu={nu})"),
            3 => format!("epsilon_svr(C={cost}, epsilon={tube})"),
            4 => format!("nu_svr(nu={nu}, C={cost})"),
            _ => anyhow::bail!("unknown svm type"),
        };
        Ok(formulation(&text)?)
    }

    /// LIBSVM takes 0 for "not given".
    fn gamma(&self, columns: usize) -> f64 {
        let given = self.gamma.filter(|gamma| *gamma != 0.0);
        given.unwrap_or(1.0 / columns.max(1) as f64)
    }

    fn kernel(&self, columns: usize) -> anyhow::Result<KernelRef> {
        let gamma = self.gamma(columns);
        let Self { degree, coef0, .. } = self;
        let text = match self.kernel {
            0 => "linear".to_owned(),
            1 => format!("polynomial(degree={degree}, gamma={gamma}, coef0={coef0})"),
            2 => format!("rbf(gamma={gamma})"),
            3 => format!("sigmoid(gamma={gamma}, coef0={coef0})"),
            _ => anyhow::bail!("unknown kernel type"),
        };
        Ok(mercer::kernel::parse(&text)?)
    }

    /// Weights of classes, for C-SVC only.
    fn class_weights(&self, targets: &Targets) -> ClassWeights {
        match self.kind {
            0 => ClassWeights::new(&self.weights, targets),
            _ => ClassWeights::new(&[], &Targets::Absent),
        }
    }
}

pub(super) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let options = SvmTrainOptions::parse(arguments)?;
    let stop = StopSignal::install()?;
    options.files().check_outputs()?;
    let source = || options.data.display().to_string();
    // The serial number of a row of kernel values is its index 0.
    let is_given = options.kernel == 4;
    let mut read_options =
        Options { format: Some("libsvm".to_owned()), zero_based: is_given, ..Options::default() };
    let data =
        in_either_base(&options.data, &mut read_options, &Console::quiet(), |read_options| {
            read::dataset(&options.data, read_options).with_context(source)
        })?;
    // LIBSVM's default gamma is one over the largest index, also where indices begin at 0.
    let zero_based = read_options.zero_based && !is_given;
    options.check(&data.targets)?;
    let columns = data.examples.columns() - usize::from(zero_based);
    if let Some(single) = options.single_class(&data.targets) {
        return options.run_single(single, columns);
    }
    let formulation = options.formulation()?;
    let (data, given) = if is_given {
        let (data, given) = GivenValues::new(data).with_context(source)?;
        (data, Some(given))
    } else {
        (data, None)
    };
    let kernel = match &given {
        Some(given) => given.kernel(),
        None => options.kernel(columns)?,
    };
    let memory = LEAST_MEMORY.max((options.megabytes * f64::from(1 << 20)) as usize);
    let weights = options.class_weights(&data.targets);
    let partial = weights.partial(&data.targets);
    if partial.is_some() && options.probability != 0 {
        anyhow::bail!(
            "-b 1 needs class weights above 0: a class without weight has no probability"
        );
    }
    let training = Training::default()
        .tolerance(options.tolerance)
        .memory(data.examples.bytes() + memory)
        .class_weights(weights.positive())
        .cancel(Cancel::from_flag(stop.flag()));
    let run = SvmTraining {
        options: &options,
        data: &data,
        kernel: &kernel,
        formulation,
        training,
        weights,
        partial,
        zero_based,
        given,
    };
    match options.folds {
        Some(folds) => run.cross_validation(folds).with_context(source),
        None => run.train(&stop).with_context(source),
    }
}

/// One run of the command.
struct SvmTraining<'j> {
    options: &'j SvmTrainOptions,
    data: &'j Dataset,
    kernel: &'j KernelRef,
    formulation: FormulationRef,
    training: Training,
    weights: ClassWeights,
    /// Where classes have no weight above 0.
    partial: Option<PartialTraining>,
    /// Columns are counted from 0.
    zero_based: bool,
    /// For rows of kernel values.
    given: Option<GivenValues>,
}

impl SvmTraining<'_> {
    fn validated(&self, data: &Dataset, folds: usize) -> anyhow::Result<Validation> {
        let folds = Folds::new(data, self.options.kind < 2, folds, SEED)?;
        let alone = std::slice::from_ref(&self.formulation);
        let validation =
            cross_validate(data, self.kernel, alone, &folds, &self.training, &mut |_| {})?;
        Ok(validation.into_iter().next().ok_or(TrainError::NoCandidates)??)
    }

    fn cross_validation(&self, folds: usize) -> anyhow::Result<()> {
        let rows = self.data.examples.rows();
        if folds > rows {
            eprintln!(
                "WARNING: # folds > # data. Will use # folds = # data instead (i.e., leave-one-out \
                 cross validation)"
            );
        }
        if let Some(partial) = &self.partial {
            let data = partial.data(self.data);
            let validation =
                data.map(|data| self.validated(&data, folds.min(data.examples.rows())));
            let share = validation.transpose()?.map(|validation| validation.quality);
            let accuracy = partial.accuracy(share, &self.data.targets);
            println!("Cross Validation Accuracy = {}%", g(100.0 * accuracy, 6));
            return Ok(());
        }
        let validation = self.validated(self.data, folds.min(rows))?;
        if validation.measure == Measure::SquaredError {
            println!("Cross Validation Mean squared error = {}", g(validation.quality, 6));
            let correlation = g(validation.correlation.unwrap_or(f64::NAN), 6);
            println!("Cross Validation Squared correlation coefficient = {correlation}");
        } else {
            println!("Cross Validation Accuracy = {}%", g(100.0 * validation.quality, 6));
        }
        Ok(())
    }

    fn solve(&self, stop: &StopSignal) -> anyhow::Result<Solution> {
        let train_on = |data: &Dataset| -> anyhow::Result<Trained> {
            let trained = train(data, self.kernel, &self.formulation, &self.training, &mut |_| {})?;
            if trained.report.stop == Some(Stop::Cancelled) {
                stop.check()?;
            }
            Ok(trained)
        };
        if let Some(partial) = &self.partial {
            let trained = partial.data(self.data).map(|data| train_on(&data)).transpose()?;
            return Ok(partial.complete(trained, self.data, self.kernel)?);
        }
        let Trained { machine, report, expansions, .. } = train_on(self.data)?;
        Ok(Solution { machine, subproblems: report.subproblems, expansions })
    }

    fn train(&self, stop: &StopSignal) -> anyhow::Result<()> {
        let trained = self.solve(stop)?;
        if !self.options.is_quiet {
            self.print(&trained)?;
        }
        let mut model = Model {
            input: Input { zero_based: self.zero_based, ..Input::default() },
            provenance: Provenance {
                origin: "mercer".to_owned(),
                formulation: Some(self.formulation.spec().to_string()),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                source_supports: None,
                parent: None,
            },
            ..Model::from(trained.machine)
        };
        if self.options.probability != 0 {
            model.probabilities = self.probabilities(&model)?;
        }
        if let Some(given) = &self.given {
            let output = model.machine.output().clone();
            model.machine = given.machine(&trained.expansions, output)?;
        }
        let libsvm = file::format("libsvm").context("the LIBSVM format is always registered")?;
        let place = || self.options.model.display().to_string();
        file::save(&model, libsvm, &self.options.model).with_context(place)
    }

    /// The lines that LIBSVM prints for each binary subproblem.
    fn print(&self, trained: &Solution) -> anyhow::Result<()> {
        let classes = trained.machine.classes();
        let pairs: Vec<(usize, usize)> = mercer::machine::pairs(classes.len()).collect();
        let targets = match &self.data.targets {
            Targets::Numbers(targets) => targets.as_slice(),
            _ => &[],
        };
        let lines = TrainingLines {
            machine: &trained.machine,
            subproblems: &trained.subproblems,
            expansions: &trained.expansions,
            svm_type: self.options.kind,
            nu: self.options.nu,
            cost: self.options.cost,
            examples: &self.data.examples,
            targets,
        };
        for (number, learned) in trained.expansions.iter().enumerate() {
            let rows = match pairs.get(number) {
                Some((first, second)) => {
                    self.count(&classes[*first]) + self.count(&classes[*second])
                }
                None => self.data.examples.rows(),
            };
            let cost = self.common_cost(classes, pairs.get(number));
            print!("{}", lines.subproblem(number, learned.offset, rows, cost)?);
        }
        if self.options.kind < 2 {
            let all = trained.expansions.iter().flat_map(|expansion| &expansion.examples);
            print!("{}", svm_train::total(all.collect::<HashSet<_>>().len()));
        }
        Ok(())
    }

    fn count(&self, class: &ClassName) -> usize {
        let Targets::Numbers(labels) = &self.data.targets else { return 0 };
        labels.iter().filter(|label| ClassName::Number(**label) == *class).count()
    }

    /// C of a pair of classes if both have the same; LIBSVM prints nu only then.
    fn common_cost(&self, classes: &[ClassName], pair: Option<&(usize, usize)>) -> Option<f64> {
        let weight = |class: usize| self.weights.of(&classes[class]);
        let (first, second) = pair.map_or((1.0, 1.0), |(a, b)| (weight(*a), weight(*b)));
        (first == second).then_some(self.options.cost * first)
    }

    fn probabilities(&self, model: &Model) -> anyhow::Result<Option<Probabilities>> {
        match self.options.kind {
            0 | 1 => {
                let folds = FOLDS.min(self.data.examples.rows());
                let validation = self.validated(self.data, folds)?;
                Ok(Some(calibrate_probabilities(self.data, &validation, None, Calibrator::Platt)?))
            }
            2 => Ok(marks(Plan::exact(&model.machine).scores(&self.data.examples)?)),
            _ => {
                let validation = self.validated(self.data, FOLDS.min(self.data.examples.rows()))?;
                let Targets::Numbers(targets) = &self.data.targets else { return Ok(None) };
                let errors: Vec<f64> =
                    validation.scores.iter().zip(targets).map(|(s, y)| (y - s[0]).abs()).collect();
                let sigma = laplace(&errors);
                if !self.options.is_quiet {
                    println!("Prob. model for test data: target value = predicted value + z,");
                    let sigma = g(sigma, 6);
                    println!("z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma= {sigma}");
                }
                Ok(Some(Probabilities::Laplace { sigma }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_libsvms() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let options = SvmTrainOptions::parse(&words(
            "-s 3 -t 1 -d 2 -g 0.5 -r 1 -c 10 -p 0.2 -w-1 2 -q dir/a b",
        ));
        let options = options.unwrap();
        assert_eq!(options.weights, [(-1.0, 2.0)]);
        assert_eq!(
            options.kernel(4).unwrap().spec().to_string(),
            "polynomial(degree=2, gamma=0.5, coef0=1)"
        );
        assert_eq!(
            options.formulation().unwrap().spec().to_string(),
            "epsilon_svr(C=10, epsilon=0.2)"
        );
        assert!(options.is_quiet && options.model == Path::new("b"));
        assert_eq!(SvmTrainOptions::parse(&words("dir/a")).unwrap().model, Path::new("a.model"));
        for wrong in ["-z 1 a", "-v 1 a", "-c", "-c x a", "a b c"] {
            assert!(
                SvmTrainOptions::parse(&words(wrong)).unwrap_err().is::<super::super::Usage>(),
                "{wrong}"
            );
        }
    }
}
