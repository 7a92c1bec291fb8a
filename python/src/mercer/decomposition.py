"""The pieces of trainings whose rows are in several places: what ``mercer.spark`` is made of.

Rows travel as bytes (:class:`RowBlock`). A round of the exact machine takes a working set, solves it for changes
(:func:`solve_changes`) and adds the changes to the sums of all rows, block by block (:class:`WeightedSupports`);
:class:`OptimalityBounds` and :func:`objective_and_gap` say from parts how good the coefficients are. :class:`Landmarks` has the
sums of Newton's method for low-rank machines, :func:`dual_step` and :func:`common_step` the steps of linear and (by
:class:`Bins`) additive ones.

Examples
--------
The whole loop in one process, with three blocks:

>>> import numpy as np
>>> from mercer.decomposition import OptimalityBounds, Program, RowBlock, WeightedSupports, solve_changes
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(300, 2)); y = np.where((X ** 2).sum(axis=1) < 1.4, 1.0, -1.0)
>>> blocks = [RowBlock(part) for part in np.array_split(X, 3)]
>>> program = Program(np.minimum(0.0, y), np.maximum(0.0, y), -y)
>>> beta, sums = np.zeros(300), np.zeros(300)
>>> options = {"tolerance": 1e-3, "memory": 1 << 26, "max_iterations": None, "seconds": None, "threads": 1}
>>> for round in range(100):
...     bounds = OptimalityBounds()
...     bounds.add(program, beta, sums)
...     if bounds.violation < 1e-2:
...         break
...     places = np.sort(rng.choice(300, 100, replace=False))
...     rows = RowBlock.join(blocks).select(places)
...     found = solve_changes("rbf(gamma=1)", rows, program.changes(beta, sums, places), options)["changes"]
...     beta[places] = np.clip(beta[places] + found, np.minimum(0.0, y)[places], np.maximum(0.0, y)[places])
...     moved = WeightedSupports("rbf(gamma=1)", rows, found)
...     sums += np.concatenate([moved.sums(block) for block in blocks])
>>> bounds.violation < 1e-2
True
"""

from ._mercer import (
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

__all__ = [
    "Bins",
    "Landmarks",
    "OptimalityBounds",
    "Program",
    "RowBlock",
    "WeightedSupports",
    "common_step",
    "dual_step",
    "objective_and_gap",
    "solve_changes",
]
