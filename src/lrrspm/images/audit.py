"""What is wrong with a folder of pictures, before anything is trained on it."""

from __future__ import annotations

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.files import file_digest
from .._support.parallel import ordered_map, workers
from .._support.stages import Stages
from .decoding import ImageError, TooLargeError, opened, upright
from .digests import digest_opened, group_copies
from .finding import scan_classes, walk_others

IMBALANCE = 10
"""A largest class of more than so many times the smallest is worth a warning."""

FEW = 5
"""A class of fewer pictures than this is worth a warning."""

ALIKE = 0.8
"""Share of agreeing less opposing steps from which two pictures may be near copies."""

CORRELATION = 0.97
"""Correlation of the cells' brightness that confirms it.

Of the 9,974,811 pairs of different files in 15-Scene 14 reach both, all of
them the same photograph saved twice. The nearest pair of different views
reaches 0.68 and 0.97.
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
    "ignored": "in a class folder, but its ending is not a picture's",
    "no class": "lies in no class folder",
    "empty class": "a class without readable pictures",
    "small class": f"a class of fewer than {FEW} readable pictures",
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
# A step of fewer levels, of 255, may be noise, and fewer steps of 288 than these tell too little:
# figures on a plain ground.
_STEP, _STEPS = 2, 48
# Patterns that are compared with all others at a time.
_BLOCK = 256


class Finding(NamedTuple):
    """One thing that is wrong, and the files or classes that it is about."""

    kind: str
    paths: list[str]
    detail: str


class Pattern(NamedTuple):
    """What of a picture stays nearly the same when it is resized or saved anew."""

    steps: NDArray[np.int8]
    """1, 0 or -1 (288): a cell is brighter than the one before it, about as bright, darker."""
    cells: NDArray[np.float32]
    """Brightness of cells (156), of mean 0 and length 1."""


class _Seen(NamedTuple):
    """What is kept of a picture: its format and size, what it is equal and what near to."""

    format: str
    width: int
    height: int
    digest: str
    pattern: Pattern | None


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
        readable = Counter(name for _, name, _ in good)
        findings = [
            *_unusable(paths, seen),
            *_odd(good),
            *_copies(good),
            *_ignored(root, classes),
            *(Finding("no class", [path], "") for path in strays),
            *_balance({name: readable[name] for name in classes}),
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
        with opened(path, config.MAX_SIDE) as found:
            pattern = brightness_pattern(upright(found).pixels)
            digest = digest_opened(found.image, path)
            return _Seen(str(found.image.format), *found.size, digest, pattern)
    except ImageError as error:
        return error


def brightness_pattern(gray: NDArray[np.uint8]) -> Pattern | None:
    """Steps of brightness from cell to cell of a grid, and the brightness itself.

    Steps go to a cell from its left (12 rows of 13 cells) and from above it
    (13 rows of 12 cells). None for a picture with too few pixels, or too even
    for its steps to mean anything.
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
    return Pattern(steps, (cells / np.linalg.norm(cells)).astype(np.float32))


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
    told = [(entry, pattern) for entry in first.values() if (pattern := entry[2].pattern)]
    for group in group_near([pattern for _, pattern in told]):
        yield _together("near copy", [told[i][0] for i in group])


def _together(kind: str, entries: list[_Entry]) -> Finding:
    paths = [path for path, _, _ in entries]
    names = sorted({name for _, name, _ in entries})
    if len(names) == 1:
        return Finding(kind, paths, names[0])
    return Finding(f"{kind} across classes", paths, ", ".join(names))


def group_near(patterns: Sequence[Pattern]) -> list[list[int]]:
    """Indices of patterns that are nearly the same, two or more together.

    Two are where the steps that agree, less those that oppose each other, are
    :data:`ALIKE` of those that either has, and the cells' correlation is
    :data:`CORRELATION`. A group is what can be reached from one to the next.
    All pairs are compared, n^2 / 2 * 732 products, 0.7 s for 5,000
    pictures; what is kept of them is a number for each pattern.
    """
    if not patterns:
        return []
    steps = np.stack([pattern.steps for pattern in patterns]).astype(np.float32)
    cells = np.stack([pattern.cells for pattern in patterns])
    groups = np.arange(len(patterns))
    for start in range(0, len(patterns), _BLOCK):
        near = _near_block(steps[start:], cells[start:])
        for row in np.flatnonzero(near.sum(axis=1) > 1):
            joined = np.unique(groups[start:][near[row]])
            if len(joined) > 1:
                groups[np.isin(groups, joined)] = joined[0]
    return group_copies(groups.tolist())


def _near_block(steps: NDArray[np.float32], cells: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which patterns are near to each of the first of them, (block, n)."""
    there = np.abs(steps)
    counts = there.sum(axis=1)
    either = counts[:_BLOCK, None] + counts - there[:_BLOCK] @ there.T
    near: NDArray[np.bool_] = steps[:_BLOCK] @ steps.T >= ALIKE * either
    near &= cells[:_BLOCK] @ cells.T >= CORRELATION
    return near


def _ignored(root: str | os.PathLike[str], classes: Iterable[str]) -> Iterator[Finding]:
    """A finding a class folder; a CSV file leaves nothing out."""
    if os.path.isdir(root):
        for name in classes:
            others = sorted(walk_others(os.path.join(root, name)))
            if others:
                yield Finding("ignored", others, f"{name}: {len(others)}")


def _balance(counts: dict[str, int]) -> Iterator[Finding]:
    """Classes by their readable pictures: none, few, far fewer than others."""
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
