"""Class labels as model files hold them, numbers or texts, and back."""

from __future__ import annotations

import numpy as np

from .errors import ConversionError


def names_of(classes):
    """Labels as the names of a machine: numbers that f64 holds, texts otherwise."""
    are_numbers = classes.dtype.kind in "biuf" or all(
        isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in classes
    )
    return [_number(label) if are_numbers else _text(label) for label in classes]


def labels_of(names):
    """Names of a machine as an array: whole numbers where all are."""
    if isinstance(names, np.ndarray):
        return names
    if all(isinstance(name, float) and name.is_integer() for name in names):
        return np.array([int(name) for name in names])
    return np.array(names)


def check_stored(classes, names):
    """Refuses to write labels that would be others when they are read."""
    stored = np.unique(labels_of(names))
    for label in classes:
        if not any(label == other for other in stored):
            raise ConversionError(
                f"the class label {label!r} of type {type(label).__name__} would not come back from a file, which"
                " holds texts and the numbers of 64-bit floats (whole ones up to 2**53); use texts as labels",
                "Label",
            )


def _number(label):
    number = float(label)
    # A whole number that f64 rounds is kept as its digits: labels in memory stay as they are.
    return number if number == label and _is_exact(label, number) else str(label)


def _is_exact(label, number):
    return not isinstance(label, (int, np.integer)) or int(number) == int(label)


def _text(label):
    text = str(label)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"the class label {text!r} holds half of a surrogate pair, which is no text; use another label"
        ) from None
    return text
