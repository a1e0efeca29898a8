"""Half precision: float16 arrays to float32 and back, by their bits.

NumPy takes 5 ns per number to widen and 13 to round where it has no instruction
for it, and numba does not know the type. These loops take a tenth of that, and
give the same bits for finite numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .loops import compiled

_SIGN = np.uint32(0x8000)
_REST = np.uint32(0x7FFF)
_FLOAT_REST = np.uint32(0x7FFFFFFF)
# A half's exponent counts from 15, a float's from 127.
_WIDER = np.float32(2.0**112)
_NARROWER = np.uint32(112 << 23)
# Below 2^-14 a half has fixed steps of 2^-24, as a float has from 1/2 to 1.
_LEAST_NORMAL = np.uint32(0x38800000)
_HALF = np.float32(0.5)
_HALF_BITS = np.uint32(0x3F000000)
_TOO_LARGE = np.uint32(0x477FF000)
_INFINITE = np.uint32(0x7C00)
_PIECE = 1024


def in_precision(values: NDArray[np.float32], precision: DTypeLike) -> NDArray[Any]:
    """Return a float32 vector (d,), rounded to nearest where the precision is float16."""
    if np.dtype(precision) != np.float16:
        return values
    out = np.empty(len(values), np.float16)
    _narrow(np.ascontiguousarray(values), out.view(np.uint16))
    return out


def widen_columns(halves: NDArray[Any], start: int, stop: int) -> NDArray[np.float32]:
    """Return columns of a C-contiguous matrix (n, d) in float32, (n, stop - start)."""
    out = np.empty((len(halves), stop - start), np.float32)
    _widen(halves.view(np.uint16), start, out, out.view(np.uint32))
    return out


def widened(row: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous vector (d,) in float32 if it has half precision, else as it is."""
    return widen_columns(row[None], 0, len(row))[0] if row.dtype == np.float16 else row


def scale_halves(row: NDArray[np.float16], factor: np.float32) -> None:
    """Multiply a contiguous row (d,) in place: in float32, then rounded."""
    wide = widened(row)
    wide *= factor
    _narrow(wide, row.view(np.uint16))


def all_finite(halves: NDArray[Any]) -> bool:
    """True if a C-contiguous array has neither infinities nor NaN; makes no copy."""
    return bool(_largest(halves.view(np.uint16).ravel()) < _INFINITE)


@compiled()
def _largest(halves: NDArray[np.uint16]) -> np.uint16:
    """Bits of the largest absolute value."""
    best = np.uint16(0)
    for j in range(halves.size):
        best = max(best, np.uint16(halves[j] & np.uint16(0x7FFF)))
    return best


@compiled()
def _widen(
    halves: NDArray[np.uint16], start: int, out: NDArray[np.float32], bits: NDArray[np.uint32]
) -> None:
    """Write columns from ``start`` on into out, of which bits is a view."""
    for i in range(out.shape[0]):
        for first in range(0, out.shape[1], _PIECE):
            # Slices begin at 0: an index with an offset might be negative, which is slow.
            source = halves[i][start + first : start + first + _PIECE]
            target, raw = out[i][first : first + _PIECE], bits[i][first : first + _PIECE]
            for j in range(target.size):
                raw[j] = (np.uint32(source[j]) & _REST) << np.uint32(13)
            for j in range(target.size):
                target[j] *= _WIDER
            for j in range(target.size):
                raw[j] |= (np.uint32(source[j]) & _SIGN) << np.uint32(16)


@compiled()
def _narrow(values: NDArray[np.float32], out: NDArray[np.uint16]) -> None:
    """Round to the nearest half, ties to the even one."""
    bits = values.view(np.uint32)
    steps = np.empty(_PIECE, np.float32)
    small = steps.view(np.uint32)
    for first in range(0, values.size, _PIECE):
        source, given = values[first : first + _PIECE], bits[first : first + _PIECE]
        target = out[first : first + _PIECE]
        for j in range(source.size):
            steps[j] = abs(source[j]) + _HALF
        for j in range(source.size):
            rest = np.uint32(given[j] & _FLOAT_REST)
            odd = np.uint32((rest >> np.uint32(13)) & np.uint32(1))
            normal = np.uint32(rest - _NARROWER + np.uint32(0xFFF) + odd) >> np.uint32(13)
            half = np.uint32(small[j] - _HALF_BITS) if rest < _LEAST_NORMAL else np.uint32(normal)
            half = half if rest < _TOO_LARGE else _INFINITE
            target[j] = np.uint16(half | (np.uint32(given[j] >> np.uint32(16)) & _SIGN))
