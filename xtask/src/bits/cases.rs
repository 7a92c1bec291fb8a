//! What is asked: machines, plans and the like. One line is one item, or one factor of a product of items.
//!
//! `@name` is a file in the folder of the session, `%train` and `%sample` are parts of a machine's set.

use anyhow::{Result, bail};

use super::data::{QUERIES, part};
use super::{Session, first_word};

macro_rules! own {
    ($name:literal) => {
        concat!("crates/mercer-machine/tests/golden/", $name, ".mercer")
    };
}
macro_rules! onnx {
    ($name:literal) => {
        concat!("crates/mercer-machine/tests/golden/", $name, ".onnx")
    };
}

/// Words of `predict` for a table in which values are missing.
const MISSING: &str = "--probabilities --label none --missing mean";

/// Golden models: a name, queries, words of `predict`, and where the file may be.
pub type Golden = (&'static str, &'static str, &'static str, &'static [&'static str]);

pub const GOLDEN: &[Golden] = &[
    ("digits.model", QUERIES, "", &["datasets/digits/digits.model"]),
    ("own-plain", "@plane.svm", "--probabilities", &[own!("plain")]),
    ("own-scaled", "@plane.svm", "--probabilities", &[own!("scaled")]),
    ("own-tables", "@plane.svm", "", &[own!("additive")]),
    ("own-means", "@missing.csv", MISSING, &[own!("means")]),
    ("onnx-svc2", "@plane.svm", "", &[onnx!("svc2")]),
    ("onnx-svc3", "@plane.svm", "", &[onnx!("svc3")]),
    ("onnx-svr", "@plane.svm", "", &[onnx!("svr")]),
    ("onnx-oc", "@plane.svm", "", &[onnx!("oc")]),
];

/// Model texts of other programs: a name, words of `predict`, the text. Their queries are `plane.svm`.
pub const TEXTS: &[(&str, &str, &str)] = &[
    (
        "libsvm-three-classes",
        "--probabilities",
        "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 3\ntotal_sv 4\nrho 0.1 -0.2 0.3\n\
         label 1 2 3\nprobA -1.5 -2 -1\nprobB 0.1 0 -0.2\nnr_sv 2 1 1\nSV\n1 0.5 1:0.3 3:2\n\
         -0.25 1 2:1.5\n-0.75 0.7 1:1 2:1\n0.2 -1 1:0.5 2:0.25 3:1e-3\n",
    ),
    (
        "libsvm-one-class-polynomial",
        "",
        "svm_type one_class\nkernel_type polynomial\ndegree 4\ngamma 0.1\ncoef0 1\nnr_class 2\n\
         total_sv 2\nrho 1.1\nSV\n0.30000000000000004 1:1\n0.7 2:1.5 3:0.1\n",
    ),
    (
        "libsvm-nu-svr-sigmoid",
        "",
        "svm_type nu_svr\nkernel_type sigmoid\ngamma 0.1\ncoef0 -1\nnr_class 2\ntotal_sv 1\n\
         rho 0.3\nprobA 0.7\nSV\n-1.5 2:3\n",
    ),
    (
        "libsvm-precomputed",
        "",
        "svm_type one_class\nkernel_type precomputed\nnr_class 2\ntotal_sv 2\nrho 0.5\nSV\n0.7 0:3\n\
         0.30000000000000004 0:1\n",
    ),
    (
        "liblinear-logistic",
        "--probabilities",
        "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 3\nbias 2\nw\n0.5\n-1\n0.1\n0.25\n",
    ),
    (
        "liblinear-three-classes",
        "",
        "solver_type MCSVM_CS\nnr_class 3\nlabel 3 1 2\nnr_feature 3\nbias -1\nw\n1 2 3\n4 5 -6\n\
         -3 -2 1\n",
    ),
    (
        "liblinear-svr",
        "",
        "solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 3\nbias -1\nw\n2.5\n0.1\n-1e-3\n",
    ),
];

pub const SOLVERS: &str =
    "smo decomposition primal direct auto additive low_rank linear feature_map pmsvm pmsvm_lut";

pub const KERNELS: &str =
    "linear rbf(gamma=scale) polynomial(degree=2,gamma=scale,coef0=1) chi2 intersection";

/// Each formulation with the sets it learns from.
pub const FORMULATIONS: &str = "
c_svc(C=2) sonar digits
nu_svc(nu=0.2) sonar digits
squared_hinge(C=1) sonar digits
logistic(C=1) sonar digits
ls_svm(C=3) sonar digits
fisher(C=1) sonar digits
epsilon_svr(C=2,epsilon=0.1) shells
nu_svr(nu=0.3,C=2) shells
ridge(lambda=0.1) shells
one_class(nu=0.1) sonar
";

/// A set, words of `train`, and after a slash words of `predict`.
pub const TRAININGS: &str = "
sonar --kernel laplacian(gamma=0.1)
sonar --kernel sigmoid(gamma=0.01,coef0=-0.5)
sonar --kernel normalized(polynomial(degree=2,coef0=1))
sonar --kernel exponential(chi2,gamma=0.5)
sonar --kernel power_mean(p=-2)
sonar --kernel jensen_shannon
sonar --kernel hellinger
sonar --kernel polynomial(degree=5,gamma=0.1,coef0=1)
sonar --solver additive --kernel hellinger
sonar --solver additive --kernel jensen_shannon
sonar --solver feature_map --kernel jensen_shannon
sparse --kernel rbf(gamma=0.001) --formulation c_svc(C=10)
sparse --kernel linear --solver linear
sparse --kernel chi2 --solver additive
sparse --kernel laplacian(gamma=0.01)
digits --kernel rbf(gamma=0.001) --scheme one-vs-rest
digits --kernel rbf(gamma=0.001) --solver direct --formulation ls_svm(C=10) --scheme one-vs-one
digits --kernel chi2 --solver additive --scheme one-vs-one
abalone --kernel rbf(gamma=scale) --formulation epsilon_svr(C=10) --one-hot sex
haberman --kernel rbf(gamma=scale) --scale standard
haberman --kernel rbf(gamma=scale) --scale standard(centre=no)
haberman --kernel rbf(gamma=scale) --scale min_max(low=-1,high=1)
haberman --kernel rbf(gamma=scale) --scale max_abs
haberman --kernel rbf(gamma=scale) --scale unit_norm(norm=l1)
haberman --kernel rbf(gamma=scale) --scale quantile(count=20)
sonar --kernel rbf(gamma=1) --probabilities sigmoid / --probabilities
sonar --kernel rbf(gamma=1) --probabilities isotonic / --probabilities
sonar --kernel rbf(gamma=1) --probabilities platt / --probabilities
sonar --kernel rbf(gamma=1) --probabilities sigmoid --cv 3 / --probabilities
sonar --kernel rbf(gamma=1) --formulation ls_svm(C=3) --probabilities sigmoid / --probabilities
digits --kernel rbf(gamma=0.001) --probabilities sigmoid / --probabilities
digits --kernel rbf(gamma=0.001) --probabilities isotonic / --probabilities
digits --kernel chi2 --solver additive --probabilities sigmoid / --probabilities
haberman --kernel rbf(gamma=0.01) --class-weight 2=3
sonar --kernel rbf(gamma=1) --max-iterations 40
sonar --kernel rbf(gamma=1) --tolerance 1e-6
sonar --kernel rbf(gamma=1) --solver smo(working_set=16,shrinking=off)
pair --kernel rbf(gamma=0.001) --solver low_rank(rank=20,guard=off)
pair --kernel rbf(gamma=0.001) --solver low_rank(rank=20,guard=off) --polish
pair --kernel rbf(gamma=0.001) --solver low_rank(rank=20,pivots=greedy,method=descent)
pair --kernel rbf(gamma=0.001) --solver low_rank(rank=20,pivots=random,method=interior)
pair --kernel rbf(gamma=0.001) --solver low_rank(rank=20,pivots=solution_aware,precision=single)
pair --kernel rbf(gamma=0.001) --solver low_rank(rank=20,method=interior,systems=product_form)
pair --kernel rbf(gamma=0.001) --solver low_rank(rank=20,method=interior,systems=smw)
pair --kernel rbf(gamma=0.001) --solver low_rank(rank=20,method=interior,systems=qr,precision=double)
pair --kernel rbf(gamma=0.001) --solver direct(rank=30) --formulation ls_svm(C=3)
pair --kernel rbf(gamma=0.001) --solver direct(rank=30) --formulation fisher(C=3)
shells --kernel rbf(gamma=1) --solver direct(rank=30) --formulation ridge(lambda=0.1,bias=yes)
sonar --kernel linear --solver linear(bins=uniform,seed=3)
sonar --kernel linear --solver linear(bins=quantile,bias=0)
sonar --kernel linear --solver linear(space=primal) --formulation squared_hinge(C=1)
sonar --kernel linear --solver linear(space=primal) --formulation logistic(C=1)
sonar --kernel linear --solver linear(penalty=l1,space=primal) --formulation squared_hinge(C=1)
sonar --kernel linear --solver linear(penalty=l1,space=primal) --formulation logistic(C=1)
sonar --kernel linear --solver linear(passes=3)
sonar --kernel chi2 --solver additive(rank=2,bins=power)
sonar --kernel chi2 --solver additive(rank=5,bins=quantile,bias=0,seed=2)
sonar --kernel chi2 --solver feature_map(dims=5,bins=uniform)
sonar --kernel chi2 --solver pmsvm(seed=3)
sonar --kernel chi2 --solver pmsvm_lut(degree=4,bins=100)
sonar --kernel chi2 --solver pmsvm_lut(nodes=ad_hoc)
";

/// A set and words of `search`.
pub const SEARCHES: &str = "
sonar --kernel rbf(gamma={0.1,1}) --formulation c_svc(C={1,10}) --cv 3
shells --kernel rbf(gamma={0.5,2}) --formulation epsilon_svr(C={1,10}) --cv 3
pair --kernel rbf(gamma={0.0005,0.002}) --formulation ls_svm(C={1,10}) --cv 3
pair --kernel chi2 --formulation c_svc(C={0.1,1}) --solver additive --cv 3
digits --kernel rbf(gamma={0.0005,0.001,0.002}) --formulation c_svc(C={1,10}) --cv 3 --halving 2
";

/// A name, a set, words of `train`, and after a slash words of `predict`.
const MACHINES: &str = "
sonar-rbf sonar --kernel rbf(gamma=1) --formulation c_svc(C=10)
pair-rbf pair --kernel rbf(gamma=0.001) --formulation c_svc(C=10)
pair-small-rbf pair --kernel rbf(gamma=0.00002) --formulation c_svc(C=100)
pair-poly2 pair --kernel polynomial(degree=2,gamma=0.001,coef0=1) --formulation c_svc(C=10)
pair-linear pair --kernel linear
digits-rbf digits --kernel rbf(gamma=0.001) --formulation c_svc(C=10)
digits-rest digits --kernel rbf(gamma=0.001) --formulation c_svc(C=10) --scheme one-vs-rest
sparse-rbf sparse --kernel rbf(gamma=0.001) --formulation c_svc(C=10)
sonar-chi2 sonar --kernel chi2 --formulation c_svc(C=10)
digits-intersection digits --kernel intersection
sonar-tables sonar --kernel chi2 --solver additive
haberman-rbf haberman --kernel rbf(gamma=0.5) --scale standard
haberman-poly3 haberman --kernel polynomial(degree=3,gamma=0.3,coef0=1) --scale standard
shells-rbf shells --kernel rbf(gamma=2) --formulation epsilon_svr(C=10) / --value-tolerance 0.5
shells-poly2 shells --kernel polynomial(degree=2,coef0=1) --formulation epsilon_svr(C=1) / --value-tolerance 0.1
pair-novelty pair --kernel rbf(gamma=0.001) --formulation one_class(nu=0.1)
";

pub const STAGES: &str = "low_precision low_precision(integers=quantised) projected projected(dimensions=8) \
    spectral taylor monomials anytime(order=min_wz,steps=40,stop=never) compressed(10) table linear student(4,8) student(4,directions=fitted) \
    pca(8,16) pca(8,16,arithmetic=int8) nearest(paper) landmarks(8,64)";

/// Words of `compile` for each of them.
pub const SAMPLED: &str = "--sample %sample --training %train --eps 0.1 --delta 0.3 --trust-sample";

/// A machine, a plan, words of `compile`, and after slashes words of `predict` for further items.
pub const PLANS: &str = "
sonar-rbf cascade(anytime(order=given,stop=never),exact)
sonar-rbf cascade(anytime(order=sgma,seed=3,stop=never),exact)
sonar-rbf cascade(anytime(order=min_wz,chunk=1,stop=never),exact)
sonar-rbf cascade(anytime(order=min_wz_n,clusters=2,stop=never),exact) --training %train --sample %sample
sonar-rbf cascade(anytime(order=mean_lh,stop=never),exact) --sample %sample
sonar-rbf cascade(anytime(order=hybrid,stop=never),exact) --sample %sample
sonar-rbf cascade(anytime(order=log_gap,stop=never),exact) --sample %sample
sonar-rbf cascade(anytime(order=stop_count,stop=never),exact) --sample %sample
haberman-rbf cascade(anytime(order=moved,steps=60,stop=never),exact)
sonar-rbf cascade(compressed(k=20,method=greedy),anytime(stop=never),exact) / --budget-kernels 60 / --budget-kernels 60 --require certified
pair-rbf exact / --budget 300 / --budget-us 20 --rate 100
pair-rbf cascade(projected,low_precision,exact) / --budget-kernels 60
pair-rbf cascade(projected(dimensions=12,look_ahead=4,directions=3),exact)
pair-rbf cascade(linear,student(4,8),pca(8,16),exact) --sample %sample --eps 0.05 / --require certified / --budget-kernels 15 / --audit 0.3
pair-rbf cascade(linear,student(2,4,directions=fitted),landmarks(4,40),low_precision,exact) --sample %sample --training %train --eps 0.05 --boundary 200
pair-rbf cascade(student(4,8),exact) --sample %sample --eps 0.02 --delta 0.2 --risk excess-error
pair-rbf cascade(anytime(stop=never,steps=140),exact) --sample %sample / --budget-kernels 90
pair-rbf nearest(paper) --training %train
pair-rbf nearest(paper,dimensions=20,smoothing=10,tug_of_war=yes,filter=no) --training %train --sample %sample
pair-rbf linear --sample %sample --eps 0.1
pair-small-rbf cascade(taylor,low_precision,exact) / --budget-kernels 70
pair-poly2 cascade(spectral,low_precision,exact) / --budget 640 / --budget 640 --require certified
digits-rbf cascade(linear,student(4,8,directions=fitted),pca(16,32),exact) --sample %sample --eps 0.05 / --require certified
digits-rbf cascade(compressed(20),low_precision,exact) / --budget-kernels 100
sonar-chi2 cascade(table,exact) / --budget 300
shells-rbf cascade(compressed(20),anytime(stop=never,steps=60),exact) / --value-tolerance 0.01 / --value-tolerance 0.2 --budget-kernels 60
haberman-rbf cascade(anytime,exact) --sample %sample / --budget-kernels 25
haberman-poly3 cascade(compressed(4),monomials,exact) / --budget 24
pair-novelty cascade(anytime(stop=never,steps=60),exact) --sample %sample
pair-novelty cascade(projected(dimensions=16),pca(8,16),exact) --sample %sample --eps 0.1 / --require certified
";

/// A method and words of `compress`.
pub const COMPRESSIONS: &str = "
greedy --size 12
greedy(ahead=1) --error 0.3
greedy --disagreement 0.05 --sample %sample --value-tolerance 0.5
moved --size 8
moved(iterations=10) --certified 0.2 --sample %sample --value-tolerance 0.5
quadratic
quadratic --size 10
exact_basis
exact_basis(tolerance=1e-3)
regression --size 15
regression(eps=0.3,refit=no)
regression(on=training) --size 15 --training %train
primal
primal(penalty=margin,lambda=1e-2)
primal(penalty=errors,lambda=1e-2) --training %train
lasso
lasso --size 12
greedy --size 6 --keep-vectors
";

/// A file and the command line that writes it, `-` for what is printed, `.` for what is no item; each line may use
/// what those before it wrote.
pub const COMMANDS: &str = "
made.svm convert @pair.query.csv @made.svm
made.svm convert @pair.query.csv @made.svm --split 0.5 --rest @rest.svm
rest.svm convert @pair.query.csv @made.svm --sample 50 --rest @rest.svm
made.csv convert @haberman.query.csv @made.csv --scaled-by @haberman-rbf.mercer
. convert @pair.query.csv @made.npy
answers.csv predict @pair-rbf.mercer @made.npy -o @answers.csv
. convert @pair.query.csv @made.idx
answers.csv predict @pair-rbf.mercer @made.idx -o @answers.csv
. convert @pair.query.csv @made.arrow
answers.csv predict @pair-rbf.mercer @made.arrow -o @answers.csv
. convert @pair.query.csv @made.parquet
answers.csv predict @pair-rbf.mercer @made.parquet -o @answers.csv
made.csv convert crates/mercer-data/tests/golden/types.arrow @made.csv --missing zero --one-hot name,colour
made.csv convert crates/mercer-data/tests/golden/types.arrows @made.csv --missing zero --one-hot name,colour
made.csv convert crates/mercer-data/tests/golden/types-lz4.feather @made.csv --missing zero --one-hot name,colour
made.csv convert crates/mercer-data/tests/golden/types-zstd.feather @made.csv --missing zero --one-hot name,colour
made.csv convert crates/mercer-data/tests/golden/types.parquet @made.csv --missing zero --one-hot name,colour
made.csv convert crates/mercer-data/tests/golden/types-v2.parquet @made.csv --missing zero --one-hot name,colour
made.csv convert crates/mercer-data/tests/golden/types-plain.parquet @made.csv --missing zero --one-hot name,colour
made.model export @pair-rbf.mercer --format libsvm -o @made.model
made.model export @digits-rbf.mercer --format libsvm -o @made.model
made.model export @shells-poly2.mercer --format libsvm -o @made.model
made.model export @pair-novelty.mercer --format libsvm -o @made.model
. compress @pair-linear.mercer -o @weights.mercer
made.model export @weights.mercer --format liblinear -o @made.model
. export @pair-rbf.mercer --format onnx -o @made.onnx
answers.csv predict @made.onnx @pair.query.csv -o @answers.csv
. export @digits-rbf.mercer --format onnx -o @made.onnx
answers.csv predict @made.onnx @digits.query.csv -o @answers.csv
- svm-scale -l 0 -u 1 -s @ranges @sparse.train.svm
ranges svm-scale -l 0 -u 1 -s @ranges @sparse.train.svm
made.model svm-train -s 0 -t 2 -g 0.001 -c 10 -b 1 -q @sparse.train.svm @made.model
made.out svm-predict -b 1 -q @sparse.query.svm @made.model @made.out
made.model svm-train -s 3 -t 1 -d 2 -g 0.01 -r 1 -q @sparse.train.svm @made.model
made.out svm-predict -q @sparse.query.svm @made.model @made.out
made.model svm-train -s 2 -t 0 -n 0.1 -q @sparse.train.svm @made.model
made.out svm-predict -q @sparse.query.svm @made.model @made.out
- svm-train -s 1 -t 2 -g 0.001 -n 0.1 -v 3 -q @sparse.train.svm
";

/// A trained machine, and how it is asked.
pub struct Machine {
    pub name: &'static str,
    set: &'static str,
    words: &'static str,
    /// Its file.
    pub file: String,
    pub queries: String,
    /// Words of `predict`.
    pub asked: &'static str,
}

impl Machine {
    /// Trains it unless that was done.
    pub fn train(&self, session: &Session) -> Result<()> {
        if session.folder.join(&self.file[1..]).is_file() {
            return Ok(());
        }
        let train = part(self.set, "train");
        match session.ask(&format!("train {train} -o {} {}", self.file, self.words))? {
            Ok(_) => Ok(()),
            Err(reason) => bail!("{}: {reason}", self.name),
        }
    }

    /// Words in which parts of its set are named.
    pub fn with_parts(&self, words: &str) -> String {
        let sample = part(self.set, "sample");
        words.replace("%sample", &sample).replace("%train", &part(self.set, "train"))
    }
}

pub fn machines() -> Vec<Machine> {
    let read = |line: &'static str| {
        let (words, asked) = line.split_once(" / ").unwrap_or((line, ""));
        let (name, words) = first_word(words);
        let (set, words) = first_word(words);
        let (file, queries) = (format!("@{name}.mercer"), part(set, "query"));
        Machine { name, set, words, file, queries, asked }
    };
    lines(MACHINES).map(read).collect()
}

/// Names of kernels, solvers, stages and the like in what `mercer list` prints that no case mentions.
pub fn unmentioned(list: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let texts = TEXTS.iter().map(|(_, _, text)| *text);
    let cases = [SOLVERS, KERNELS, FORMULATIONS, TRAININGS, MACHINES, STAGES, COMPRESSIONS];
    let cases: Vec<&str> = cases.into_iter().chain(texts).collect();
    let is_known =
        |name: &str| cases.iter().any(|case| case.split(|c| !is_word(c)).any(|word| word == name));
    let mut section = "";
    let mut names = Vec::new();
    for line in list.lines() {
        match line.strip_prefix("  ") {
            None => section = line,
            Some(entry) if SECTIONS.contains(&section) => {
                let name = entry.split(|c| !is_word(c)).next().unwrap_or_default();
                names.extend((!is_known(name)).then_some(name));
            }
            Some(_) => {}
        }
    }
    names
}

/// Titles in `mercer list` of what must be mentioned.
const SECTIONS: [&str; 6] =
    ["kernels", "scalings", "formulations", "solvers", "stages", "compressors"];

pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// Every word of the first text with every word of the second.
pub fn pairs<'a>(first: &'a str, second: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    words(first).flat_map(move |one| words(second).map(move |other| (one, other)))
}

#[cfg(test)]
mod tests {
    use super::super::data::SETS;
    use super::*;

    #[test]
    fn every_machine_and_every_set_that_is_named_is_there() {
        let machines = machines();
        for line in lines(PLANS) {
            let (name, _) = first_word(line);
            assert!(machines.iter().any(|machine| machine.name == name), "{line}");
        }
        let sets = machines.iter().map(|machine| machine.set);
        let trained = lines(TRAININGS).chain(lines(SEARCHES)).map(|line| first_word(line).0);
        let learned = lines(FORMULATIONS).flat_map(|line| words(first_word(line).1));
        for name in sets.chain(trained).chain(learned) {
            assert!(SETS.iter().any(|set| set.name == name), "{name}");
        }
    }

    #[test]
    fn a_machine_knows_its_files() {
        let machines = machines();
        let sparse = machines.iter().find(|machine| machine.name == "sparse-rbf").unwrap();
        assert_eq!((sparse.file.as_str(), sparse.asked), ("@sparse-rbf.mercer", ""));
        let words = sparse.with_parts("--sample %sample --training %train");
        assert_eq!(words, "--sample @sparse.sample.svm --training @sparse.train.svm");
        let value = machines.iter().find(|machine| machine.name == "shells-rbf").unwrap();
        assert_eq!(value.asked, "--value-tolerance 0.5");
    }

    #[test]
    fn what_no_case_mentions_is_found() {
        let list = "solvers\n  smo(working_set=256)  x\n  oracle(depth=2)  x\nformats\n  tape  x\n";
        assert_eq!(unmentioned(list), ["oracle"]);
    }
}
