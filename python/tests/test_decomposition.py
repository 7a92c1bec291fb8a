"""The pieces of trainings over blocks of rows: bits that do not depend on blocks, sums that merge, sentences for bad input."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Model
from mercer.decomposition import (
    Bins,
    Landmarks,
    OptimalityBounds,
    Program,
    RowBlock,
    WeightedSupports,
    common_step,
    dual_step,
    objective_and_gap,
    solve_changes,
)
from mercer.errors import DataError, SpecError

OPTIONS = {"tolerance": 1e-4, "memory": 1 << 26, "max_iterations": None, "seconds": None, "threads": 1}


def data(rows=300, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, np.where(X[:, 0] + X[:, 1] ** 2 > 0.4, 1.0, -1.0)


def csr(X):
    rows = sp.csr_matrix(X)
    return rows.indptr, rows.indices, rows.data, X.shape[1]


def test_rows_keep_their_bits_as_bytes_dense_and_sparse():
    X, _ = data()
    for block in (RowBlock(X), RowBlock(csr(X))):
        again = RowBlock.from_bytes(block.to_bytes())
        assert (len(again), again.columns, again.is_sparse) == (300, 3, block.is_sparse)
        assert again.to_dense().tobytes() == X.tobytes()
        starts, columns, values, width = pickle.loads(pickle.dumps(block)).to_csr()
        assert (sp.csr_matrix((values, columns, starts), shape=(300, width)) != sp.csr_matrix(X)).nnz == 0
        places = np.array([5, 0, 299])
        assert block.select(places).to_dense().tobytes() == X[places].tobytes()
    joined = RowBlock.join([RowBlock(X[:100]), RowBlock(csr(X[100:]))])
    assert joined.to_dense().tobytes() == X.tobytes()


def test_digests_and_ranges_are_those_of_the_values():
    X, y = data()
    weights = np.ones(300)
    dense, sparse = RowBlock(X), RowBlock(csr(X))
    assert np.array_equal(dense.digests(y, weights), sparse.digests(y, weights))
    assert len(np.unique(dense.digests(y, weights), axis=0)) == len(np.unique(np.column_stack([X, y]), axis=0))
    assert not np.array_equal(dense.digests(y, weights), dense.digests(-y, weights))
    for block in (dense, sparse):
        low, high = block.column_ranges()
        assert np.array_equal(low, X.min(axis=0)) and np.array_equal(high, X.max(axis=0))


def test_what_is_no_block_of_rows_is_refused():
    with pytest.raises(DataError, match="not a block of rows"):
        RowBlock.from_bytes(b"anything")
    with pytest.raises(DataError, match="damaged"):
        RowBlock.from_bytes(RowBlock(np.ones((2, 2))).to_bytes()[:-1])
    with pytest.raises(DataError, match="row 2, column 1"):
        RowBlock(np.array([[1.0], [np.nan]]))
    with pytest.raises(IndexError, match="no row 2 among 2"):
        RowBlock(np.ones((2, 2))).select(np.array([2]))
    with pytest.raises(ValueError, match="3 columns, the first one 2"):
        RowBlock.join([RowBlock(np.ones((1, 2))), RowBlock(np.ones((1, 3)))])
    with pytest.raises(SpecError):
        WeightedSupports("rbv(gamma=1)", RowBlock(np.ones((1, 2))), np.ones(1))
    with pytest.raises(ValueError, match="one weight"):
        WeightedSupports("linear", RowBlock(np.ones((1, 2))), np.ones(2))
    with pytest.raises(ValueError, match="rows of 3 columns"):
        WeightedSupports("linear", RowBlock(np.ones((1, 2))), np.ones(1)).sums(RowBlock(np.ones((1, 3))))


def test_sums_have_the_same_bits_in_any_blocks_and_on_any_threads():
    X, y = data(700)
    supports = WeightedSupports("rbf(gamma=0.7)", RowBlock(X), y)
    whole = supports.sums(RowBlock(X), 1)
    for cuts in ([1], [250, 251, 600], list(range(10, 700, 10))):
        parts = [supports.sums(RowBlock(part), 2) for part in np.split(X, cuts)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
        sparse = [supports.sums(RowBlock(csr(part))) for part in np.split(X, cuts)]
        assert np.concatenate(sparse).tobytes() == whole.tobytes()
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    assert np.allclose(whole, np.exp(-0.7 * squares) @ y, rtol=0, atol=1e-10)


def test_changes_reach_the_optimum_of_svc():
    from sklearn.svm import SVC

    X, y = data()
    program = Program(np.minimum(0.0, 2 * y), np.maximum(0.0, 2 * y), -y)
    zero = np.zeros(300)
    places = np.arange(300)
    found = solve_changes("rbf(gamma=1)", RowBlock(X), program.changes(zero, zero, places), OPTIONS)
    assert found["stop"] is None and found["iterations"] > 0
    beta = found["changes"]
    sums = WeightedSupports("rbf(gamma=1)", RowBlock(X), beta).sums(RowBlock(X))
    bounds, parts = OptimalityBounds(), []
    for cut in np.array_split(places, 4):
        part = Program(np.minimum(0.0, 2 * y)[cut], np.maximum(0.0, 2 * y)[cut], -y[cut])
        own = OptimalityBounds()
        own.add(part, beta[cut], sums[cut])
        bounds.merge(own)
        parts.append((part, cut))
    assert bounds.violation <= 1.1e-4
    numbers = [objective_and_gap(part, beta[cut], sums[cut], bounds.multiplier) for part, cut in parts]
    objective, gap = np.sum(numbers, axis=0)
    theirs = SVC(C=2, gamma=1, tol=1e-6).fit(X, y)
    coefficients = np.zeros(300)
    coefficients[theirs.support_] = theirs.dual_coef_[0]
    kernel = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    reference = 0.5 * coefficients @ kernel @ coefficients - y @ coefficients
    assert abs(objective - reference) <= gap + 1e-5 * abs(reference)


def test_landmark_sums_of_blocks_are_those_of_the_formula():
    X, y = data()
    landmarks = Landmarks("rbf(gamma=1)", RowBlock(X[:5]))
    assert len(landmarks) == 5
    weights = np.linspace(-0.3, 0.4, 6)
    costs = np.full(300, 1.5)
    values = np.exp(-((X[:, None] - X[None, :5]) ** 2).sum(axis=2))
    features = np.column_stack([values, np.ones(300)])
    slack = np.maximum(0, 1 - y * (features @ weights))
    inside = (slack > 0) * costs
    loss, gradient, hessian = landmarks.sums(RowBlock(X), y, costs, weights)
    assert np.isclose(loss, 0.5 * (costs * slack**2).sum())
    assert np.allclose(gradient, -(costs * y * slack) @ features)
    assert np.allclose(hessian.reshape(6, 6), features.T @ (inside[:, None] * features))
    with pytest.raises(ValueError, match="numbers"):
        landmarks.sums(RowBlock(X), y[:2], costs, weights)


def test_dual_steps_of_blocks_reach_the_optimum_of_linear_svc():
    from sklearn.svm import LinearSVC

    X, y = data()
    alpha, weights = np.zeros(300), np.zeros(4)
    cuts = np.array_split(np.arange(300), 3)
    for round in range(300):
        options = {"passes": 2, "seed": round, "constant": 1.0}
        steps = [dual_step(RowBlock(X[c]), y[c], np.ones(len(c)), alpha[c], weights, options) for c in cuts]
        moved = sum(step["weight_changes"] for step in steps)
        share = common_step(weights, moved, sum(step["alpha_sum"] for step in steps))
        weights += share * moved
        for cut, step in zip(cuts, steps):
            alpha[cut] += share * step["alpha_changes"]
    primal = 0.5 * weights @ weights + np.maximum(0, 1 - y * (X @ weights[:3] + weights[3])).sum()
    assert primal - (alpha.sum() - 0.5 * weights @ weights) <= 2e-3 * primal
    theirs = LinearSVC(loss="hinge", tol=1e-8, max_iter=200_000, random_state=0).fit(X, y)
    norm = 0.5 * (theirs.coef_[0] @ theirs.coef_[0] + theirs.intercept_[0] ** 2)
    reference = norm + np.maximum(0, 1 - y * theirs.decision_function(X)).sum()
    assert primal <= 1.002 * reference


def test_encoded_rows_and_the_machine_of_their_weights_agree():
    steps = np.tril(np.ones((9, 8), dtype=np.float32), -1)
    bins = Bins(8.0, 1, steps)
    X = np.abs(np.random.default_rng(0).integers(0, 9, size=(40, 2)).astype(float))
    encoded = bins.encode(RowBlock(X)).to_dense()
    assert np.array_equal(encoded @ encoded.T, np.minimum(X[:, None], X[None]).sum(axis=2))
    weights = np.linspace(-1, 1, 16, dtype=np.float32)[None]
    machine = Model(bins.machine("intersection", 2, weights, np.array([0.25]), ["left", "right"]))
    scores = encoded @ weights[0].astype(float) - 0.25
    assert np.allclose(np.abs(machine.decision_function(X)), np.abs(scores), atol=1e-12)
    assert np.array_equal(machine.predict(X) == "left", scores > 0)
