"""A pytest plugin: scikit-learn's own tests of ``sklearn.svm`` meet our classes."""

import sklearn.svm

import mercer.svm

for _name in mercer.svm.__all__:
    setattr(sklearn.svm, _name, getattr(mercer.svm, _name))
