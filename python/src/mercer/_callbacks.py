"""scikit-learn's callbacks (1.9 and later) while our estimators train: progress bars, monitors of scores, early stops.

The root task of a fit has :data:`PARTS` subtasks, each of the same share of the expected work. Our own ``callback`` parameter is
in ``_training.py``.
"""

from __future__ import annotations

import functools

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:
        """Nothing."""

    with_callbacks = None

#: Subtasks of a fit.
PARTS = 20


def observed(fit):
    """A fit that runs the callbacks which ``set_callbacks`` or a meta-estimator set."""
    if with_callbacks is None:
        return fit

    @functools.wraps(fit)
    def run(self, X, y, sample_weight=None, **options):
        if not hasattr(self, "_skl_callbacks"):
            return fit(self, X, y, sample_weight, **options)
        return with_tasks(self, X, y, sample_weight, **options)

    @with_callbacks
    def with_tasks(self, X, y, sample_weight, **options):
        context = self._init_callback_context(max_subtasks=PARTS)
        about = {"X": X, "y": y, "metadata": None if sample_weight is None else {"sample_weight": sample_weight}}
        context.call_on_fit_task_begin(estimator=self, **about)
        self._fit_tasks = FitTasks(self, context)
        try:
            fit(self, X, y, sample_weight, **options)
            self._fit_tasks.reach(1.0)
        finally:
            del self._fit_tasks
        # All fitted attributes are set: a copy is the fitted estimator.
        context.call_on_fit_task_end(estimator=self, reconstruction_attributes={}, **about)
        return self

    return run


class FitTasks:
    """The subtasks of a running fit."""

    def __init__(self, estimator, context):
        self.estimator, self.context = estimator, context
        self.done, self.running = 0, None
        self._begin()

    def reach(self, share):
        """Ends the subtasks up to this share of the work; whether a callback asks to stop."""
        is_enough = False
        while self.running is not None and self.done + 1 <= share * PARTS:
            is_enough |= bool(self.running.call_on_fit_task_end(estimator=self.estimator))
            self.done, self.running = self.done + 1, None
            if self.done < PARTS:
                self._begin()
        return is_enough

    def observe(self, progress):
        """The same for a report on the progress."""
        left, spent = progress["time_left"], progress["elapsed"]
        if left is not None and left + spent > 0:
            return self.reach(spent / (left + spent))
        return self.reach(progress["subproblem"] / max(1, progress["subproblems"]))

    def _begin(self):
        self.running = self.context.subcontext(task_name="part of the training")
        self.running.call_on_fit_task_begin(estimator=self.estimator)
