//! What each verb reads and writes. Files are checked before the work, so that a wrong name costs no training; they are read
//! and written by the verbs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use mercer::data::write::{self, AtomicFile};

use crate::output;

use crate::args::{Convert, Input, NO_DATA, Search, Train, TrainingFlags, Verb};

/// Whether a path stands for standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The files of one command.
#[derive(Debug, Default)]
pub(crate) struct Files {
    reads: Vec<PathBuf>,
    /// With the option that names the file.
    writes: Vec<(&'static str, PathBuf)>,
    /// Files that are written and read again: they cannot be standard output.
    keeps: Vec<(&'static str, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl Files {
    /// The files that a verb names.
    pub(crate) fn of(verb: &Verb) -> Self {
        let files = Self::default();
        match verb {
            Verb::Import(import) => files.read(&import.source).write("--output", &import.output),
            Verb::Export(export) => files
                .read(&export.model)
                .read_some(export.sample.as_ref())
                .write("--output", &export.output),
            Verb::Train(train) => files.train(train),
            Verb::Search(search) => files.search(search),
            Verb::Predict(predict) => files
                .read_some(predict.remote.server.is_none().then_some(&predict.model))
                .read_some(predict.remote.token_file.as_ref())
                .read_some(predict.remote.server_ca.as_ref())
                .input(&predict.input)
                .read_some(predict.audit_sample.as_ref())
                .write_some("--output", predict.output.as_ref()),
            Verb::Convert(convert) => files.convert(convert),
            Verb::Tune(tune) => files
                .read(&tune.model)
                .read(&tune.sample)
                .read_some(tune.training.as_ref())
                .write("--output", &tune.output)
                .write_some("--report", tune.report.as_ref()),
            Verb::Compile(compile) => files
                .read(&compile.model)
                .read_some(compile.sample.as_ref())
                .read_some(compile.training.as_ref())
                .write("--output", &compile.output),
            Verb::Compress(compress) => files
                .read(&compress.model)
                .read_some(compress.sample.as_ref())
                .read_some(compress.training.as_ref())
                .write("--output", &compress.output)
                .write_some("--report", compress.report.as_ref())
                .write_some("--svg", compress.svg.as_ref()),
            Verb::Explain(explain) => files
                .read(&explain.model)
                .input(&explain.input)
                .read_some(explain.attribution.background.as_ref())
                .write_some("--svg", explain.svg.as_ref())
                .write_some("--report", explain.report.as_ref()),
            Verb::Bench(bench) => files.read(&bench.model).input(&bench.input),
            Verb::Inspect(inspect) => files.read(&inspect.model),
            Verb::Check(check) => files.input(&check.input).read_some(check.sample.as_ref()),
            Verb::Verify(verify) => files.read(&verify.model).read_some(verify.sample.as_ref()),
            Verb::Reproduce(reproduce) => {
                let folders = [&reproduce.write_rows, &reproduce.figures, &reproduce.report];
                Self { folders: folders.into_iter().flatten().cloned().collect(), ..files }
            }
            Verb::Play(play) => files.read_some(play.data.as_ref()),
            Verb::Man(man) => Self { folders: man.to.iter().cloned().collect(), ..files },
            Verb::Demo(demo) => files.write_some("--report", demo.report.as_ref()),
            Verb::Completions(_)
            | Verb::List
            | Verb::Serve(_)
            | Verb::SvmTrain(_)
            | Verb::SvmPredict(_)
            | Verb::SvmScale(_) => files,
        }
    }

    fn train(self, train: &Train) -> Self {
        let update = &train.update;
        let has_data = train.input.data.as_os_str() != NO_DATA;
        let files = if has_data { self.input(&train.input) } else { self };
        let files = files
            .training(&train.training)
            .read_some(train.warm_start.as_ref())
            .read_some(update.from.as_ref())
            .read_some(update.data.as_ref())
            .read_some(update.forget.as_ref())
            .read_some(update.data_weights.as_ref())
            .write("--output", &train.output)
            .write_some("--report", update.report.as_ref());
        files.keep("--checkpoint", train.checkpoint.as_ref())
    }

    fn search(self, search: &Search) -> Self {
        self.input(&search.input)
            .training(&search.training)
            .write_some("--output", search.output.as_ref())
            .write_some("--table", search.table.as_ref())
            .write_some("--svg", search.svg.as_ref())
            .keep("--journal", search.journal.as_ref())
    }

    fn convert(self, convert: &Convert) -> Self {
        let files = self
            .input(&convert.input)
            .read_some(convert.scaled_by.as_ref())
            .write("--output", convert.destination())
            .write_some("--rest", convert.rest.as_ref())
            .write_some("--labels-output", convert.labels_output.as_ref());
        let format = write::format(convert.format.as_deref(), convert.destination());
        if !format.is_ok_and(|format| format.labels_apart) {
            return files;
        }
        let of_output = convert.labels_output.is_none().then_some(convert.destination());
        let beside = of_output.into_iter().chain(convert.rest.as_deref());
        let beside = beside.filter(|path| !is_standard(path));
        beside.fold(files, |files, path| files.write("its labels", &labels_beside(path)))
    }

    fn input(self, input: &Input) -> Self {
        self.read(&input.data).read_some(input.labels.as_ref())
    }

    fn training(self, flags: &TrainingFlags) -> Self {
        self.read_some(flags.weights.as_ref()).read_some(flags.folds.as_ref())
    }

    /// One more file that is read.
    pub(crate) fn read(mut self, path: &Path) -> Self {
        self.reads.push(path.to_owned());
        self
    }

    fn read_some(mut self, path: Option<&PathBuf>) -> Self {
        self.reads.extend(path.cloned());
        self
    }

    /// One more file that is written, and what names it.
    pub(crate) fn write(mut self, option: &'static str, path: &Path) -> Self {
        self.writes.push((option, path.to_owned()));
        self
    }

    fn write_some(mut self, option: &'static str, path: Option<&PathBuf>) -> Self {
        self.writes.extend(path.map(|path| (option, path.clone())));
        self
    }

    fn keep(mut self, option: &'static str, path: Option<&PathBuf>) -> Self {
        self.keeps.extend(path.map(|path| (option, path.clone())));
        self
    }

    /// Checks that every input is there and that every output can be written.
    ///
    /// # Errors
    /// One sentence about the first file that cannot be used.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for path in self.reads.iter().filter(|path| !is_standard(path)) {
            fs::metadata(path).with_context(|| path.display().to_string())?;
        }
        self.check_outputs()
    }

    /// The same for outputs alone, where the command has its own words about inputs.
    ///
    /// # Errors
    /// One sentence about the first output that cannot be written.
    pub(crate) fn check_outputs(&self) -> anyhow::Result<()> {
        let place = |path: &Path| path.display().to_string();
        self.check_distinct()?;
        self.check_standard_output()?;
        for (option, path) in &self.keeps {
            anyhow::ensure!(!is_standard(path), "{option} must be a file, not standard output");
        }
        let files = self.writes.iter().chain(&self.keeps).map(|(_, path)| path);
        for path in files.filter(|path| !is_standard(path)) {
            AtomicFile::check(path).with_context(|| place(path))?;
        }
        for folder in &self.folders {
            check_folder(folder).with_context(|| place(folder))?;
        }
        Ok(())
    }

    /// Standard output holds one result; texts for people then go to standard error.
    fn check_standard_output(&self) -> anyhow::Result<()> {
        let to_stdout = self.writes.iter().filter(|(_, path)| is_standard(path));
        let options: Vec<&str> = to_stdout.map(|(option, _)| *option).collect();
        match options.as_slice() {
            [] => {}
            [_] => output::take_stdout(),
            [one, other, ..] => {
                anyhow::bail!("both {one} and {other} are `-`; standard output holds one of them")
            }
        }
        Ok(())
    }

    /// Whether a result goes to standard output as it is.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.writes.iter().any(|(_, path)| is_standard(path))
    }

    /// An output is neither an input nor another output.
    fn check_distinct(&self) -> anyhow::Result<()> {
        let outputs: Vec<_> = self.writes.iter().chain(&self.keeps).collect();
        let reads: Vec<PathBuf> = self.reads.iter().filter_map(|path| regular(path)).collect();
        for (at, (option, path)) in outputs.iter().enumerate() {
            let others = &outputs[..at];
            let is_same = |known: &Path| !is_standard(path) && is_same(path, known);
            if let Some((other, _)) = others.iter().find(|(_, known)| is_same(known)) {
                anyhow::bail!("{}: both {other} and {option} write here", path.display());
            }
            anyhow::ensure!(
                regular(path).is_none_or(|path| !reads.contains(&path)),
                "{}: the command reads this file and would replace it; give {option} another name",
                path.display()
            );
        }
        Ok(())
    }
}

/// Where labels go that the format of an output cannot hold.
pub(crate) fn labels_beside(output: &Path) -> PathBuf {
    output.with_extension("labels.npy")
}

/// The one name of a regular file; none for what is not there, and for pipes and terminals.
fn regular(path: &Path) -> Option<PathBuf> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    fs::canonicalize(path).ok()
}

/// Whether two outputs are one.
fn is_same(one: &Path, other: &Path) -> bool {
    let is_device = |path: &Path| fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    let whole = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some(folder.join(path.file_name()?))
    };
    !is_device(one) && whole(one).is_some() && whole(one) == whole(other)
}

/// Whether files can be written into a folder, which may have to be made.
fn check_folder(folder: &Path) -> io::Result<()> {
    let exists = |path: &&Path| path.as_os_str().is_empty() || path.exists();
    let nearest = folder.ancestors().find(exists).unwrap_or(Path::new(""));
    if !nearest.as_os_str().is_empty() && !nearest.is_dir() {
        let text = format!("'{}' is not a folder", nearest.display());
        return Err(io::Error::new(io::ErrorKind::NotADirectory, text));
    }
    AtomicFile::check(&nearest.join("mercer"))
}
