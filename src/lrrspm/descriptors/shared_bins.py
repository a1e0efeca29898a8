"""Spatial bins of dense SIFT that overlapping patches share."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.loops import compiled
from .base import PatchGrid
from .sift import FAINT_ROOTED, N_BINS, N_ORIENTATIONS, TAPS, bin_weights, orientation_row


class Axis(NamedTuple):
    """How patches along one side of an image share bins; positions count from the first patch.

    All bins have the same triangle of weights, but the patch's border cuts the first and the
    last. Triangles of class c begin at ``residues[c] + step * i`` for ``counts[c]`` numbers i,
    from ``starts[c]`` on, and are summed in parts, between the cuts that its bins have. A band
    is some neighboring parts of a class.

    Attributes
    ----------
    triangle : ndarray of shape (n,), float32
    residues, starts, counts, n_parts : ndarray of shape (n_classes,)
    cuts : ndarray of shape (n_classes, 4)
        Where the parts begin; then where the last one ends.
    classes : ndarray of shape (n_bands,)
    parts : ndarray of shape (n_bands, 2)
        The first part that a band has, and the first that it has no more.
    bands, shifts : ndarray of shape (4,)
        The band of each bin; bin b of patch p is triangle ``p + shifts[b]`` of it.
    """

    step: int
    triangle: NDArray[np.float32]
    residues: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    n_parts: NDArray[np.int64]
    cuts: NDArray[np.int64]
    classes: NDArray[np.int64]
    parts: NDArray[np.int64]
    bands: NDArray[np.int64]
    shifts: NDArray[np.int64]


@lru_cache(maxsize=256)
def shared_axis(n_patches: int, step: int, patch_size: int) -> Axis:
    """Find out which bins patches share: i and j, where (i - j) p/4 is a number of steps."""
    if n_patches == 1:  # then any step will do
        step = patch_size // N_BINS
    weights, first, last = bin_weights(patch_size)
    triangle = weights[1, first[1] : last[1]]
    places = np.arange(N_BINS) * (patch_size // N_BINS)
    begins = places - (patch_size // N_BINS - first[1])
    residues, classes = np.unique(begins % step, return_inverse=True)
    whole = begins // step
    starts = np.array([whole[classes == c].min() for c in range(len(residues))])
    shifts = whole - starts[classes]
    counts = np.array([n_patches + shifts[classes == c].max() for c in range(len(residues))])
    ranges = np.column_stack([first, last]) - begins[:, None]
    cuts = np.zeros((len(residues), 4), np.int64)
    n_parts = np.zeros(len(residues), np.int64)
    parts = np.zeros((N_BINS, 2), np.int64)
    for c in range(len(residues)):
        edges = np.unique(ranges[classes == c])
        n_parts[c] = len(edges) - 1
        cuts[c, : len(edges)] = edges
        parts[classes == c] = np.searchsorted(edges, ranges[classes == c])
    _, chosen, bands = np.unique(
        np.column_stack([classes, parts]), axis=0, return_index=True, return_inverse=True
    )
    return Axis(
        step, triangle, residues, starts, counts, n_parts, cuts,
        classes[chosen], parts[chosen], bands.ravel(), shifts,
    )  # fmt: skip


def shares_bins(step: int, patch_size: int) -> bool:
    """True if patches share so many bins that :func:`sum_bands` is the faster way."""
    return len({i * (patch_size // N_BINS) % step for i in range(N_BINS)}) <= N_BINS // 2


def sum_bands(
    image: NDArray[np.float32], grid: PatchGrid
) -> tuple[NDArray[np.float32], Axis, Axis]:
    """Sum the bins of all patches of an image, those of several patches once.

    So are those parts of bins that differ by where a patch ends. Returns bands of triangles,
    (bands, triangles, bands, triangles * 8), and what they are down and across. Put together
    they are the values of :func:`~lrrspm.descriptors.sift.raw_sift`, but for rounding.
    """
    down = shared_axis(grid.ny, grid.step, grid.size)
    across = shared_axis(grid.nx, grid.step, grid.size)
    smooth, slope = TAPS
    run = N_ORIENTATIONS * across.counts.max()
    bands = np.empty((len(down.classes), down.counts.max(), len(across.classes), run), np.float32)
    _sum_bands(image, grid.left, grid.top, smooth, slope, down, across, bands)
    return bands, down, across


@compiled("contract", inline=True)
def _add_runs(
    source: NDArray[np.float32],
    places: NDArray[np.int64],
    weights: NDArray[np.float32],
    first: int,
    last: int,
    total: NDArray[np.float32],
) -> None:
    """Sum weighted runs of source that begin at places[first:last] into total.

    Four at a time: the sums are read and written a quarter as often.
    """
    t = first + (last - first) % 4
    if t == first:
        total[:] = 0
    else:
        w0, run0 = weights[first], source[places[first] :]
        w1, run1 = weights[t - 1], source[places[t - 1] :]
        if t - first == 1:
            for j in range(total.size):
                total[j] = w0 * run0[j]
        elif t - first == 2:
            for j in range(total.size):
                total[j] = w0 * run0[j] + w1 * run1[j]
        else:
            w2, run2 = weights[first + 1], source[places[first + 1] :]
            for j in range(total.size):
                total[j] = w0 * run0[j] + w1 * run1[j] + w2 * run2[j]
    while t < last:
        w0, w1, w2, w3 = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        run0, run1 = source[places[t] :], source[places[t + 1] :]
        run2, run3 = source[places[t + 2] :], source[places[t + 3] :]
        for j in range(total.size):
            value = total[j] + w0 * run0[j]
            value += w1 * run1[j]
            value += w2 * run2[j]
            total[j] = value + w3 * run3[j]
        t += 4


@compiled("contract", inline=True)
def _add_parts(
    sums: NDArray[np.float32],
    stride: int,
    parts: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Sum the one to three parts that a band has."""
    one, count = sums[parts[0] * stride :], parts[1] - parts[0]
    two, three = one[min(1, count - 1) * stride :], one[(count - 1) * stride :]
    if count == 1:
        for j in range(out.size):
            out[j] = one[j]
    elif count == 2:
        for j in range(out.size):
            out[j] = one[j] + two[j]
    else:
        for j in range(out.size):
            out[j] = one[j] + two[j] + three[j]


@compiled(inline=True)
def _turn(maps: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Lay maps (8, w) out by pixel, (w * 8,): one interleaved store per pixel."""
    a, b, c, d = maps[0], maps[1], maps[2], maps[3]
    e, f, g, h = maps[4], maps[5], maps[6], maps[7]
    for x in range(a.size):
        out[8 * x] = a[x]
        out[8 * x + 1] = b[x]
        out[8 * x + 2] = c[x]
        out[8 * x + 3] = d[x]
        out[8 * x + 4] = e[x]
        out[8 * x + 5] = f[x]
        out[8 * x + 6] = g[x]
        out[8 * x + 7] = h[x]


@compiled("contract")
def _sum_bands(
    image: NDArray[np.float32],
    left: int,
    top: int,
    smooth: NDArray[np.float32],
    slope: NDArray[np.float32],
    down: Axis,
    across: Axis,
    out: NDArray[np.float32],
) -> None:
    """Sum triangles of orientation maps: (bands, triangles, bands, triangles * 8), down first.

    Maps are made once per row and kept in a ring of one triangle's rows, in the second-level
    cache. Each triangle costs 2 * p/4 * 8 * w multiply-adds down; the sums are then laid out
    by x modulo step, which makes the same pixel of neighboring triangles neighbors, so that
    sums across are of contiguous runs too.
    """
    height, width = image.shape
    triangle = down.triangle
    n = triangle.size
    work = np.zeros((6, width + 4), np.float32)
    ring = np.empty((n, 8, width), np.float32)
    rows = ring.reshape(ring.size)
    binned = np.empty((8, width), np.float32)
    flat = binned.reshape(8 * width)
    turned = np.empty(8 * width, np.float32)
    places = np.empty(n, np.int64)

    step = across.step
    lowest = min(0, across.starts.min())
    n_runs = 0
    for c in range(across.starts.size):
        end = across.starts[c] + across.counts[c] + (across.residues[c] + n - 1) // step - lowest
        n_runs = max(n_runs, end)
    runs = np.empty((across.starts.size, n), np.int64)
    for c in range(across.starts.size):
        for t in range(n):
            x = across.residues[c] + t
            runs[c, t] = 8 * ((x % step) * n_runs + x // step + across.starts[c] - lowest)
    phases = np.zeros(step * 8 * n_runs, np.float32)
    # Four doubles are the eight maps of a pixel.
    pixels, moved = turned.view(np.float64), phases.view(np.float64)
    origin = left + lowest * step
    stride = out.shape[3]
    sums = np.empty(3 * stride, np.float32)
    bands = np.empty((out.shape[2], 3 * stride), np.float32)

    ready = 0
    for i in range(down.starts.min(), (down.starts + down.counts).max()):
        for c in range(down.residues.size):
            place = i - down.starts[c]
            if place < 0 or place >= down.counts[c]:
                continue
            # Rows outside the image belong to parts that no patch has.
            row = top + i * down.step + down.residues[c]
            first, last = max(0, -row), min(n, height - row)
            ready = max(ready, row + first)
            while ready < row + last:
                orientation_row(image, ready, smooth, slope, FAINT_ROOTED, work, ring[ready % n])
                ready += 1
            for t in range(first, last):
                places[t] = ((row + t) % n) * 8 * width
            for part in range(down.n_parts[c]):
                start = max(down.cuts[c, part], first)
                stop = max(start, min(down.cuts[c, part + 1], last))
                _add_runs(rows, places, triangle, start, stop, flat)
                _turn(binned, turned)
                for r in range(step):
                    skipped = max(0, (step - 1 - origin - r) // step)
                    end = min(n_runs, (width - 1 - origin - r) // step + 1)
                    x, target = origin + skipped * step + r, 4 * (r * n_runs + skipped)
                    for _ in range(skipped, end):
                        for a in range(4):
                            moved[target + a] = pixels[4 * x + a]
                        x += step
                        target += 4
                for other in range(across.residues.size):
                    size = 8 * across.counts[other]
                    for k in range(across.n_parts[other]):
                        begin, end = across.cuts[other, k], across.cuts[other, k + 1]
                        total = sums[k * stride : k * stride + size]
                        _add_runs(phases, runs[other], triangle, begin, end, total)
                    for band in range(across.classes.size):
                        if across.classes[band] == other:
                            total = bands[band, part * stride : part * stride + size]
                            _add_parts(sums, stride, across.parts[band], total)
            for band in range(down.classes.size):
                if down.classes[band] == c:
                    for other in range(across.classes.size):
                        _add_parts(bands[other], stride, down.parts[band], out[band, place, other])
