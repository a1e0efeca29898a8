"""What is wrong with a folder of pictures, before anything is trained on it."""

from __future__ import annotations

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from . import config
from .copies import group_copies
from .decoding import ImageError, TooLargeError, opened, upright
from .files import file_digest
from .images import digest_picture, scan_classes
from .parallel import ordered_map, workers
from .stages import Stages

IMBALANCE = 10
"""A largest class of more than so many times the smallest is worth a warning."""

FEW = 5
"""A class of fewer pictures than this is worth a warning."""

NEAR = 23
"""Differing bits, of 288, up to which two pictures count as near copies.

Of the 9,974,811 pairs of different files in 15-Scene 14 are that near, all of
them the same photograph saved twice; the nearest pair that is not differs in 29.
"""

KINDS = {
    "broken": "cannot be read",
    "too large": "refused before it is decoded: a bomb, or to be shrunk first",
    "misnamed": "another format than the name says",
    "tiny": f"smaller than one patch of {config.PATCH_SIZE} x {config.PATCH_SIZE} pixels",
    "copy": "the same picture more than once in a class",
    "copy across classes": "the same picture in several classes",
    "near copy": "nearly the same picture more than once in a class",
    "near copy across classes": "nearly the same picture in several classes",
    "no class": "lies in no class folder",
    "empty class": "a class without pictures",
    "small class": f"a class of fewer than {FEW} pictures",
    "imbalance": f"the largest class has over {IMBALANCE} times the pictures of the smallest",
}
"""What an audit looks for."""

_ENDINGS = {
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "JPEG": (".jpg", ".jpeg"),
    "MPO": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "PPM": (".pgm", ".pnm", ".ppm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
# Cells along each side whose brightness is compared with their neighbours'.
_CELLS = 12


class Finding(NamedTuple):
    """One thing that is wrong, and the files or classes that it is about."""

    kind: str
    paths: list[str]
    detail: str


class _Seen(NamedTuple):
    """What is kept of a picture: its format and size, what it is equal and what near to."""

    format: str
    width: int
    height: int
    digest: str
    bits: NDArray[np.bool_] | None


_Entry = tuple[str, str, _Seen]  # path, class and what was seen


def audit(
    root: str | os.PathLike[str], n_jobs: int | None = None, stages: Stages | None = None
) -> dict[str, Any]:
    """Look at every picture of a folder or CSV file, and say what is wrong.

    Parameters
    ----------
    root : path
        As for :func:`lrrspm.find_images`.
    n_jobs : int or None
        Threads; None is 1, -1 all cores.
    stages : Stages or None
        Where the seconds are added up.

    Returns
    -------
    dict
        ``images``, ``classes`` (pictures of each), ``findings`` (a list of
        :class:`Finding`) and ``counts`` (findings of each kind in
        :data:`KINDS`, 0 included).
    """
    stages = stages or Stages()
    classes, strays = scan_classes(root)
    paths = [path for found in classes.values() for path in found]
    labels = [name for name, found in classes.items() for _ in found]
    with stages.timed("audit"), workers(n_jobs) as executor:
        results = ordered_map(_look, paths, executor)
        seen = list(stages.track("looking at images", results, len(paths)))
        entries = list(zip(paths, labels, seen, strict=True))
        good = [(path, name, what) for path, name, what in entries if isinstance(what, _Seen)]
        findings = [
            *_unusable(paths, seen),
            *_odd(good),
            *_copies(good),
            *(Finding("no class", [path], "") for path in strays),
            *_balance({name: len(found) for name, found in classes.items()}),
        ]
    counted = Counter(finding.kind for finding in findings)
    return {
        "images": len(paths),
        "classes": {name: len(found) for name, found in classes.items()},
        "findings": findings,
        "counts": {kind: counted[kind] for kind in KINDS},
    }


def _look(path: str) -> _Seen | ImageError:
    """Decode a picture once, for everything that is to be known of it."""
    try:
        with opened(path, config.MAX_SIDE) as (picture, reduction, size):
            pixels = upright(picture, reduction, size)
            digest = digest_picture(picture, path)
            return _Seen(str(picture.format), *size, digest, brightness_bits(pixels.gray))
    except ImageError as error:
        return error


def brightness_bits(gray: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """288 bits that stay nearly the same when a picture is resized or saved anew.

    Each says whether a cell of a grid is brighter than the one before it, to
    its left (12 rows of 13 cells) and above it (13 rows of 12 cells). None
    for a picture with too few pixels, or too even for the bits to mean
    anything.
    """
    if min(gray.shape) <= _CELLS:
        return None
    across = _cell_means(gray, _CELLS, _CELLS + 1)
    along = _cell_means(gray, _CELLS + 1, _CELLS)
    if np.ptp(across) < 2:  # of 255 levels
        return None
    return np.concatenate(
        [(np.diff(across, axis=1) > 0).ravel(), (np.diff(along, axis=0) > 0).ravel()]
    )


def _cell_means(gray: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.float64]:
    """Mean gray value of each cell of a grid, (rows, columns)."""
    y = np.linspace(0, gray.shape[0], rows + 1).astype(int)
    x = np.linspace(0, gray.shape[1], columns + 1).astype(int)
    strips = np.add.reduceat(gray, y[:-1], axis=0, dtype=np.float64)
    sums = np.add.reduceat(strips, x[:-1], axis=1)
    return sums / np.outer(np.diff(y), np.diff(x))


def _unusable(paths: list[str], seen: list[_Seen | ImageError]) -> Iterator[Finding]:
    for path, what in zip(paths, seen, strict=True):
        if isinstance(what, ImageError):
            kind = "too large" if isinstance(what, TooLargeError) else "broken"
            yield Finding(kind, [path], what.reason)


def _odd(good: list[_Entry]) -> Iterator[Finding]:
    for path, _, what in good:
        if not path.lower().endswith(_ENDINGS[what.format]):
            yield Finding("misnamed", [path], what.format)
        if min(what.width, what.height) < config.PATCH_SIZE:
            yield Finding("tiny", [path], f"{what.width} x {what.height}")


def _copies(good: list[_Entry]) -> Iterator[Finding]:
    """Equal pictures; then, of one picture of each kind, those that are near."""
    for group in group_copies([what.digest for _, _, what in good]):
        yield _together("copy", [good[i] for i in group])
    first: dict[str, _Entry] = {}
    for entry in good:
        first.setdefault(entry[2].digest, entry)
    told = [(entry, bits) for entry in first.values() if (bits := entry[2].bits) is not None]
    for group in group_near([bits for _, bits in told]):
        yield _together("near copy", [told[i][0] for i in group])


def _together(kind: str, entries: list[_Entry]) -> Finding:
    paths = [path for path, _, _ in entries]
    names = sorted({name for _, name, _ in entries})
    if len(names) == 1:
        return Finding(kind, paths, names[0])
    return Finding(f"{kind} across classes", paths, ", ".join(names))


def group_near(bits: Sequence[NDArray[np.bool_]], limit: int = NEAR) -> list[list[int]]:
    """Indices of bit patterns that differ in few bits, two or more together.

    A group is what can be reached in steps of at most ``limit`` bits. Blocks of
    all pairs: n^2 * 288 products, 0.2 s for 5,000 pictures.
    """
    if not bits:
        return []
    signs = np.where(np.stack(bits), np.float32(1), np.float32(-1))
    pairs = []
    for start in range(0, len(signs), 1024):
        # Signs agree in (288 + product) / 2 places.
        agreement = signs[start : start + 1024] @ signs.T
        near = np.argwhere(agreement >= signs.shape[1] - 2 * limit)
        near[:, 0] += start
        pairs.append(near)
    rows, columns = np.concatenate(pairs).T
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(signs), len(signs)))
    return group_copies(connected_components(graph, directed=False)[1].tolist())


def _balance(counts: dict[str, int]) -> Iterator[Finding]:
    for name, count in counts.items():
        if count == 0:
            yield Finding("empty class", [], name)
        elif count < FEW:
            yield Finding("small class", [], f"{name}: {count}")
    imbalance = _imbalance(counts)
    if imbalance:
        yield Finding("imbalance", [], imbalance)


def _imbalance(counts: dict[str, int]) -> str | None:
    """Largest and smallest class that has pictures, where they are far apart."""
    some = {name: count for name, count in counts.items() if count}
    if not some:
        return None
    large, small = max(some, key=some.__getitem__), min(some, key=some.__getitem__)
    if some[large] <= IMBALANCE * some[small]:
        return None
    return f"{large}: {some[large]}, {small}: {some[small]}"


def warn_about(paths: Sequence[str], labels: Sequence[str]) -> None:
    """Warn of what spoils a training or its measurement, at little cost.

    Classes far apart in size, classes of very few pictures, and files that
    are copies of others. Only files of the same length are read, and none is
    decoded; :func:`audit` finds more.
    """
    counts = dict(Counter(labels))
    imbalance = _imbalance(counts)
    if imbalance:
        warnings.warn(
            f"the largest class has over {IMBALANCE} times the pictures of the smallest "
            f"({imbalance}); small classes may be recognised badly",
            stacklevel=2,
        )
    few = sorted(name for name, count in counts.items() if count < FEW)
    if few:
        warnings.warn(
            f"classes of fewer than {FEW} pictures ({len(few)}): {_some(few)}", stacklevel=2
        )
    groups = list(_equal_files(paths))
    across = [group for group in groups if len({labels[i] for i in group}) > 1]
    if across:
        named = _some([paths[i] for i in across[0]])
        warnings.warn(
            f"pictures in several classes ({len(across)}), such as {named}; "
            "'lrrspm audit' lists them",
            stacklevel=2,
        )
    copies = sum(len(group) - 1 for group in groups)
    if copies:
        named = _some([paths[i] for i in groups[0]])
        warnings.warn(
            f"copies of other files ({copies}), such as {named}; one may be trained on and "
            "another tested ('lrrspm audit' lists them)",
            stacklevel=2,
        )


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _equal_files(paths: Sequence[str]) -> Iterator[list[int]]:
    """Indices of files with the same bytes; a file that cannot be read is in no group."""
    lengths: dict[int, list[int]] = defaultdict(list)
    for index, path in enumerate(paths):
        try:
            lengths[os.stat(path).st_size].append(index)
        except OSError:
            continue
    for length, same in lengths.items():
        if length and len(same) > 1:  # empty files are broken, not copies
            contents: dict[str | None, list[int]] = defaultdict(list)
            for index in same:
                contents[file_digest(paths[index])].append(index)
            yield from (group for name, group in contents.items() if name and len(group) > 1)
