#!/usr/bin/env python3
"""Scores of the queries of this folder, independent of Mercer: exact rationals for linear and polynomial kernels,
120 digits (mpmath) for normalised ones. Writes references.txt: machine, then for each query the two f64 numbers
that enclose its score (the same number twice where the score is one).

usage: python3 references.py   (needs mpmath)"""
import json, math, os, struct
from fractions import Fraction as Q
from mpmath import mp, mpf

mp.dps = 120
HERE = os.path.dirname(os.path.abspath(__file__))
NORMALISED = ["norm_deg100_scale0.01", "norm_deg20_1e-8", "norm_deg30_1e-5", "norm_g1e-160"]
POLYNOMIAL = ["proj_linear_1", "proj_linear_1e-215", "proj_poly3_g1e60_dir0", "proj_poly9_d1_dir0", "proj_poly9_one"]


def queries(name):
    for line in open(f"{HERE}/{name}.svm"):
        pairs = (text.split(":") for text in line.split()[1:])
        yield {int(column): Q(float(value)) for column, value in pairs}


def dot(u, v):
    return sum((u[column] * v[column] for column in u if column in v), Q(0))


def libsvm(name):
    """Kernel parameters, supports with coefficients, offset."""
    head, supports, lines = {}, [], iter(open(f"{HERE}/{name}.model"))
    for line in lines:
        words = line.split()
        if words[0] == "SV":
            break
        head[words[0]] = words[1:]
    for line in lines:
        words = line.split()
        pairs = (text.split(":") for text in words[1:])
        supports.append((Q(float(words[0])), {int(c): Q(float(v)) for c, v in pairs}))
    is_linear = head["kernel_type"][0] == "linear"
    gamma = Q(1) if is_linear else Q(float(head["gamma"][0]))
    coef0 = Q(float(head.get("coef0", ["0"])[0]))
    degree = 1 if is_linear else int(head["degree"][0])
    return (degree, gamma, Q(0) if is_linear else coef0), supports, Q(float(head["rho"][0]))


def mercer(name):
    """The same of a file of normalised polynomials with one score and dense supports."""
    data = open(f"{HERE}/{name}.mercer", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    index = json.loads(data[8 : 8 + size])
    header = json.loads(index.pop("__metadata__")["mercer"])
    array = lambda key, kind: [
        row[0] for row in struct.iter_unpack(kind, data[8 + size :][slice(*index[key]["data_offsets"])])
    ]
    kernel = header["kernel"].removeprefix("normalized(polynomial(").rstrip(")")
    named = dict(part.strip().split("=") for part in kernel.split(","))
    power = (int(named["degree"]), Q(float(named["gamma"])), Q(float(named.get("coef0", "0"))))
    columns, values = header["columns"], array("machine/supports/dense", "<d")
    rows = [values[at : at + columns] for at in range(0, len(values), columns)]
    rows = [{column + 1: Q(value) for column, value in enumerate(row)} for row in rows]
    named = zip(array("machine/scores/coefficients", "<d"), array("machine/scores/supports", "<I"))
    return power, [(Q(beta), rows[row]) for beta, row in named], Q(array("machine/scores/offsets", "<d")[0])


def real(q):
    return mpf(q.numerator) / mpf(q.denominator)


def power(parameters, u, v):
    degree, gamma, coef0 = parameters
    return (gamma * dot(u, v) + coef0) ** degree


def score(parameters, supports, offset, x):
    return sum((beta * power(parameters, z, x) for beta, z in supports), Q(0)) - offset


def normalised_score(parameters, supports, offset, x):
    own, total = power(parameters, x, x), -real(offset)
    for beta, z in supports:
        norms = power(parameters, z, z) * own
        if norms != 0:
            total += real(beta) * real(power(parameters, z, x)) / mp.sqrt(real(norms))
    # The digits that count are far from the end of the 120.
    return Q(int(mp.floor(total * mpf(10) ** 90)), 10**90)


def enclosing(q):
    nearest = float(q) if abs(q) < Q(1.7e308) else math.copysign(math.inf, q)
    if Q(nearest) == q:
        return nearest, nearest
    if Q(nearest) < q:
        return nearest, math.nextafter(nearest, math.inf)
    return math.nextafter(nearest, -math.inf), nearest


with open(f"{HERE}/references.txt", "w") as out:
    for name in NORMALISED + POLYNOMIAL:
        read, value = (mercer, normalised_score) if name in NORMALISED else (libsvm, score)
        machine = read(name)
        for x in queries(name):
            low, high = enclosing(value(*machine, x))
            out.write(f"{name} {low!r} {high!r}\n")
