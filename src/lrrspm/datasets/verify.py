"""Compare a data set with the published one, image by image and class by class."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from .._support.parallel import ordered_map, workers
from .._support.stages import Stages
from .._support.text import plural
from ..images import ImageError, group_copies, image_digest, walk_images
from .catalogue import DATASETS, Dataset, Published, file_names, find_dataset, labeler, published
from .folders import Place, class_digest, differences, find_place, not_found, shorten

EQUAL = "equal"
COUNTED = "counted"
MISSING = "missing"
BROKEN = "broken files"
TOO_FEW = "too few"
TOO_MANY = "too many"
CHANGED = "other content"

Found = dict[str, str | ImageError]
"""Paths of images, and the digest of each or why it cannot be read."""


@dataclass(frozen=True)
class ClassReport:
    """State of one class: its image count, the published one, and the verdict.

    ``missing`` and ``extra`` are file names; they are empty where the
    published names follow no rule.
    """

    label: str
    images: int
    published: int | None
    state: str
    missing: list[str]
    extra: list[str]


@dataclass(frozen=True)
class Report:
    """Result of :func:`verify`.

    Attributes
    ----------
    good : bool
        Every image can be read, every class has its number of images and,
        where digests are known, equals the published one.
    equal : bool or None
        True if every class equals the published one; None if no digests are
        known.
    summary : list of str
        What is wrong, one sentence each.
    strays : list of str
        Images in the folder that belong to no class; they are ignored.
    broken : dict of str to str
        Files that cannot be decoded, and why.
    copies : list of list of str
        Groups of identical images; some published sets have them.
    """

    name: str
    folder: str
    good: bool
    equal: bool | None
    images: int
    summary: list[str]
    classes: list[ClassReport]
    strays: list[str]
    broken: dict[str, str]
    copies: list[list[str]]


def verify(
    name: str,
    root: str | os.PathLike[str],
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> Report:
    """Decode every file of a data set and compare each class with the published one."""
    dataset = find_dataset(name)
    place = find_place(dataset, Path(root))
    if not place.folder.is_dir():
        raise not_found(dataset, place)
    return check(dataset, place, n_jobs, stages)


def check(
    dataset: Dataset, place: Place, n_jobs: int | None = None, stages: Stages | None = None
) -> Report:
    """Verify a folder, which need not have its final name."""
    images = place.images(dataset)
    digests = _digests([path for _, path in images], n_jobs, stages or Stages())
    by_class: dict[str, Found] = defaultdict(dict)
    for label, path in images:
        by_class[label][path] = digests[path]
    known, names = published(dataset), file_names(dataset)
    classes = [
        _compare(label, by_class.get(label, {}), known.get(label), names.get(label, []))
        for label in known or sorted(by_class)
    ]

    def relative(path: str) -> str:
        return str(Path(path).relative_to(place.folder))

    broken = {relative(p): d.reason for p, d in digests.items() if isinstance(d, ImageError)}
    readable = [(relative(p), d) for p, d in digests.items() if isinstance(d, str)]
    copies = group_copies([digest for _, digest in readable])
    summary = _summarize(dataset, classes, by_class)
    summary += [f"{path} cannot be used: {reason}" for path, reason in broken.items()]
    return Report(
        name=dataset.name,
        folder=str(place.folder),
        good=not summary,
        equal=all(c.state == EQUAL for c in classes) if known else None,
        images=len(images),
        summary=summary,
        classes=classes,
        strays=sorted(map(relative, _strays(dataset, place))),
        broken=broken,
        copies=[[readable[i][0] for i in group] for group in copies],
    )


def _digests(paths: list[str], n_jobs: int | None, stages: Stages) -> Found:
    def digest(path: str) -> str | ImageError:
        try:
            return image_digest(path)
        except ImageError as error:
            return error

    with workers(n_jobs) as executor:
        found = ordered_map(digest, paths, executor)
        return dict(zip(paths, stages.track("reading images", found, len(paths)), strict=True))


def _compare(label: str, found: Found, known: Published | None, names: list[str]) -> ClassReport:
    digests = [digest for digest in found.values() if isinstance(digest, str)]
    if known is None:
        state = COUNTED
    elif not found:
        state = MISSING
    elif class_digest(digests) == known.sha256 and len(digests) == len(found):
        state = EQUAL
    elif len(found) != known.images:
        state = TOO_FEW if len(found) < known.images else TOO_MANY
    else:
        state = CHANGED
    if len(digests) < len(found) and state in (COUNTED, CHANGED):
        state = BROKEN
    present = {os.path.basename(path) for path in found}
    # If most files have other names, the published names say nothing about what is missing.
    named = state in (TOO_FEW, TOO_MANY) and 2 * len(present & set(names)) >= len(present)
    return ClassReport(
        label=label,
        images=len(found),
        published=known.images if known else None,
        state=state,
        missing=[name for name in names if name not in present] if named else [],
        extra=sorted(present - set(names)) if named else [],
    )


def _summarize(
    dataset: Dataset, classes: list[ClassReport], by_class: dict[str, Found]
) -> list[str]:
    if not published(dataset):
        return differences(dataset, Counter({c.label: c.images for c in classes}))
    wrong = []
    changed = [report.label for report in classes if report.state == CHANGED]
    if 2 * len(changed) > len(classes):
        kind = _kind_of_copy(dataset, [path for label in changed for path in by_class[label]])
        wrong.append(
            f"a {kind} copy: {len(changed)} of {len(classes)} classes have the published number "
            "of images, but not their content"
        )
    elif changed:
        wrong.append(f"{shorten(changed)}: the right number of images, but not the published ones")
    missing = [report.label for report in classes if report.state == MISSING]
    if missing:
        wrong.append(f"no images of {shorten(missing, most=20)}")
    for report in classes:
        if report.state in (TOO_FEW, TOO_MANY):
            count = plural(report.images, "image")
            parts = [f"{report.label} has {count} instead of {report.published}"]
            parts += [f"missing {shorten(report.missing)}"] if report.missing else []
            parts += [f"extra {shorten(report.extra)}"] if report.extra else []
            wrong.append("; ".join(parts))
    return wrong


def _kind_of_copy(dataset: Dataset, paths: list[str]) -> str:
    """Describe how images were changed, as far as their sizes tell."""
    sizes = set()
    for path in paths:
        with Image.open(path) as image:
            sizes.add(image.size)
    one_size = f" (all {'{} x {}'.format(*next(iter(sizes)))})" if len(sizes) == 1 else ""
    if dataset.pixels is not None:
        return "re-encoded" if sizes == {dataset.pixels} else f"resized{one_size}"
    if one_size and len(paths) > dataset.images // 2:
        return f"resized{one_size}"
    return "resized or re-encoded"


def _strays(dataset: Dataset, place: Place) -> list[str]:
    """List images that belong to no class of this set or of the one that contains it."""
    label_of = labeler(DATASETS[dataset.part_of] if dataset.part_of else dataset, place.folders)
    return [
        path
        for path in walk_images(place.folder)
        if label_of(Path(path).relative_to(place.folder)) is None
        and not (dataset.skip and dataset.skip in os.path.basename(path))
    ]
