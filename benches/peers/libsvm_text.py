"""LIBSVM's model and data files, with 17 significant digits throughout, and a plain evaluation.

`Machine` follows LIBSVM: f(x) = sum coef_i K(x, sv_i) - rho; f > 0 votes for the first label of
the pair. scikit-learn publishes the negated function for two classes; `from_estimator` undoes it.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy import sparse

from tasks import TaskError

KERNELS = {"linear": "linear", "poly": "polynomial", "rbf": "rbf", "sigmoid": "sigmoid"}
TYPES = {
    "SVC": "c_svc",
    "NuSVC": "nu_svc",
    "OneClassSVM": "one_class",
    "SVR": "epsilon_svr",
    "NuSVR": "nu_svr",
}


@dataclass
class Machine:
    """What the text file holds; `counts` and `labels` are empty unless it classifies."""

    svm_type: str
    kernel: str
    degree: int
    gamma: float
    coef0: float
    rho: np.ndarray
    labels: list
    counts: list
    coefficients: np.ndarray  # one row per support, as in the file
    supports: sparse.csr_matrix


def from_estimator(estimator):
    """The machine inside a fitted scikit-learn or sklearnex estimator.

    Labels keep scikit-learn's ascending order, which decides tied votes; the pair -1, +1 alone is
    turned round, as LIBSVM itself writes it.
    """
    classes = [int(c) for c in getattr(estimator, "classes_", [])]
    sign = -1.0 if len(classes) == 2 else 1.0
    coefficients = estimator.dual_coef_
    coefficients = coefficients.toarray() if sparse.issparse(coefficients) else coefficients
    machine = Machine(
        svm_type=TYPES[type(estimator).__name__],
        kernel=KERNELS[estimator.kernel],
        degree=int(estimator.degree),
        gamma=float(estimator.gamma),
        coef0=float(estimator.coef0),
        rho=-sign * np.ravel(estimator.intercept_),
        labels=classes,
        counts=[int(n) for n in estimator.n_support_] if classes else [],
        coefficients=sign * np.asarray(coefficients).T,
        supports=sparse.csr_matrix(estimator.support_vectors_),
    )
    return turned(machine) if classes == [-1, 1] else machine


def turned(machine):
    """The same two-class machine with its labels in the other order."""
    first = machine.counts[0]
    order = np.r_[first : sum(machine.counts), 0:first]
    return replace(
        machine,
        rho=-machine.rho,
        labels=machine.labels[::-1],
        counts=machine.counts[::-1],
        coefficients=-machine.coefficients[order],
        supports=machine.supports[order],
    )


def cells(rows):
    """Each row as `index:value ...`, indices from 1, zeros left out."""
    rows = sparse.csr_matrix(rows)
    rows.sort_indices()
    rows.eliminate_zeros()
    distinct, places = np.unique(rows.data, return_inverse=True)
    texts = [f"{value:.17g}" for value in distinct]
    for start, end in zip(rows.indptr, rows.indptr[1:]):
        pairs = zip(rows.indices[start:end].tolist(), places[start:end].tolist())
        yield " ".join(f"{column + 1}:{texts[place]}" for column, place in pairs)


def write_rows(path, rows, labels):
    with open(path, "w") as file:
        for label, row in zip(labels.tolist(), cells(rows)):
            file.write(f"{label:.17g} {row}".rstrip() + "\n")


def write_values(path, values):
    """One line per row: `%.17g` values separated by spaces."""
    with open(path, "w") as file:
        for row in values.tolist():
            row = row if isinstance(row, list) else [row]
            file.write(" ".join(f"{value:.17g}" for value in row) + "\n")


def write_model(path, machine):
    reals = lambda values: " ".join(f"{value + 0.0:.17g}" for value in values)  # noqa: E731
    header = [f"svm_type {machine.svm_type}", f"kernel_type {machine.kernel}"]
    if machine.kernel == "polynomial":
        header.append(f"degree {machine.degree}")
    if machine.kernel != "linear":
        header.append(f"gamma {machine.gamma:.17g}")
    if machine.kernel in ("polynomial", "sigmoid"):
        header.append(f"coef0 {machine.coef0:.17g}")
    header.append(f"nr_class {len(machine.labels) or 2}")
    header.append(f"total_sv {machine.supports.shape[0]}")
    header.append(f"rho {reals(machine.rho)}")
    if machine.labels:
        header.append("label " + " ".join(map(str, machine.labels)))
        header.append("nr_sv " + " ".join(map(str, machine.counts)))
    with open(path, "w") as file:
        file.write("\n".join(header) + "\nSV\n")
        for coefficients, row in zip(machine.coefficients.tolist(), cells(machine.supports)):
            file.write(f"{reals(coefficients)} {row}".rstrip() + " \n")


def read_model(path, columns):
    """Reads a file of `write_model`; `columns` is the width of the rows it was trained on."""
    head, coefficients = {}, []
    places, values, starts = [], [], [0]
    try:
        with open(path) as file:
            for line in file:
                if line.strip() == "SV":
                    break
                key, *words = line.split()
                head[key] = words
            width = int(head["nr_class"][0]) - 1
            for line in file:
                words = line.split()
                coefficients.append([float(word) for word in words[:width]])
                for word in words[width:]:
                    index, value = word.split(":")
                    places.append(int(index) - 1)
                    values.append(float(value))
                starts.append(len(places))
    except FileNotFoundError:
        raise TaskError(f"no model {path.name}; run prepare.py for its task first") from None
    return Machine(
        svm_type=head["svm_type"][0],
        kernel=head["kernel_type"][0],
        degree=int(head.get("degree", [3])[0]),
        gamma=float(head.get("gamma", [0])[0]),
        coef0=float(head.get("coef0", [0])[0]),
        rho=np.array(head["rho"], dtype=np.float64),
        labels=[int(label) for label in head.get("label", [])],
        counts=[int(count) for count in head.get("nr_sv", [])],
        coefficients=np.array(coefficients),
        supports=sparse.csr_matrix((values, places, starts), (len(coefficients), columns)),
    )


def kernel_matrix(machine, left, right):
    """K(left, right) of dense or sparse rows, as a dense array."""
    products = left @ right.T
    products = products.toarray() if sparse.issparse(products) else np.asarray(products)
    if machine.kernel == "rbf":
        square = lambda a: np.ravel(a.multiply(a).sum(1) if sparse.issparse(a) else (a * a).sum(1))  # noqa: E731
        distance = square(left)[:, None] + square(right)[None, :] - 2.0 * products
        return np.exp(-machine.gamma * np.maximum(distance, 0.0))
    if machine.kernel == "linear":
        return products
    inner = machine.gamma * products + machine.coef0
    return inner**machine.degree if machine.kernel == "polynomial" else np.tanh(inner)


def pairwise(machine):
    """For each pair of classes: supports by number, and their coefficients."""
    ends = np.cumsum([0, *machine.counts])
    for i, j in combinations(range(len(machine.labels)), 2):
        first, second = np.arange(ends[i], ends[i + 1]), np.arange(ends[j], ends[j + 1])
        weights = [machine.coefficients[first, j - 1], machine.coefficients[second, i]]
        yield np.r_[first, second], np.concatenate(weights)
    if not machine.labels:
        yield np.arange(machine.supports.shape[0]), machine.coefficients[:, 0]


def decisions(machine, queries):
    """LIBSVM's decision values, one column per pair of classes."""
    supports = machine.supports if sparse.issparse(queries) else machine.supports.toarray()
    kernel = kernel_matrix(machine, queries, supports)
    scores = [kernel[:, chosen] @ weights for chosen, weights in pairwise(machine)]
    return np.column_stack(scores) - machine.rho


def votes(machine, values):
    """LIBSVM's answers from its decision values."""
    if not machine.labels:
        return (
            np.where(values[:, 0] > 0, 1, -1) if machine.svm_type == "one_class" else values[:, 0]
        )
    tally = np.zeros((len(values), len(machine.labels)), dtype=np.int64)
    for column, (i, j) in enumerate(combinations(range(len(machine.labels)), 2)):
        tally[:, i] += values[:, column] > 0
        tally[:, j] += values[:, column] <= 0
    return np.array(machine.labels)[tally.argmax(axis=1)]
