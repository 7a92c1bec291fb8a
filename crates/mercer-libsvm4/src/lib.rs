//! `libsvm.so.4`: LIBSVM's functions with the structures of LIBSVM from 3.31 on, where a model has `prob_density_marks`.
//! Everything is in `mercer-libsvm`.

mercer_libsvm::export!(mercer_libsvm::svm_model_4, 337);
