"""Groups: images that belong on one side of every split, such as frames of one sequence."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.stages import Stages
from .._support.text import natural_key, plural
from ..cache import FeatureStore, Form
from ..images import Labeled
from ..images.near_copies import CELLS, STEPS, Pattern, group_near, read_pattern
from ..pipeline import open_engine

COMPARE = "compare"
"""The stage of looking for near copies."""

# A near copy follows another in a sequence, at this correlation or more.
_FOLLOWS = 0.9
# A class looks like sequences if this share of its images follow the one before, and if images far
# apart do so less often, by the second share. Of the classes of 15-Scene, Caltech101 and Extended
# Yale B none does, of COIL20, objects on a turntable, 11 of 20.
_SEQUENCE, _CONTRAST = 0.5, 0.25


class Groups(NamedTuple):
    """Which images belong together."""

    numbers: NDArray[np.int64]
    """The group of each image, (n,); most images are alone in theirs."""
    by: str
    """What they have in common: "group" or "near copy"."""

    @property
    def images(self) -> int:
        """Number of images that are not alone in their group."""
        sizes = np.bincount(self.numbers)
        return int(sizes[sizes > 1].sum())

    def first(self, count: int) -> Groups:
        """Return the groups of the first images."""
        return Groups(self.numbers[:count], self.by)

    def to_json(self) -> dict[str, Any]:
        """Return ``by``, and how many images are in how many groups of two or more."""
        sizes = np.bincount(self.numbers)
        return {"by": self.by, "images": self.images, "groups": int((sizes > 1).sum())}

    def __str__(self) -> str:
        if self.by == "near copy":
            return "1 near copy" if self.images == 1 else f"{self.images:,} near copies"
        return f"{plural(self.images, 'image')} of {plural(self.to_json()['groups'], 'group')}"


def name_groups(found: Labeled, root: str | os.PathLike[str], group: str) -> Groups:
    """Group images by a column of their table, or by a pattern in their paths.

    Parameters
    ----------
    found : Labeled
    root : path
        The folder or table that the images are from.
    group : str
        The name of a column, or a regular expression whose first group is the
        name. It is searched for in the path below ``root``, with slashes.
        Images without a name are alone in their group.
    """
    if group in found.columns:
        names = found.columns[group]
    else:
        names = _match(found.paths, root, group, list(found.columns))
    unnamed = sum(not name for name in names)
    if unnamed:
        warnings.warn(
            f"--group: no group for {plural(unnamed, 'image')}; each is a group of its own",
            stacklevel=2,
        )
    keys = [(name, -1) if name else ("", i) for i, name in enumerate(names)]
    known = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return Groups(np.array([known[key] for key in keys], np.int64), "group")


def _match(
    paths: Sequence[str], root: str | os.PathLike[str], group: str, columns: Sequence[str]
) -> list[str]:
    there = f"; the columns are: {', '.join(columns)}" if columns else ""
    try:
        pattern = re.compile(group)
    except re.error as error:
        raise ValueError(
            f"--group: '{group}' is not a regular expression ({error}){there}"
        ) from error
    if not pattern.groups:
        raise ValueError(
            f"--group: '{group}' is neither a column nor a regular expression with a group in "
            f"parentheses, such as '([^/]*)_[0-9]+'{there}"
        )
    folder = root if os.path.isdir(root) else os.path.dirname(root)
    below = (os.path.relpath(path, folder or ".").replace(os.sep, "/") for path in paths)
    matches = [pattern.search(name) for name in below]
    if not any(matches):
        raise ValueError(
            f"--group: '{group}' matches no path, such as "
            f"{os.path.relpath(paths[0], folder or '.')}{there}"
        )
    return [match[1] or "" if match else "" for match in matches]


def find_groups(
    paths: Sequence[str],
    labels: Sequence[str],
    n_jobs: int | None = None,
    stages: Stages | None = None,
    store: FeatureStore | None = None,
    engine: Any = None,
) -> Groups:
    """Group near copies: images that are nearly the same after resizing or re-saving.

    Near copies that are more than half of a class are no group, since there
    would be too little left for the other side; they warn of a sequence, as do
    images that resemble the ones before them by name. Images that cannot be
    read are alone. ``engine`` is that of :class:`lrrspm.ImageClassifier`.
    """
    stages = stages or Stages()
    with stages.timed(COMPARE):
        patterns = _patterns(paths, n_jobs, stages, store or FeatureStore(None), engine)
        there = [i for i, pattern in enumerate(patterns) if pattern is not None]
        near = group_near([pattern for pattern in patterns if pattern is not None])
        sizes = Counter(labels)
        numbers = np.arange(len(paths))
        sequences = set(_sequences(paths, labels, patterns))
        for group in near:
            members = [there[i] for i in group]
            here = Counter(labels[i] for i in members)
            large = [name for name, count in here.items() if 2 * count > max(sizes[name], 2)]
            sequences.update(large)
            if not large:
                numbers[members] = members[0]
    if sequences:
        some = sorted(sequences, key=natural_key)
        names = ", ".join(some[:3]) + (", ..." if len(some) > 3 else "")
        warnings.warn(
            f"classes that look like sequences ({len(some)}): {names}; test images may be nearly "
            "the same as training images; keep the images of a sequence together with --group",
            stacklevel=2,
        )
    return Groups(np.unique(numbers, return_inverse=True)[1].astype(np.int64), "near copy")


def _patterns(
    paths: Sequence[str], n_jobs: int | None, stages: Stages, store: FeatureStore, engine: Any
) -> list[Pattern | None]:
    """Read the pattern of each image, or take it from a store."""
    about = {"what": "brightness patterns", "version": 1} if store.active else None
    shelf = store.shelf("patterns", about, Form(("F32",), (range(0, STEPS + CELLS + 1),)))
    # Threads do this, also beside processes, which need not start for it.
    with open_engine(n_jobs, None if engine == "processes" else engine) as opened:
        digests = store.digests(paths, opened.map_each)
        kept = dict(shelf.fetch(digests))
        new = [i for i, digest in enumerate(digests) if digest not in kept]
        read = opened.map_each(read_pattern, [paths[i] for i in new])
        found = dict(zip(new, stages.track("comparing images", read, len(new)), strict=True))
    for i, pattern in found.items():
        empty = np.empty(0, np.float32)
        shelf.put(
            digests[i], empty if pattern is None else np.concatenate(pattern, dtype=np.float32)
        )
    shelf.flush()

    def measured(i: int) -> Pattern | None:
        if i in found:
            return found[i]
        values = kept[str(digests[i])]
        return Pattern(values[:STEPS].astype(np.int8), values[STEPS:]) if len(values) else None

    return [measured(i) for i in range(len(paths))]


def _sequences(
    paths: Sequence[str], labels: Sequence[str], patterns: Sequence[Pattern | None]
) -> Iterator[str]:
    """Yield the classes whose images resemble the ones before them, by running number."""
    members = defaultdict(list)
    for i, name in enumerate(labels):
        if patterns[i] is not None:
            members[name].append(i)
    for name, indices in members.items():
        indices.sort(key=lambda i: natural_key(paths[i]))
        running = [pair for pair in pairwise(indices) if _running(*(paths[i] for i in pair))]
        if 2 * len(running) <= len(indices):
            continue
        half = len(indices) // 2
        apart = list(zip(indices, indices[half:], strict=False))
        near, far = (
            np.mean([_correlation(patterns[i], patterns[j]) >= _FOLLOWS for i, j in pairs])
            for pairs in (running, apart)
        )
        if near >= _SEQUENCE and near - far >= _CONTRAST:
            yield name


def _running(one: str, other: str) -> bool:
    """Return True if two names differ only in their last number, by 1."""
    first, second = (re.match(r"(.*?)(\d{1,18})(\D*)$", name, re.DOTALL) for name in (one, other))
    if first is None or second is None or first[3] != second[3]:
        return False
    return first[1] == second[1] and int(second[2]) - int(first[2]) == 1


def _correlation(one: Pattern | None, other: Pattern | None) -> float:
    return 0.0 if one is None or other is None else float(one.cells @ other.cells)


def count_leaks(groups: Groups, tests: NDArray[np.bool_]) -> list[int]:
    """Return the indices of test images that are in a group with training images."""
    shared = np.isin(groups.numbers, groups.numbers[~tests])
    return np.flatnonzero(tests & shared).tolist()
