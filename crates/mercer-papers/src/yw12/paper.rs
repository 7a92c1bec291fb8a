//! The numbers that \[YW12\] prints, and how rows beside them are made.
//! Nothing is measured here.

use crate::{Comparison, Session};

/// The methods of the paper, in the order of its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrintedMethod {
    LutChi2,
    PmsvmChi2,
    MapChi2,
    LutHi,
    PmsvmHi,
    MapHi,
    Liblinear,
}

use PrintedMethod::{Liblinear, LutChi2, LutHi, MapChi2, MapHi, PmsvmChi2, PmsvmHi};

/// All of them, with the names of the paper.
const METHODS: [(PrintedMethod, &str); 7] = [
    (LutChi2, "PmSVM-LUT-chi2"),
    (PmsvmChi2, "PmSVM-chi2"),
    (MapChi2, "fm-chi2"),
    (LutHi, "PmSVM-LUT-HI"),
    (PmsvmHi, "PmSVM-HI"),
    (MapHi, "fm-HI"),
    (Liblinear, "LIBLINEAR"),
];

/// One data set of the paper: Tables 4 to 7 for five binary ones, 8 and 9 for three of images.
pub(super) struct PaperSet {
    pub(super) name: &'static str,
    seconds: [f64; 7],
    accuracy: [f64; 7],
    /// MB of PmSVM-LUT, PmSVM, feature map and LIBLINEAR.
    memory: [f64; 4],
    /// Milliseconds of PmSVM-LUT and PmSVM.
    test: Option<[f64; 2]>,
    /// Files of the LIBSVM data page, or why there are none.
    pub(super) source: &'static str,
}

pub(super) const SETS: [PaperSet; 8] = [
    PaperSet {
        name: "KDDA",
        seconds: [55.0, 66.6, 59.9, 55.2, 110.7, 66.4, 1481.5],
        accuracy: [89.61, 89.62, 89.60, 89.61, 89.62, 89.56, 88.56],
        memory: [3267.0, 6880.0, 5853.0, 5542.0],
        test: Some([75.0, 341.0]),
        source: "put kdda and kdda.t of the LIBSVM data page into --data",
    },
    PaperSet {
        name: "KDDB",
        seconds: [123.0, 148.8, 134.5, 131.0, 232.3, 148.4, 3537.8],
        accuracy: [90.01, 90.00, 89.97, 90.01, 90.00, 89.97, 88.94],
        memory: [6077.0, 13005.0, 10950.0, 10050.0],
        test: Some([88.0, 397.0]),
        source: "put kddb and kddb.t of the LIBSVM data page into --data",
    },
    PaperSet {
        name: "URL",
        seconds: [7.5, 11.0, 10.0, 7.5, 31.2, 11.1, 127.2],
        accuracy: [98.77, 98.73, 98.62, 98.77, 98.74, 98.55, 98.45],
        memory: [1199.0, 2812.0, 2304.0, 2253.0],
        test: Some([596.0, 2545.0]),
        source: "put url_combined of the LIBSVM data page into --data; the paper does not say which rows it tests",
    },
    PaperSet {
        name: "RCV1",
        seconds: [2.2, 3.5, 3.3, 2.1, 12.3, 3.2, 7.1],
        accuracy: [97.85, 97.82, 97.60, 97.85, 97.85, 97.57, 97.17],
        memory: [530.0, 1007.0, 828.0, 825.0],
        test: Some([7.0, 27.0]),
        source: "put rcv1_train.binary and rcv1_test.binary of the LIBSVM data page into --data; as in the paper, the \
                 larger one is trained on",
    },
    PaperSet {
        name: "WEBSPAM",
        seconds: [0.9, 1.8, 1.6, 0.9, 7.2, 1.6, 5.8],
        accuracy: [94.28, 94.79, 93.73, 93.63, 94.65, 93.54, 92.69],
        memory: [280.0, 504.0, 501.0, 498.0],
        test: None,
        source: "put webspam_wc_normalized_trigram.svm of the LIBSVM data page into --data; the paper has the mean of five \
                 folds, we hold out one",
    },
    PaperSet {
        name: "ILSVRC 1000",
        seconds: [24999.0, 21791.0, 50687.0, 24961.0, 22449.0, 50790.0, 136_874.0],
        accuracy: [26.15, 26.11, 25.67, 26.30, 26.23, 25.41, 22.13],
        memory: [12200.0, 30000.0, 24300.0, 24000.0],
        test: Some([254_800.0, 256_900.0]),
        source: "21,000 features of each image that the authors made; they are not part of the paper",
    },
    PaperSet {
        name: "Caltech 101",
        seconds: [78.0, 71.0, 151.0, 82.0, 83.0, 151.0, 53.0],
        accuracy: [72.05, 72.05, 72.00, 72.20, 72.20, 71.90, 68.06],
        memory: [580.0, 1210.0, 940.0, 750.0],
        test: Some([10_000.0, 10_800.0]),
        source: "62,000 features of each image that the authors made; they are not part of the paper",
    },
    PaperSet {
        name: "Indoor 67",
        seconds: [131.0, 128.0, 208.0, 144.0, 148.0, 222.0, 442.0],
        accuracy: [46.18, 46.10, 45.95, 46.85, 46.78, 46.10, 40.93],
        memory: [650.0, 1390.0, 1220.0, 1100.0],
        test: Some([2500.0, 2700.0]),
        source: "62,000 features of each image that the authors made; they are not part of the paper",
    },
];

/// What is measured of a method, as rows name it, with its unit.
pub(super) const TIME: (&str, &str) = ("training time", "s");
pub(super) const ACCURACY: (&str, &str) = ("accuracy", "%");
pub(super) const MEMORY: (&str, &str) = ("memory", "MB");
pub(super) const TEST: (&str, &str) = ("test time", "ms");

impl PaperSet {
    fn number(&self, method: PrintedMethod, measure: &str) -> Option<f64> {
        let at = METHODS.iter().position(|(other, _)| *other == method)?;
        let kind = match method {
            LutChi2 | LutHi => 0,
            PmsvmChi2 | PmsvmHi => 1,
            MapChi2 | MapHi => 2,
            Liblinear => 3,
        };
        match measure {
            "training time" => Some(self.seconds[at]),
            "accuracy" => Some(self.accuracy[at]),
            "memory" => Some(self.memory[kind]),
            _ => self.test.and_then(|test| test.get(kind).copied()),
        }
    }
}

/// The paper's number for a set and a method, if it has one.
pub(super) fn number(set: &str, method: Option<PrintedMethod>, measure: &str) -> Option<f64> {
    SETS.iter().find(|other| other.name == set)?.number(method?, measure)
}

/// The rows of a set that was not measured: the paper's numbers, and where the files are to be found.
pub(super) fn compare_missing(session: &Session<'_>, set: &PaperSet) {
    for (method, name) in METHODS {
        for (measure, unit) in [TIME, ACCURACY, MEMORY, TEST] {
            let Some(paper) = set.number(method, measure) else { continue };
            let row = Comparison::new(set.name, name, measure).paper(paper).unit(unit);
            session.compare(row.note(set.source));
        }
    }
}
