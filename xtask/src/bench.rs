//! `cargo xtask bench`: runs measurements; each topic is a file of this folder.

mod abi;
mod additive;
mod all;
mod builds;
mod charts;
mod decomposition;
mod faults;
mod figures;
mod limits;
mod linear;
mod low_rank;
mod mutations;
mod predict;
mod read;
mod report;
mod search;
mod serve;
mod soak;
mod train;
mod tune;

use std::process::ExitCode;

use anyhow::{Result, bail};

pub use serve::load_main;

use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "bench",
    usage: "[TOPIC] [--prepared DIR] [--task NAME ...] [--rows N ...] [--peers PYTHON] [--write FILE] \
            [--contract TEXT] [--baseline FILE] [--variants N] [--pairs N] [--kills N] [--plans N] [--seed N] [--machine N] \
            [--quick] [--seconds N] [--built] [--figures FILE] [--all]",
    about: "Measures and prints a table; all topics unless one is named.\n\
            predict   answering queries, for every prepared task of benches/tasks.toml\n\
            train     training, for the tasks whose rows were written by benches/peers/rows.py\n\
            read      LIBSVM text of 100 MB: seconds and memory\n\
            soak      damaged files of every kind, then an attack on certificates: ranges of every stage at every scale\n\
            \u{20}         against true scores, then plans whose calibrated promise is broken; only if named\n\
            mutations each bound of xtask/mutations.toml weakened on purpose, in a copy of the workspace: for which\n\
            \u{20}         of them no test fails; only if named\n\
            faults    the command killed at random moments, files without permissions, several writers of one file;\n\
            \u{20}         only if named\n\
            limits    time limits of tune and search, by the clock: each may take 10 % more than its limit; only if named\n\
            low_rank  low-rank training beside smo and, with --peers, LIBSVM; how those machines answer\n\
            decomposition  training in rounds over working sets beside smo\n\
            linear    linear machines beside LIBLINEAR; needs --peers\n\
            tune      machines of every kind tuned: never slower than exact, and the contract kept\n\
            additive  additive kernels beside LIBLINEAR and PmSVM-LUT; needs --peers; tasks MNIST, gradients,\n\
            \u{20}         covtype, Adult, zipf, uniform, growth, each written to the page as it ends\n\
            builds    another build of the command beside this one, in turns: training, additive training, answers;\n\
            \u{20}         needs --baseline\n\
            abi       programs that load libsvm.so, with Debian's library and with ours; only if named\n\
            serve     mercer serve under load beside an empty handler, MLServer and FastAPI; only if named; tasks start,\n\
            \u{20}         one_row, inline, rows64, overload, reload, stop, peers, and only if named soak\n\
            charts    measures nothing: writes docs/benchmarks/README.md and its charts from overview.json; only if named\n\
            search    a grid of 36 candidates in 5 folds on 10000 rows of a9a\n\
            --prepared DIR  where benches/peers/prepare.py wrote (target/bench)\n\
            --task NAME     only this task; only mutations whose names contain it\n\
            --rows N        training on the first N rows only; several show how time grows\n\
            --peers PYTHON  also measures the peers installed for this interpreter\n\
            --baseline FILE the other build of the command\n\
            --contract TEXT predict also tunes each machine under this contract, on the first 60 % of its queries, and\n\
            \u{20}               asks it the others\n\
            --variants N    damaged variants of each kind of file in the soak (1e6)\n\
            --kills N       how often faults kills each verb (100)\n\
            --pairs N       how many ranges the soak looks at (1e9)\n\
            --plans N       how many calibrated plans the soak asks fresh queries (2000)\n\
            --seed N        of the soak; it prints the one it draws\n\
            --machine N     only this machine of that seed, with all that is wrong with it\n\
            --quick         shorter runs of serve; fewer rows and turns for predict, train, additive and search\n\
            --all           with --quick: the results of the README, prepared and measured in 20 minutes at most, building not\n\
            \u{20}               counted; topics may be named; --figures FILE (target/bench/quick.json) gets machine, date, commit,\n\
            \u{20}               commands, figures and what was skipped; runs that it holds already and that are not repeated stay\n\
            --figures FILE  writes the figures of predict, train, additive or search there, as JSON\n\
            --built         serve and limits measure the programs that were built last\n\
            --seconds N     how long the soak of serve runs (1200)\n\
            --write FILE    writes the table there, with machine, commit and command\n\
            MERCER_DATA names the directory of the data files (../shared/data)",
    run,
};

/// What a topic may be told.
struct Options {
    prepared: Option<String>,
    tasks: Vec<String>,
    rows: Vec<usize>,
    peers: Option<String>,
    write: Option<String>,
    contract: Option<String>,
    baseline: Option<String>,
    pairs: Option<String>,
    variants: Option<String>,
    plans: Option<String>,
    seed: Option<String>,
    machine: Option<String>,
    kills: Option<String>,
    quick: bool,
    /// Where figures are written as JSON.
    figures: Option<String>,
    built: bool,
    seconds: Option<String>,
}

/// A name, what it measures, and whether it runs where no topic is named.
type Topic = (&'static str, fn(&Options) -> Result<ExitCode>, bool);

const TOPICS: &[Topic] = &[
    ("predict", predict::run, true),
    ("train", train::run, true),
    ("linear", linear::run, true),
    ("additive", additive::run, true),
    ("low_rank", low_rank::run, true),
    ("decomposition", decomposition::run, true),
    ("search", search::run, true),
    ("tune", tune::run, true),
    ("read", read::run, true),
    ("builds", builds::run, false),
    ("soak", soak::run, false),
    ("mutations", mutations::run, false),
    ("faults", faults::run, false),
    ("limits", limits::run, false),
    ("abi", abi::run, false),
    ("serve", serve::run, false),
    ("charts", charts::run, false),
];

fn run(mut args: Args) -> Result<ExitCode> {
    let options = Options {
        prepared: args.value("--prepared")?,
        tasks: args.values("--task")?,
        rows: args.values("--rows")?.iter().map(|count| count.parse()).collect::<Result<_, _>>()?,
        peers: args.value("--peers")?,
        write: args.value("--write")?,
        contract: args.value("--contract")?,
        baseline: args.value("--baseline")?,
        pairs: args.value("--pairs")?,
        variants: args.value("--variants")?,
        plans: args.value("--plans")?,
        seed: args.value("--seed")?,
        machine: args.value("--machine")?,
        kills: args.value("--kills")?,
        quick: args.flag("--quick"),
        figures: args.value("--figures")?,
        built: args.flag("--built"),
        seconds: args.value("--seconds")?,
    };
    let is_all = args.flag("--all");
    let names = args.names()?;
    let known: Vec<_> = TOPICS.iter().map(|(name, ..)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("no topic '{name}'; there are {}", known.join(", "));
    }
    if is_all {
        return all::run(&options, &names);
    }
    let mut code = ExitCode::SUCCESS;
    for (name, measure, is_usual) in TOPICS {
        if (names.is_empty() && *is_usual) || names.iter().any(|wanted| wanted == name) {
            let ended = measure(&options)?;
            if ended != ExitCode::SUCCESS {
                code = ended;
            }
        }
    }
    Ok(code)
}
