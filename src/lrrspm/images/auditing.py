"""Auditing: problems with a folder of images, found before training on it."""

from __future__ import annotations

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .. import config
from .._support.files import file_digest
from .._support.parallel import ordered_map, workers
from .._support.stages import Stages
from .._support.text import natural_key
from .bounded import ImageError, TooLargeError
from .decoding import is_jpeg, opened
from .digests import digest_opened, group_copies
from .finding import scan_images, walk_others
from .near_copies import Pattern, group_near, pattern_of

IMBALANCE = 10
"""Warn if the largest class has more than so many times the images of the smallest."""

FEW = 5
"""Warn of classes with fewer images than this."""

KINDS = {
    "broken": "cannot be read",
    "too large": "refused before decoding: a bomb, or to be shrunk first",
    "misnamed": "the file name says another format",
    "tiny": f"smaller than one patch of {config.PATCH_SIZE} x {config.PATCH_SIZE} pixels",
    "copy": "the same image more than once in a class",
    "copy across classes": "the same image in several classes",
    "near copy": "nearly the same image more than once in a class",
    "near copy across classes": "nearly the same image in several classes",
    "leak": "the same or nearly the same image in train and in test",
    "ignored": "in a class folder, but without the file name suffix of an image",
    "no class": "not in a class folder",
    "empty class": "a class without readable images",
    "small class": f"a class with fewer than {FEW} readable images",
    "imbalance": f"the largest class has over {IMBALANCE} times the images of the smallest",
}
"""Problems that an audit looks for."""

_LISTED = "'lrrspm audit' lists them"
_FORMATS = {
    ".avif": "AVIF", ".bmp": "BMP", ".gif": "GIF", ".heic": "HEIF", ".heif": "HEIF",
    ".jpeg": "JPEG", ".jpg": "JPEG", ".pgm": "PPM", ".png": "PNG", ".pnm": "PPM", ".ppm": "PPM",
    ".tif": "TIFF", ".tiff": "TIFF", ".webp": "WEBP",
}  # fmt: skip


Mapped = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]


class Finding(NamedTuple):
    """One problem, and the files or classes that it concerns."""

    kind: str
    paths: list[str]
    detail: str


class _Image(NamedTuple):
    """What the audit keeps of one readable image."""

    format: str
    width: int
    height: int
    digest: str
    pattern: Pattern | None


class _Checked(NamedTuple):
    """A readable image, and where it is."""

    path: str
    label: str
    test: bool
    image: _Image


def audit(
    root: str | os.PathLike[str],
    n_jobs: int | None = None,
    stages: Stages | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    mapped: Mapped | None = None,
) -> dict[str, Any]:
    """Check every image of a folder or CSV file and report problems.

    Parameters
    ----------
    root, path_column, label_column
        As for :func:`lrrspm.find_images`; ``train/`` and ``test/`` are both
        checked, and images that are in both.
    n_jobs : int or None
        Threads; None is 1, -1 all cores.
    stages : Stages or None
        Collects the seconds.
    mapped : callable or None
        What does the work of ``map`` instead of threads, such as on other machines.

    Returns
    -------
    dict
        ``images``, ``classes`` (images per class), ``parts`` (images in train
        and in test, of a folder with both), ``findings`` (a list of
        :class:`Finding`) and ``counts`` (findings of each kind in
        :data:`KINDS`, 0 included).
    """
    stages = stages or Stages()
    scan = scan_images(root, path_column, label_column)
    tests = scan.tests or {}
    names = sorted({*scan.classes, *tests}, key=natural_key)
    labeled = [
        (path, name, test)
        for name in names
        for test, part in ((False, scan.classes), (True, tests))
        for path in part.get(name, [])
    ]
    with stages.timed("audit"), workers(n_jobs) as executor:
        mapped = mapped or partial(ordered_map, executor=executor)
        # Paths alone: other machines are handed strings as paths.
        results = mapped(_check, [path for path, _, _ in labeled])
        checked = list(stages.track("checking images", results, len(labeled)))
        good, bad = [], []
        for (path, name, test), found in zip(labeled, checked, strict=True):
            if isinstance(found, _Image):
                good.append(_Checked(path, name, test, found))
            else:
                kind, reason = found
                bad.append(Finding(kind, [path], reason))
        readable = Counter(image.label for image in good)
        findings = [
            *bad,
            *_odd(good),
            *_copies(good),
            *_ignored(scan.folders),
            *(Finding("no class", [path], "") for path in scan.strays),
            *_balance({name: readable[name] for name in names}),
        ]
    counted = Counter(finding.kind for finding in findings)
    sizes = Counter(name for _, name, _ in labeled)
    n_tests = sum(test for _, _, test in labeled)
    parts = {"train": len(labeled) - n_tests, "test": n_tests}
    return {
        "images": len(labeled),
        "classes": {name: sizes[name] for name in names},
        **({} if scan.tests is None else {"parts": parts}),
        "findings": findings,
        "counts": {kind: counted[kind] for kind in KINDS},
    }


def _check(path: str) -> _Image | tuple[str, str]:
    """Decode an image for all checks, a JPEG once more for its pattern; or kind and reason."""
    try:
        with opened(path, config.MAX_SIDE) as found:
            pattern = pattern_of(found, path)
            digest = digest_opened(found.image, path)
            kind = "JPEG" if is_jpeg(found.image) else str(found.image.format)
            return _Image(kind, *found.size, digest, pattern)
    except ImageError as error:
        return "too large" if isinstance(error, TooLargeError) else "broken", error.reason


def _odd(good: list[_Checked]) -> Iterator[Finding]:
    for path, _, _, image in good:
        if _FORMATS.get(os.path.splitext(path)[1].lower()) != image.format:
            yield Finding("misnamed", [path], image.format)
        if min(image.width, image.height) < config.PATCH_SIZE:
            yield Finding("tiny", [path], f"{image.width} x {image.height}")


def _copies(good: list[_Checked]) -> Iterator[Finding]:
    """Report equal images, then near copies among those that differ."""
    for group in group_copies([one.image.digest for one in good]):
        yield from _copy("copy", [good[i] for i in group])
    different = {one.image.digest: one for one in reversed(good)}  # the first of equal ones
    patterns = [
        (one, one.image.pattern)
        for one in good
        if one.image.pattern is not None and different[one.image.digest] is one
    ]
    for group in group_near([pattern for _, pattern in patterns]):
        yield from _copy("near copy", [patterns[i][0] for i in group])


def _copy(kind: str, images: list[_Checked]) -> Iterator[Finding]:
    """Report copies of an image, and once more if they are on both sides of a split."""
    names = sorted({image.label for image in images}, key=natural_key)
    paths, detail = [image.path for image in images], ", ".join(names)
    yield Finding(kind if len(names) == 1 else f"{kind} across classes", paths, detail)
    if len({image.test for image in images}) > 1:
        yield Finding("leak", paths, detail)


def _ignored(folders: Iterable[Path]) -> Iterator[Finding]:
    """Report ignored files, one finding per class folder; a CSV file ignores nothing."""
    for folder in folders:
        others = sorted(walk_others(folder), key=natural_key)
        if others:
            yield Finding("ignored", others, f"{folder.name}: {len(others)}")


def _balance(counts: dict[str, int]) -> Iterator[Finding]:
    """Report classes with no or few readable images, or far fewer than others."""
    for name, count in counts.items():
        if count == 0:
            yield Finding("empty class", [], name)
        elif count < FEW:
            yield Finding("small class", [], f"{name}: {count}")
    imbalance = _imbalance(counts)
    if imbalance:
        yield Finding("imbalance", [], imbalance)


def _imbalance(counts: Mapping[str, int]) -> str | None:
    """Name the largest and the smallest class that has images, if they are far apart."""
    some = {name: count for name, count in counts.items() if count}
    if not some:
        return None
    large, small = max(some, key=some.__getitem__), min(some, key=some.__getitem__)
    if some[large] <= IMBALANCE * some[small]:
        return None
    return f"{large}: {some[large]}, {small}: {some[small]}"


def warn_about(paths: Sequence[str], labels: Sequence[str]) -> None:
    """Warn of problems that spoil training or its evaluation, at little cost.

    Classes far apart in size, classes of very few images, and files that are
    copies of others. Reads only files of the same length and decodes none;
    :func:`audit` finds more.
    """
    for message in _cheap_checks(paths, labels):
        warnings.warn(message, stacklevel=2)


def _cheap_checks(paths: Sequence[str], labels: Sequence[str]) -> Iterator[str]:
    counts = Counter(labels)
    imbalance = _imbalance(counts)
    if imbalance:
        yield f"{KINDS['imbalance']} ({imbalance}); small classes may be recognized poorly"
    single = sorted((name for name, count in counts.items() if count == 1), key=natural_key)
    if single:
        names = _some(single, 10)
        yield f"classes with 1 image ({len(single)}): {names}; trained on, but not tested"
    few = sorted((name for name, count in counts.items() if 1 < count < FEW), key=natural_key)
    if few:
        yield f"classes with fewer than {FEW} images ({len(few)}): {_some(few)}"
    groups = list(_equal_files(paths))
    across = [group for group in groups if len({labels[i] for i in group}) > 1]
    if across:
        such = _some([paths[i] for i in across[0]])
        yield f"{KINDS['copy across classes']} ({len(across)}), such as {such}; {_LISTED}"
    within = [group for group in groups if group not in across]
    copies = sum(len(group) - 1 for group in within)
    if copies:
        such = _some([paths[i] for i in within[0]])
        yield f"copies of other files ({copies}), such as {such}; {_LISTED}"


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _equal_files(paths: Sequence[str]) -> Iterator[list[int]]:
    """Group the indices of files with the same bytes; unreadable files are left out."""
    lengths: dict[int, list[int]] = defaultdict(list)
    for index, path in enumerate(paths):
        try:
            lengths[os.stat(path).st_size].append(index)
        except OSError:  # also an address: to ask for each length would take a request
            continue
    for length, same in lengths.items():
        if length and len(same) > 1:  # empty files are broken, not copies
            digests = [file_digest(paths[index]) for index in same]
            for group in group_copies(digests):
                if digests[group[0]] is not None:
                    yield [same[i] for i in group]
