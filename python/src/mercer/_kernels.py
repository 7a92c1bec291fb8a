"""scikit-learn's kernels as kernel texts of Mercer."""

from __future__ import annotations

from numbers import Integral

from .errors import ConversionError


def text(name: str, gamma: float, degree, coef0: float) -> str:
    """The text of one of scikit-learn's kernels."""
    gamma, coef0 = float(gamma), float(coef0)
    if name == "linear":
        return "linear"
    if name in ("poly", "polynomial"):
        if not isinstance(degree, Integral) and not float(degree).is_integer():
            raise ConversionError(f"degree is {degree}; only whole degrees are supported", "Degree")
        return f"polynomial(degree={int(degree)}, gamma={gamma!r}, coef0={coef0!r})"
    if name == "rbf":
        return f"rbf(gamma={gamma!r})"
    if name == "sigmoid":
        return f"sigmoid(gamma={gamma!r}, coef0={coef0!r})"
    if name == "laplacian":
        return f"laplacian(gamma={gamma!r})"
    if name == "chi2":
        return f"exponential(chi2, gamma={gamma!r})"
    if name == "cosine":
        return "normalized(linear)"
    if name == "precomputed":
        return "precomputed"
    raise ConversionError(f"unsupported kernel: {name!r}", "Kernel", {"kernel": name})
