"""Labels and sparse matrices that try to break something: a right answer or a sentence, never a crash."""

import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
import mercer.svm as ours
from mercer.decomposition import RowBlock, WeightedSupports
from mercer.errors import ConversionError, DataError, MercerError

X = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 1.2], [1.1, 0.1]])
LARGE = 2**63 - 1


def fitted(labels, kind=ours.SVC):
    return kind().fit(X, np.array([labels[0], labels[1]] * 2))


@pytest.mark.parametrize("kind", [ours.SVC, ours.LinearSVC])
@pytest.mark.parametrize(
    "labels",
    [
        (-(2**63), 2**53),
        (2**53 - 1, -(2**53)),
        (7, 70),
        (1.0, -3.0),
        (False, True),
        ("007", "7"),
        ("9007199254740993", "9007199254740992"),
        ("a\nb", "\x1b[2J"),
        ("\u202eabc", "nul\x00byte"),
        ("", "é"),
    ],
)
def test_labels_come_back_from_a_file_as_they_were(labels, kind, tmp_path):
    model = fitted(labels, kind)
    assert set(model.predict(X)) <= set(labels)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert list(again.classes_) == list(model.classes_)
    assert list(again.predict(X)) == list(model.predict(X))


@pytest.mark.parametrize("labels", [(LARGE, LARGE - 1), (2**53 + 1, 2**53), (1, LARGE)])
def test_whole_numbers_that_floats_round_are_labels_in_memory_and_refused_in_files(labels, tmp_path):
    model = fitted(labels)
    assert set(model.predict(X)) == set(labels)
    for write in (model.save, model.to_onnx):
        with pytest.raises(ConversionError, match="would not come back"):
            write(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_half_of_a_surrogate_pair_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="class label .* use another label"):
        fitted(("a\ud800", "b"))


def broken():
    """Sparse matrices whose arrays contradict each other."""
    for change in ("large index", "negative index", "long indptr", "falling indptr", "late indptr", "short indices"):
        for form in (sp.csr_matrix, sp.csc_matrix, sp.csr_array):
            rows = form(X)
            indices, indptr = rows.indices, rows.indptr
            if change == "large index":
                indices[-1] = 2**30
            elif change == "negative index":
                indices[0] = -5
            elif change == "long indptr":
                indptr[-1] = 2**30
            elif change == "falling indptr":
                indptr[1] = 2**30
            elif change == "late indptr":
                indptr[0] = -(2**30)
            else:
                rows.indices = indices[:2]
            yield change, rows
    rows = sp.coo_matrix(X)
    rows.col = rows.col.copy()
    rows.col[0] = 2**30
    yield "large column", rows


@pytest.mark.parametrize("number", range(19))
def test_damaged_sparse_matrices_are_errors_in_training_and_in_prediction(number):
    change, rows = list(broken())[number]
    model = fitted((0, 1))
    for kind in (ours.SVC, ours.LinearSVC):
        with pytest.raises(DataError, match="sparse matrix is damaged"):
            kind().fit(rows, [0, 1, 0, 1])
    with pytest.raises(DataError, match="sparse matrix is damaged"):
        ours.SVC().fit(sp.csr_matrix(X), [0, 1, 0, 1]).predict(rows)
    with pytest.raises(DataError, match="sparse matrix is damaged"):
        mercer.from_sklearn(model).predict(rows)


def test_indices_changed_behind_the_back_of_a_matrix_are_an_error_or_the_same_answer():
    rows = sp.csr_matrix(X + 1)
    model = ours.SVC().fit(rows, [0, 1, 0, 1])
    assert rows.has_canonical_format
    rows.indices[:] = rows.indices[::-1].copy()  # no longer increasing, and the matrix still says so
    with pytest.raises(ValueError):
        model.predict(rows)


def test_an_unknown_instruction_set_is_a_warning():
    script = textwrap.dedent(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import mercer
        assert any("MERCER_ISA" in str(warning.message) for warning in caught), caught
        """
    )
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "MERCER_ISA": "avx9"}, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("width", [2**31, 2**40, 2**62])
def test_tables_for_columns_that_hold_nothing_are_refused_with_a_sentence(width):
    """Never a PanicException, which is no Exception, and never the end of the interpreter."""
    parts = np.array([0, 2]), np.array([0, 3]), np.ones(2), width
    try:
        block = RowBlock(parts)
    except (MercerError, ValueError) as error:
        assert str(error)
        return
    for work in (
        block.column_ranges,
        block.to_dense,
        lambda: WeightedSupports("rbf(gamma=1)", block, np.ones(1)).sums(block),
        lambda: WeightedSupports("chi2", block, np.ones(1)).sums(block),
    ):
        try:
            work()
        except (MercerError, ValueError) as error:
            assert str(error)


def test_attributions_of_far_columns_are_refused_with_a_sentence():
    """A model of LIBSVM text does not say how many columns its rows have."""
    folder = pathlib.Path(__file__).parents[2] / "crates/mercer-machine/tests/data/trust"
    far = sp.csr_matrix((np.ones(2), ([0, 1], [0, 2**31 - 2])), shape=(2, 2**31 - 1))
    near = sp.csr_matrix(X)
    for name in ("wide_column.model", "zero_vector.model"):
        model = mercer.load(folder / name)
        for rows, background in ((far, near), (near, far), (far, far)):
            with pytest.raises(MercerError) as raised:
                model.attribute(rows, background=background)
            assert str(raised.value)
