//! The data sets that are part of the command `mercer`: what its verbs `demo` and `reproduce` compute on, as bytes of their
//! files. The other files of this folder are read where they lie, by tests and examples of the repository.

/// 208 sonar returns of 60 columns, comma-separated: metal cylinder or rock.
pub static SONAR: &[u8] = include_bytes!("sonar/sonar.csv");
/// 306 patients of 3 columns, comma-separated: five-year survival after surgery.
pub static HABERMAN: &[u8] = include_bytes!("haberman/haberman.csv");
/// 4,177 shells of 8 columns, comma-separated under a line of names: their rings.
pub static ABALONE: &[u8] = include_bytes!("abalone/abalone.csv");
/// 1,797 handwritten digits of 64 columns, comma-separated, compressed by gzip.
pub static DIGITS: &[u8] = include_bytes!("digits/digits.csv.gz");
/// The machine that LIBSVM trained on the first 1,200 of [`DIGITS`], as it writes it.
pub static DIGITS_MODEL: &[u8] = include_bytes!("digits/digits.model");
/// The labels that LIBSVM's `svm-predict` gives to the other 597 with that machine, one per line.
pub static DIGITS_SVM_PREDICT: &str = include_str!("digits/svm-predict.labels");
