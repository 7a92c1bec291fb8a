//! `libsvm.so.3`: LIBSVM's functions with the structures of LIBSVM up to 3.30. Everything is in `mercer-libsvm`.

mercer_libsvm::export!(mercer_libsvm::svm_model_3, 324);
