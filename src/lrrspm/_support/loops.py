"""How loops are compiled, and the small ones that several stages share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .kept_loops import guard_cache

F = TypeVar("F", bound=Callable[..., Any])


def compiled(*fastmath: str, inline: bool = False) -> Callable[[F], F]:
    """Compile a loop when it is first called, without the GIL, and keep it on disk.

    Parameters
    ----------
    fastmath : str
        Freedoms that LLVM may take, such as "contract" for fused multiply-adds.
    inline : bool
        For a loop that others call. Where it or its caller has freedoms it
        must be True: LLVM then sees one and the same program whether the
        callee was compiled now or comes from disk, and makes the same bits of
        it. The freedoms are then those of the caller.
    """
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": set(fastmath),
        "inline": "always" if inline else "never",
    }

    def decorate(function: F) -> F:
        try:
            loop = njit(cache=True, **options)(function)
        except RuntimeError:  # nowhere to write: compile in every process
            _warn_of_compiling()
            return njit(**options)(function)
        guard_cache(loop)
        return loop

    return decorate


@cache
def _warn_of_compiling() -> None:
    warnings.warn(
        "no folder to keep compiled loops in, so every run compiles them, for up to half a minute; "
        "set NUMBA_CACHE_DIR to a folder that can be written to",
        stacklevel=4,
    )


@compiled()
def reciprocal(value: np.float32) -> np.float32:
    """Return 1 / value.

    For loops with the freedom "reassoc": were the quotient their own, LLVM would turn products
    with it into quotients, one division for each. Not inline, so that it keeps out of those
    freedoms; a single division is the same number wherever LLVM puts it.
    """
    return np.float32(1) / value


_LOWEST = np.int32(-(2**31))
_MASK = np.int32(2**31 - 1)


@compiled()
def first_maximum(row: NDArray[np.float32]) -> np.int32:
    """Index of the largest of float32 numbers (no NaN), the first of equal ones.

    A maximum of floats stays scalar in numba, one of integers does not; and
    floats have the order of their bits, once those of negative ones are
    flipped. Two comparisons per number; three times as fast as the plain loop.
    """
    bits = row.view(np.int32)
    best = _LOWEST
    for j in range(bits.size):
        value = np.int32(bits[j] ^ np.int32(np.int32(bits[j] >> np.int32(31)) & _MASK))
        best = value if value > best else best
    best = np.int32(best ^ np.int32(np.int32(best >> np.int32(31)) & _MASK))
    place = _MASK
    for j in range(bits.size):
        place = min(place, np.int32(j) if bits[j] == best else _MASK)
    return place


@compiled(inline=True)
def solve_positive(
    system: NDArray[np.float64],
    values: NDArray[np.float64],
    size: int,
) -> None:
    """Solve a positive definite system by Cholesky, lower half and values in place."""
    for i in range(size):
        for j in range(i + 1):
            total = system[i, j]
            for t in range(j):
                total -= system[i, t] * system[j, t]
            system[i, j] = np.sqrt(total) if i == j else total / system[j, j]
    for i in range(size):
        total = values[i]
        for t in range(i):
            total -= system[i, t] * values[t]
        values[i] = total / system[i, i]
    for i in range(size - 1, -1, -1):
        total = values[i]
        for t in range(i + 1, size):
            total -= system[t, i] * values[t]
        values[i] = total / system[i, i]
