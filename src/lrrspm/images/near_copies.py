"""Near copies: images that are nearly the same after resizing or re-saving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .bounded import ImageError
from .decoding import Opened, is_jpeg, opened, upright
from .digests import group_copies

ALIKE = 0.8
"""Share of steps, agreeing minus opposing, from which two images may be near copies."""

CORRELATION = 0.97
"""Correlation of the cells' brightness that confirms it.

Of the 9,974,811 pairs of different files in 15-Scene 14 reach both, all of
them the same photograph saved twice. The nearest pair of different views
reaches 0.68 and 0.97.
"""

# Cells along each side whose brightness is compared with their neighbors'.
_CELLS = 12
# A step of fewer levels, of 255, may be noise; with fewer steps, of 288, an image says too
# little: figures on a plain background.
_STEP, _STEPS = 2, 48
STEPS, CELLS = 2 * _CELLS * _CELLS, _CELLS * (_CELLS + 1)
"""Values of a pattern: steps, and cells."""
# Longer side that is enough to measure a pattern: a large JPEG is decoded at a fraction.
_SIDE = 2 * (_CELLS + 1)
# Patterns that are compared with others at a time, at most; directions that tell which others
# these are, and how far apart near copies are along them, with room for rounding.
_BLOCK = 192
_DIRECTIONS = 6
_REACH = (2 * (1 - CORRELATION)) ** 0.5 + 1e-3


class Pattern(NamedTuple):
    """Features of an image that resizing and re-saving hardly change."""

    steps: NDArray[np.int8]
    """1, 0 or -1 (288): a cell is brighter than the one before it, similar, darker."""
    cells: NDArray[np.float32]
    """Brightness of the cells (156), with mean 0 and norm 1."""


def brightness_pattern(gray: NDArray[np.uint8]) -> Pattern | None:
    """Measure brightness, and its steps from cell to cell of a grid.

    Steps go to a cell from its left (12 rows of 13 cells) and from above it
    (13 rows of 12 cells). None for an image with too few pixels, or too
    uniform for its steps to mean anything.
    """
    if min(gray.shape) <= _CELLS:
        return None
    across = _cell_means(gray, _CELLS, _CELLS + 1)
    along = _cell_means(gray, _CELLS + 1, _CELLS)
    change = np.concatenate([np.diff(across, axis=1).ravel(), np.diff(along, axis=0).ravel()])
    steps = (change > _STEP).astype(np.int8) - (change < -_STEP)
    if np.count_nonzero(steps) < _STEPS:
        return None
    cells = across.ravel() - across.mean()
    norm = np.linalg.norm(cells)
    if norm < 1e-6 * cells.size:  # steps from above alone: stripes that a row of cells evens out
        return None
    return Pattern(steps, (cells / norm).astype(np.float32))


def read_pattern(path: str) -> Pattern | None:
    """Measure the :func:`brightness_pattern` of a file; None for one that cannot be read.

    A JPEG is decoded at as little as 52 pixels, 0.5 ms for one of 256 x 256.
    """
    try:
        with opened(path, _SIDE) as found:
            return brightness_pattern(upright(found).pixels)
    except ImageError:
        return None


def pattern_of(found: Opened, path: str) -> Pattern | None:
    """Measure the same as :func:`read_pattern`, of a file that is decoded for another purpose.

    The pixels of a JPEG, and so its pattern, depend on the side that was asked for: it is
    decoded once more.
    """
    return read_pattern(path) if is_jpeg(found.image) else brightness_pattern(upright(found).pixels)


def _cell_means(gray: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.float64]:
    """Mean gray value of each cell of a grid, (rows, columns)."""
    y = np.linspace(0, gray.shape[0], rows + 1).astype(int)
    x = np.linspace(0, gray.shape[1], columns + 1).astype(int)
    strips = np.add.reduceat(gray, y[:-1], axis=0, dtype=np.float64)
    sums = np.add.reduceat(strips, x[:-1], axis=1)
    return sums / np.outer(np.diff(y), np.diff(x))


def group_near(patterns: Sequence[Pattern]) -> list[list[int]]:
    """Group the indices of patterns that are nearly the same, two or more per group.

    Two are if the steps that agree, minus those that oppose each other, are at
    least :data:`ALIKE` of those that either has, and the cells' correlation is
    at least :data:`CORRELATION`. Groups are the connected components. Pairs that
    can have that correlation are compared, 732 products each: cells of norm 1 are then
    at most 0.245 apart, and so are their places along any few directions. Memory is
    linear: each block of pairs is merged into the groups so far.
    """
    from scipy.sparse import coo_array  # 0.4 s that readers of images need not wait for
    from scipy.sparse.csgraph import connected_components

    if not patterns:
        return []
    steps = np.stack([pattern.steps for pattern in patterns])
    cells = np.stack([pattern.cells for pattern in patterns])
    size = len(patterns)
    places = _places(cells)
    blocks = _blocks(places, np.arange(size))
    order = np.concatenate(blocks)
    groups, start = np.arange(size), 0
    for block in blocks:
        later = order[start:]
        others = later[_within_reach(places[block], places[later])]
        start += len(block)
        pairs = np.nonzero(_near_block(steps, cells, block, others))
        one, other = groups[block[pairs[0]]], groups[others[pairs[1]]]
        links = coo_array((np.ones(len(one), bool), (one, other)), shape=(size, size))
        groups = connected_components(links, directed=False)[1][groups]
    return group_copies(groups.tolist())


def _places(cells: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return coordinates (n, k) along the directions in which patterns differ most."""
    centered = cells - cells.mean(axis=0)
    directions = np.linalg.eigh(centered.T @ centered)[1][:, -_DIRECTIONS:]
    return np.asarray(cells @ directions)


def _blocks(places: NDArray[np.float32], members: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Halve the members along their widest direction until a block has few."""
    if len(members) <= _BLOCK:
        return [members]
    widest = np.argmax(np.ptp(places[members], axis=0))
    ranked = members[np.argsort(places[members, widest], kind="stable")]
    half = len(ranked) // 2
    return [*_blocks(places, ranked[:half]), *_blocks(places, ranked[half:])]


def _within_reach(block: NDArray[np.float32], places: NDArray[np.float32]) -> NDArray[np.bool_]:
    """True for places (n, k) that are not too far from the box around a block."""
    gaps = np.maximum(block.min(axis=0) - places, places - block.max(axis=0))
    squares = np.maximum(gaps, 0) ** 2
    near: NDArray[np.bool_] = squares.sum(axis=1) <= _REACH**2
    return near


def _near_block(
    steps: NDArray[np.int8],
    cells: NDArray[np.float32],
    block: NDArray[np.int64],
    others: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Compare a block of patterns with others: near or not, (block, others)."""
    here, there = steps[block].astype(np.float32), steps[others].astype(np.float32)
    some, other = np.abs(here), np.abs(there)
    either = some.sum(axis=1)[:, None] + other.sum(axis=1) - some @ other.T
    near: NDArray[np.bool_] = here @ there.T >= ALIKE * either
    near &= cells[block] @ cells[others].T >= CORRELATION
    return near
