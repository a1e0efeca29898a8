"""Checks of what a descriptor returns: one of another package may be wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Descriptor, LocalDescriptors


def describe_checked(descriptor: Descriptor, pixels: NDArray[np.float32]) -> LocalDescriptors:
    """Describe an image; raise ValueError unless types and shapes are as they should be."""
    found = descriptor.describe(pixels)
    name = f"{type(descriptor).__name__}.describe"
    if not isinstance(found, LocalDescriptors):
        raise ValueError(f"{name} returned {type(found).__name__}, expected LocalDescriptors")
    shape = _shape(found.values)
    if len(shape) != 2:
        raise ValueError(f"{name} returned values of shape {shape}, expected (n, m)")
    n, m = shape
    if m != descriptor.n_values:
        raise ValueError(
            f"{name} returned {m} values per patch, expected {descriptor.n_values}, its n_values"
        )
    for field in ("x", "y", "size"):
        other = _shape(getattr(found, field))
        if other != (n,):
            raise ValueError(
                f"{name} returned {field} of shape {other}, expected {(n,)}: one per patch"
            )
    return found


def check_sample(descriptor: Descriptor, values: NDArray[Any]) -> None:
    """Raise ValueError if a codebook would be learned from values that are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"{type(descriptor).__name__}.describe returned values that are NaN or infinite, "
            "expected finite ones"
        )


def _shape(values: Any) -> tuple[int, ...]:
    """Return the shape of an array; () of what is none."""
    return values.shape if isinstance(values, np.ndarray) else ()
